"""Carries out what a produce answer means for its batch (`pipeline.produce.answers`). Called by
`pipeline.produce.produce_task`.
"""

import logging

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.kafka.errors import SHORT_OF_REPLICAS
from sparkmirror.kafka.wire.data_requests import ProducedPartition
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.answers import (
    LIMITED,
    MESSAGE_TOO_LARGE,
    BatchOutcome,
    describe,
    judge,
    leaves_doubt,
    rest_seconds,
)
from sparkmirror.pipeline.produce.brokers import Brokers
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.effects import BackOff, Effects, Fail, Hold
from sparkmirror.pipeline.produce.guarantee import Guarantee
from sparkmirror.pipeline.produce.isolation import Isolation
from sparkmirror.pipeline.produce.limits import TargetLimits
from sparkmirror.pipeline.produce.log_check import TargetLogCheck
from sparkmirror.pipeline.produce.progress import Progress
from sparkmirror.pipeline.produce.queued_records import Batch
from sparkmirror.pipeline.produce.routing import Routing
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics

log = logging.getLogger(__name__)


class AnswerTaker:
    """Takes the answers of one task. `clamps` says whether timestamps that are too late are changed."""

    def __init__(
        self,
        routing: Routing,
        guarantee: Guarantee,
        log_check: TargetLogCheck,
        progress: Progress,
        isolation: Isolation,
        brokers: Brokers,
        limits: TargetLimits,
        task_metrics: TaskMetrics,
        effects: Effects,
        *,
        clamps: bool,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._routing = routing
        self._guarantee = guarantee
        self._log_check = log_check
        self._progress = progress
        self._isolation = isolation
        self._brokers = brokers
        self._limits = limits
        self._task_metrics = task_metrics
        self._effects = effects
        self._clamps = clamps
        self._clock = clock
        self._ledger_ends: dict[TopicPartition, int] = {}

    def take(
        self, buffer: PartitionBuffer, batch: Batch, produced: ProducedPartition, now: float, came_at_ms: int = 0
    ) -> None:
        """`came_at_ms` is when the answer came, 0 for now.

        Raises FencedError and SparkMirrorError where the task cannot go on.
        """
        extent, base_offset = buffer.extent, produced.base_offset
        is_own = buffer.is_ledger or buffer.is_lane  # its batches hold no range of one source partition
        if not (produced.error or extent is None or is_own) and 0 < extent.end <= base_offset:
            self.go_on(buffer, batch, base_offset, came_at_ms)
            return
        outcome = self._judge(buffer, batch, produced, now)
        if outcome is BatchOutcome.DONE:
            self._succeed(buffer, batch, produced.base_offset, came_at_ms)
        elif outcome is BatchOutcome.RETRY or outcome is BatchOutcome.MOVED:
            self._task_metrics.retries += 1
            if outcome is BatchOutcome.MOVED:
                self._brokers.forget([buffer.target])
            elif produced.error in SHORT_OF_REPLICAS:
                self._brokers.doubt(buffer.target)
            buffer.retry(batch, in_doubt=leaves_doubt(produced.error))
            buffer.rest()
            self._effects.append(BackOff(buffer, now + rest_seconds(produced.error)))
        elif outcome is BatchOutcome.FENCED:
            self._guarantee.fenced(buffer)
        elif outcome is BatchOutcome.RESTART:
            self._lose(buffer, batch, describe(produced))
        else:
            buffer.refuse(batch, in_doubt=leaves_doubt(produced.error))
            if batch.in_doubt:
                self._guarantee.refused_in_doubt(buffer)
            self._refuse(buffer, batch, produced)

    def _lose(self, buffer: PartitionBuffer, batch: Batch, reason: str) -> None:  # noqa: ARG002
        """The target does not know the sequence of the batch's producer."""
        self._guarantee.sequence_lost(buffer, reason)

    def _judge(self, buffer: PartitionBuffer, batch: Batch, produced: ProducedPartition, now: float) -> BatchOutcome:
        outcome = judge(produced.error, is_head=buffer.head is batch)
        if outcome is not BatchOutcome.DONE or buffer.is_ledger or buffer.keeps_offsets:
            return outcome
        checked = self._routing.home_of(buffer, batch) if buffer.is_lane else buffer
        if checked is None or not self._log_check.must_ask(
            checked, batch, produced.base_offset, buffer.target.topic, now
        ):
            return outcome
        return BatchOutcome.MOVED

    def _succeed(self, buffer: PartitionBuffer, batch: Batch, base_offset: int, came_at_ms: int) -> None:
        if buffer.is_ledger:
            self._watch_ledger(buffer, buffer.succeed(batch, base_offset))
            return
        if buffer.is_lane:
            now_ms = came_at_ms or self._clock.time_ns() // 1_000_000
            self._task_metrics.acknowledged(self._routing.source_of(batch), batch, now_ms)
            self._routing.acknowledge(buffer, buffer.succeed(batch, base_offset))
            return
        self.go_on(buffer, batch, base_offset, came_at_ms)

    def _watch_ledger(self, ledger: PartitionBuffer, stored: list[Batch]) -> None:
        """A batch that comes to stand below the one before it says that the log was cut, or its topic made again."""
        for batch in stored:
            if batch.base_offset < 0:
                continue
            end = self._ledger_ends.get(ledger.target, 0)
            if batch.base_offset < end:
                log.warning(
                    "%s was cut below offset %d, or its topic made again: what was stored there is lost, and all "
                    "positions of this task are stored again.", ledger.target, end, extra={"event": "ledger-cut"},
                )  # fmt: skip
                self._progress.store_again()
            self._ledger_ends[ledger.target] = batch.base_offset + batch.records

    def go_on(
        self, buffer: PartitionBuffer, batch: Batch, base_offset: int, came_at_ms: int, now: float | None = None
    ) -> None:
        """A batch of a source partition has its place on the target. `now` is when that was known, if it was before."""
        self._task_metrics.acknowledged(buffer.source, batch, came_at_ms or self._clock.time_ns() // 1_000_000)
        moved = buffer.succeed(batch, base_offset, now)
        self._progress.map_batches(buffer.source, moved)
        reason = self._log_check.add(buffer, moved, buffer.target.topic)
        if reason:
            self._effects.append(Hold(buffer, reason))
        self._isolation.after_progress(buffer)

    def _refuse(self, buffer: PartitionBuffer, batch: Batch, produced: ProducedPartition) -> None:
        """The target refused the batch. If the topic's limits were not known, smaller batches may be accepted."""
        if buffer.is_lane:
            self._routing.name_records(batch)
        if produced.error in LIMITED:
            is_size = produced.error == MESSAGE_TOO_LARGE
            self._limits.ask(buffer.target.topic, len(batch.data) if is_size else None)
            may_fit = batch.records > 1 if is_size else self._clamps
            is_guess = is_size and not self._limits.of(buffer.target.topic).is_size_known
            if may_fit and not buffer.is_ledger and (is_guess or not batch.refusals):
                buffer.await_limits(batch)
                return
        if buffer.is_lane:
            self._routing.note_refusal(buffer, batch)
        alone = _alone(batch) if produced.error == MESSAGE_TOO_LARGE and not buffer.is_ledger else ""
        self._effects.append(Fail(buffer, alone + describe(produced)))


def _alone(batch: Batch) -> str:
    """Which record it is that is too large; nothing when the batch has more than one."""
    if batch.records != 1 or not batch.spans:
        return ""
    offset = batch.spans[0].first_offset
    return f"the record at source offset {offset} is {len(batch.data)} bytes in a batch of its own: "
