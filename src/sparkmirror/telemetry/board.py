"""Folds the records of a flow's status topic: its state, tasks, partitions and jobs, and sums over them; pure.

`telemetry.bus` feeds it. Counters of tasks and partitions start at 0 with each epoch, and with each attempt of a task;
the board adds up the finished attempts whose records it has seen. A reader that comes after compaction has not seen
them all and takes the sums of the flow's own record (`FlowRecord.records`), which the flow's process keeps.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from typing import Any, Final

from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import TopicPartition
from sparkmirror.telemetry.brakes import say_held
from sparkmirror.telemetry.histogram import Histogram
from sparkmirror.telemetry.history import HistoryRecord
from sparkmirror.telemetry.records import (
    AcknowledgedRecord,
    CanaryState,
    FlowRecord,
    FlowState,
    JobRecord,
    PartitionRecord,
    PartitionState,
    TaskRecord,
    VerifyRecord,
    parse_record,
    parse_subject,
)
from sparkmirror.telemetry.trouble import Trouble


def _merged(columns: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {partition: value for column in columns for partition, value in column.items()}


def _added(histograms: Iterable[Histogram]) -> Histogram:
    return reduce(Histogram.plus, histograms, Histogram())


def _beyond(its: Any, mine: Any) -> Any:
    return its.beyond(mine) if isinstance(its, Histogram) else max(its - mine, 0)


def _earliest(moments: Iterable[int | None]) -> int | None:
    return min((moment for moment in moments if moment is not None), default=None)


def _first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")


def _all(names: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(sorted(chain.from_iterable(names)))


_COUNTERS: Final[Mapping[str, Callable[[Iterable[Any]], Any]]] = dict.fromkeys((
    "records", "bytes", "batches", "gaps", "lost_records", "retries", "duplicates", "refused_gaps", "throttled_ms",
    "source_throttled_ms", "limited_ms",
), sum) | {"latency": _added, "transit": _added}  # fmt: skip
"""Fields of `TaskRecord` that count since the attempt began; their sums include finished attempts."""
_FOLDS: Final[Mapping[str, Callable[[Iterable[Any]], Any]]] = {
    **_COUNTERS,
    **dict.fromkeys(("lag_records", "unknown_ends", "records_per_second", "partitions", "lease_bytes"), sum),
    **dict.fromkeys(("failed", "retry_at_ms", "faults"), _merged),
    **dict.fromkeys(("recent_latency", "recent_transit"), _added),
    "behind_since_ms": _earliest,
    "paused": _all,
    "problem": _first,
}
"""For each field of `FlowStatus` the function that makes it from that field of the tasks."""


_LIVING: Final = (FlowState.RESTARTING, FlowState.RUNNING, FlowState.STARTING, FlowState.STOPPING)


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """Sums over the tasks of one run.

    `failed` gives the reason for each partition that the target refuses, `faults` for each that the source does not
    serve; at most a hundred of each task. `retry_at_ms` says when the task tries a failed partition again (ms since
    1970); a partition that it does not try again is not in it. `paused` are the partitions that an operator has paused.
    `behind_since_ms` is the produce time up to which the partition that is furthest behind is mirrored, None where none
    is behind. `unknown_ends` counts partitions whose high watermark the source has not given yet: `lag_records` and
    `behind_since_ms` leave them out. `epochs` is summed over all tasks.

    Pauses in ms: `throttled_ms` for the target's quotas, `source_throttled_ms` for the source's, `limited_ms` for the
    flow's own rate limits. `latency` counts all records by the time from produce time to the target's acknowledgement,
    `transit` by the time from fetch to acknowledgement; `recent_…` hold those of the last 30 to 60 s.
    """

    records: int = 0
    bytes: int = 0
    batches: int = 0
    lag_records: int = 0
    behind_since_ms: int | None = None
    unknown_ends: int = 0
    records_per_second: float = 0.0
    partitions: int = 0
    tasks: int = 0
    epochs: int = 0
    gaps: int = 0
    lost_records: int = 0
    retries: int = 0
    duplicates: int = 0
    refused_gaps: int = 0
    throttled_ms: int = 0
    source_throttled_ms: int = 0
    limited_ms: int = 0
    lease_bytes: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
    retry_at_ms: Mapping[str, int] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    paused: tuple[str, ...] = ()
    problem: str = ""
    latency: Histogram = field(default_factory=Histogram)
    transit: Histogram = field(default_factory=Histogram)
    recent_latency: Histogram = field(default_factory=Histogram)
    recent_transit: Histogram = field(default_factory=Histogram)

    def lag_seconds(self, now_ms: int) -> float:
        """An upper bound, in seconds, of how far the partition that is furthest behind is behind."""
        return 0.0 if self.behind_since_ms is None else max(now_ms - self.behind_since_ms, 0) / 1000


class StatusBoard:
    """The state of a flow, folded from its status records one by one. It shows the given `run`, or else the latest."""

    def __init__(self, source_alias: str, run: str = "") -> None:
        self._source_alias = source_alias
        self._wanted = run
        self.run = run
        """The run that the board shows; "" before any run has reported."""
        self.at_ms = 0
        """The timestamp of the run's newest record."""
        self.processes: dict[str, FlowRecord] = {}
        """The processes that take part in the run, by `host:pid`."""
        self.outdated: set[bytes] = set()
        """Keys of records of processes of other runs; `runtime.reporter` writes tombstones for them."""
        self.tasks: dict[int, TaskRecord] = {}
        self.silent: dict[int, int] = {}
        """Tasks that have not reported in this run, with the time at which another of their process was first heard."""
        self.partitions: dict[TopicPartition, PartitionRecord] = {}
        self.filling: set[TopicPartition] = set()
        """Partitions in which offsets are being filled, by their last records."""
        self.jobs: dict[str, JobRecord] = {}
        self.verified: VerifyRecord | None = None
        """The result of the last comparison, of whatever run."""
        self.canary: CanaryState | None = None
        self.trouble = Trouble()
        self.history = HistoryRecord()
        """The history that the process that leads the flow wrote last, of whatever run."""
        self._acknowledged: dict[tuple[TopicPartition, int, int, str], int] = {}
        self._left: set[str] = set()
        self._finished = TaskRecord("", -1, 0)
        self._epochs = 0
        self._status: FlowStatus | None = None
        self._carried: dict[TopicPartition, tuple[int, int]] = {}
        self._news: dict[TopicPartition, None] = {}

    def inherit(self, before: "StatusBoard") -> None:
        """Take over from the board of the run before what outlives a run."""
        self.verified, self.canary = before.verified, before.canary
        self.trouble, self.history = before.trouble, before.history
        self._acknowledged = before._acknowledged

    def keep_counts(self, before: "StatusBoard") -> None:
        """Count no less than `before`, which showed the same run: a topic that is read again may lack the records of
        finished attempts, since it is compacted. A counter that goes down is taken for one that began again."""
        if before.run != self.run:
            return
        mine, its = self.status(), before.status()
        more = {name: _beyond(getattr(its, name), getattr(mine, name)) for name in _COUNTERS}
        self._finish(TaskRecord("", -1, 0, **more))
        self._epochs = max(self._epochs, before._epochs)
        self._status = None
        for where, known in before.partitions.items():
            record = self.partitions.get(where)
            if record is not None and record.run == known.run == self.run:
                records, size = max(known.records - record.records, 0), max(known.bytes - record.bytes, 0)
                carried = self._carried.get(where, (0, 0))
                self._carried[where] = (carried[0] + records, carried[1] + size)
                self.partitions[where] = replace(record, records=record.records + records, bytes=record.bytes + size)

    def take(self, key: bytes | None, value: bytes | None, at_ms: int = 0) -> bool:
        """Fold in one record of the status topic; False when it does not concern the run that the board shows."""
        record = parse_record(key, value, self._source_alias, at_ms)
        if record is None:
            return value is None and self._forget(key)
        if isinstance(record, VerifyRecord):
            self.verified = record
            return True
        if isinstance(record, CanaryState):
            self.canary = record
            return True
        if isinstance(record, HistoryRecord):
            self.history = record
            self.trouble.take_history(record, self.partitions)
            return True
        if isinstance(record, AcknowledgedRecord):
            where = TopicPartition(record.topic, record.partition)
            self._acknowledged[where, record.expected, record.resumed, record.topic_id] = record.found_at_ms
            return True
        is_partition_before = isinstance(record, PartitionRecord) and not self._wanted
        if record.run != self.run and not is_partition_before and not self._turn_to(record):
            if isinstance(record, FlowRecord) and key is not None:
                self.outdated.add(key)
            return False
        self.at_ms = max(self.at_ms, at_ms)
        match record:
            case FlowRecord():
                self._take_process(record)
            case TaskRecord():
                self._take_task(record)
            case PartitionRecord():
                self._take_partition(record)
            case JobRecord():
                self.jobs[record.name] = record
        return True

    def _forget(self, key: bytes | None) -> bool:
        """A tombstone: the planner has removed the record of a partition that the flow no longer mirrors, or of a task
        that it no longer runs. The task's counters stay in the sums.
        """
        match parse_subject(key, self._source_alias):
            case int(task) if task in self.tasks:
                self._finish(self.tasks.pop(task))
                self._status = None
            case TopicPartition() as where if where in self.partitions:
                del self.partitions[where]
                self.filling.discard(where)
                self.trouble.forget(where)
                self._carried.pop(where, None)
                self._news.pop(where, None)
            case _:
                return False
        return True

    def _turn_to(self, record: FlowRecord | TaskRecord | PartitionRecord | JobRecord) -> bool:
        """Show the run of this record, where it is a new one; whether the board does.

        The record of a process or of a task shows that a run has begun. Partitions keep the records of the run before
        until the new run reports them: they have not moved since. A late record of a run that the board has left
        changes nothing.
        """
        if self._wanted or record.run in self._left or not isinstance(record, FlowRecord | TaskRecord):
            return False
        self._left.add(self.run)
        self.run = record.run
        self.processes.clear()
        self.tasks.clear()
        self.silent.clear()
        self.jobs.clear()
        self._finished = TaskRecord("", -1, 0)
        self._epochs = 0
        self._status = None
        return True

    def _take_process(self, record: FlowRecord) -> None:
        self.trouble.take_process(self.processes.get(record.process), record)
        self.processes[record.process] = record

    def _take_task(self, record: TaskRecord) -> None:
        before = self.tasks.get(record.task)
        self.trouble.take_task(before, record)
        if before is None or before.epoch != record.epoch:
            self._epochs += 1
        if before is not None and _attempt(before) != _attempt(record):
            self._finish(before)
        self.tasks[record.task] = record
        if before is None or before.siblings != record.siblings:
            self._note_silent(record.at_ms)
        self._status = None

    def _note_silent(self, at_ms: int) -> None:
        """A task that no record names any more was one of an epoch that is over."""
        named = {one for record in self.tasks.values() for one in record.siblings}
        self.silent = {one: self.silent.get(one, at_ms) for one in sorted(named - self.tasks.keys())}

    def _finish(self, task: TaskRecord) -> None:
        done = {name: fold((getattr(self._finished, name), getattr(task, name))) for name, fold in _COUNTERS.items()}
        self._finished = replace(self._finished, **done)

    def _take_partition(self, record: PartitionRecord) -> None:
        """Keep the record with counters of the whole run: `_carried` has those of earlier epochs and attempts."""
        where = record.source
        before = self.partitions.get(where)
        self.trouble.take_partition(before, record)
        if before is None or before.run != record.run:
            self._carried.pop(where, None)
        elif _attempt(before) != _attempt(record):
            self._carried[where] = (before.records, before.bytes)
        records, size = self._carried.get(where, (0, 0))
        if records or size:
            record = replace(record, records=record.records + records, bytes=record.bytes + size)
        self.partitions[where] = record
        (self.filling.discard if record.filling is None else self.filling.add)(where)
        self._news[where] = None

    def shift(self, by_ms: int) -> None:
        """Date what processes, tasks and jobs have said so much later, since this machine's clock was set."""

        def moved(at_ms: int) -> int:
            return max(at_ms + by_ms, 0)

        self.at_ms = moved(self.at_ms)
        self.processes = {at: replace(one, at_ms=moved(one.at_ms)) for at, one in self.processes.items()}
        self.tasks = {at: replace(one, at_ms=moved(one.at_ms)) for at, one in self.tasks.items()}
        self.silent = {task: moved(at_ms) for task, at_ms in self.silent.items()}
        self.jobs = {at: replace(one, at_ms=moved(one.at_ms)) for at, one in self.jobs.items()}

    def refusals(self) -> dict[str, str]:
        """Why partitions are FAILED now, by what the run has reported; tasks name a hundred of theirs at most, so the
        partitions' own records count too."""
        records = (self.partitions.get(where) for where in self.trouble.failing)
        own = {
            str(one.source): one.reason
            for one in records
            if one is not None and one.run == self.run and one.state is PartitionState.FAILED
        }
        return {**own, **self.status().failed}

    def take_news(self) -> dict[TopicPartition, PartitionRecord]:
        """Partitions that the shown run has reported since the last call. A partition whose last record is of an
        earlier run stays in the list until the shown run reports it."""
        news = {at: one for at in self._news if (one := self.partitions[at]).run == self.run}
        self._news = {at: None for at in self._news if at not in news}
        return news

    def begins(self) -> dict[TopicPartition, int]:
        """Where partitions begin whose start is being filled, by what this run has reported: nothing of them is
        mirrored yet."""
        records = (self.partitions[where] for where in self.filling if self.partitions[where].run == self.run)
        starts = (one for one in records if one.filling is not None and one.filling.is_start)
        return {one.source: one.offset for one in starts if one.offset is not None}

    def is_acknowledged(self, gap: Gap) -> bool:
        """Whether an operator has acknowledged the gap; a gap that was found again since counts as new."""
        key = (gap.partition, gap.expected, gap.resumed, str(gap.topic_id))
        return self._acknowledged.get(key, -1) >= gap.at_ms

    @property
    def flow(self) -> FlowRecord | None:
        """The process that wrote last among those that have not ended, or else among all; None where none wrote."""
        return max(self.processes.values(), key=lambda one: (not one.is_over, one.at_ms), default=None)

    def state_at(self, now_ms: int) -> FlowState | None:
        """The flow's state, of however many processes: RESTARTING where one has lost its query, else RUNNING where one
        runs it, whatever others that come or go say meanwhile. None where none wrote."""
        found = {one.state_at(now_ms) for one in self.processes.values()}
        state = next((state for state in _LIVING if state in found), None)
        return state if state is not None or self.flow is None else self.flow.state_at(now_ms)

    @property
    def sizings(self) -> list[str]:
        """Why the processes have so many tasks, by what their tasks say, and what holds these back."""
        held: dict[str, dict[str, None]] = {}
        for task in self.tasks.values():
            held.setdefault(task.sizing, {}).update(dict.fromkeys(task.held_by))
        return sorted("; ".join(filter(None, (one, say_held(tuple(by))))) for one, by in held.items() if one)

    def status(self) -> FlowStatus:
        """The sums. They are computed at the first call after a task has reported, and kept until the next report."""
        if self._status is None:
            self._status = self._sum_up()
        return self._status

    def _sum_up(self) -> FlowStatus:
        now = tuple(self.tasks.values())
        with_finished = (self._finished, *now)
        folded: dict[str, Any] = {
            name: fold(getattr(task, name) for task in (with_finished if name in _COUNTERS else now))
            for name, fold in _FOLDS.items()
        }
        return FlowStatus(**folded, tasks=len(now), epochs=self._epochs)


def _attempt(record: TaskRecord | PartitionRecord) -> tuple[int, int, int]:
    """The attempt of a task in which the record's counters count."""
    return record.task, record.epoch, record.producer_epoch
