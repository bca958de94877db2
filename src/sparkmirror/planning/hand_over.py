"""Hands partitions from one task to another inside an epoch: the first task releases, the ledger shows the release, and
only then the other task is given the partition. Owned by `planning.planner`, which sends the commands."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.assignment import Assignment
from sparkmirror.control.commands import Assign
from sparkmirror.kafka.admin import Admin
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.model import TopicPartition
from sparkmirror.planning.balance import NO_LOAD, Balance, Loads
from sparkmirror.planning.plan import Move

log = logging.getLogger(__name__)

_OVERDUE_SECONDS: Final = 10.0


@dataclass(slots=True)
class _Leaving:
    """A partition that its task was ordered to release, first by the order of `generation`. `since` is monotonic;
    `is_late` says that it was reported as late.

    An order whose writing failed may have been written: it is repeated, and a task ignores the second.
    """

    move: Move
    generation: int
    since: float
    is_ordered: bool = False
    is_released: bool = False
    is_late: bool = False


class TaskReport(NamedTuple):
    """What a task takes of the cores, the topics in which it is far behind although they are read, and what holds it
    back (`telemetry.brakes`)."""

    cores: float
    behind: frozenset[str] = frozenset()
    held_by: tuple[str, ...] = ()


class HandOvers:
    """Decides on hand-overs by load, and knows those that are under way. For one thread."""

    def __init__(self, flow: FlowConfig, run: str) -> None:
        self._flow = flow
        self._run = run
        self._loads = Loads(flow, run)
        self._balance = Balance()
        self._leaving: dict[TopicPartition, _Leaving] = {}
        self.rates: Mapping[TopicPartition, float] = {}
        """Bytes a second by partition, at the last look."""
        self.task_reports: Mapping[int, TaskReport] = {}
        """Of the tasks whose records say what CPU they use."""

    @property
    def open(self) -> bool:
        """Whether a task was ordered to release a partition that no task was given yet."""
        return bool(self._leaving)

    def look(self, target: Admin, assignment: Assignment) -> tuple[Move, ...]:
        """The moves to begin now; none while hand-overs are under way that are not late. Raises ClusterError."""
        carried = self._loads.read(target, {where: task for task, members in assignment.items() for where in members})
        self.rates = {where: load.bytes_per_second for where, load in carried.items()}
        self.task_reports = {
            task: TaskReport(
                cores,
                frozenset(tp.topic for tp in assignment[task] if carried.get(tp, NO_LOAD).is_behind),
                self._loads.held_by[task],
            )
            for task, cores in self._loads.cores.items()
            if task in assignment
        }
        if any(not leaving.is_late for leaving in self._leaving.values()):
            return ()
        return tuple(one for one in self._balance.look(assignment, carried) if one.partition not in self._leaving)

    def begin(self, moves: Sequence[Move], generation: int, now: float) -> None:
        """Begin to have tasks release these partitions, by orders of that generation. `now` is monotonic."""
        log.info("%s: partitions move to tasks that have less to do: %s.", self._flow.name, _describe(moves))
        self._leaving |= {move.partition: _Leaving(move, generation, now) for move in moves}

    def releases(self, generation: int) -> list[Assign]:
        """The orders to release that were not written yet."""
        moves = [leaving.move for leaving in self._leaving.values() if not leaving.is_ordered]
        return [
            Assign(
                self._run, generation, task, release=tuple(move.partition for move in moves if move.from_task == task)
            )
            for task in sorted({move.from_task for move in moves})
        ]

    def note_ordered(self) -> None:
        """The orders of `releases` are written."""
        for leaving in self._leaving.values():
            leaving.is_ordered = True

    def find_released(
        self,
        ledger: Mapping[TopicPartition, PositionRecord],
        is_whole: Callable[[TopicPartition], bool],
        now: float,
    ) -> list[Move]:
        """The moves whose release both records of the position show: otherwise the new task would begin too early.

        They are found until they are `given`, as the new task's record comes after that of the release. Logs once which
        take long.
        """
        for where, leaving in self._leaving.items():
            leaving.is_released |= _is_released(ledger.get(where), leaving.generation) and is_whole(where)
            if not (leaving.is_released or leaving.is_late) and now - leaving.since > _OVERDUE_SECONDS:
                leaving.is_late = True
                log.warning("%s: %s", self._flow.name, _complain(leaving.move))
        return [leaving.move for leaving in self._leaving.values() if leaving.is_released]

    def given(self, moves: Iterable[Move]) -> None:
        """The orders that give these partitions to their new tasks are written."""
        for move in moves:
            del self._leaving[move.partition]

    def drop(self, where: TopicPartition) -> int:
        """End a hand-over without a new task; returns the generation of its release, 0 if none is under way."""
        leaving = self._leaving.pop(where, None)
        return leaving.generation if leaving is not None else 0

    def forget(self) -> None:
        """The epoch is over: the next one hands out everything again."""
        self._leaving.clear()

    def close(self) -> None:
        """Close the connection; a later look opens it again."""
        self._loads.close()


class Partings:
    """Partitions of deleted topics that their tasks were ordered to release. For one thread.

    If the topic comes back, no task is given them before the ledger shows the release: a task that was just tried again
    may still hold one, and would go on in the new log beside the task that is given it.
    """

    def __init__(self) -> None:
        self._since: dict[TopicPartition, int] = {}

    def __bool__(self) -> bool:
        return bool(self._since)

    def __contains__(self, where: object) -> bool:
        return where in self._since

    def begin(self, where: TopicPartition, generation: int) -> None:
        """An order of that generation releases it, or an earlier one that may have been written."""
        self._since.setdefault(where, generation)

    def end(self, ledger: Mapping[TopicPartition, PositionRecord], is_whole: Callable[[TopicPartition], bool]) -> None:
        """Forget the partitions that the ledger shows as released."""
        self._since = {
            where: generation
            for where, generation in self._since.items()
            if not (_is_released(ledger.get(where), generation) and is_whole(where))
        }

    def forget(self) -> None:
        """The epoch is over: their holders are fenced when the next one begins."""
        self._since.clear()


def _is_released(record: PositionRecord | None, generation: int) -> bool:
    """Whether the record shows a release by an order of that generation or a later one."""
    return record is not None and record.released and record.generation >= generation


def by_new_task(moves: Sequence[Move], topics: Collection[str]) -> dict[int, list[TopicPartition]]:
    """Partitions by the task that gets them; without those of topics that were deleted meanwhile."""
    found: dict[int, list[TopicPartition]] = {}
    for move in moves:
        if move.partition.topic in topics:
            found.setdefault(move.to_task, []).append(move.partition)
    return found


def _describe(moves: Sequence[Move]) -> str:
    between = Counter((move.from_task, move.to_task) for move in moves)
    return ", ".join(f"{count} from task {one} to task {other}" for (one, other), count in sorted(between.items()))


def _complain(move: Move) -> str:
    return (
        f"{move.partition} is to go from task {move.from_task} to task {move.to_task}, but is not released after "
        f"{_OVERDUE_SECONDS:.0f} s: the target has yet to take what is under way. It stands still until then, or until "
        "the epoch ends."
    )
