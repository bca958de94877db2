"""Predicts a failover at this moment: what would be lost, where each group would go on, what it would read again; pure.

Observed by `operations.failover_snapshot`, shown by `cli.procedure`, applied by `operations.failover_run`. Offsets are
always the next to read.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkmirror.kafka.group_answers import Committed, GroupOffsets
from sparkmirror.ledger.map_records import MapView
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.ledger.translate import TargetLogs, Translate, Translated, downstream_now, settle_known
from sparkmirror.model import FlowName, TopicPartition


@dataclass(frozen=True, slots=True)
class Behind:
    """A source partition that is not mirrored to its end. `age_seconds` is that of its first record not mirrored."""

    partition: TopicPartition
    position: int
    end: int
    age_seconds: float | None = None

    @property
    def records(self) -> int:
        """Offsets that would be missed; transaction markers count."""
        return self.end - self.position

    def as_json(self) -> dict[str, Any]:
        return {**_place(self.partition), "position": self.position, "end": self.end, "records": self.records,
                "age_seconds": self.age_seconds}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Resume:
    """The offset at which a group would go on on the target. `repeats` is how many records that it has read on the
    source it would read again, at most where `certain` is false; None where the source's commit is not known."""

    offset: int
    repeats: int | None
    certain: bool = True


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """One partition of a group.

    `committed` is its place on the source, None if the source does not answer. `stands` is its place on the target now,
    which may lie beyond the end of a log that was made again: then it counts for nothing, and a person must set it.
    `planned` is where it goes on after a last translation, `lost` where it does if the source is gone at this moment.
    None where nothing is known: `auto.offset.reset` would decide.
    """

    group: str
    partition: TopicPartition
    remote: TopicPartition
    committed: Committed | None
    stands: int | None
    planned: Resume | None
    lost: Resume | None
    note: str = ""

    @property
    def is_at_beginning(self) -> bool:
        """Whether no record of the partition was read, as in an empty one."""
        return self.committed is not None and self.committed.offset == 0

    def repeats(self, *, planned: bool) -> int | None:
        """How many records would be read again; None where that is not known, or `auto.offset.reset` decides."""
        resume = self.planned if planned else self.lost
        if resume is None:
            return 0 if self.is_at_beginning else None
        return resume.repeats

    def as_json(self) -> dict[str, Any]:
        return {
            "group": self.group,
            **_place(self.partition),
            "target_topic": self.remote.topic,
            "committed": None if self.committed is None else self.committed.offset,
            "stands": self.stands,
            "planned": _resume_json(self.planned),
            "source_lost": _resume_json(self.lost),
        }


@dataclass(frozen=True, slots=True)
class Readiness:
    """The readiness of one flow. `differences` are sentences: changes that a round of its sync jobs would make on the
    target now.

    `unknown` are partitions of which the source does not say where they end, and why.
    """

    flow: FlowName
    source_answers: bool
    behind: tuple[Behind, ...]
    places: tuple[GroupPlace, ...]
    active_on_source: frozenset[str] = frozenset()
    active_on_target: frozenset[str] = frozenset()
    differences: tuple[str, ...] = ()
    heard_seconds: float | None = None
    unknown: Mapping[TopicPartition, str] = field(default_factory=dict)

    @property
    def knows_ends(self) -> bool:
        """Whether the source has said of every partition where it ends."""
        return self.source_answers and not self.unknown

    @property
    def untranslated(self) -> tuple[GroupPlace, ...]:
        """Places that even a planned failover would leave to `auto.offset.reset`."""
        return tuple(place for place in self.places if place.planned is None and not place.is_at_beginning)

    def records_behind(self) -> int | None:
        """None if the source does not answer, be it for one partition."""
        return sum(one.records for one in self.behind) if self.knows_ends else None

    def seconds_behind(self) -> float | None:
        """Age of the oldest record that would be lost, 0.0 if none would; None as for `records_behind`."""
        return self.oldest_seconds if self.knows_ends else None

    @property
    def oldest_seconds(self) -> float:
        """Age of the oldest record that is known to be lost then; 0.0 if there is none."""
        return max((one.age_seconds for one in self.behind if one.age_seconds is not None), default=0.0)

    def repeats(self, group: str, *, planned: bool) -> int | None:
        """How many records the group would read again in all its partitions; None where that is not known of one of
        them."""
        counts = [place.repeats(planned=planned) for place in self.places if place.group == group]
        return None if None in counts else sum(count for count in counts if count is not None)

    def groups(self) -> list[str]:
        return sorted({place.group for place in self.places})

    def moves(self, *, planned: bool) -> dict[str, GroupOffsets]:
        """The offsets to commit on the target: only forward, and never for a group that has members there (invariant
        7)."""
        found: dict[str, dict[TopicPartition, Committed]] = defaultdict(dict)
        for place in self.places:
            resume = place.planned if planned else place.lost
            forward = resume is not None and (place.stands is None or resume.offset > place.stands)
            if resume is not None and forward and place.group not in self.active_on_target:
                found[place.group][place.remote] = Committed(resume.offset, place.note)
        return dict(found)

    def as_json(self) -> dict[str, Any]:
        return {
            "flow": str(self.flow),
            "source_answers": self.source_answers,
            "records_behind": self.records_behind(),
            "seconds_behind": self.seconds_behind(),
            "heard_seconds_ago": self.heard_seconds,
            "behind": [one.as_json() for one in self.behind],
            "unknown": [{**_place(where), "reason": reason} for where, reason in sorted(self.unknown.items())],
            "groups": {
                group: {
                    "active_on_source": group in self.active_on_source,
                    "active_on_target": group in self.active_on_target,
                    "repeats_planned": self.repeats(group, planned=True),
                    "repeats_source_lost": self.repeats(group, planned=False),
                    "partitions": [place.as_json() for place in self.places if place.group == group],
                }
                for group in self.groups()
            },
            "differences": list(self.differences),
        }


