"""What waits to be produced to one target partition: order, sequences, retries. No I/O; owned by
`pipeline.produce.sender`.

A partition buffer takes runs, hands out one batch at a time with its producer sequence stamped, and moves its source
position only over the contiguous acknowledged prefix (invariants 1 to 3). After a retriable error the same bytes go out
again with the same sequences and in the same order (KIP-98); nothing else is sent meanwhile. An offset is a source
offset, always that of the next record.
"""

from collections import deque
from typing import Any, Final

from sparkmirror.batch.header import HEADER_BYTES, BatchHeader, parse_header, stamp
from sparkmirror.batch.merging import IN_FLIGHT_MAX, Traffic
from sparkmirror.batch.piece import Span
from sparkmirror.batch.unpacking import USUAL_SHARE, Unpacking
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import ProtocolError
from sparkmirror.ledger.lineage import Extent, Lineage
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.acked_position import AckedPosition, FoundGap, Place, State
from sparkmirror.pipeline.produce.limits import TopicLimits
from sparkmirror.pipeline.produce.packing import AS_THEY_ARE, Linger, Packing
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords, free_nothing

_SEQUENCE_MASK: Final = 0x7FFFFFFF
_ROUND_TRIP_GROWTH: Final = 1.02
"""By how much the shortest round trip grows with each batch, so that old measurements lose weight."""


