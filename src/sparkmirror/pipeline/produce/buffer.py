"""What waits to be produced to one target partition, in order, and its states. No I/O; owned by
`pipeline.produce.produce_task`.

A partition buffer takes runs, hands out one batch at a time with its producer sequence stamped, and moves its source
position only over the contiguous acknowledged prefix (invariants 1 to 3). An offset is a source offset, always that of
the next record. Its states and their transitions are in `pipeline.produce.partition_state`. Only the buffer's own
methods change its attributes.
"""

from typing import Any

from sparkmirror.batch.header import HEADER_BYTES, BatchHeader, parse_header
from sparkmirror.batch.merging import Traffic
from sparkmirror.batch.piece import Span
from sparkmirror.batch.unpacking import USUAL_SHARE, Unpacking
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.acked_position import Place
from sparkmirror.pipeline.produce.limits import TopicLimits
from sparkmirror.pipeline.produce.packing import AS_THEY_ARE, Linger, Packing
from sparkmirror.pipeline.produce.partition_life import PartitionLife
from sparkmirror.pipeline.produce.partition_state import Event, Sending, State
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords
from sparkmirror.pipeline.produce.round_trip import RoundTrip
from sparkmirror.pipeline.produce.waiting_runs import WaitingRuns


class PartitionBuffer(PartitionLife):
    """One target partition. Runs are accepted from the reader up to `position` and acknowledged by the target up to
    `acknowledged`; `turns` and `lineage` identify the log of each of the two.

    A task may have thousands, most of them idle: hence the slots, and lists where deques would take 760 bytes each.
    """

    __slots__ = (
        "_clock", "_handed_on", "_packing", "_target", "_waiting", "is_lane", "is_ledger", "limits",
        "linger", "position", "progressed_at", "round_trip", "route", "slot", "turns", "unpacking",
    )  # fmt: skip

    def __init__(
        self,
        source: TopicPartition,
        target: TopicPartition | None,
        position: int,
        slot: int,
        *,
        is_ledger: bool = False,
        is_lane: bool = False,
        packing: Packing = AS_THEY_ARE,
        moved: dict[TopicPartition, None] | None = None,
        unpacking: Unpacking | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`is_ledger` and `is_lane` (`pipeline.produce.routing`): the records are this process's own."""
        super().__init__(source, position, moved)
        self._clock, self._target = clock, target
        self.slot, self.position, self.turns = slot, position, 0
        self._handed_on = self.lineage
        self.is_ledger, self.is_lane = is_ledger, is_lane
        self.route: tuple[int, Any] | None = None
        self.progressed_at = 0.0
        self.limits = TopicLimits()
        self._packing = packing
        self.unpacking = unpacking or Unpacking()
        self.linger = Linger(packing.linger_seconds, packing.batch_bytes, clock)
        self.round_trip = RoundTrip()
        self._waiting = WaitingRuns(self.linger)

    @property
    def target(self) -> TopicPartition:
        """Known from the first run on: the row carries the topic's name, which the flow's plan decides."""
        assert self._target is not None
        return self._target

    def aim(self, topic: str, limits: TopicLimits) -> None:
        """Set the target topic and its limits; the partition number is the source's."""
        if self._target is None:
            self._target, self.limits = TopicPartition(topic, self.source.partition), limits

    def is_aimed_at(self, topic: str, partition: int | None = None) -> bool:
        found = self._target
        return found is not None and found.topic == topic and partition in (None, found.partition)

    def use_slot(self, slot: int) -> None:
        """The partition's place on the reader's control page; -1 without one."""
        self.slot = slot

    def lead_to(self, changes: int, connection: object) -> None:
        """Keep the connection that batches go over; it holds until the count of `changes` is another one."""
        self.route = None if connection is None else (changes, connection)

    # Taking runs in.

    def accept(self, queued: QueuedRecords, made_bytes: int = 0) -> None:
        """Queue a run that begins at `position`. Its first batch may begin earlier: then it is cut.
        A run without bytes, its own or `made_bytes`, only moves the position (a gap, a topic that is not mirrored)."""
        if self.idle:
            now = self._clock.monotonic()
            self._in_flight.rested(now - self.progressed_at)
            self.progressed_at = now
        self._waiting.add(queued, len(queued.data) + made_bytes)
        self.position = queued.next_offset
        if queued.turned is not None:
            self.turns = queued.turned.turns
        self._pass_finished()

    @property
    def epoch_taken(self) -> int:
        """The leader epoch of the record before `position`; NO_EPOCH where it is not known."""
        runs = self._waiting.runs
        return runs[-1].leader_epoch if runs else self._handed_on.leader_epoch

    def expect(self, queued: QueuedRecords, records: int) -> Batch:
        """Add an entry for a range whose records go to other target partitions: it is `let_go` when they go out, and
        `succeed` is called with it when they have arrived."""
        if self.idle:
            self.progressed_at = self._clock.monotonic()
        queued.open_batches, queued.handed_out = 1, True
        self._handed_on = self._handed_on.read(queued.leader_epoch, queued.first_offset)
        entry = Batch(queued.data, 0, (), records, queued.next_offset, self._handed_on, queued, waiting=False)
        entry.is_held = True
        self._in_flight.batches.append(entry)
        self.position = queued.next_offset
        return entry

    def has_under_way(self, entry: Batch) -> bool:
        """Whether the entry still stands here: a partition that went back has dropped it."""
        return entry in self._in_flight.batches

    def restart_at(self, place: Place) -> None:
        """Begin at another place, when the task takes the partition on again; sequences continue. Only while idle."""
        self.move_to(*place)
        self.gaps = ()
        self.fall_back()
        self.commit()
        self.begin_again()

    def take_up(self, first_offset: int) -> bool:
        """Whether a row from `first_offset` on ends the rewind; the buffer is then FLOWING again.
        After an eviction no row does before the kept batches are acknowledged: the reader is paused until then, and
        rows that still arrive were read before the pause. To accept them would leave the reader paused for good.
        """
        if first_offset != self.position or (self.state is State.DRAINING and not self.idle):
            return False
        self._change(Event.TAKEN_UP)
        return True

    # Handing batches out.

    @property
    def sendable(self) -> bool:
        if self.is_failed or self.rests:
            return False
        in_flight = self._in_flight
        if in_flight.sending is not Sending.FRESH:
            return in_flight.may_send_again
        return bool(self._waiting.runs) and in_flight.has_room and not self.linger.holds_back

    @property
    def awaits_answers(self) -> bool:
        """Whether more goes out when answers come."""
        return bool(self._waiting.runs) or self._in_flight.sending is not Sending.FRESH

    @property
    def idle(self) -> bool:
        return not self._waiting.runs and not self._in_flight.batches

    @property
    def is_resending(self) -> bool:
        """Whether the next batch was sent before."""
        return self._in_flight.sending is Sending.AGAIN

    def park(self) -> None:
        """Free the unpacked batches of a partition that does not move."""
        self._waiting.park()

    @property
    def awaits_kernels(self) -> bool:
        """Whether the waiting batches had better wait until kernels are loaded, and be merged."""
        runs = self._waiting.runs
        is_fresh = self._in_flight.sending is not Sending.AGAIN
        return is_fresh and bool(runs) and self._packing.awaits_kernels(runs, self._traffic)

    def next_batch(self, producer_id: int, producer_epoch: int, transactional: bool = False) -> Batch | None:
        """The next batch to send, stamped; None when there is none.
        Raises ProtocolError for a damaged batch, RecordTooLarge for a record beyond the target's limits, and
        UnpackingBusy while other partitions use up the unpacking budget.
        """
        in_flight = self._in_flight
        if in_flight.sending is Sending.AGAIN:
            if in_flight.next_again.is_refused:
                self._refit(producer_id, producer_epoch, transactional)
            return in_flight.send_again(self._clock.monotonic())
        if (producer_id, producer_epoch) != in_flight.identity:
            in_flight.identify(producer_id, producer_epoch)
        while self._waiting.runs and in_flight.has_room:
            runs, is_far = self._waiting.runs, self.round_trip.is_far
            queued = self._packing.prepare(runs, self.limits, self._traffic, self.unpacking, self.apart_until, is_far)
            batch = self._cut_off(queued, transactional)
            self._pass_finished()
            if batch is not None:
                return batch
        return None

    def _cut_off(self, queued: QueuedRecords, transactional: bool) -> Batch | None:
        """The next batch as it came, or the next piece of a range that is rebuilt; None if the range has none left."""
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
        sequence = self._in_flight.stamp(data, header, transactional)
        if queued.leader_epoch != self._handed_on.leader_epoch:  # of made ones, the first records may be left out
            begins = spans[0].first_offset if queued.rewriting is None else queued.first_offset
            self._handed_on = self._handed_on.read(queued.leader_epoch, begins)
        lineage, sent_at = self._handed_on, self._clock.monotonic()
        batch = Batch(data, sequence, spans, header.records_count, next_offset, lineage, queued, sent_at)
        queued.open_batches += 1
        self._in_flight.batches.append(batch)
        return batch

    def _refit(self, producer_id: int, producer_epoch: int, transactional: bool) -> None:
        """Replace the refused batch that goes out again next by batches within the limits."""
        refused = self._in_flight.next_again
        fresh = self._packing.refit(refused, self.limits, self.unpacking)
        for batch in fresh[:-1]:  # the last may stand before a gap
            batch.lineage = self.lineage.read(refused.queued.leader_epoch, self.acknowledged)
        self._in_flight.refit(fresh, (producer_id, producer_epoch), transactional)

    def _traffic(self) -> Traffic:
        sizes, share = (self.limits.merged_bytes, self._packing.batch_bytes), max(self.unpacking.share, USUAL_SHARE)
        return Traffic(len(self._in_flight.batches), self.round_trip.seconds, *sizes, share)

    def _pass_finished(self) -> None:
        """The last sent batch before a run without a batch left to send accounts for the rest of that."""
        runs = self._waiting.runs
        while runs and (queued := self._waiting.take_finished()) is not None:
            self._handed_on = queued.turned or self._handed_on.read(queued.leader_epoch, queued.first_offset)
            if sent := self._in_flight.batches:
                sent[-1].next_offset = queued.next_offset
                sent[-1].lineage = self._handed_on
            else:
                self.move_to(queued.next_offset, self._handed_on)

    # Answers.

    def succeed(self, batch: Batch, base_offset: int = -1, now: float | None = None) -> list[Batch]:
        """The target has written the batch from `base_offset` on, and said so at `now`, if that was before. Returns the
        batches over which `acknowledged` moved."""
        in_flight, now = self._in_flight, self._clock.monotonic() if now is None else now
        batch.base_offset, batch.waiting = base_offset, False
        self.round_trip.measure(now - batch.sent_at)
        batch.acknowledged = True
        in_flight.become_known()
        moved: list[Batch] = []
        sent = in_flight.batches
        while sent and sent[0].acknowledged:
            done = sent.pop(0)
            moved.append(done)
            self.move_to(done.next_offset, done.lineage)
            done.queued.settle()
        if moved:
            self.progressed_at = now
            if batch.spans:  # after a range that went elsewhere, `pipeline.produce.routing` decides
                self.failures = 0
        in_flight.begin_again_if_quiet()
        return moved

    def await_limits(self, batch: Batch) -> None:
        """The oldest batch exceeds a limit of the target's topic: nothing goes out until `know_limits`."""
        self._in_flight.ask_limits(batch)

    @property
    def awaits_limits(self) -> bool:
        return self._in_flight.sending is Sending.AWAITING_LIMITS

    def know_limits(self) -> None:
        self._in_flight.know_limits()

    def retry(self, batch: Batch, *, in_doubt: bool = False) -> None:
        """The batch was refused, or its outcome is unknown: send it again when all answers of this partition are in.

        `in_doubt` if the target may have written it.
        """
        batch.in_doubt |= in_doubt
        self._in_flight.not_taken(batch)

    def refuse(self, batch: Batch, *, in_doubt: bool) -> None:
        """The target refuses the batch for good; `in_doubt` if it may have written it nevertheless."""
        batch.waiting, batch.in_doubt = False, batch.in_doubt or in_doubt
        self.apart_until = max(self.apart_until, batch.next_offset)

    @property
    def quiet(self) -> bool:
        """Whether no answer is outstanding."""
        return self._in_flight.quiet

    @property
    def is_in_doubt(self) -> bool:
        """Whether the target may have written batches that it did not acknowledge."""
        return self._in_flight.is_in_doubt

    @property
    def head(self) -> Batch | None:
        """The oldest unacknowledged batch."""
        sent = self._in_flight.batches
        return sent[0] if sent else None

    @property
    def settled(self) -> bool:
        """Whether everything that was sent is acknowledged, or given up."""
        return not self._in_flight.batches

    @property
    def reach(self) -> Place:
        """The position that the target reaches when all sent batches are acknowledged."""
        return self._in_flight.reach or self.place

    # Failing, and coming back.

    def resume(self) -> None:
        """The retry is due. Kept batches go out first."""
        if self.is_ledger or self.is_lane:
            self._change(Event.GOES_ON)
        else:
            self._change(Event.REREAD if self.idle else Event.KEPT_FIRST)
        self.retry_at = 0.0

    def finish_draining(self) -> None:
        """The kept batches are acknowledged: the reader goes on from `position`."""
        self._change(Event.DRAINED)

    # Transactions.

    def roll_back(self) -> bool:
        """Go back to the last commit; whether the reader must read again from there. Answers are not awaited."""
        lost = self.committed.order != (self.turns, self.position) or not self.idle
        self.move_to(*self.committed)
        self.rewind()
        self._in_flight.has_open = False
        if lost:
            self._change(Event.ROLLED_BACK)
        return lost

    def is_stuck(self, now: float, seconds: float) -> bool:
        """Whether records wait, sent or not, and none was acknowledged for `seconds`."""
        return not self.idle and now - self.progressed_at > seconds

    # Giving up what is queued; the reader sends it again.

    def rewind(self) -> None:
        """Drop everything unacknowledged; the reader must send it again from `position` on. Only when quiet, unless the
        producer gets another epoch."""
        self._in_flight.drop()
        self._waiting.drop()
        self.fall_back()
        self._change(Event.REWOUND)

    def fall_back(self) -> None:
        """Set `position` to where the acknowledged batches, or those under way, end: the reader must go on from
        there."""
        self.position, self._handed_on = self._in_flight.end or self.place
        self.turns = self._handed_on.turns
        self.drop_gaps_beyond((self.turns, self.position))

    def evict(self) -> None:
        """Free the reader's memory while the target does not answer: in-flight batches are copied, the rest dropped.
        Without one, the first that waits is kept: its acknowledgement shows that the target is back."""
        self._change(Event.EVICTED)
        self._in_flight.copy()
        kept = None if self._in_flight.batches else self._waiting.copy_first()
        self._waiting.drop()
        self.fall_back()
        if kept is not None:
            self._waiting.runs.append(kept)
            self.position = kept.next_offset

    def keep_sent(self) -> None:
        """Instead of `rewind`, if the target may have written sent batches: these go out again as they were.

        Their sequences are used. The target would take other records under the same sequences for duplicates and drop
        them: records behind a gap, or of a log that was compacted meanwhile. Batches in the reader's memory are copied,
        and read again when they are acknowledged; the ledger's own batches stay. Only when quiet.
        """
        if not self.is_ledger:
            self._in_flight.copy()
            self._waiting.drop()
            self.fall_back()
        self._in_flight.keep()
