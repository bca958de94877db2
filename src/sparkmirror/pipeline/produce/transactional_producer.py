"""Who a task's transactions are of: the transactional id and the producer's identity under it, what is asked of its
coordinator, and the spare id for a transaction that cannot end. Owned by `pipeline.produce.transaction`.
"""

import logging
from collections.abc import Collection
from enum import Enum
from typing import Final

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.kafka.background import Outcome
from sparkmirror.kafka.errors import NO_ERROR
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.wire.coordinator import (
    ABORTING_STATES,
    AddPartitions,
    Answer,
    Describe,
    EndTransaction,
    Initialize,
)
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.unfinished import Seat, Unfinished

log = logging.getLogger(__name__)

_ABORTED_STATES: Final = ABORTING_STATES | {"CompleteAbort"}


class Fencing(Enum):
    """Who has fenced the producer, by the coordinator's description."""

    NEWER = "another instance"
    ABORTING = "the coordinator, which aborts the transaction"
    ABORTED = "the coordinator, which has aborted the transaction"
    UNKNOWN = "the coordinator does not say"


class TransactionalProducer:
    """`second_protocol`: whether transactions are KIP-890's."""

    def __init__(self, task: int, seat: Seat, spare: Seat | None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._task = task
        self._take_seat(seat)
        self._spare = spare
        self._unfinished = Unfinished(clock)
        self.second_protocol = False

    def _take_seat(self, seat: Seat) -> None:
        self.transactional_id, self.identity, self._coordinator = (
            seat.transactional_id,
            seat.identity,
            seat.coordinator,
        )

    # The coordinator.

    @property
    def busy(self) -> bool:
        """Whether a question has no answer yet."""
        return self._coordinator.busy

    def learn_protocol(self) -> bool:
        """Go on with the protocol that the coordinator speaks; whether that is known."""
        spoken = self._coordinator.second_protocol
        self.second_protocol = bool(spoken)
        return spoken is not None

    @property
    def wake_at(self) -> float:
        return min(self._coordinator.wake_at, self._unfinished.wake_at)

    def poll(self, now: float) -> None:
        self._coordinator.poll(now)
        self._unfinished.poll(now)

    def take(self, outcome: Outcome) -> None:
        for coordinator in (self._coordinator, self._unfinished.coordinator):
            if coordinator is not None and outcome.key == coordinator.key:
                coordinator.take(outcome)

    def serve(self) -> Answer | None:
        self._unfinished.serve()
        return self._coordinator.serve()

    def end(self, *, commits: bool = True) -> None:
        self._coordinator.ask(
            EndTransaction(self.transactional_id, self.identity, self.second_protocol, commits=commits)
        )

    def add(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._coordinator.ask(AddPartitions(self.transactional_id, self.identity, partitions))

    def describe(self) -> None:
        self._coordinator.ask(Describe(self.transactional_id))

    def initialize(self, timeout_ms: int) -> None:
        self._coordinator.ask(Initialize(self.transactional_id, timeout_ms, self.identity))

    def adopt(self, answer: Answer) -> None:
        """Go on with the identity that the coordinator gives, if it gives one."""
        self.identity = answer.identity or self.identity

    def close(self) -> None:
        self._coordinator.close()
        self._unfinished.close()
        if self._spare is not None:
            self._spare.coordinator.close()

    # What a description says.

    def is_ours(self, answer: Answer) -> bool:
        """Whether the described transaction is of our producer: an abort raises its epoch by one, or two."""
        ours, theirs = self.identity, answer.identity
        if answer.error != NO_ERROR or theirs is None:
            return False
        return theirs.producer_id == ours.producer_id and 0 <= theirs.epoch - ours.epoch <= 2

    def is_aborting(self, answer: Answer) -> bool:
        return self.is_ours(answer) and answer.state in ABORTING_STATES

    def is_committing(self, answer: Answer) -> bool:
        """Whether our transaction is decided as committed; the second protocol raises the epoch by one."""
        committed = ProducerIdentity(self.identity.producer_id, self.identity.epoch + self.second_protocol)
        return answer.error == NO_ERROR and answer.identity == committed and answer.state == "PrepareCommit"

    def judge_fencing(self, answer: Answer) -> Fencing:
        """After a newer epoch was seen: if the transaction timed out, it is one or two after ours, and the transaction
        is aborted."""
        ours, theirs = self.identity, answer.identity
        if answer.error != NO_ERROR:
            return Fencing.UNKNOWN
        follows = theirs is not None and theirs.producer_id == ours.producer_id and theirs.epoch - ours.epoch in (1, 2)
        if not (follows and answer.state in _ABORTED_STATES):
            return Fencing.NEWER
        return Fencing.ABORTING if answer.state in ABORTING_STATES else Fencing.ABORTED

    # The spare id.

    @property
    def has_spare(self) -> bool:
        return self._spare is not None

    def change_to_spare(self) -> None:
        """Leave the transactional id, whose transaction cannot end, for the spare one."""
        assert self._spare is not None
        log.warning(
            "task %d: the transaction of %s cannot end while a partition of the target is away; it goes on as %s.",
            self._task, self.transactional_id, self._spare.transactional_id, extra={"event": "away"},
        )  # fmt: skip
        self._unfinished.leave(Seat(self.transactional_id, self.identity, self._coordinator))
        self._take_seat(self._spare)
        self._spare = None

    def note_away(self, away: Collection[TopicPartition]) -> None:
        """No record goes to these partitions until the unfinished transaction has ended."""
        self._unfinished.note_away(frozenset(away))

    def holds(self, buffer: PartitionBuffer) -> bool:
        return self._unfinished.holds(buffer)

    def end_away(self) -> None:
        """A new epoch was given: unless a transaction is left unfinished, no partition is away any more."""
        if self._unfinished.coordinator is None:
            self._unfinished.end()
