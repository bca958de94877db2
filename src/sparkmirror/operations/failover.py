"""Predicts a failover at this moment: the records that would be lost, where each group would continue, and which
records it would read again; pure.

`operations.failover_snapshot` observes, `cli.procedure` shows the prediction, `operations.failover_run` applies it. An
offset is always that of the next record to read.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from sparkmirror.kafka.group_answers import Committed, GroupOffsets
from sparkmirror.ledger.map_records import MapView
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.ledger.translate import TargetLogs, Translate, Translated, downstream_now, keeps_none, settle_known
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.operations.identical_offsets import NONE_IDENTICAL, Identical

IN_STEP: Final = ("topics", "settings", "ACLs")
"""What jobs of a flow keep like the source's."""


def list_words(words: Sequence[str]) -> str:
    """`a, b and c`."""
    *before, last = words
    return f"{', '.join(before)} and {last}" if before else last


@dataclass(frozen=True, slots=True)
class Behind:
    """A source partition that is not mirrored to its end. `age_seconds` is the age of its first record that is not
    mirrored."""

    partition: TopicPartition
    position: int
    end: int
    age_seconds: float | None = None

    @property
    def records(self) -> int:
        """The number of offsets that would be missing; transaction markers count."""
        return self.end - self.position

    def as_json(self) -> dict[str, Any]:
        return {**_place(self.partition), "position": self.position, "end": self.end, "records": self.records,
                "age_seconds": self.age_seconds}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Resume:
    """The offset at which a group would continue on the target. `repeats` is the number of records that it has read
    on the source and would read again, an upper bound where `certain` is False, and None where its offset on the
    source is not known."""

    offset: int
    repeats: int | None
    certain: bool = True


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """One partition of a group. `committed` is its offset on the source, None if the source does not answer.
    `stands` is its offset on the target now; if that lies beyond the end of a log that was made again, it is not
    used, and an operator must set it. `planned` is where the group continues after a last translation, `lost` where
    it continues if the source is lost at this moment; None where nothing is known and `auto.offset.reset` would
    decide."""

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
        """Whether the group has read no record of the partition."""
        return self.committed is not None and self.committed.offset == 0

    def repeats(self, *, planned: bool) -> int | None:
        """The number of records that it would read again; None where that is not known, or `auto.offset.reset`
        decides."""
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
    """The readiness of one flow. `differences` are sentences about changes that a round of its sync jobs would make
    on the target now. `unknown` are partitions whose high watermark the source does not give, with the reason.
    `identical` says which partitions have their offsets on both clusters, `topic_ids` of which topics of the target
    the places are. `compared` are those of IN_STEP that were looked at."""

    flow: FlowName
    source_answers: bool
    behind: tuple[Behind, ...]
    places: tuple[GroupPlace, ...]
    active_on_source: frozenset[str] = frozenset()
    active_on_target: frozenset[str] = frozenset()
    differences: tuple[str, ...] = ()
    heard_seconds: float | None = None
    unknown: Mapping[TopicPartition, str] = field(default_factory=dict)
    identical: Identical = NONE_IDENTICAL
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    compared: tuple[str, ...] = ()

    @property
    def in_step(self) -> str:
        """What does not differ, in a sentence; "" where something does, or nothing was compared."""
        if self.differences or not self.compared:
            return ""
        left = [one for one in IN_STEP if one not in self.compared]
        also = f"; {list_words(left)} are not copied, and were not compared" if left else ""
        return f"{list_words(self.compared)} are in step{also}"

    @property
    def knows_ends(self) -> bool:
        """Whether the source has given the high watermark of every partition."""
        return self.source_answers and not self.unknown

    @property
    def untranslated(self) -> tuple[GroupPlace, ...]:
        """Places for which `auto.offset.reset` would decide even in a planned failover."""
        return tuple(place for place in self.places if place.planned is None and not place.is_at_beginning)

    def records_behind(self) -> int | None:
        """The number of records that would be lost; None if the source does not answer for a partition."""
        return sum(one.records for one in self.behind) if self.knows_ends else None

    def seconds_behind(self) -> float | None:
        """The age of the oldest record that would be lost, 0.0 if none would; None as for `records_behind`."""
        return self.oldest_seconds if self.knows_ends else None

    @property
    def oldest_seconds(self) -> float:
        """The age of the oldest record that would certainly be lost; 0.0 if there is none."""
        return max((one.age_seconds for one in self.behind if one.age_seconds is not None), default=0.0)

    def repeats(self, group: str, *, planned: bool) -> int | None:
        """The number of records that the group would read again in all its partitions; None where it is not known of
        one of them."""
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

    def upstream(self) -> dict[str, dict[TopicPartition, int]]:
        """Where groups stand on the source, by their partitions on the target; of those of which that is known."""
        found: dict[str, dict[TopicPartition, int]] = defaultdict(dict)
        for place in self.places:
            if place.committed is not None:
                found[place.group][place.remote] = place.committed.offset
        return dict(found)

    def as_json(self) -> dict[str, Any]:
        return {
            "flow": str(self.flow),
            "source_answers": self.source_answers,
            "records_behind": self.records_behind(),
            "seconds_behind": self.seconds_behind(),
            "heard_seconds_ago": self.heard_seconds,
            "identical_offsets": len(self.identical.partitions),
            "identical_offsets_unknown": len(self.identical.unknown),
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
            "in_step": self.in_step or None,
        }


def plan_behind(
    positions: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    ages_seconds: Mapping[TopicPartition, float],
) -> tuple[Behind, ...]:
    """The partitions of `ends` that are not mirrored to their end. One without a position counts from the log's
    start."""
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
    keeps: Callable[[str], bool] = keeps_none,
) -> tuple[GroupPlace, ...]:
    """The places of each group, from its offsets on the source, `committed`. `remote` gives the target's partition
    of each source partition; partitions that are not in it are neither mirrored nor came from the target, and are
    left out. No planned offset lies beyond the end of a log, and partitions that `logs` lacks get none."""
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
                known_place = downstream_now(checkpoint, again, logs, keeps_offsets=keeps(partition.topic))
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
    keeps: Callable[[str], bool] = keeps_none,
) -> tuple[GroupPlace, ...]:
    """The places of each group from the checkpoints alone; records that a group read after its last checkpoint are
    not known. `upstream` gives the source partition of each remote one; a topic that came from the target has its
    own name there."""
    places: list[GroupPlace] = []
    for (group, there), checkpoint in sorted(checkpoints.items(), key=lambda item: item[0]):
        stands = _offset(on_target.get(group, {}).get(there))
        source = upstream.get(there)
        again = None if source is None else settle_known(translate(source, checkpoint.upstream), logs)
        is_kept = source is not None and keeps(source.topic)
        is_free = group not in active_on_target
        place = downstream_now(checkpoint, again, logs, keeps_offsets=is_kept) if is_free else None
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
    """The highest of the target's `offsets`, since a group is only ever moved forward. `truth` is its exact
    translation."""
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
    """The group's offset on the target, None if it lies beyond the end of the log."""
    beyond = stands is not None and where in logs and stands > logs[where].end
    return None if beyond else stands


def name_beyond(places: Sequence[GroupPlace], logs: TargetLogs) -> tuple[str, ...]:
    """Groups that stand beyond the end of a log, which a failover does not move."""
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