class PartitionBuffer(AckedPosition):
    """One target partition. Runs are accepted from the reader up to `position` and acknowledged by the target up to
    `acknowledged`; `turns` and `lineage` identify the log of each of the two.

    A task may have thousands, most of them idle: hence the slots, and lists where deques would take 760 bytes each.
    """

    __slots__ = (
        "_clock", "_draining", "_handed_on", "_identity", "_in_flight", "_packing", "_queue", "_recovering", "_resend",
        "_round_trip_seconds", "_sequence", "_target", "awaits_limits", "committed", "extent", "failures", "gaps",
        "is_far", "is_held", "is_ledger", "limits", "linger", "lost_reason", "position", "progressed_at", "reason",
        "rests", "retry_at", "route", "slot", "state", "turns", "unpacking",
    )  # fmt: skip

    def __init__(
        self,
        source: TopicPartition,
        target: TopicPartition | None,
        position: int,
        slot: int,
        *,
        is_ledger: bool = False,
        packing: Packing = AS_THEY_ARE,
        moved: dict[TopicPartition, None] | None = None,
        unpacking: Unpacking | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(source, moved)
        self._clock = clock
        self._target = target
        self.slot = slot
        self.position = self.acknowledged = position
        self.turns = 0
        self._handed_on = self.lineage
        self.committed = self.place
        self.is_held = False
        self.lost_reason = ""
        self.gaps: tuple[FoundGap, ...] = ()
        self.extent: Extent | None = None
        self.state = State.FLOWING
        self.reason = ""
        self.failures = 0
        self.is_ledger = is_ledger
        self.route: tuple[int, Any] | None = None
        self.retry_at = 0.0
        self.progressed_at = 0.0
        self.limits = TopicLimits()
        self.awaits_limits = False
        self.rests = False
        self._draining = False
        self._packing = packing
        self.unpacking = unpacking or Unpacking()
        self.linger = Linger(packing.linger_seconds, packing.batch_bytes, clock)
        self._round_trip_seconds = 0.0
        self.is_far = True
        self._queue: deque[QueuedRecords] = deque()
        self._in_flight: list[Batch] = []
        self._resend: list[Batch] = []
        self._recovering = False
        self._identity = (-1, -1)
        self._sequence = 0

    @property
    def target(self) -> TopicPartition:
        """Known from the first run on: the row carries the topic's name, which the flow's plan decides."""
        assert self._target is not None
        return self._target

    def aim(self, topic: str, limits: TopicLimits) -> None:
        """Set the target topic and its limits; the partition number is the source's."""
        if self._target is None:
            self._target, self.limits = TopicPartition(topic, self.source.partition), limits

    def is_aimed_at_topic(self, topic: str) -> bool:
        return self._target is not None and self._target.topic == topic

    def is_aimed_at(self, target: TopicPartition) -> bool:
        return self._target == target

    # Taking runs in.

    def accept(self, queued: QueuedRecords) -> None:
        """Queue a run that begins at `position`. Its first batch may begin earlier: then it is cut.

        A run without bytes (a gap, or a topic that is not mirrored) only moves the position.
        """
        if self.idle:
            self.progressed_at = self._clock.monotonic()
        self._queue.append(queued)
        self.position = queued.next_offset
        if queued.turned is not None:
            self.turns = queued.turned.turns
        self.linger.add(len(queued.data))
        self._tidy_queue()

    def expect(self, queued: QueuedRecords, records: int) -> Batch:
        """Add an entry for a range whose records go to other target partitions. `succeed` is called with it when they
        have the records.

        The entry awaits no answer here, so a failed partition can be rewound at once.
        """
        if self.idle:
            self.progressed_at = self._clock.monotonic()
        queued.open_batches, queued.handed_out = 1, True
        self._handed_on = self._handed_on.read(queued.leader_epoch, queued.first_offset)
        entry = Batch(queued.data, 0, (), records, queued.next_offset, self._handed_on, queued, waiting=False)
        self._in_flight.append(entry)
        self.position = queued.next_offset
        return entry

    def restart_at(self, place: Place) -> None:
        """Begin at another place, when the task takes the partition on again. Its producer sequence continues. Only
        while idle."""
        self.acknowledged, self.lineage = place
        self.gaps = ()
        self.fall_back()
        self.commit()
        self.state = State.FLOWING
        self._draining = False
        self.reason = ""
        self.failures = 0
        self.is_held = False
        self.lost_reason = ""
        self.retry_at = 0.0

    def take_up(self, first_offset: int) -> bool:
        """Whether a row from `first_offset` on ends the rewind; the buffer is then FLOWING again.

        After an eviction no row does before the kept batches are acknowledged: the reader is paused until then, and
        rows that still arrive were read before the pause. To accept them would leave the reader paused for good.
        """
        if first_offset != self.position or (self._draining and not self.idle):
            return False
        self.state = State.FLOWING
        self._draining = False
        return True

    # Handing batches out.

    @property
    def sendable(self) -> bool:
        if self.state is State.FAILED or self.awaits_limits or self.rests:
            return False
        if self._recovering:
            return bool(self._resend) and sum(batch.waiting for batch in self._in_flight) < IN_FLIGHT_MAX
        return bool(self._queue) and len(self._in_flight) < IN_FLIGHT_MAX and not self.linger.holds_back

    @property
    def idle(self) -> bool:
        return not self._queue and not self._in_flight

    @property
    def is_resending(self) -> bool:
        """Whether the next batch was sent before."""
        return bool(self._resend)

    @property
    def awaits_kernels(self) -> bool:
        """Whether the waiting batches had better wait until kernels are loaded, and be merged."""
        return not self._resend and bool(self._queue) and self._packing.awaits_kernels(self._queue, self._traffic)

    def next_batch(self, producer_id: int, producer_epoch: int, transactional: bool = False) -> Batch | None:
        """The next batch to send, stamped; None when there is none.

        Raises ProtocolError for a damaged batch, RecordTooLarge for a record beyond the target's limits, and
        UnpackingBusy while other partitions use up the unpacking budget.
        """
        if self._resend:
            if self._resend[0].is_refused:
                self._refit(producer_id, producer_epoch, transactional)
            again = self._resend.pop(0)
            again.waiting = True
            again.sent_at = self._clock.monotonic()
            self._recovering = bool(self._resend)
            return again
        if (producer_id, producer_epoch) != self._identity:
            self._identity, self._sequence = (producer_id, producer_epoch), 0
        while self._queue and len(self._in_flight) < IN_FLIGHT_MAX:
            batch = self._cut_off(producer_id, producer_epoch, transactional)
            self._tidy_queue()
            if batch is not None:
                return batch
        return None

    def _cut_off(self, producer_id: int, producer_epoch: int, transactional: bool) -> Batch | None:
        """The next batch as it came, or the next piece of a range that is rebuilt; None if the range has no piece
        left."""
        queued = self._packing.prepare(self._queue, self.limits, self._traffic(), self.unpacking)
        header: BatchHeader | None
        if queued.rewriting is None:
            header = queued.header
            assert header is not None, "a run without a batch to send leaves the queue at once"
            data = queued.data[queued.at : queued.at + header.total_bytes]
            spans: tuple[Span, ...] = (Span(header.base_offset, header.records_count),)
            next_offset = header.next_offset
            if self.unpacking.is_poor or not queued.at:  # of the others, the first of each run tells what they are
                self.unpacking.note_passed(header.codec, data[HEADER_BYTES:])
            queued.pass_by(header)
        elif (making := queued.make_anew(self.unpacking)) is not None:
            piece, next_offset = making
            data, spans = memoryview(piece.data), piece.spans
            header = parse_header(data, 0)
        else:
            return None
        stamp(data, 0, header, producer_id, producer_epoch, self._sequence, transactional)
        if queued.leader_epoch != self._handed_on.leader_epoch:
            self._handed_on = self._handed_on.read(queued.leader_epoch, spans[0].first_offset)
        lineage, sent_at = self._handed_on, self._clock.monotonic()
        batch = Batch(data, self._sequence, spans, header.records_count, next_offset, lineage, queued, sent_at)
        self._sequence = (self._sequence + header.records_count) & _SEQUENCE_MASK
        queued.open_batches += 1
        self._in_flight.append(batch)
        return batch

    def park(self) -> None:
        """Free the unpacked batches of a partition that does not move."""
        for queued in self._queue:
            if queued.rewriting is not None:
                queued.rewriting.park()

    def _refit(self, producer_id: int, producer_epoch: int, transactional: bool) -> None:
        """Replace the refused batch at the head by batches within the limits; they use its sequence numbers."""
        refused = self._resend[0]
        fresh = self._packing.refit(refused, self.limits, self.unpacking)
        for batch in fresh[:-1]:  # the last may stand before a gap
            batch.lineage = self.lineage.read(refused.queued.leader_epoch, refused.spans[0].first_offset)
        for batch in fresh:
            batch.is_refused = batch.waiting = False
            batch.sequence &= _SEQUENCE_MASK
            if batch is not refused:
                header = parse_header(batch.data, 0)
                stamp(batch.data, 0, header, producer_id, producer_epoch, batch.sequence, transactional)
        self._resend.pop(0)
        self._in_flight.remove(refused)
        self._resend[:0] = fresh
        self._in_flight[:0] = fresh

    def _traffic(self) -> Traffic:
        round_trip_seconds = self._round_trip_seconds if self.is_far else 0.0
        share = max(self.unpacking.share, USUAL_SHARE)
        sizes = self.limits.merged_bytes, self._packing.batch_bytes
        return Traffic(len(self._in_flight), round_trip_seconds, *sizes, share)

    def _measure(self, seconds: float) -> None:
        """Keep the shortest recent round trip: longer ones only show that brokers are busy."""
        lately = self._round_trip_seconds
        self._round_trip_seconds = min(seconds, lately * _ROUND_TRIP_GROWTH) if lately else seconds

    def _tidy_queue(self) -> None:
        """Remove runs without a batch to send from the queue's head.

        So the offsets of control batches and gaps are reached when the batches before them are acknowledged, even while
        no target is known.
        """
        try:
            while self._queue and not self._queue[0].seek_batch():
                self._finish_run()
        except ProtocolError:
            return  # Met again by `next_batch`, where it fails this partition alone.

    def _leave_queue(self) -> QueuedRecords:
        queued = self._queue.popleft()
        queued.hand_out()
        if not self._queue:
            self.linger.begin_anew()
        return queued

    def _finish_run(self) -> None:
        """The run at the head has no batch left to send: the last batch before its end accounts for the rest of it."""
        queued = self._leave_queue()
        self._handed_on = queued.turned or self._handed_on.read(queued.leader_epoch, queued.first_offset)
        if self._in_flight:
            self._in_flight[-1].next_offset = queued.next_offset
            self._in_flight[-1].lineage = self._handed_on
        else:
            self._reach(queued.next_offset, self._handed_on)

    def _reach(self, offset: int, lineage: Lineage) -> None:
        """The target has all records before `offset`."""
        self.lineage = lineage
        self.acknowledged = offset

    # Answers.

    def succeed(self, batch: Batch, base_offset: int = -1) -> list[Batch]:
        """The target has written the batch from `base_offset` on. Returns the batches over which `acknowledged`
        moved."""
        batch.base_offset = base_offset
        batch.waiting = False
        self._measure(self._clock.monotonic() - batch.sent_at)
        batch.acknowledged = True
        moved: list[Batch] = []
        while self._in_flight and self._in_flight[0].acknowledged:
            done = self._in_flight.pop(0)
            moved.append(done)
            self._reach(done.next_offset, done.lineage)
            done.queued.settle()
        if moved:
            self.progressed_at = self._clock.monotonic()
            self.failures = 0
        self._recover_if_quiet()
        return moved

    def await_limits(self, batch: Batch) -> None:
        """The oldest batch exceeds a limit of the target's topic: nothing goes out until `limits` are known."""
        batch.is_refused = self.awaits_limits = True
        batch.refusals += 1
        self.retry(batch)

    def retry(self, batch: Batch) -> None:
        """The batch was refused, or its outcome is unknown: send it again when all answers of this partition are in."""
        batch.waiting = False
        self._recovering = True
        self._resend.clear()
        self._recover_if_quiet()

    def _recover_if_quiet(self) -> None:
        if self._recovering and not self._resend and self.quiet:
            self._resend.extend(batch for batch in self._in_flight if not batch.acknowledged)
            self._recovering = bool(self._resend)

    @property
    def quiet(self) -> bool:
        """Whether no answer is outstanding."""
        return not any(batch.waiting for batch in self._in_flight)

    @property
    def is_in_doubt(self) -> bool:
        """Whether the target may have written batches that it did not acknowledge."""
        return any(batch.in_doubt and not batch.acknowledged for batch in self._in_flight)

    @property
    def head(self) -> Batch | None:
        """The oldest unacknowledged batch."""
        return self._in_flight[0] if self._in_flight else None

    @property
    def settled(self) -> bool:
        """Whether everything that was sent is acknowledged, or given up."""
        return not self._in_flight

    @property
    def reach(self) -> Place:
        """The position that the target reaches when all sent batches are acknowledged."""
        if self._in_flight:
            return Place(self._in_flight[-1].next_offset, self._in_flight[-1].lineage)
        return self.place

    # Transactions.

    def commit(self) -> None:
        """The transaction is committed: what is acknowledged stays."""
        self.committed = self.place

    def roll_back(self) -> bool:
        """Go back to the last commit; whether the reader must read again from there. Answers are not awaited."""
        lost = self.committed.order != (self.turns, self.position) or not self.idle
        self.acknowledged, self.lineage = self.committed
        self.rewind()
        return lost

    def is_stuck(self, now: float, seconds: float) -> bool:
        """Whether records wait, sent or not, and none was acknowledged for `seconds`."""
        return not self.idle and now - self.progressed_at > seconds

    # Giving up what is queued; the reader sends it again.

    def rewind(self) -> None:
        """Drop everything unacknowledged; the reader must send it again from `position` on.

        Only when quiet, unless the producer gets another epoch.
        """
        head = self.head
        if head is not None:
            self._sequence = head.sequence
        while self._in_flight:
            self._in_flight.pop(0).queued.settle()
        self._drop_queue()
        self.fall_back()
        self._resend.clear()
        self._recovering = self._draining = self.awaits_limits = False

    def fall_back(self) -> None:
        """Set `position` to where the acknowledged batches, or those under way, end: the reader must go on from
        there."""
        self.position, self._handed_on = self.reach
        self.turns = self._handed_on.turns
        if self.gaps:
            self.gaps = tuple(found for found in self.gaps if found.is_met((self.turns, self.position)))

    def evict(self) -> None:
        """Free the reader's memory while the target does not answer: in-flight batches are copied, the rest dropped.

        If none is in flight, the queue's first batch is kept instead: its acknowledgement shows that the target is
        back.
        """
        self._copy_sent()
        kept = None if self._in_flight or not self._queue else self._queue[0].copy_first()
        self._drop_queue()
        self.fall_back()
        if kept is not None:
            self._queue.append(kept)
            self.position = kept.next_offset
        self.state = State.REWINDING
        self._draining = True

    def keep_sent(self) -> None:
        """Instead of `rewind`, if the target may have written sent batches: these go out again as they were.

        Their sequences are used. The target would take other records under the same sequences for duplicates and drop
        them: records behind a gap, or of a log that was compacted meanwhile. Batches in the reader's memory are copied,
        and read again when they are acknowledged; the ledger's own batches stay. Only when quiet.
        """
        if not self.is_ledger:
            self._copy_sent()
            self._drop_queue()
            self.fall_back()
            self._draining = True
        self.awaits_limits = False
        self._resend[:] = [batch for batch in self._in_flight if not batch.acknowledged]
        self._recovering = True

    def _copy_sent(self) -> None:
        for batch in self._in_flight:
            if not batch.acknowledged:
                batch.data = memoryview(bytearray(batch.data))
            batch.queued.settle()
            leader_epoch = batch.queued.leader_epoch
            batch.queued = QueuedRecords(batch.data, 0, batch.next_offset, free_nothing)
            batch.queued.leader_epoch, batch.queued.open_batches = leader_epoch, 1

    def _drop_queue(self) -> None:
        while self._queue:
            self._leave_queue()
