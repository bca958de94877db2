"""Derives a flow's events, and its rate and lag over the last day, from its board once a second; pure.

The process that leads the flow stores both in the history record (`telemetry.history`).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import TopicPartition
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.facts import HeldPartition, list_held
from sparkmirror.telemetry.history import (
    EVENTS_HOURS,
    EVENTS_MAX,
    FAILING_MAX,
    SAMPLE_SECONDS,
    SAMPLES_MAX,
    TEXT_MAX,
    Event,
    HistoryRecord,
    Sample,
    Waiting,
)
from sparkmirror.telemetry.problems import first_line, plural
from sparkmirror.telemetry.records import FlowRecord, FlowState, JobState, PartitionState

_STEP_MS: Final = SAMPLE_SECONDS * 1000


class DayCurve:
    """Rate and lag of the last day. `samples` are those whose SAMPLE_SECONDS are over, the oldest first."""

    def __init__(self) -> None:
        self.samples: tuple[Sample, ...] = ()
        self._begins_ms: int | None = None
        self._before: tuple[int, int] | None = None
        self._records = 0
        self._known_ms = 0
        self._lag: int | None = None

    def adopt(self, samples: Iterable[Sample]) -> None:
        """Continue from the samples that an earlier process has stored."""
        self.samples = tuple(samples)

    def look(self, now_ms: int, records: int | None, lag_records: int | None) -> None:
        """Take in the flow's sums. `records` counts what the run has mirrored, None where that is not known now. A
        count that is lower than the one before is of another run."""
        begins_ms = now_ms - now_ms % _STEP_MS
        if self._begins_ms is not None and begins_ms != self._begins_ms:
            self._close(self._begins_ms, now_ms)
        self._begins_ms = begins_ms
        if records is not None and self._before is not None and records >= self._before[1]:
            self._records += records - self._before[1]
            self._known_ms += max(now_ms - self._before[0], 0)
        self._before = None if records is None else (now_ms, records)
        if lag_records is not None:
            self._lag = max(self._lag or 0, lag_records)

    def _close(self, begins_ms: int, now_ms: int) -> None:
        rate = round(self._records * 1000 / self._known_ms) if self._known_ms else None
        oldest_ms = now_ms - SAMPLES_MAX * _STEP_MS
        earlier = [one for one in self.samples if oldest_ms <= one.at_ms < begins_ms]
        self.samples = (*earlier, Sample(begins_ms, rate, self._lag))[-SAMPLES_MAX:]
        self._records = self._known_ms = 0
        self._lag = None


_NAMED_MAX: Final = 3
_KINDS: Final[Mapping[FlowState, str]] = {
    FlowState.RUNNING: "started",
    FlowState.RESTARTING: "query failed",
    FlowState.STOPPED: "stopped",
    FlowState.FAILED: "ended",
}
_HELD_KINDS: Final = {
    PartitionState.FAILED: "failed",
    PartitionState.WAITING: "waiting",
    PartitionState.PAUSED: "paused",
}


class EventLog:
    """The events of the last day, the oldest first. The first `look` compares the board with an empty one."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._states: dict[str, FlowState] = {}
        self._restarts = 0
        self._held: dict[TopicPartition, PartitionState] = {}
        self._gaps: set[tuple[TopicPartition, int, int, int]] | None = None
        self._jobs: dict[str, JobState] = {}
        self._target_problem = ""

    def adopt(self, before: HistoryRecord) -> None:
        """Continue from a stored history; its events, restarts and held partitions make no new events."""
        self._events = list(before.events)
        self._restarts = max(before.restarts, default=0)
        self._held = {one.partition_of: PartitionState.WAITING for one in before.waiting}
        self._held |= {one.partition_of: PartitionState.FAILED for one in before.failing}

    def record(self, board: StatusBoard, samples: tuple[Sample, ...] = ()) -> HistoryRecord:
        """The history record to store now, with these samples."""
        trouble = board.trouble
        failing = [trouble.failing[where] for where in sorted(trouble.failing)[:FAILING_MAX]]
        shortened = tuple(replace(one, reason=one.reason[:TEXT_MAX]) for one in failing)
        waiting = tuple(
            Waiting(where.topic, where.partition, trouble.held_since[where], trouble.waiting[where][:TEXT_MAX])
            for where in sorted(trouble.waiting)[:FAILING_MAX]
        )
        return HistoryRecord(tuple(self._events), shortened, tuple(trouble.restarts), samples, waiting)

    def look(self, board: StatusBoard, gaps: Collection[Gap], target_problem: str, now_ms: int) -> None:
        """Add the events since the last call. `gaps` is the whole gap ledger."""
        for process in board.processes.values():
            self._see_process(process)
        for at_ms in board.trouble.restarts:
            if at_ms > self._restarts:
                self._restarts = at_ms
                self._add(at_ms, "restarted", "a worker or the query was started again")
        self._see_partitions(list_held(board), now_ms)
        self._see_gaps(gaps)
        for job in board.jobs.values():
            if job.state is not self._jobs.get(job.name, JobState.RUNNING):
                works = job.state is JobState.RUNNING
                self._add(now_ms, "job works" if works else "job fails", f"{job.name}: {first_line(job.reason)}")
            self._jobs[job.name] = job.state
        if bool(target_problem) != bool(self._target_problem):
            self._add(now_ms, "target away" if target_problem else "target answers", first_line(target_problem))
        self._target_problem = target_problem
        oldest_ms = now_ms - EVENTS_HOURS * 3_600_000
        self._events = [event for event in self._events if event.at_ms >= oldest_ms][-EVENTS_MAX:]

    def _see_process(self, process: FlowRecord) -> None:
        name = f"process {process.pid} on {process.host}"
        if self._states.get(name) is process.state:
            return
        self._states[name] = process.state
        if kind := _KINDS.get(process.state):
            why = first_line(process.reason)
            self._add(process.at_ms, kind, f"{name}: {why}" if why else name)

    def _see_partitions(self, held: Iterable[HeldPartition], now_ms: int) -> None:
        now = {one.partition: one for one in held}
        fresh = [one for where, one in now.items() if self._held.get(where) is not one.state]
        for state, kind in _HELD_KINDS.items():
            those = [one for one in fresh if one.state is state]
            if those:
                reason = first_line(those[0].reason)
                named = _name([one.partition for one in those])
                self._add(now_ms, kind, f"{named}: {reason}" if reason else named)
        if over := [where for where in self._held if where not in now]:
            self._add(now_ms, "runs again", _name(over))
        self._held = {where: one.state for where, one in now.items()}

    def _see_gaps(self, gaps: Collection[Gap]) -> None:
        """Add an event for each new gap. Gaps of the first call make none: the ledger has them with their times."""
        known = {(gap.partition, gap.expected, gap.resumed, gap.at_ms): gap for gap in gaps}
        for key in known.keys() - (self._gaps if self._gaps is not None else known.keys()):
            gap = known[key]
            self._add(gap.at_ms, "gap", f"{gap.partition}: {gap.cause}, {plural(gap.lost_records, 'offset')} gone")
        self._gaps = set(known)

    def _add(self, at_ms: int, kind: str, text: str) -> None:
        last = self._events[-1] if self._events else None
        if last is not None and (last.kind, last.text) == (kind, text[:TEXT_MAX]):
            self._events[-1] = Event(max(at_ms, last.at_ms), kind, last.text, last.times + 1)
        else:
            self._events.append(Event(max(at_ms, 0), kind, text[:TEXT_MAX]))


def _name(partitions: Collection[TopicPartition]) -> str:
    named = ", ".join(map(str, sorted(partitions)[:_NAMED_MAX]))
    if len(partitions) <= _NAMED_MAX:
        return named
    return f"{plural(len(partitions), 'partition')} ({named}, …)"
