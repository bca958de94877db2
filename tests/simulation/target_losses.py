"""What faults take of the remote topic's logs, and what the mirror has to say of it (docs/lost-records.md)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from tests.simulation.cluster import Partition
from tests.simulation.log import Stored
from tests.simulation.scheduler import Process
from tests.simulation.truth import PartitionTruth

from sparkmirror.ledger.gaps import Gap
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.model import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.history import Scene
    from tests.simulation.mirror import Attempt

Before = list[tuple[Stored, bool | None]]
"""The replicated batches of a log with data, each with what was known of its transaction."""
_CONFUSED = frozenset({"take over awake", "other program"})
"""Where these come, an older position of a mirror that lives on may be stored last, or one of another program's."""


@dataclass(slots=True, eq=False)
class _Loss:
    """The target's `log` ended at `known` at least, as the ledger said, and ends at `end` now, or is another one.
    `writer` stored that, in `record`, and ran on; it `is_told` once it has got an answer that lies below. `gaps` are
    those that the ledger had before. Where the ledger says one thing in Connect's record and another one in ours as a
    task begins, as after a kill, the loss `is_excused`: no end of the target's log counts then."""

    where: TopicPartition
    log: UUID
    end: int
    known: int
    is_cut: bool
    gaps: frozenset[Gap]
    writer: Process | None
    record: PositionRecord | None
    is_told: bool = False
    is_excused: bool = False


class TargetLosses:
    """Of all partitions of a history."""

    def __init__(self, scene: "Scene") -> None:
        self._scene = scene
        self._losses: list[_Loss] = []
        scene.target.appends.append(self._hear_append)
        scene.world.placed.append(self._hear_place)

    # What faults do.

    def before(self, partition: Partition) -> Before:
        end = partition.log.high_watermark
        return [(one, one.is_aborted) for one in partition.log.batches if one.last < end and not one.is_control]

    def cut(self, partition: Partition, before: Before) -> None:
        """What was replicated is gone, or has lost the marker that committed it. What was not is sent again."""
        left = set(map(id, partition.log.batches))
        opened = [
            (one, was_aborted) for one, was_aborted in before if was_aborted is not None and one.is_aborted is None
        ]
        undecided = {id(one) for one, was_aborted in opened if not was_aborted}
        gone = [one for one, _ in before if id(one) not in left or id(one) in undecided]
        self._lose(partition, gone, partition.log.end, is_cut=True)
        for one, _ in opened:
            _truth(self._scene, partition).lose_order(one.base)

    def delete(self, partition: Partition) -> None:
        self._lose(partition, [one for one, _ in self.before(partition)], 0, is_cut=False)

    def _lose(self, partition: Partition, gone: list[Stored], end: int, *, is_cut: bool) -> None:
        where, scene = _source(partition), self._scene
        truth, view = _truth(scene, partition), scene.checker.view()
        truth.lost_on_target |= {record.value or b"" for one in gone if not one.is_aborted for record in one.records}
        truth.lose_target(end)
        record, log = view.records.get(where), scene.target.topics[scene.remote].topic_id
        extent = None if record is None or not view.is_whole(where) else record.extent
        is_known = extent is not None and (extent.topic, extent.topic_id) == (scene.remote, log) and extent.end > end
        known = extent.end if extent is not None and is_known else end
        told = [one.end for one in self._losses if one.where == where and one.record == record and self._new_gaps(one)]
        known = max(min([known, *told]), end)  # a gap that is stored covers what it names
        writer = self._writer(where, record.run, record.task) if record is not None else None
        gaps = scene.checker.target_gaps(where)
        self._losses.append(_Loss(where, log, end, known, is_cut, gaps, writer, record))

    def _writer(self, where: TopicPartition, run: str, task: int) -> Process | None:
        """Who has stored a position, if that task still has the partition."""
        found = [
            one.writer
            for mirror in self._scene.mirrors
            for one in _running(mirror.attempts.values() if not mirror.is_over and mirror.run == run else ())
            if one.plan.task == task and where in one.sender._task._gate.buffers
        ]
        return found[0] if len(found) == 1 else None

    # What comes then.

    def _hear_append(self, partition: Partition, _: Process | None) -> None:
        if partition.where.topic == self._scene.remote:
            self._scene.truth.of(_source(partition)).append_on_target(self._scene.world.now)

    def _hear_place(self, process: Process, where: TopicPartition, offset: int) -> None:
        """A writer takes an answer."""
        for one in self._losses:
            if one.writer is process and one.where == where and 0 <= offset < one.known:
                one.is_told = True

    def note_begin(self) -> None:
        """A task, or an epoch, is about to read the ledger."""
        view = self._scene.checker.view() if self._losses else None
        for one in self._losses:
            one.is_excused |= view is not None and not view.is_whole(one.where)

    # The judge.

    def problems(self) -> list[str]:
        return [
            f"{one.where}: the target's log reached to {one.known} and was cut to {one.end}, and no gap says so"
            for one in self._losses
            if self._is_owed(one)
        ]

    def has_unseen_cut(self, where: TopicPartition) -> bool:
        """Whether a mirror was killed between a cut of the target's log and the answer that would have shown it, and
        what was under way has made it as long as the ledger says: nobody can tell that from a log that was not cut."""
        return any(
            one.is_cut and not any(gap.resumed <= one.end for gap in self._new_gaps(one)) and not self._is_owed(one)
            for one in self._losses
            if one.where == where
        )

    def _new_gaps(self, one: _Loss) -> frozenset[Gap]:
        return self._scene.checker.target_gaps(one.where) - one.gaps

    def _is_owed(self, one: _Loss) -> bool:
        """Whether the loss could be seen, and the ledger does not tell of it: its writer was told, and runs on; or the
        position has been stored again since, and says that the target's log ends earlier."""
        if self._scene.script.kept is not None or one.known <= one.end or self._new_gaps(one):
            return False  # where offsets are kept the partition is FAILED instead
        writers = {attempt.writer for mirror in self._scene.mirrors for attempt in _running(mirror.attempts.values())}
        return (one.is_told and one.writer in writers) or self._is_forgotten(one)

    def _is_forgotten(self, one: _Loss) -> bool:
        """Who slept may store, when it wakes, how far the log reached before the position that the loss is of."""
        scene, view = self._scene, self._scene.checker.view()
        is_clear = scene.script.processes == 1 and not scene.world.has_slept
        if one.is_excused or not is_clear or scene.has_struck(*_CONFUSED):
            return False
        record = view.records.get(one.where)
        if record is None or record.extent is None or not view.is_whole(one.where):
            return False
        return record.extent.topic_id != one.log or record.extent.end < one.known


def _running(attempts: "Iterable[Attempt]") -> "list[Attempt]":
    return [one for one in attempts if one.sender is not None and one.writer.is_alive and not one.problem]


def _truth(scene: "Scene", partition: Partition) -> PartitionTruth:
    return scene.truth.of(_source(partition))


def _source(partition: Partition) -> TopicPartition:
    return TopicPartition("orders", partition.where.partition)
