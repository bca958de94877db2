"""What may go out in a transaction, and what the open one has to wait for. A base of `pipeline.produce.transaction`,
which leads from one phase to the next.
"""

from collections.abc import Collection, Mapping

from sparkmirror.clock import Clock
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.added_partitions import ABSENT, AddedPartitions
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.cadence import Cadence
from sparkmirror.pipeline.produce.effects import Absent, Effects, Offer
from sparkmirror.pipeline.produce.queued_records import Batch
from sparkmirror.pipeline.produce.transaction_contents import TransactionContents
from sparkmirror.pipeline.produce.transaction_phase import Phase, TransactionOptions
from sparkmirror.pipeline.produce.transactional_producer import TransactionalProducer
from sparkmirror.pipeline.produce.unfinished import Leftovers


class TransactionIntake:
    """`phase` is that of the task's transactions."""

    def __init__(
        self, producer: TransactionalProducer, options: TransactionOptions, effects: Effects, clock: Clock
    ) -> None:
        self.phase = Phase.STARTING
        self._producer = producer
        self._effects = effects
        self._clock = clock
        self._held: dict[PartitionBuffer, None] = {}
        self._contents = TransactionContents()
        self._added = AddedPartitions()
        self._leftovers = Leftovers()
        self._cadence = Cadence(options)

    def admits(self, buffer: PartitionBuffer) -> bool:
        if buffer.is_lane:  # what is in its queue belongs to the open transaction
            return self._sends_the_rest or self._hold_back(buffer)
        if self._may_send(buffer) and not self._leftovers.hold_back(buffer):
            if self._producer.second_protocol or buffer.target in self._added:
                return True
            self._added.want(buffer.target)
        return self._hold_back(buffer)

    def _hold_back(self, buffer: PartitionBuffer) -> bool:
        self._held[buffer] = None
        return False

    def _may_send(self, buffer: PartitionBuffer) -> bool:
        return self.takes_data or (buffer.is_ledger and self.phase in (Phase.CLOSING, Phase.LOOKING))

    @property
    def _sends_the_rest(self) -> bool:
        return self.phase in (Phase.OPEN, Phase.CLOSING, Phase.LOOKING)

    @property
    def takes_data(self) -> bool:
        if self.phase is Phase.OPEN:
            return not self._cadence.is_full
        if self.phase is not Phase.READY:
            return False
        resume_at = self._cadence.resume_at
        return not self._leftovers.wanted and (not resume_at or self._clock.monotonic() >= resume_at)

    def sent(self, buffer: PartitionBuffer, batch: Batch) -> None:
        if buffer.is_lane:  # it was counted with its range
            return
        self._contents.add(buffer)
        self._cadence.add(len(batch.data))
        if self.phase is Phase.READY:
            self._open()

    # A range of records that go to several partitions: all of it is in one transaction.

    def takes_in(self, lanes: Collection[PartitionBuffer]) -> bool:
        if not self.takes_data:
            return False
        if [lane for lane in lanes if self._leftovers.hold_back(lane)]:
            return False  # what an ended transaction has left there must not join the open one
        unknown = [] if self._producer.second_protocol else [one for one in lanes if one.target not in self._added]
        for lane in unknown:
            self._added.want(lane.target)
        return not unknown

    def _take_absent(self, refused: Mapping[TopicPartition, int]) -> None:
        """A range waits for an absent partition as for one whose leader is away: its leader is looked up again."""
        self._effects.extend(Absent(where) for where, code in refused.items() if code in ABSENT)

    def took_in(self, source: PartitionBuffer, lanes: Collection[PartitionBuffer], size_bytes: int) -> None:
        self._contents.add_range(source, lanes)
        self._cadence.add(size_bytes)
        if self.phase is Phase.READY:
            self._open()

    def _open(self) -> None:
        self.phase = Phase.OPEN
        self._cadence.open(self._clock.monotonic())

    def _release_held(self) -> None:
        held, self._held = self._held, {}
        self._effects.extend(map(Offer, held))
