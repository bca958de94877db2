"""Puts a task's sender together: which part knows which other. Called by `pipeline.produce.sender`."""

import selectors
from collections import deque
from dataclasses import dataclass

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.kafka.background import Background
from sparkmirror.kafka.fencing import ProducerIdentity, transactional_id
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.open_transactions import Looks
from sparkmirror.pipeline.produce.aligned_answers import AlignedAnswers
from sparkmirror.pipeline.produce.aligned_gate import AlignedGate
from sparkmirror.pipeline.produce.aligned_offsets import AlignedBatches, AlignedOffsets, AlignmentOptions
from sparkmirror.pipeline.produce.answer_taker import AnswerTaker
from sparkmirror.pipeline.produce.brokers import Brokers
from sparkmirror.pipeline.produce.coordinator import Coordinator
from sparkmirror.pipeline.produce.direct_path import DirectPath
from sparkmirror.pipeline.produce.dispatch import Dispatch
from sparkmirror.pipeline.produce.drain import Drain
from sparkmirror.pipeline.produce.effects import Effects
from sparkmirror.pipeline.produce.gate import CONTINUE_ALWAYS, SequenceGate
from sparkmirror.pipeline.produce.guarantee import AtLeastOnce, Guarantee
from sparkmirror.pipeline.produce.isolation import Isolation
from sparkmirror.pipeline.produce.ledger_flush import LedgerFlush
from sparkmirror.pipeline.produce.limits import TargetLimits
from sparkmirror.pipeline.produce.log_check import TargetLogCheck
from sparkmirror.pipeline.produce.next_batch import NextBatches
from sparkmirror.pipeline.produce.open_extents import OpenExtents
from sparkmirror.pipeline.produce.packing import PASS_OR_MERGE, Packing
from sparkmirror.pipeline.produce.progress import Progress, ProgressOptions
from sparkmirror.pipeline.produce.range_admission import RangeAdmission
from sparkmirror.pipeline.produce.reports import Reports
from sparkmirror.pipeline.produce.routing import Routing
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.produce.task_parts import Parts
from sparkmirror.pipeline.produce.transaction import ExactlyOnce
from sparkmirror.pipeline.produce.transaction_phase import TransactionOptions
from sparkmirror.pipeline.produce.unfinished import Seat
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingPeer
from sparkmirror.policy.loss import LossPolicy


@dataclass(frozen=True, slots=True)
class SenderOptions:
    """Target cluster, ledger, and sizes. `request_seconds` bounds the broker's wait for its replicas.

    `transactions` is set for exactly-once, `alignment` for a flow that keeps offsets.
    """

    target: ClientSettings
    progress: ProgressOptions
    connections_per_broker: int = 2
    send_bytes: int = 0
    request_seconds: float = 30.0
    transactions: TransactionOptions | None = None
    packing: Packing = PASS_OR_MERGE
    on_data_loss: LossPolicy = CONTINUE_ALWAYS
    alignment: AlignmentOptions | None = None

    @property
    def answer_seconds_max(self) -> float:
        """How long an answer may take before its connection counts as broken."""
        return self.request_seconds + 10


def assemble(
    options: SenderOptions,
    plan: PlanRow,
    peer: RingPeer | None,
    background: Background,
    selector: selectors.BaseSelector,
    clock: Clock = SYSTEM_CLOCK,
) -> Parts:
    """The parts of one task, which have not done anything yet."""
    effects: Effects = deque()
    drain, in_transactions = Drain(clock), options.transactions is not None
    task_metrics = TaskMetrics(plan, clock)
    brokers = Brokers(
        options.target, background, options.connections_per_broker, options.send_bytes, options.answer_seconds_max,
        clock,
    )  # fmt: skip
    progress = Progress(
        options.progress, plan.task, plan.offsets_partitions, plan.run,
        in_transactions=in_transactions, lost=task_metrics.lost, marks_from=plan.marks_from, clock=clock,
    )  # fmt: skip
    limits, aligned = TargetLimits(options.target, background), options.alignment
    gate = (SequenceGate if aligned is None else AlignedGate)(
        peer, progress, task_metrics, limits, options.packing, effects, options.on_data_loss, clock
    )  # fmt: skip
    reports = Reports(task_metrics, gate.buffers, options.progress.connector.source_alias, clock)
    ledger_flush = LedgerFlush(
        plan, gate.buffers, progress, reports, task_metrics, peer, brokers, drain, effects,
        in_transactions=in_transactions,
    )  # fmt: skip
    if aligned is None and options.transactions is not None:
        brokers.dialect = None
        own, *spare = (_seat(options, background, selector, *seat) for seat in _seats(plan))
        guarantee: Guarantee = ExactlyOnce(
            options.transactions, plan.task, own, progress, ledger_flush, effects,
            Looks(brokers.way_to_look, background), brokers.doubted, spare[0] if spare else None, clock,
        )  # fmt: skip
    elif aligned is not None:
        guarantee = AlignedOffsets(plan, progress, ledger_flush, aligned, background, effects, task_metrics, clock)
    else:
        guarantee = AtLeastOnce(plan, progress, ledger_flush)
    next_batches = (NextBatches if aligned is None else AlignedBatches)(
        gate.buffers, guarantee, brokers, progress, limits, drain, effects, clock
    )
    dispatch = Dispatch(selector, brokers, next_batches, task_metrics, effects, int(options.request_seconds * 1000))
    extents = OpenExtents(peer)
    direct = DirectPath(peer, gate, extents, guarantee, brokers, dispatch, drain, task_metrics, clock)
    isolation = Isolation(peer, gate, task_metrics, effects, keeps_doubtful=not in_transactions)
    log_check = TargetLogCheck(progress, options.on_data_loss, brokers.topic_id, brokers.knows_id_since)
    admission = RangeAdmission(
        guarantee, progress, drain, lambda lane: dispatch.connection_of(lane) is not None, clock
    )  # fmt: skip
    routing = Routing(gate, task_metrics, log_check, admission, effects, clock)
    answer_taker = (AnswerTaker if aligned is None else AlignedAnswers)(
        routing, guarantee, log_check, progress, isolation, brokers, limits, task_metrics, effects,
        clamps=options.packing.clamp_timestamps, clock=clock,
    )  # fmt: skip
    return Parts(
        effects, brokers, task_metrics, progress, limits, gate, extents, direct, ledger_flush, guarantee, dispatch,
        isolation, log_check, routing, answer_taker, drain, options.packing.merging, options.progress.topics.offsets,
    )  # fmt: skip


def _seats(plan: PlanRow) -> list[tuple[int, ProducerIdentity]]:
    """The task's transactional ids, by their numbers: its own, and the spare one if it has one."""
    own = (plan.transactional_task, ProducerIdentity(plan.producer_id, plan.producer_epoch))
    return [own, (plan.spare[0], ProducerIdentity(*plan.spare[1:]))] if plan.spare else [own]


def _seat(
    options: SenderOptions,
    background: Background,
    selector: selectors.BaseSelector,
    task: int,
    identity: ProducerIdentity,
) -> Seat:
    name = transactional_id(options.progress.connector, task)
    coordinator = Coordinator(options.target, name, background, selector, options.answer_seconds_max)
    return Seat(name, identity, coordinator)
