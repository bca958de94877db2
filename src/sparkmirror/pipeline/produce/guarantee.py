"""The delivery guarantee of a sender: at least once here, exactly once in `pipeline.produce.transaction`, and once, at
the source's offsets, in `pipeline.produce.aligned_offsets`. Owned by `pipeline.produce.produce_task`.

A guarantee decides when positions are stored, whether a partition's next batch may go out, and what a task does whose
producer was refused.
"""

import time
from collections.abc import Collection
from typing import Protocol

from sparkmirror.errors import FencedError, SparkMirrorError
from sparkmirror.kafka.background import Outcome
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.ledger_flush import LedgerFlush
from sparkmirror.pipeline.produce.progress import Progress
from sparkmirror.pipeline.produce.queued_records import Batch
from sparkmirror.pipeline.relay.plan_row import PlanRow


class Guarantee(Protocol):
    """`identity` stamps the batches, in transactions where `transactional`; `wake_at` is when `poll` is due."""

    transactional: bool

    @property
    def identity(self) -> ProducerIdentity: ...

    @property
    def wake_at(self) -> float: ...

    @property
    def rest_seconds(self) -> float:
        """How long `poll` may wait while nothing is under way and nothing happens."""

    def admits(self, buffer: PartitionBuffer) -> bool:
        """Whether a batch that was never sent may go out now; if not, the guarantee offers the buffer again later."""

    def sent(self, buffer: PartitionBuffer, batch: Batch) -> None:
        """A batch that was never sent before goes out."""

    @property
    def takes_data(self) -> bool:
        """Whether records that were never sent may go out now."""

    def takes_in(self, lanes: Collection[PartitionBuffer]) -> bool:
        """Whether the records of one range may go to all these target partitions now; ask again later if not."""

    def took_in(self, source: PartitionBuffer, lanes: Collection[PartitionBuffer], size_bytes: int) -> None:
        """They are in the queues of these partitions."""

    @property
    def hurries(self) -> bool:
        """Whether sent batches must be acknowledged soon, or their transaction is aborted."""

    def throttled(self, until: float) -> None:
        """A broker throttles: it reads nothing from an answered connection before that monotonic time."""

    def poll(self, now: float) -> None:
        """Do what is due: called at every turn of the sender's loop. Raises FencedError and SparkMirrorError."""

    def finish(self) -> bool:
        """The epoch is over and nothing more is sent: store the last positions; True when they are stored."""

    def take(self, outcome: Outcome) -> None:
        """Take the result of background work."""

    def serve(self) -> None:
        """A socket of the guarantee is readable."""

    def fenced(self, where: PartitionBuffer) -> None:
        """The target knows a newer producer of this task. Raises FencedError where that is final."""

    def sequence_lost(self, where: PartitionBuffer, reason: str) -> None:
        """The target does not know the producer's sequence any more."""

    def refused_in_doubt(self, where: PartitionBuffer) -> None:
        """A batch is refused for good that may have been written when it was sent before."""

    def positions_refused(self, where: PartitionBuffer) -> None:
        """The target refuses records of a ledger partition, on which positions depend."""

    def abort(self, reason: str, *, awaits_answers: bool = False) -> None:
        """Give the open transaction up, at best when what it has sent is answered (`awaits_answers`)."""

    def holds(self, buffer: PartitionBuffer) -> bool:
        """Whether no record may go to this buffer's target partition for now."""

    def close(self) -> None: ...


class AtLeastOnce:
    """Stores acknowledged positions every flush interval; after a crash the records since the last store come again."""

    transactional = False
    takes_data = True
    hurries = False
    wake_at = float("inf")

    def __init__(self, plan: PlanRow, progress: Progress, ledger_flush: LedgerFlush) -> None:
        self.identity = ProducerIdentity(plan.producer_id, plan.producer_epoch)
        self._task = plan.task
        self._progress = progress
        self._ledger_flush = ledger_flush

    @property
    def rest_seconds(self) -> float:
        return min(max(self._progress.flush_seconds, 0.25), 1.0)

    def admits(self, buffer: PartitionBuffer) -> bool:  # noqa: ARG002
        return True

    def sent(self, buffer: PartitionBuffer, batch: Batch) -> None:
        """At least once keeps no account of sent batches."""

    def takes_in(self, lanes: Collection[PartitionBuffer]) -> bool:  # noqa: ARG002
        return True

    def took_in(self, source: PartitionBuffer, lanes: Collection[PartitionBuffer], size_bytes: int) -> None:
        """At least once keeps no account of ranges."""

    def throttled(self, until: float) -> None:
        """Only the throttled connection waits."""

    def poll(self, now: float) -> None:
        if self._progress.due(now) and not self._ledger_flush.may_rest(now):
            self._ledger_flush.store(True)

    def finish(self) -> bool:
        """Store what can be stored, also while earlier records are under way."""
        is_settled = self._progress.settled
        if is_settled or self._progress.due(time.monotonic()):
            return not self._ledger_flush.store(True) and is_settled
        return False

    def take(self, outcome: Outcome) -> None:
        """There is no background work."""

    def serve(self) -> None:
        """There is no socket."""

    def fenced(self, where: PartitionBuffer) -> None:
        raise FencedError(f"task {self._task} was fenced at {where.target}: a newer instance has taken over")

    def sequence_lost(self, where: PartitionBuffer, reason: str) -> None:
        raise SparkMirrorError(f"{where.target}: {reason}; the task starts again with a new epoch")

    def refused_in_doubt(self, where: PartitionBuffer) -> None:
        """The batch is sent again as it was: if the target has it, the answer is DUPLICATE_SEQUENCE."""

    def positions_refused(self, where: PartitionBuffer) -> None:
        """Data goes on. Until the ledger accepts positions again, a crash repeats more records."""

    def abort(self, reason: str, *, awaits_answers: bool = False) -> None:
        """There is no transaction."""

    def holds(self, buffer: PartitionBuffer) -> bool:  # noqa: ARG002
        return False

    def close(self) -> None:
        """Nothing is open."""
