"""Moves partitions between tasks by their load, which the tasks' status records tell; the decisions are pure.

A task is one reader and one writer, and so bound by one core. Its load is the byte rate of its partitions. A partition
that is behind would have a higher rate if it could: it counts as all that its task moves now, so that it ends alone in
a task if possible. Called by `planning.planner`.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from math import fsum
from typing import Final, NamedTuple

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.assignment import Assignment
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_tail
from sparkmirror.kafka.tail import TailRecord, TopicTail
from sparkmirror.model import TopicPartition
from sparkmirror.planning.plan import Move
from sparkmirror.telemetry.records import BEAT_SECONDS, PartitionRecord, PartitionState, TaskRecord, parse_record

IDLE_BYTES_PER_SECOND: Final = 10_000.0
"""The load of a partition without records, as a byte rate."""
GAIN_MIN: Final = 0.2
GAIN_MIN_BEHIND: Final = 0.1
"""The least share of its load that a task gives away at once: 0.2, or 0.1 if partitions of it are behind."""
REST_LOOKS: Final = 10
REST_LOOKS_MAX: Final = 160
"""The most looks for which a moved partition stays in its task; each move doubles the number. A task's load changes
with what it is given, so a partition might move for ever."""
MOVES_MAX: Final = 500
"""The most moves at one look: their orders fit a record of the command topic."""


@dataclass(frozen=True, slots=True)
class Load:
    """A partition's byte rate, and whether it is far behind although it is being read."""

    bytes_per_second: float = 0.0
    is_behind: bool = False


NO_LOAD: Final = Load()


class _Rest(NamedTuple):
    """For how many looks a partition stays in its task, and until which."""

    looks: int
    until: int


class Balance:
    """Decides at each look. A gain must show at two looks in a row: loads vary, and a hand-over stops a partition for a
    moment."""

    def __init__(self) -> None:
        self._looks = 0
        self._rests: dict[TopicPartition, _Rest] = {}
        self._was_due = False

    def look(self, assignment: Assignment, loads: Mapping[TopicPartition, Load]) -> tuple[Move, ...]:
        """The moves to make now."""
        self._looks += 1
        known = frozenset[TopicPartition]().union(*assignment.values())
        self._rests = {tp: rest for tp, rest in self._rests.items() if tp in known}
        moves = plan_relief(assignment, loads, {tp for tp, rest in self._rests.items() if rest.until > self._looks})
        was_due, self._was_due = self._was_due, bool(moves)
        if not (moves and was_due):
            return ()
        self._was_due = False
        for move in moves:
            before = self._rests.get(move.partition)
            looks = REST_LOOKS if before is None else min(2 * before.looks, REST_LOOKS_MAX)
            self._rests[move.partition] = _Rest(looks, self._looks + looks)
        return moves


def plan_relief(
    assignment: Assignment, loads: Mapping[TopicPartition, Load], resting: Collection[TopicPartition] = frozenset()
) -> tuple[Move, ...]:
    """Moves from the most loaded tasks to the least loaded ones; none of a partition that is `resting`.

    One task after the other gives, the heaviest first, until it bears the mean of those that are left; small partitions
    go before large ones stay, and no move makes a task bear more than the giver did. Deterministic.
    """
    weights = weigh(assignment, loads)
    bearing = {task: fsum(weights[tp] for tp in members) for task, members in sorted(assignment.items())}
    moves: list[Move] = []
    while len(bearing) > 1 and len(moves) < MOVES_MAX:
        giver = max(bearing, key=lambda task: (bearing[task], -task))
        gone = {move.partition for move in moves}
        movable = [tp for tp in assignment[giver] if tp not in resting and tp not in gone]
        gain = GAIN_MIN_BEHIND if any(loads.get(tp, NO_LOAD).is_behind for tp in assignment[giver]) else GAIN_MIN
        given = _give(giver, bearing, {tp: weights[tp] for tp in movable}, gain)[: MOVES_MAX - len(moves)]
        for move in given:
            bearing[move.to_task] += weights[move.partition]
        moves += given
        del bearing[giver]
    return tuple(moves)


def weigh(assignment: Assignment, loads: Mapping[TopicPartition, Load]) -> dict[TopicPartition, float]:
    """Each partition's weight, in bytes a second."""
    found: dict[TopicPartition, float] = {}
    for members in assignment.values():
        carried = {tp: loads.get(tp, NO_LOAD) for tp in members}
        whole = fsum(load.bytes_per_second for load in carried.values())
        for tp, load in carried.items():
            found[tp] = IDLE_BYTES_PER_SECOND + (whole if load.is_behind else load.bytes_per_second)
    return found


