"""A partition buffer whose records get the offsets on the target that they have on the source.

Its sequence numbers continue those that the log has of the flow's producer, by any process: a log takes the batch that
continues it, and refuses any other (`pipeline.produce.aligned_offsets`). So each batch has consecutive offsets and
begins where the one before ended; offsets without a record are a hole, which is filled before the next batch goes out.
The position never goes beyond the target's log. Made by `pipeline.produce.aligned_gate`.
"""

from typing import ClassVar
from uuid import UUID

from sparkmirror.batch.header import BatchHeader, latest_ms
from sparkmirror.control.assignment import Append
from sparkmirror.errors import ProtocolError
from sparkmirror.ledger.lineage import Extent
from sparkmirror.model import NO_TOPIC_ID, is_another_topic
from sparkmirror.pipeline.produce.direct_buffer import DirectBuffer
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.policy.fillers import Hole
from sparkmirror.policy.producer_memory import young_ms


class AlignedBuffer(DirectBuffer):
    """`hole` is what `next_batch` met, and is to be filled before it gives a batch again. `append` is another one each
    time that the task takes the partition on."""

    __slots__ = ("_young_ms", "append", "hole")

    keeps_offsets: ClassVar[bool] = True

    append: Append
    _young_ms: int | None
    hole: Hole | None

    @property
    def sequence(self) -> int | None:
        return self._in_flight.oldest_sequence

    def append_from(self, append: Append) -> None:
        """Go on as the flow's producer. Only while idle."""
        self.hole = None
        self.append = append
        self._young_ms = young_ms(append.memory_ms)
        self._in_flight.identify(append.producer_id, 0, append.sequence)
        self._in_flight.doubt()

    def give_up(self, batch: Batch) -> None:
        """No answer to the batch is due, nor is it sent again as it was: what the log has of it is found in the log."""
        self.refuse(batch, in_doubt=False)
        batch.in_doubt = False

    def is_next(self, run: Announcement, leader_epoch: int, turns: int, identity: tuple[int, int]) -> bool:  # noqa: ARG002
        """As `DirectBuffer.is_next`, of the flow's producer; the log ends where the run begins."""
        if run.first_offset != self.reach.offset:
            return False
        return super().is_next(run, leader_epoch, turns, self._in_flight.identity)

    def goes_on_in(self, topic_id: UUID | None) -> bool:
        """Whether it is the topic that it was begun in, by the last look-up. Brokers from 4.0 on take a batch by its
        topic's id, which is this one's then, and refuse it when they have another topic of that name; others take it
        until the topic is looked up again."""
        own = self.append.topic_id
        return topic_id is None or topic_id is own or not is_another_topic(own, topic_id)

    def _lone_header(self, run: Announcement, data: memoryview) -> BatchHeader | None:
        header = super()._lone_header(run, data)
        return header if header is not None and self._goes_as_it_is(run, header) else None

    def _join(self, run: Announcement, data: memoryview) -> tuple[memoryview, BatchHeader] | None:
        joined = super()._join(run, data)
        return joined if joined is not None and self._goes_as_it_is(run, joined[1]) else None

    def _goes_as_it_is(self, run: Announcement, header: BatchHeader) -> bool:
        """Whether a batch has all offsets of its run, and is young."""
        is_whole = header.base_offset == run.first_offset and header.next_offset == run.next_offset
        return is_whole and not self._is_old(header.max_timestamp)

    def extend(self, extent: Extent | None) -> None:
        """A position is one in the log that it was reached in, also where nothing was appended yet: its start was
        filled, which another topic of that name has not. An answer may be of that log still when another one has been
        looked up."""
        topic_id = self.append.topic_id
        if extent is None:
            extent = Extent(self.append.topic, topic_id, 0)
        elif extent.topic_id is not topic_id and topic_id != NO_TOPIC_ID:
            extent = extent._replace(topic_id=topic_id)
        super().extend(extent)

    def fall_back(self) -> None:
        """As `PartitionBuffer.fall_back`; what was to be filled is met again behind what is read again."""
        self.hole = None
        super().fall_back()

    def next_batch(self, producer_id: int, producer_epoch: int, transactional: bool = False) -> Batch | None:  # noqa: ARG002
        """As `PartitionBuffer.next_batch`, with the flow's producer instead of the task's. None also before a hole."""
        if self.is_resending:
            return self._watch_age(super().next_batch(*self._in_flight.identity))
        self.hole = None
        while self._waiting.runs and self._in_flight.has_room:
            runs, is_far = self._waiting.runs, self.round_trip.is_far
            queued = self._packing.prepare(runs, self.limits, self._traffic, self.unpacking, self.apart_until, is_far)
            if self._must_wait(queued):
                return None
            batch = self._cut_off(queued, transactional=False)
            if batch is not None:
                self._settle_end(batch)
            self._pass_finished()
            if batch is not None:
                return self._watch_age(batch)
        return None

    def succeed(self, batch: Batch, base_offset: int = -1, now: float | None = None) -> list[Batch]:
        """As `PartitionBuffer.succeed`; old records are no sign that the log knows the producer."""
        moved = super().succeed(batch, base_offset, now)
        if batch.is_old:
            self._in_flight.doubt()
        return moved

    def _watch_age(self, batch: Batch | None) -> Batch | None:
        """Nothing goes out behind old records before they are acknowledged."""
        if batch is not None:
            batch.is_old = self._is_old(latest_ms(batch.data))
            if batch.is_old:
                self._in_flight.doubt()
        return batch

    def _is_old(self, moment_ms: int) -> bool:
        return self._young_ms is None or moment_ms < self._clock.time_ns() // 1_000_000 - self._young_ms

    def _must_wait(self, queued: QueuedRecords) -> bool:
        """Whether no batch may go out now: a hole comes first, or old records are under way. Raises ProtocolError."""
        reached = self.reach.offset
        if queued.rewriting is None and queued.header is None:
            self.hole = Hole(reached, queued.next_offset)
            return True
        begins, moment_ms = _ahead(queued, reached)
        if begins < reached:
            raise ProtocolError(f"records from offset {begins} on were to go where the log has reached {reached}")
        if begins > reached:
            self.hole = Hole(reached, begins)
            return True
        return bool(self._in_flight.batches) and self._is_old(moment_ms)

    def _settle_end(self, batch: Batch) -> None:
        """What follows its last record may be a hole."""
        (span,) = batch.spans
        batch.next_offset = span.first_offset + span.records

    def _pass_finished(self) -> None:
        """A run is finished when the log has taken, or is sent, all of its offsets. It may end before the position,
        where a hole was filled while it was read again."""
        runs = self._waiting.runs
        while runs and self.reach.offset >= runs[0].next_offset:
            queued = self._waiting.take_finished()
            if queued is None:
                return
            self._handed_on = queued.turned or self._handed_on.read(queued.leader_epoch, queued.first_offset)
            if sent := self._in_flight.batches:
                sent[-1].lineage = self._handed_on
            else:
                self.move_to(max(queued.next_offset, self.acknowledged), self._handed_on)

    def take_filled(self, hole: Hole, end: int) -> None:
        """The log ends at `end` now, in the hole or at its end.

        The epoch is that of what follows on the source: the one before may end where the hole begins, and who begins
        again within the hole, or behind it, would take that for a log that was cut. A hole may take longer than a log
        remembers the producer.
        """
        if not self.settled or self.acknowledged != hole.first:
            return
        self.hole = None
        self._in_flight.doubt()
        runs = self._waiting.runs
        if runs and runs[0].turned is None:
            self._handed_on = self._handed_on.read(runs[0].epoch_ahead, hole.first)
        self.move_to(end, self._handed_on)
        self.progressed_at = self._clock.monotonic()
        self.failures = 0
        self._pass_finished()

    def evict(self) -> None:
        """A run that is a hole alone is read again: it takes no memory, and what turned the log is not kept."""
        super().evict()
        runs = self._waiting.runs
        if runs and not len(runs[0].data):
            self._waiting.drop()
            self.fall_back()


def _ahead(queued: QueuedRecords, reached: int) -> tuple[int, int]:
    """The offset at which the next batch begins, and its latest time in ms; `reached` where it has none, or cannot be
    made, which `_cut_off` finds again. Raises UnpackingBusy."""
    if queued.rewriting is None:
        assert queued.header is not None, "a run without a batch is a hole"
        return queued.header.base_offset, queued.header.max_timestamp
    piece = queued.rewriting.peek()
    if piece is None:
        return reached, 0
    return piece.spans[0].first_offset, latest_ms(memoryview(piece.data))
