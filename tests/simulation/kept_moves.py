"""Judges a person's steps where offsets are kept: groups that go over stand at identical offsets, and on the way back
the reverse flow goes on at the ends of logs that are the same, with nothing to copy."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.simulation.checker import end_of_batches
from tests.simulation.cluster import Partition
from tests.simulation.consumers import GROUP

from sparkmirror.batch.records import Record
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Connector, TopicPartition
from sparkmirror.operations.cluster_pair import ClusterPair
from sparkmirror.operations.failback import look_back
from sparkmirror.operations.failover_run import MoveGroups, Moves
from sparkmirror.operations.kept_return import Ends as LogEnds
from sparkmirror.operations.kept_return import KeptReturn, offsets_to_compare
from sparkmirror.operations.reverse_start import KeepReverse
from sparkmirror.operations.steps import Journal, Note

if TYPE_CHECKING:
    from tests.simulation.history import Scene

KEPT_STEP: Final = KeepReverse.name
_VOID: Final = b""
_EMPTY: Final = b"an empty record"
_ONLY, _OTHER, _UNREAD = r"are on A alone", r"logs part at offset (\d+), where", r"could not be compared"
_UNKNOWN = r"nobody knows whether they were the same"


# The way over.


@dataclass(frozen=True, slots=True)
class Place:
    """A group's offset on the source, up to which the target has all, at the same offsets; and the losses of logs and
    the visits of consumers that were known then."""

    offset: int
    log: object
    losses: object
    visits: int


def known_places(scene: "Scene") -> dict[TopicPartition, Place]:
    """Of a group without members."""
    readers, checker = scene.readers, scene.checker
    assert readers is not None
    if scene.target.groups.is_active(GROUP):
        return {}
    found: dict[TopicPartition, Place] = {}
    for partition in scene.sources():
        where, record = partition.where, checker.view().records.get(partition.where)
        offset = readers.source_place(where)
        is_kept = record is not None and record.is_aligned and record.position.offset >= offset
        if offset and is_kept and checker.is_of_this_log(where) and where not in scene.causes.failed():
            found[where] = Place(offset, _log_ids(scene, where), _losses(scene, where), readers.visits)
    return found


def _log_ids(scene: "Scene", where: TopicPartition) -> object:
    topics = scene.source.topics.get(where.topic), scene.target.topics.get(scene.remote)
    return tuple(None if topic is None else topic.topic_id for topic in topics)


def _losses(scene: "Scene", where: TopicPartition) -> object:
    """What has changed a log so far. Where this differs later, offsets that were read before are of another log."""
    truth = scene.truth.of(where)
    return truth.truncations, truth.target_losses, "target cut" in scene.causes.of(where)


class JudgedMove(MoveGroups):
    """`places` are those of the step's note, which another run may have begun."""

    def __init__(self, scene: "Scene", pair: ClusterPair, moves: Callable[[], Moves],
                 places: dict[TopicPartition, Place]) -> None:  # fmt: skip
        super().__init__(pair.target, moves, flow=scene.flow)
        self._scene = scene
        self._places = places

    def prepare(self) -> Note:
        self._places.clear()
        before = known_places(self._scene)
        note = super().prepare()
        after = known_places(self._scene)
        stayed = (where for where, one in before.items() if where in after and _is_same(one, after[where]))
        self._places.update({where: before[where] for where in stayed})
        return note

    def apply(self, note: Note) -> str:
        sentence = super().apply(note)
        for where, one in self._places.items() if "left alone" not in sentence else ():
            self._judge(where, one)
        return sentence

    def _judge(self, where: TopicPartition, one: Place) -> None:
        scene = self._scene
        assert scene.readers is not None
        if (_log_ids(scene, where), _losses(scene, where)) != (one.log, one.losses):
            return
        stands = scene.target.groups.offsets.of(GROUP).get(TopicPartition(scene.remote, where.partition))
        if stands is None or stands.offset < one.offset:
            at = None if stands is None else stands.offset
            scene.checker.fail(f"{where}: {GROUP} stood at {one.offset} on the source, and goes on at {at}")
        elif stands.offset > scene.readers.source_place(where) and not scene.readers.is_own(where, stands):
            scene.checker.fail(f"{where}: {GROUP} goes on at {stands.offset}, beyond its place on the source")


def _is_same(one: Place, other: Place) -> bool:
    return (one.log, one.losses, one.visits) == (other.log, other.losses, other.visits)


# The way back.


@dataclass(frozen=True, slots=True)
class _Seen:
    """A partition when the look began."""

    log: object
    losses: object
    home_end: int
    away_end: int
    mirrored: Mapping[bytes, int]
    stored: int


def keeping_steps(scene: "Scene", pair: ClusterPair) -> list[KeepReverse]:
    """As `cli.failback`: one where the flow keeps offsets."""
    assert pair.source is not None
    return [KeepReverse(scene.flow, pair.source, lambda: _judged_look(scene, pair))] if scene.script.kept else []


def _judged_look(scene: "Scene", pair: ClusterPair) -> Collection[KeptReturn]:
    assert pair.source is not None
    before = {one.where: seen for one in scene.sources() if (seen := _see(scene, one)) is not None}
    found = look_back(scene.flow, pair.source, pair.target).kept
    for one in found:
        seen, home, away = before.get(one.partition), scene.source.partition(one.partition), _away(scene, one.partition)
        if seen is None or home is None or away is None:
            continue
        if (_log_ids(scene, one.partition), _losses(scene, one.partition)) != (seen.log, seen.losses):
            continue
        judge = _judge_parted if one.parted else _judge_whole
        if problem := judge(scene, one, seen, home, away):
            scene.checker.fail(f"{one.partition}: the reverse flow {problem}")
    return found


