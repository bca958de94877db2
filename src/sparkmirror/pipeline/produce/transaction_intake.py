"""What may go out in a transaction, and what the open one has to wait for. A base of `pipeline.produce.transaction`,
which leads from one phase to the next.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Final, Protocol

from sparkmirror.clock import Clock
from sparkmirror.kafka.background import Outcome
from sparkmirror.kafka.wire.open_transactions import Looked
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.added_partitions import ABSENT, AddedPartitions
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.cadence import Cadence
from sparkmirror.pipeline.produce.effects import Absent, Effects, Offer, Refuse
from sparkmirror.pipeline.produce.left_open import LeftOpen
from sparkmirror.pipeline.produce.queued_records import Batch
from sparkmirror.pipeline.produce.transaction_contents import TransactionContents
from sparkmirror.pipeline.produce.transaction_phase import Phase, TransactionOptions
from sparkmirror.pipeline.produce.transactional_producer import TransactionalProducer

log = logging.getLogger(__name__)

_SILENT: Final = "no leader has said whether a transaction of this producer is open in it"
_STAYS: Final = "its leader goes on saying that a transaction of this producer is open in it, which has ended"
_NOT_TOLD: Final = """task %d: the target does not tell whether a transaction lies open in %s, since the principal \
may not READ it, or its leader knows no DescribeProducers: what may lie open is committed, and its records may come \
twice."""
_UNKNOWN: Final = """task %d: a transaction lies open in %s, and nobody knows whether it was committed: it is \
committed now, and its records may come twice."""


class AsksLeaders(Protocol):
    """`kafka.wire.open_transactions.Looks`. What is found comes as the outcome of `key`."""

    @property
    def key(self) -> str: ...

    def ask(self, partitions: Collection[TopicPartition], producer_id: int) -> None: ...


class TransactionIntake:
    """`phase` is that of the task's transactions."""

    def __init__(
        self,
        task: int,
        producer: TransactionalProducer,
        options: TransactionOptions,
        effects: Effects,
        looks: AsksLeaders,
        doubted: set[TopicPartition],
        clock: Clock,
    ) -> None:
        """`doubted` gets the target partitions whose leader was in doubt, and is emptied here."""
        self.phase = Phase.STARTING
        self._producer = producer
        self._effects = effects
        self._clock = clock
        self._held: dict[PartitionBuffer, None] = {}
        self._contents = TransactionContents()
        self._added = AddedPartitions()
        self._task = task
        self._options = options
        self._looks = looks
        self._doubted = doubted
        self._left_open = LeftOpen()
        self._has_told = False
        self._problem = ""
        self._cadence = Cadence(options)

    def admits(self, buffer: PartitionBuffer) -> bool:
        if buffer.is_lane:  # what is in its queue belongs to the open transaction
            return self._sends_the_rest or self._hold_back(buffer)
        if self._may_send(buffer) and not self._must_wait(buffer):
            if self._producer.second_protocol or buffer.target in self._added:
                return True
            self._added.want(buffer.target)
        return self._hold_back(buffer)

    def _must_wait(self, buffer: PartitionBuffer) -> bool:
        """Whether something may lie open in the partition. What the open transaction has written there itself is its
        own."""
        if self._doubted:
            self._left_open.doubt(self._doubted)
            self._doubted.clear()
        if buffer.is_ledger or self._left_open.is_clean(buffer.target) or buffer in self._contents:
            return False
        self._left_open.hold_back(buffer)
        return True

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
        return not self._left_open.wanted and (not resume_at or self._clock.monotonic() >= resume_at)

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
        if [lane for lane in lanes if self._must_wait(lane)]:
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

    # What lies open in the target's partitions.

    def _look_for_open(self, now: float) -> None:
        """Ask the leaders of partitions for which records wait; those that no leader answers for are FAILED."""
        if now >= self._left_open.look_at:
            for where in self._left_open.give_up(now, self._options.silence_seconds_max):
                why = _STAYS if self._left_open.is_stubborn(where) else _SILENT
                self._effects.append(Refuse(where, f"{why}: {self._problem}" if self._problem else why))
        if now >= self._left_open.look_at:
            self._looks.ask(self._left_open.begin_look(now), self._producer.identity.producer_id)

    def _take_found(self, outcome: Outcome) -> None:
        identity, now = self._producer.identity, self._clock.monotonic()
        looked: Looked | None = outcome.result
        self._problem = looked.problem if looked is not None else str(outcome.error)
        if looked is None or looked.producer_id != identity.producer_id:
            self._left_open.fail_look(now)
            return
        for where in self._left_open.take(looked, identity.epoch, now):
            self._say_unknown(where, is_told=where not in looked.refused)
        self._release_held()

    def _say_unknown(self, where: TopicPartition, *, is_told: bool) -> None:
        if is_told:
            log.warning(_UNKNOWN, self._task, where, extra={"event": "left-open"})
        elif not self._has_told:
            log.warning(_NOT_TOLD, self._task, where, extra={"event": "left-open"})
            self._has_told = True

    def _open(self) -> None:
        self.phase = Phase.OPEN
        self._cadence.open(self._clock.monotonic())

    def _release_held(self) -> None:
        held, self._held = self._held, {}
        self._effects.extend(map(Offer, held))
