"""Decides which checkpoints to write and which group offsets to commit on the target; pure. Called by
`sync.offset_job`.

Follows `MirrorCheckpointTask` of connect-mirror 4.3, but for group offsets: MirrorMaker overwrites a group with offsets
on the target without reading them; here only commits that move a group forward are made (invariant 7). The exception is
a log that no longer exists: what this mirror committed for it is taken back (`Renewal`).
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self
from uuid import UUID

from sparkmirror.kafka.group_answers import Committed, GroupOffsets
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.ledger.translate import MapBegin, TargetLogs, Translate, Translated, is_stale, settle_known
from sparkmirror.model import TopicPartition, is_another_topic

CheckpointKey = tuple[str, TopicPartition]
"""A group and a partition of the target."""
Checkpoints = dict[CheckpointKey, Checkpoint]
"""The last checkpoint of each group and target partition."""
Places = dict[CheckpointKey, deque[Committed]]
"""Where checkpoints have put each group lately: a commit there is the mirror's own (`note_place`)."""
Origins = dict[CheckpointKey, tuple[Checkpoint, UUID]]
"""A checkpoint, and of which topic of the source the map was that it was translated by; of those that a process has
written itself, since the records do not tell."""
_PLACES_MAX: Final = 8
"""By as many a commit may lag behind the last checkpoint, and still be known."""


def note_place(places: Places, checkpoint: Checkpoint) -> None:
    known = places.setdefault((checkpoint.group, checkpoint.partition), deque(maxlen=_PLACES_MAX))
    place = Committed(checkpoint.downstream, checkpoint.metadata)
    if place in known:
        known.remove(place)
    known.append(place)


def forget_places(places: Places, key: CheckpointKey, end: int) -> None:
    """Those beyond the log's end, once who stood there is taken back."""
    if (known := places.get(key)) is not None:
        places[key] = deque((place for place in known if place.offset <= end), maxlen=_PLACES_MAX)


class Reached(NamedTuple):
    """Where a group stands on the source, and its raw translation."""

    source: TopicPartition
    committed: Committed
    found: Translated


class Renewal(NamedTuple):
    """A checkpoint of a log that no longer exists, and its replacement. `end` is that of the present log."""

    before: Checkpoint
    after: Checkpoint
    end: int

    @property
    def key(self) -> CheckpointKey:
        return self.before.group, self.before.partition

    def standing_at(self, stands: Committed) -> Self:
        """The same for a group that an earlier checkpoint has put there."""
        return self._replace(before=replace(self.before, downstream=stands.offset, metadata=stands.metadata))


@dataclass(frozen=True, slots=True)
class GroupWrite:
    """Offsets to commit for one group on the target."""

    group: str
    offsets: GroupOffsets


class TakeBack(NamedTuple):
    """What is to be committed; `held` are those whose group has members, and stands where this mirror has put it;
    `left` those beyond the log's end that are left, and where they stand."""

    writes: list[GroupWrite]
    held: list[Renewal]
    left: list[tuple[Renewal, int]]


def translate_groups(committed: Mapping[str, GroupOffsets], translate: Translate) -> dict[CheckpointKey, Reached]:
    """The offsets that can be translated, by group and target partition."""
    reached: dict[CheckpointKey, Reached] = {}
    for group, offsets in committed.items():
        for partition, here in offsets.items():
            found = translate(partition, here.offset) if here.offset >= 0 else None
            if found is not None:
                reached[group, found.partition] = Reached(partition, here, found)
    return reached


def may_move(key: CheckpointKey, one: Reached, last: Mapping[CheckpointKey, Checkpoint]) -> bool:
    """Whether the target's log must be read: the checkpoint is to be written, or is stale by the map alone."""
    before = last.get(key)
    return (
        before is None or _is_new(before, one.committed.offset, one.found) or one.found.lies_before(before.downstream)
    )


def plan_checkpoints(
    reached: Mapping[CheckpointKey, Reached],
    last: Mapping[CheckpointKey, Checkpoint],
    logs: TargetLogs,
    stale: Mapping[CheckpointKey, Renewal],
) -> list[Checkpoint]:
    """Checkpoints of groups that moved: forward on the target, or backward on the source (`checkpointsForGroup`).

    A translation that is merely lower than the last one, because less is known than before, is not written, nor one of
    a partition that `logs` do not have. What `stale` has is renewed instead.
    """
    plan: list[Checkpoint] = []
    for key, one in reached.items():
        found = settle_known(one.found, logs)
        if found is None or key in stale:
            continue
        before = last.get(key)
        if before is None or _is_new(before, one.committed.offset, found):
            plan.append(Checkpoint(key[0], found.partition, one.committed.offset, found.offset, one.committed.metadata))
    return plan


def _is_new(before: Checkpoint, upstream: int, found: Translated) -> bool:
    """False if the group stands still and only a transaction's marker, not known before, lies between."""
    if upstream == before.upstream and found.records_end is not None and before.downstream >= found.records_end:
        return False
    return upstream < before.upstream or found.offset > before.downstream