def plan_behind(
    positions: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    ages_seconds: Mapping[TopicPartition, float],
) -> tuple[Behind, ...]:
    """The partitions of `ends` that are not mirrored to their end; one without a position begins at the log's start."""
    found = (
        Behind(where, max(positions.get(where, 0), starts.get(where, 0)), end, ages_seconds.get(where))
        for where, end in sorted(ends.items())
    )
    return tuple(one for one in found if one.records > 0)


def plan_places(
    committed: Mapping[str, GroupOffsets],
    checkpoints: Mapping[tuple[str, TopicPartition], Checkpoint],
    on_target: Mapping[str, GroupOffsets],
    active_on_target: frozenset[str],
    maps: MapView,
    translate: Translate,
    remote: Mapping[TopicPartition, TopicPartition],
    logs: TargetLogs,
) -> tuple[GroupPlace, ...]:
    """Each group's place on the source, `committed`, with what it would become; `remote` names the target's partitions.

    Partitions that are not in `remote` are neither mirrored nor on the way home, and are left out. Nothing is planned
    beyond the end of a log, nor where `logs` do not have it.
    """
    places: list[GroupPlace] = []
    for group, offsets in sorted(committed.items()):
        for partition, at in sorted(offsets.items()):
            if partition not in remote:
                continue
            there = remote[partition]
            stands = _offset(on_target.get(group, {}).get(there))
            is_free = group not in active_on_target
            translated = settle_known(translate(partition, at.offset), logs)
            known_place = None
            if (checkpoint := checkpoints.get((group, there))) is not None and is_free:
                again = settle_known(translate(partition, checkpoint.upstream), logs)
                known_place = downstream_now(checkpoint, again, logs)
            within = _within(stands, logs, there)
            latest = [within, translated.offset if translated is not None and is_free else None]
            known = [within, known_place]
            places.append(
                GroupPlace(
                    group,
                    partition,
                    there,
                    at,
                    stands,
                    _resume(maps, partition, at.offset, latest, translated),
                    _resume(maps, partition, at.offset, known, translated),
                    at.metadata,
                )
            )
    return tuple(places)


def plan_places_without_source(
    checkpoints: Mapping[tuple[str, TopicPartition], Checkpoint],
    on_target: Mapping[str, GroupOffsets],
    active_on_target: frozenset[str],
    upstream: Mapping[TopicPartition, TopicPartition],
    translate: Translate,
    logs: TargetLogs,
) -> tuple[GroupPlace, ...]:
    """The places by the checkpoints alone; what a group read after its last checkpoint is not known.

    `upstream` names the source's partitions; one that is on its way home has its own name on the target.
    """
    places: list[GroupPlace] = []
    for (group, there), checkpoint in sorted(checkpoints.items(), key=lambda item: item[0]):
        stands = _offset(on_target.get(group, {}).get(there))
        again = settle_known(translate(upstream[there], checkpoint.upstream), logs) if there in upstream else None
        place = downstream_now(checkpoint, again, logs) if group not in active_on_target else None
        known = [_within(stands, logs, there), place]
        resume = (
            Resume(max(offset for offset in known if offset is not None), None)
            if any(offset is not None for offset in known)
            else None
        )
        places.append(
            GroupPlace(group, upstream.get(there, there), there, None, stands, resume, resume, checkpoint.metadata)
        )
    return tuple(places)


def _resume(
    maps: MapView, partition: TopicPartition, committed: int, offsets: Sequence[int | None], truth: Translated | None
) -> Resume | None:
    """The highest of the target's `offsets`: a group is only ever moved forward. `truth` is its translation."""
    known = [offset for offset in offsets if offset is not None]
    if not known:
        return None
    found = maps.map_of(partition)
    back = None if found is None else found.translate_back(max(known))
    if found is not None and back is not None:
        return Resume(max(known), found.records_between(back.offset, min(committed, found.end_source)), back.exact)
    # On the way home the map is another's; what is exact comes once.
    is_exact = truth is not None and truth.exact and max(known) >= truth.offset
    return Resume(max(known), 0 if is_exact else None, is_exact)


def _within(stands: int | None, logs: TargetLogs, where: TopicPartition) -> int | None:
    """The group's offset, unless it lies beyond the end of the log."""
    beyond = stands is not None and where in logs and stands > logs[where].end
    return None if beyond else stands


def name_beyond(places: Sequence[GroupPlace], logs: TargetLogs) -> tuple[str, ...]:
    """Groups that stand beyond the end of a log, which a failover leaves where they are."""
    return tuple(
        f"group {one.group} stands at {one.stands} of {one.remote}, whose log ends at {logs[one.remote].end}: "
        "set it by `sparkmirror offsets reset`"
        for one in places
        if one.stands is not None and _within(one.stands, logs, one.remote) is None
    )


def _offset(committed: Committed | None) -> int | None:
    return None if committed is None else committed.offset


def _place(partition: TopicPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}


def _resume_json(resume: Resume | None) -> dict[str, Any] | None:
    return None if resume is None else {"offset": resume.offset, "repeats": resume.repeats, "certain": resume.certain}
