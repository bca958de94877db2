"""What one task's producing consists of. Made by `pipeline.produce.assembly`, put together by
`pipeline.produce.produce_task`.
"""

from dataclasses import dataclass

from sparkmirror.pipeline.produce.answer_taker import AnswerTaker
from sparkmirror.pipeline.produce.brokers import Brokers
from sparkmirror.pipeline.produce.direct_path import DirectPath
from sparkmirror.pipeline.produce.dispatch import Dispatch
from sparkmirror.pipeline.produce.drain import Drain
from sparkmirror.pipeline.produce.effects import Effects
from sparkmirror.pipeline.produce.gate import SequenceGate
from sparkmirror.pipeline.produce.guarantee import Guarantee
from sparkmirror.pipeline.produce.isolation import Isolation
from sparkmirror.pipeline.produce.ledger_flush import LedgerFlush
from sparkmirror.pipeline.produce.limits import TargetLimits
from sparkmirror.pipeline.produce.log_check import TargetLogCheck
from sparkmirror.pipeline.produce.open_extents import OpenExtents
from sparkmirror.pipeline.produce.progress import Progress
from sparkmirror.pipeline.produce.routing import Routing
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics


@dataclass(frozen=True, slots=True)
class Parts:
    """What a task consists of. `effects` is the queue of all of them."""

    effects: Effects
    brokers: Brokers
    task_metrics: TaskMetrics
    progress: Progress
    limits: TargetLimits
    gate: SequenceGate
    extents: OpenExtents
    direct: DirectPath
    ledger_flush: LedgerFlush
    guarantee: Guarantee
    dispatch: Dispatch
    isolation: Isolation
    log_check: TargetLogCheck
    routing: Routing
    answer_taker: AnswerTaker
    drain: Drain
    merges: bool
    offsets_topic: str