def plan_renewals(
    reached: Mapping[CheckpointKey, Reached],
    last: Mapping[CheckpointKey, Checkpoint],
    logs: TargetLogs,
    translate: Translate,
    source_of: Callable[[TopicPartition], TopicPartition | None],
    remade: Collection[TopicPartition] = (),
    *,
    places: Places,
    origins: Origins,
) -> dict[CheckpointKey, Renewal]:
    """Replacements of checkpoints whose log no longer exists, if they are lower; the log's beginning if no translation
    is known. `source_of` names the source's partition of one that no group has reached. Of logs that are `remade` since
    they were last looked at, all checkpoints are former ones, and what no group has reached may be so on the source.
    Where the log ends before one of `places`, an earlier checkpoint may have put the group beyond. Where the map is of
    another topic of the source than that of `origins`, a checkpoint beyond its beginning is of a log that was cut."""
    renewals: dict[CheckpointKey, Renewal] = {}
    for key, before in last.items():
        log = logs.get(before.partition)
        if log is None:
            continue
        one = reached.get(key)
        source = source_of(before.partition) if one is None else one.source
        again = None if source is None else settle_known(translate(source, before.upstream), logs)
        is_remade = before.partition in remade
        begin = begin_before(before, origins, again if one is None else one.found)
        is_former = is_remade or bool(begin) or is_stale(before, again, log) or _is_overtaken(before, one, logs)
        is_beyond = any(place.offset > log.end for place in places.get(key, ()))
        if not (is_former or is_beyond):
            continue
        left = None if is_remade or (again is not None and again.is_kept and not again.exact) else again
        found = left if one is None else settle_known(one.found, logs)
        upstream, note = (before.upstream, before.metadata) if one is None else (one.committed[:2])
        after = Checkpoint(before.group, before.partition, upstream, 0 if found is None else found.offset, note)
        if one is None and begin is not None:
            after = Checkpoint(before.group, before.partition, begin.upstream, begin.downstream, note)
        if not is_former and after.downstream < before.downstream:
            after = before  # it holds, and less is known of it than when it was written
        if is_beyond or after.downstream < before.downstream:
            renewals[key] = Renewal(before, after, log.end)
    return renewals


def begin_before(before: Checkpoint, origins: Origins, found: Translated | None) -> MapBegin | None:
    """Where the map of a topic that was made again on the source begins on the target, if that is before the
    checkpoint: the log was cut there, and what has grown behind it the group has not read."""
    begin, origin = None if found is None else found.begin, origins.get((before.group, before.partition))
    if begin is None or origin is None or origin[0] != before or not is_another_topic(origin[1], begin.source_id):
        return None
    return begin if begin.downstream < before.downstream else None


def note_origins(origins: Origins, reached: Mapping[CheckpointKey, Reached], written: Iterable[Checkpoint]) -> None:
    """Of the checkpoints that were written by the maps that groups have reached."""
    for checkpoint in written:
        key = checkpoint.group, checkpoint.partition
        if key in reached and (begin := reached[key].found.begin) is not None:
            origins[key] = checkpoint, begin.source_id


def _is_overtaken(before: Checkpoint, one: Reached | None, logs: TargetLogs) -> bool:
    """Whether the group's present place translates to before its checkpoint's, though it lies behind on the source: of
    the checkpoint's own place a cut may have left nothing in the map, so that it does not translate."""
    if one is None or one.committed.offset < before.upstream:
        return False
    found = settle_known(one.found, logs)
    return found is not None and found.lies_before(before.downstream)


def plan_take_back(
    renewals: Iterable[Renewal],
    active: frozenset[str],
    on_target: Mapping[str, GroupOffsets],
    places: Places,
) -> TakeBack:
    """The commits of replacements, for groups without members that stand exactly where this mirror committed them for
    the former log, by this checkpoint or one before it; and the other groups that stand beyond the log's end. Members
    may leave without a commit of their own: what holds them is to be planned again."""
    writes: dict[str, dict[TopicPartition, Committed]] = {}
    held: list[Renewal] = []
    left: list[tuple[Renewal, int]] = []
    for one in renewals:
        before, after = one.before, one.after
        stands = on_target.get(before.group, {}).get(before.partition)
        is_own = stands == Committed(before.downstream, before.metadata) or (
            stands is not None and stands.offset > after.downstream and stands in places.get(one.key, ())
        )
        if is_own and before.group not in active:
            place = Committed(after.downstream, after.metadata)
            writes.setdefault(before.group, {})[before.partition] = place
            continue
        if is_own and stands is not None:
            held.append(one.standing_at(stands))
        if stands is not None and stands.offset > one.end:
            left.append((one, stands.offset))
    return TakeBack([GroupWrite(group, offsets) for group, offsets in writes.items()], held, left)


def plan_group_writes(
    checkpoints: Mapping[str, Mapping[TopicPartition, Checkpoint]],
    active: frozenset[str],
    on_target: Mapping[str, GroupOffsets],
) -> list[GroupWrite]:
    """The commits for groups without members on the target that stand before their checkpoint, or have no offset.

    `on_target` must hold every group that is to be looked at: one that could not be read is left alone.
    """
    plan: list[GroupWrite] = []
    for group, wanted in checkpoints.items():
        if group in active or group not in on_target:
            continue
        offsets = {
            partition: Committed(checkpoint.downstream, checkpoint.metadata)
            for partition, checkpoint in wanted.items()
            if is_forward(on_target[group].get(partition), checkpoint.downstream)
        }
        if offsets:
            plan.append(GroupWrite(group, offsets))
    return plan


def is_forward(committed: Committed | None, offset: int) -> bool:
    """Whether `offset` would move a partition of a group forward. -1 is what a client commits to forget."""
    return committed is None or committed.offset < offset