def _away(scene: "Scene", where: TopicPartition) -> Partition | None:
    return scene.target.partition(TopicPartition(scene.remote, where.partition))


def _see(scene: "Scene", home: Partition) -> _Seen | None:
    where, away = home.where, _away(scene, home.where)
    if away is None:
        return None
    topic_id, known = scene.source.topics[where.topic].topic_id, scene.truth.of(where).records
    mirrored = {
        value: offset
        for value, offset in scene.checker.arrived(where)
        if value in known and known[value].topic_id == topic_id and not known[value].is_truncated
    }
    record = scene.checker.view().records.get(where)
    stored = record.position.offset if record is not None and scene.checker.is_of_this_log(where) else 0
    ends = home.log.high_watermark, away.log.high_watermark
    return _Seen(_log_ids(scene, where), _losses(scene, where), *ends, mirrored, stored)


def _judge_whole(scene: "Scene", one: KeptReturn, seen: _Seen, home: Partition, away: Partition) -> str:
    """Where it goes on: at the end of a log that was the same."""
    if not seen.home_end <= one.start <= home.log.high_watermark:
        return f"begins at {one.start}, and the log ended at {seen.home_end}"
    if one.start > away.log.high_watermark:
        return f"begins at {one.start}, beyond {away.log.high_watermark}, where the other log ends"
    known = scene.truth.of(one.partition).records
    copied = [at for value, at in seen.mirrored.items() if at >= one.start and known[value].offset == at]
    if copied:  # what came late stands elsewhere, and looks like the other cluster's own
        return f"begins at {one.start}, and copies {min(copied)} back"
    ends = LogEnds(home.log.start, one.start, away.log.start, away.log.high_watermark)
    compared = offsets_to_compare(ends, seen.stored).first
    wrong = next((at for at in _differences(scene, home, away) if compared <= at < one.start), None)
    return "" if wrong is None else f"begins at {one.start}, and the logs differ at {wrong}"


def _judge_parted(scene: "Scene", one: KeptReturn, seen: _Seen, home: Partition, away: Partition) -> str:
    """Where it does not go on: the logs differ, or the source's is longer, or they could not be read."""
    if re.search(_ONLY, one.parted):
        return "" if home.log.high_watermark > seen.away_end else f"is refused, and has all: {one.parted}"
    if (differs := re.search(_OTHER, one.parted)) is not None:
        at = int(differs[1])
        contents = [_content(scene, partition, at) for partition in (home, away)]
        return f"is refused, and both logs have {contents[0]!r} there: {one.parted}" if len({*contents}) == 1 else ""
    if re.search(_UNREAD, one.parted) and not scene.is_healed:
        return ""
    if re.search(_UNKNOWN, one.parted):
        is_unknown = max(home.log.high_watermark, 1) <= away.log.start and seen.stored < home.log.high_watermark
        return "" if is_unknown else f"is refused, and has offsets in common: {one.parted}"
    is_hanging = any(one.log.last_stable < one.log.high_watermark for one in (home, away))
    is_silent = end_of_batches(home) < min(home.log.high_watermark, seen.away_end)  # nobody tells that no more comes
    return "" if is_hanging or is_silent else f"is refused, and both logs can be read: {one.parted}"


def _records(scene: "Scene", partition: Partition) -> list[Record]:
    return partition.log.visible(committed=scene.script.read_committed)


def _differences(scene: "Scene", home: Partition, away: Partition) -> Iterator[int]:
    """Offsets of records that both logs should have, and the other cluster's has something else; what the source lacks
    may have been removed there."""
    theirs = {record.offset: record.value for record in _records(scene, away)}
    for record in _records(scene, home):
        is_there = away.log.start <= record.offset < away.log.high_watermark
        if (record.key or record.value) and is_there and theirs.get(record.offset) != record.value:
            yield record.offset


def _content(scene: "Scene", partition: Partition, offset: int) -> bytes | None:
    """The value there, nothing where a marker, an aborted record or a filler stands, None where no batch is. An empty
    record that is no filler's is something."""
    index, batches = partition.log.at(offset), partition.log.batches
    for record in _records(scene, partition):
        if record.offset == offset:
            is_filler = batches[index].is_transactional and batches[index].is_aborted is not False
            return record.value or (_VOID if is_filler else _EMPTY)
    return _VOID if index < len(batches) and batches[index].base <= offset else None


def judge_kept_way_back(scene: "Scene", journal: Journal) -> None:
    """Once all steps are taken the reverse flow has its positions, of both logs."""
    taken = journal.steps.get(KEPT_STEP)
    if taken is None or not taken.note["positions"]:
        return
    records = _reverse_ledger(scene).records
    for one in taken.note["positions"]:
        where = TopicPartition(one["topic"], one["partition"])
        record = records.get(where)
        stands = record is not None and record.is_aligned and record.extent is not None and record.extent.end
        if record is None or record.position.offset != one["after"] or stands != one["after"]:
            scene.checker.fail(f"the reverse flow is said to keep offsets from {one['after']} of {where}: {record}")


def _reverse_ledger(scene: "Scene") -> LedgerView:
    view, names = LedgerView(Connector.of_dedicated_mode("B")), ledger_topics("B")
    for name in (names.offsets, names.positions):
        topic = scene.source.topics.get(name)
        for partition in topic.partitions if topic is not None else ():
            for record in (one for batch in partition.log.batches for one in batch.records):
                headers = [(key.decode(), value) for key, value in record.headers]
                if view.take_connect(record.key, record.value, "", headers) is None:
                    view.take_ours(record.key, record.value)
    return view
