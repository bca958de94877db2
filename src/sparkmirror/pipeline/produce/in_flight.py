"""The batches of one target partition that were sent: their sequences, their answers, and what goes out again. No I/O;
owned by `pipeline.produce.buffer`.

After a retriable error the same bytes go out again with the same sequences and in the same order (KIP-98); nothing else
is sent meanwhile. At most five may be under way, which is what idempotence allows; of a producer that the partition's
log may not know, one.
"""

from typing import Final

from sparkmirror.batch.header import BatchHeader, parse_header, stamp
from sparkmirror.batch.merging import IN_FLIGHT_MAX
from sparkmirror.ledger.committed_end import CommittedEnd
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.acked_position import Place
from sparkmirror.pipeline.produce.partition_state import Event, Sending, follow
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords, free_nothing

_SEQUENCE_MASK: Final = 0x7FFFFFFF
REMEMBERED_SECONDS: Final = 60.0
"""How long a log surely knows a producer: until `producer.id.expiration.ms` after its last batch, a day by default."""


class InFlight:
    """Sent batches, oldest first, among them acknowledged ones behind an unacknowledged one: `batches_max` at most.
    `has_open`: the open transaction has some."""

    __slots__ = ("_again", "_sequence", "batches", "batches_max", "has_open", "identity", "sending", "source")

    def __init__(self, source: TopicPartition) -> None:
        self.source = source
        self.sending = Sending.FRESH
        self.batches: list[Batch] = []
        self._again: list[Batch] = []
        self.identity = (-1, -1)
        self._sequence = 0
        self.doubt()
        self.has_open = False

    def _change(self, event: Event) -> None:
        self.sending = follow(self.sending, event, self.source)

    @property
    def end(self) -> Place | None:
        """Where the batches end; None without any."""
        return _behind(self.batches[-1]) if self.batches else None

    @property
    def oldest_sequence(self) -> int:
        """That of the first record that is not acknowledged, or of the next one."""
        return self.batches[0].sequence if self.batches else self._sequence

    @property
    def reach(self) -> Place | None:
        """Where those end that have gone out; None without any."""
        sent = (batch for batch in reversed(self.batches) if not batch.is_held)
        return _behind(batch) if (batch := next(sent, None)) is not None else None

    @property
    def may_send_again(self) -> bool:
        if self.sending is not Sending.AGAIN:
            return False
        return sum(batch.waiting for batch in self.batches) < self.batches_max

    def takes_fresh(self, identity: tuple[int, int]) -> bool:
        """Whether a batch that was never sent may go out now, of that producer."""
        if self.sending is not Sending.FRESH or self.identity != identity:
            return False
        return len(self.batches) < self.batches_max

    @property
    def has_room(self) -> bool:
        """Whether one more batch that was never sent may be under way."""
        return len(self.batches) < self.batches_max

    @property
    def quiet(self) -> bool:
        """Whether no answer is outstanding."""
        return not any(batch.waiting for batch in self.batches)

    @property
    def is_in_doubt(self) -> bool:
        """Whether the target may have written batches that it did not acknowledge."""
        return any(batch.in_doubt and not batch.acknowledged for batch in self.batches)

    # Sending.

    def identify(self, producer_id: int, producer_epoch: int, sequence: int = 0) -> None:
        """Go on as another producer, whose sequences begin at `sequence`."""
        if producer_id != self.identity[0]:
            self.doubt()
        self.identity, self._sequence = (producer_id, producer_epoch), sequence

    def become_known(self) -> None:
        """The log has a batch of this producer."""
        self.batches_max = IN_FLIGHT_MAX

    def doubt(self) -> None:
        """The log may not know this producer, or not for long. It takes any sequence then
        (ProducerAppendInfo.checkSequence): after a refused first batch the second would stand before it."""
        self.batches_max = 1

    @property
    def is_known(self) -> bool:
        """Whether the log knows this producer."""
        return self.batches_max > 1

    def rested(self, seconds: float) -> None:
        """No batch was acknowledged for so long: the log may have let the producer's state expire."""
        if seconds > REMEMBERED_SECONDS:
            self.doubt()

    def stamp(self, data: memoryview, header: BatchHeader, transactional: bool) -> int:
        """Stamp the next new batch; returns its sequence."""
        stamp(data, 0, header, *self.identity, self._sequence, transactional)
        return self.take_sequence(header.records_count, transactional)

    @property
    def next_sequence(self) -> int:
        """That of the next record that was never sent."""
        return self._sequence

    def take_sequence(self, records: int, transactional: bool) -> int:
        """The sequence of the next new batch, which has so many records, and is stamped with it."""
        sequence = self._sequence
        self._sequence = (sequence + records) & _SEQUENCE_MASK
        self.has_open = transactional
        return sequence

    @property
    def next_again(self) -> Batch:
        """The batch that goes out again next."""
        return self._again[0]

    def send_again(self, now: float) -> Batch:
        """The next batch that goes out again, as it was."""
        again = self._again.pop(0)
        again.waiting = True
        again.sent_at = now
        if not self._again:
            self._change(Event.SENT_AGAIN)
        return again

    def refit(self, fresh: list[Batch], producer: tuple[int, int], transactional: bool) -> None:
        """Replace the batch that goes out again next by batches within the target's limits; they use its sequence
        numbers."""
        refused = self._again[0]
        for batch in fresh:
            batch.is_refused = batch.waiting = False
            batch.sequence &= _SEQUENCE_MASK
            if batch is not refused:
                header = parse_header(batch.data, 0)
                stamp(batch.data, 0, header, *producer, batch.sequence, transactional)
        self._again.pop(0)
        self.batches.remove(refused)
        self._again[:0] = fresh
        self.batches[:0] = fresh

    # Answers.

    def not_taken(self, batch: Batch) -> None:
        """The batch goes out again when all answers of this partition are in."""
        batch.waiting = False
        self._again.clear()
        self._change(Event.NOT_TAKEN)
        self.begin_again_if_quiet()

    def ask_limits(self, batch: Batch) -> None:
        """The oldest batch exceeds a limit of the target's topic."""
        batch.is_refused, batch.waiting = True, False
        batch.refusals += 1
        self._again.clear()
        self._change(Event.LIMITS_ASKED)

    def know_limits(self) -> None:
        self._change(Event.LIMITS_KNOWN)
        self.begin_again_if_quiet()

    def begin_again_if_quiet(self) -> None:
        """When all answers are in, what is not acknowledged goes out again."""
        if self.sending is not Sending.AWAITING_ANSWERS or not self.quiet:
            return
        self._again.extend(batch for batch in self.batches if not batch.acknowledged)
        self._change(Event.ANSWERED if self._again else Event.ALL_TAKEN)

    @property
    def sent_end(self) -> CommittedEnd | None:
        """Behind what the open transaction has; None if it has nothing."""
        return CommittedEnd(*self.identity, self._sequence) if self.has_open else None

    # Giving up, and keeping.

    def drop(self) -> None:
        """Drop all: the next batch uses the oldest one's sequence."""
        if self.batches:
            self._sequence = self.batches[0].sequence
        while self.batches:
            self.batches.pop(0).queued.settle()
        self._again.clear()
        self._change(Event.CLEARED)

    def keep(self) -> None:
        """What is not acknowledged goes out again as it was."""
        self._again[:] = [batch for batch in self.batches if not batch.acknowledged]
        self._change(Event.KEPT)

    def copy(self) -> None:
        """Copy what is not acknowledged: the reader gets its memory back. Ranges at the
        end that may not go out yet are dropped, to be read again; one batch stays, which leads the reader back."""
        while len(self.batches) > 1 and self.batches[-1].is_held:
            self.batches.pop().queued.settle()
        for batch in self.batches:
            if not batch.acknowledged:
                batch.data = memoryview(bytearray(batch.data))
            batch.queued.settle()
            leader_epoch = batch.queued.leader_epoch
            batch.queued = QueuedRecords(batch.data, 0, batch.next_offset, free_nothing)
            batch.queued.leader_epoch, batch.queued.open_batches = leader_epoch, 1


def _behind(batch: Batch) -> Place:
    return Place(batch.next_offset, batch.lineage)