def _give(giver: int, bearing: Mapping[int, float], movable: Mapping[TopicPartition, float], gain: float) -> list[Move]:
    """The moves away from `giver`; none if they would take less than `gain` of its load."""
    before = bearing[giver]
    mean = fsum(bearing.values()) / len(bearing)
    others = {task: load for task, load in bearing.items() if task != giver}
    sizes = sorted((weight, tp) for tp, weight in movable.items())
    left, moves = before, list[Move]()
    while sizes:
        taker = min(others, key=lambda task: (others[task], task))
        at = bisect_right(sizes, min(left - mean, (left - others[taker]) / 2), key=lambda size: size[0]) - 1
        if at < 0:
            if moves or others[taker] + sizes[0][0] > (1 - gain) * left:
                break
            at = 0
        weight, partition = sizes.pop(at)
        moves.append(Move(partition, giver, taker))
        left -= weight
        others[taker] += weight
    return moves if before - left >= gain * before else []


def after_moves(assignment: Assignment, moves: Iterable[Move]) -> Assignment:
    """The assignment after these moves."""
    owned = {task: set(members) for task, members in assignment.items()}
    for move in moves:
        owned[move.from_task].discard(move.partition)
        owned[move.to_task].add(move.partition)
    return {task: frozenset(members) for task, members in owned.items()}


_BEHIND_SECONDS: Final = 5.0
"""A partition whose backlog takes less time than this at its own rate keeps up: so much is always under way."""
_READ_SECONDS_MAX: Final = 10.0


class Loads:
    """Mean loads between two calls of `read`. For one thread."""

    def __init__(self, flow: FlowConfig, run: str) -> None:
        self._flow = flow
        self._run = run
        self._where = TopicPartition(flow.ledger_topics.status, 0)
        self._open = ExitStack()
        self._tail: TopicTail | None = None
        self._before: dict[TopicPartition, PartitionRecord] = {}
        self._latest: dict[TopicPartition, PartitionRecord] = {}
        self._tasks: dict[int, TaskRecord] = {}
        self.cores: dict[int, float] = {}
        """What each task has used of the cores between its last two beats, where its records have two."""
        self.held_by: dict[int, tuple[str, ...]] = {}
        """What has held each of these tasks back between these beats."""

    def read(self, target: Admin, owners: Mapping[TopicPartition, int]) -> dict[TopicPartition, Load]:
        """The load of each partition, 0 if its task has reported nothing of it. The first call finds none.

        Raises ClusterError.
        """
        if self._tail is None:
            end = target.await_end(self._where)
            self._tail = self._open.enter_context(open_tail(self._flow.target, "loads", [self._where]))
            self._tail.seek(self._where, end)
        latest = dict(self._latest)
        for record in self._tail.read_to_end(_READ_SECONDS_MAX):
            report = self._parse(record)
            if isinstance(report, PartitionRecord):
                latest[report.source] = report
            elif isinstance(report, TaskRecord):
                self._take_task(report)
        latest = {where: report for where, report in latest.items() if owners.get(where) == report.task}
        self._before, self._latest = self._latest, latest
        return {where: load_between(self._before.get(where), report) for where, report in latest.items()}

    def _take_task(self, report: TaskRecord) -> None:
        before = self._tasks.get(report.task)
        if before is None or not _is_same_attempt(before, report):
            self.cores.pop(report.task, None)
            self.held_by.pop(report.task, None)
        elif report.beat > before.beat:
            self.cores[report.task], self.held_by[report.task] = cores_between(before, report), report.held_by
        else:
            return
        self._tasks[report.task] = report

    def _parse(self, record: TailRecord) -> PartitionRecord | TaskRecord | None:
        report = parse_record(record.key, record.value, self._flow.name.source, record.timestamp_ms)
        return report if isinstance(report, PartitionRecord | TaskRecord) and report.run == self._run else None

    def close(self) -> None:
        """Close the connection; the next `read` begins with later records."""
        self._open.close()
        self._tail = None


def load_between(before: PartitionRecord | None, latest: PartitionRecord) -> Load:
    """The mean rate between two records of one attempt of a task, else the one that was reported."""
    rate = latest.bytes_per_second
    if (
        before is not None
        and (before.task, before.epoch, before.producer_epoch) == (latest.task, latest.epoch, latest.producer_epoch)
        and latest.at_ms > before.at_ms
    ):
        rate = max(latest.bytes - before.bytes, 0) * 1000 / (latest.at_ms - before.at_ms)
    backlog_seconds = (latest.lag_records or 0) / latest.records_per_second if latest.records_per_second else 0.0
    return Load(rate, latest.state is PartitionState.RUNNING and backlog_seconds > _BEHIND_SECONDS)


def cores_between(before: TaskRecord, latest: TaskRecord) -> float:
    """What an attempt of a task used of the cores between two of its beats."""
    return max(latest.cpu_seconds - before.cpu_seconds, 0.0) / ((latest.beat - before.beat) * BEAT_SECONDS)


def _is_same_attempt(one: TaskRecord, other: TaskRecord) -> bool:
    return (one.epoch, one.producer_epoch) == (other.epoch, other.producer_epoch)
