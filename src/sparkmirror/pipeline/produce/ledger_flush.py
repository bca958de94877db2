"""Composes what is due for the ledger: positions, gaps, offset maps, and the status of the task and its partitions.
Called by the delivery guarantee (`pipeline.produce.guarantee`), which knows when.
"""

from collections.abc import Mapping

from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.brokers import Brokers
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.drain import Drain
from sparkmirror.pipeline.produce.effects import Effects, Offer
from sparkmirror.pipeline.produce.progress import Progress
from sparkmirror.pipeline.produce.reports import Report, Reports
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingPeer


class LedgerFlush:
    """`plan` is the newest one of the task, `buffers` are those of source partitions."""

    def __init__(
        self,
        plan: PlanRow,
        buffers: Mapping[TopicPartition, PartitionBuffer],
        progress: Progress,
        reports: Reports,
        task_metrics: TaskMetrics,
        peer: RingPeer | None,
        brokers: Brokers,
        drain: Drain,
        effects: Effects,
        *,
        in_transactions: bool,
    ) -> None:
        self._buffers = buffers
        self._progress = progress
        self._reports = reports
        self._task_metrics = task_metrics
        self._peer = peer
        self._brokers = brokers
        self._drain = drain
        self._effects = effects
        self._in_transactions = in_transactions
        self.take_plan(plan)

    def take_plan(self, plan: PlanRow) -> None:
        self.plan = plan
        self._progress.begin(plan.generation)

    def may_rest(self, now: float) -> bool:
        """Whether what is due may wait, at least once: nothing has come lately but heartbeats. A crash repeats those of
        up to five seconds."""
        if not self._progress.may_rest(self._buffers, now):
            return False
        return self._reports.may_rest(self.plan, self._brokers.problem, self._progress.is_heartbeats)

    def store(self, with_status: bool) -> bool:
        """Queue changes for the ledger; False if there are none."""
        status = self._due_status() if with_status else None
        picked = self._progress.pick(self._buffers)
        fresh = self._progress.compose(picked, self.plan.generation, status)
        self._effects.extend(map(Offer, fresh))
        return bool(fresh)

    def _due_status(self) -> list[Report]:
        self._brokers.refresh()
        if self._peer is not None:
            self._task_metrics.source_throttled_ms = self._peer.throttled_ms
            self._task_metrics.limited_ms = self._peer.limited_ms
        return self._reports.due(
            self.plan, self._brokers.problem, in_transactions=self._in_transactions, final=self._drain.has_begun
        )
