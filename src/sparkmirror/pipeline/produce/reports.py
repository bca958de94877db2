"""Decides which status records are due: the task's own if it changed, and those of changed partitions, each every two
seconds at most, and at most a hundred a second.

With ten thousand busy partitions each is reported from time to time, at the same cost; a change of state is reported at
once. Owned by `pipeline.produce.produce_task`, stored by `pipeline.produce.progress`.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.task_metrics import PartitionMetrics, TaskMetrics
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.telemetry.records import PartitionRecord, PartitionState, encode_record

_SECONDS: Final = 2.0
_RECORDS_MAX: Final = 100
"""In a flush, of which there is one a second: about 30 kB."""


class Report(NamedTuple):
    """A record for the status topic. `forget` makes it due again if it was lost."""

    key: bytes
    value: bytes
    forget: Callable[[], None]


class Reports:
    """Reads a task's metrics and buffers; remembers which states were reported."""

    def __init__(
        self,
        task_metrics: TaskMetrics,
        buffers: Mapping[TopicPartition, PartitionBuffer],
        source_alias: str,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._task_metrics = task_metrics
        self._buffers = buffers
        self._source_alias = source_alias
        self._told: dict[TopicPartition, tuple[PartitionState, str]] = {}
        self._task_told = b""
        self._told_about: tuple[object, ...] = ()
        self._is_behind = False

    def may_rest(self, plan: PlanRow, problem: str, is_heartbeats: Callable[[str], bool]) -> bool:
        """Whether there is nothing to tell but that heartbeats have passed."""
        self._task_metrics.settle()
        is_told = bool(self._task_told) and self._told_about == self._about(plan, problem)
        if self._is_behind or not is_told or self._changed_states():
            return False
        return all(is_heartbeats(where.topic) for where in self._task_metrics.touched)

    def _about(self, plan: PlanRow, problem: str) -> tuple[object, ...]:
        """What of a task's status changes seldom, and is to be known at once."""
        return problem, plan.generation, len(self._task_metrics.meters), self._task_metrics.gaps

    def due(self, plan: PlanRow, problem: str, *, in_transactions: bool, final: bool) -> list[Report]:
        """The due records; with `final`, at the end of the epoch, all that changed. `problem` is the task's with the
        target."""
        status = self._task_metrics.status(problem, plan.generation)
        self._told_about, self._is_behind = self._about(plan, problem), status.lag_records > 0
        key, value = encode_record(self._source_alias, status)
        reports = self._due_partitions(plan, in_transactions=in_transactions, final=final)
        if value != self._task_told:
            self._task_told = value
            reports.append(Report(key, value, self._forget_task))
        return reports

    def _forget_task(self) -> None:
        self._task_told = b""

    def _due_partitions(self, plan: PlanRow, *, in_transactions: bool, final: bool) -> list[Report]:
        now = self._clock.monotonic()
        now_ms = self._clock.time_ns() // 1_000_000
        reports: list[Report] = []
        for where in self._choose(now, final=final):
            meter, buffer = self._task_metrics.meters.get(where), self._buffers.get(where)
            self._task_metrics.touched.pop(where, None)
            if meter is None or (buffer is None and where not in self._task_metrics.failed):
                self._told.pop(where, None)
                continue
            if meter.measure(now) and not final:
                self._task_metrics.touched[where] = None
            offset = None if buffer is None else buffer.reach[0] if in_transactions else buffer.acknowledged
            record = self._describe(plan, where, meter, buffer, offset, now_ms)
            reports.append(
                Report(*encode_record(self._source_alias, record), _Touch(self._task_metrics.touched, where))
            )
        return reports

    def _choose(self, now: float, *, final: bool) -> list[TopicPartition]:
        touched, meters = self._task_metrics.touched, self._task_metrics.meters
        changed = self._changed_states()
        if final:
            return list(dict.fromkeys([*changed, *touched]))
        chosen = changed[:_RECORDS_MAX]
        for where in touched:
            if len(chosen) >= _RECORDS_MAX:
                break
            meter = meters.get(where)
            if where not in changed and (meter is None or now - meter.told_at >= _SECONDS):
                chosen.append(where)
        return chosen

    def _changed_states(self) -> list[TopicPartition]:
        """Partitions whose state or reason differs from the last report."""
        task_metrics = self._task_metrics
        still = {
            where: self._state(where) for where in (*task_metrics.failed, *task_metrics.faults, *task_metrics.paused)
        }
        return [where for where in {**still, **self._told} if still.get(where) != self._told.get(where)]

    def _state(self, where: TopicPartition) -> tuple[PartitionState, str]:
        task_metrics = self._task_metrics
        if where in task_metrics.failed:
            return PartitionState.FAILED, task_metrics.failed[where]
        if where in task_metrics.faults:
            return PartitionState.WAITING, task_metrics.faults[where]
        return (PartitionState.PAUSED if where in task_metrics.paused else PartitionState.RUNNING), ""

    def _describe(
        self,
        plan: PlanRow,
        where: TopicPartition,
        meter: PartitionMetrics,
        buffer: PartitionBuffer | None,
        offset: int | None,
        now_ms: int,
    ) -> PartitionRecord:
        state, reason = self._state(where)
        self._told.pop(where, None)
        if state is not PartitionState.RUNNING:
            self._told[where] = (state, reason)
        return PartitionRecord(
            where.topic,
            where.partition,
            plan.run,
            plan.task,
            plan.epoch,
            plan.producer_epoch,
            state=state,
            reason=reason,
            retry_at_ms=self._task_metrics.retry_at_ms.get(where) if state is PartitionState.FAILED else None,
            target_topic=meter.target_topic,
            offset=offset,
            end=meter.end,
            behind_since_ms=meter.behind_since_ms if _is_behind(offset, meter.end) else None,
            records=meter.records,
            bytes=meter.bytes,
            records_per_second=meter.records_per_second,
            bytes_per_second=meter.bytes_per_second,
            age=meter.age.spread(now_ms),
            latency=meter.latency.spread(now_ms),
            keeps_offsets=buffer is not None and buffer.keeps_offsets,
            filling=self._task_metrics.fillings.get(where),
        )


def _is_behind(offset: int | None, end: int | None) -> bool:
    return offset is not None and end is not None and offset < end


class _Touch:
    """When called, makes a partition due for a report again."""

    __slots__ = ("_touched", "_where")

    def __init__(self, touched: dict[TopicPartition, None], where: TopicPartition) -> None:
        self._touched = touched
        self._where = where

    def __call__(self) -> None:
        self._touched[self._where] = None
