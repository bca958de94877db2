"""Routes records of one source partition to several target partitions; its progress waits for all of them.

Each target partition has a buffer here, a *lane*, with its own producer sequence; the source's buffer in
`pipeline.produce.gate` holds one entry per range, acknowledged when the last of its batches is (invariants 1 and 3). If
the target refuses a lane, the lane gives up its records: their source partitions fail and are read again.

In transactions a range and its position are in one (invariant 4). So the ranges of a source partition wait here, in
order, until all batches of the first may go out (`pipeline.produce.range_admission`): only then do they enter their
lanes, and the transaction does not end before it has all of them. When a lane gives up records the transaction is
aborted, with what went over the other lanes, and the source of the refused record fails alone. Owned by
`pipeline.produce.produce_task`.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial

from sparkmirror.batch.piece import Span
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.delivery import Bundle
from sparkmirror.pipeline.produce.effects import Abort, Advance, BackOff, Effects, Fail, Hold, Offer, Settle
from sparkmirror.pipeline.produce.gate import SequenceGate
from sparkmirror.pipeline.produce.log_check import TargetLogCheck
from sparkmirror.pipeline.produce.partition_state import State
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords
from sparkmirror.pipeline.produce.range_admission import Answer, RangeAdmission
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics

log = logging.getLogger(__name__)

_MERGED = "%s has records of other partitions of the source, too: offsets of groups are translated no further there."


class QueuedLaneRecords(QueuedRecords):
    """A batch of a lane, with the range that waits for it and the source offsets of its records."""

    __slots__ = ("spans", "ticket")

    def __init__(
        self, data: memoryview, following: int, on_free: Callable[[], None], ticket: "Ticket", spans: tuple[Span, ...]
    ) -> None:
        # The first offset stays 0, which is the batch's: a lane's positions count records and cut nothing.
        super().__init__(data, 0, following, on_free, ticket.entry.queued.fetched_at_ms)
        self.ticket = ticket
        self.spans = spans


@dataclass(slots=True, eq=False)
class Ticket:
    """A waiting range: `entry` stands for it in the source's buffer, `mapped` are its batches at `home`."""

    buffer: PartitionBuffer
    entry: Batch
    home: TopicPartition
    bundle: Bundle
    open_batches: int
    mapped: list[Batch] = field(default_factory=list)


class Routing:
    """The lanes of one task. `_merged` are the partitions of the target that some record of another source partition
    than theirs went to."""

    def __init__(
        self,
        gate: SequenceGate,
        task_metrics: TaskMetrics,
        log_check: TargetLogCheck,
        admission: RangeAdmission,
        effects: Effects,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._gate = gate
        self._task_metrics = task_metrics
        self._log_check = log_check
        self._admission = admission
        self._effects = effects
        self._waiting: dict[PartitionBuffer, deque[Ticket]] = {}
        self._tickets: dict[Batch, Ticket] = {}
        self._refused: dict[PartitionBuffer, PartitionBuffer] = {}
        self._merged: set[TopicPartition] = set()
        self._said: set[TopicPartition] = set()
        self.lanes: dict[TopicPartition, PartitionBuffer] = {}

    def take(self, bundle: Bundle) -> list[PartitionBuffer]:
        """Queue a range; returns the lanes that have a batch to send."""
        delivery = bundle.delivery
        free = partial(self._gate.free_range, delivery, bundle.size_bytes, bundle.extra_bytes)
        buffer = self._gate.buffers.get(delivery.partition) if delivery.partition else None
        if buffer is None or not self._gate.may_accept(buffer, delivery):
            free()
            return []
        queued = QueuedRecords(delivery.payload, buffer.position, delivery.next_offset, free, delivery.fetched_at_ms)
        queued.leader_epoch = delivery.leader_epoch
        entry = buffer.expect(queued, delivery.records)
        home = TopicPartition(delivery.target_topic or "", buffer.source.partition)
        ticket = self._tickets[entry] = Ticket(buffer, entry, home, bundle, len(bundle.pieces))
        self._waiting.setdefault(buffer, deque()).append(ticket)
        return self._pass_on_those_of(buffer)

    def pass_on(self) -> None:
        """Have the ranges that may go out now enter their lanes."""
        for buffer in list(self._waiting):
            self._effects.extend(map(Offer, self._pass_on_those_of(buffer)))

    def _pass_on_those_of(self, buffer: PartitionBuffer) -> list[PartitionBuffer]:
        touched: dict[PartitionBuffer, None] = {}
        waiting = self._waiting[buffer]
        while waiting:
            ticket = waiting[0]
            if not buffer.has_under_way(ticket.entry):  # the partition went back: all of it is read again
                waiting.popleft()
                self._tickets.pop(ticket.entry, None)
                continue
            lanes = dict.fromkeys(self._lane(target) for target, _ in ticket.bundle.pieces)
            answer = ticket.bundle.problem or self._judge(buffer, lanes)
            if answer is Answer.WAIT:
                self._drop_evicted(buffer)
                return list(touched)
            if answer is not Answer.GO:
                self._drop_waiting(buffer)
                self._effects.append(Fail(buffer, answer))
                break
            waiting.popleft()
            self._let_go(ticket, lanes)
            touched.update(lanes)
        self._waiting.pop(buffer, None)
        return list(touched)

    def _judge(self, buffer: PartitionBuffer, lanes: Collection[PartitionBuffer]) -> Answer | str:
        """What is to be added to a transaction that will be aborted waits."""
        return self._admission.judge(buffer, lanes) if self._refused.keys().isdisjoint(lanes) else Answer.WAIT

    def _drop_evicted(self, buffer: PartitionBuffer) -> None:
        """Free the records of the last ranges, if the source gave them up to be read again."""
        waiting = self._waiting[buffer]
        while not buffer.has_under_way(waiting[-1].entry):
            self._tickets.pop(waiting.pop().entry, None)

    def _let_go(self, ticket: Ticket, lanes: Collection[PartitionBuffer]) -> None:
        ticket.entry.let_go()
        pieces = ticket.bundle.pieces
        if not pieces:
            self._finish(ticket)
            return
        self._admission.note_gone(ticket.buffer, lanes, sum(len(piece.data) for _, piece in pieces))
        self._merged.update(lane.target for lane in lanes if lane.target != ticket.home)
        for target, piece in pieces:
            lane = self.lanes[target]
            following = lane.position + piece.records
            lost = partial(self._settled, lane, following, ticket)
            lane.accept(QueuedLaneRecords(memoryview(piece.data), following, lost, ticket, piece.spans))

    def _drop_waiting(self, buffer: PartitionBuffer) -> None:
        for ticket in self._waiting.pop(buffer, ()):
            self._tickets.pop(ticket.entry, None)
        self._admission.forget(buffer)

    def _lane(self, target: TopicPartition) -> PartitionBuffer:
        lane = self.lanes.get(target)
        if lane is None:
            lane = self.lanes[target] = self._gate.make_lane(target, self._clock)
        return lane

    def source_of(self, batch: Batch) -> TopicPartition:
        """The source partition of a lane's batch."""
        assert isinstance(batch.queued, QueuedLaneRecords)
        return batch.queued.ticket.buffer.source

    def home_of(self, lane: PartitionBuffer, batch: Batch) -> PartitionBuffer | None:
        """The source partition of a lane's batch, if the lane's partition has its name and number."""
        assert isinstance(batch.queued, QueuedLaneRecords)
        ticket = batch.queued.ticket
        return ticket.buffer if lane.target == ticket.home else None

    def acknowledge(self, lane: PartitionBuffer, batches: list[Batch]) -> None:
        """The target has acknowledged these batches of a lane."""
        for batch in batches:
            queued = batch.queued
            assert isinstance(queued, QueuedLaneRecords)
            ticket = queued.ticket
            if not batch.refusals:  # otherwise it may be a part of the range's batch
                batch.spans = queued.spans
            if lane.target == ticket.home:
                ticket.mapped.append(batch)
                if ticket.entry in self._tickets:
                    self._check_home(ticket.buffer, batch, lane.target.topic)
            ticket.open_batches -= batch.next_offset == queued.next_offset
            if not ticket.open_batches and ticket.entry in self._tickets:
                self._finish(ticket)

    def _check_home(self, buffer: PartitionBuffer, batch: Batch, topic: str) -> None:
        """Hold the source if mirrored records are gone from the partition that has its name and number."""
        reason = self._log_check.add(buffer, [batch], topic)
        if reason:
            self._forget(buffer, reason)
            self._effects.extend((Hold(buffer, reason), Settle(buffer)))

    def _finish(self, ticket: Ticket) -> None:
        moved = ticket.buffer.succeed(ticket.entry)
        if moved and not self._admission.in_transactions:  # there it may be taken back, and only a commit counts
            ticket.buffer.forget_failures()
        mapped: list[Batch] = []
        for entry in moved:
            done = self._tickets.pop(entry)
            if done.bundle.is_mapped:
                mapped.extend(sorted(done.mapped, key=_first_offset))
            done.mapped = []  # each leads back to its ticket: all would stay until garbage is looked for
        self._effects.append(Advance(ticket.buffer, mapped, not mapped or self._is_alone(ticket.home)))
        if ticket.buffer.is_failed:
            self._effects.append(Settle(ticket.buffer))

    def _is_alone(self, home: TopicPartition) -> bool:
        """Whether all that this task has sent there comes from the source partition that has its name and number. A
        group that has read one of these would pass over the others' records (invariant 7)."""
        if home in self._merged and home not in self._said:
            self._said.add(home)
            log.warning(_MERGED, home)
        return home not in self._merged

    def name_records(self, batch: Batch) -> None:
        """Say which source records a lane's batch has, which is to be split."""
        assert isinstance(batch.queued, QueuedLaneRecords)
        if not batch.refusals:
            batch.spans = batch.queued.spans

    def note_refusal(self, lane: PartitionBuffer, batch: Batch) -> None:
        """The target refuses this batch of the lane, which fails. In transactions only its source fails with it: those
        of the batches behind it are read again after the abort, and would meet it again if they paused as long."""
        assert isinstance(batch.queued, QueuedLaneRecords)
        if self._admission.in_transactions:
            self._refused[lane] = batch.queued.ticket.buffer

    def _settled(self, lane: PartitionBuffer, following: int, ticket: Ticket) -> None:
        """A batch has left its lane: acknowledged, or given up with all that waited there."""
        if lane.acknowledged >= following or ticket.entry not in self._tickets:
            return
        if self._refused.get(lane, ticket.buffer) is not ticket.buffer:
            return
        reason = f"its records for {lane.target} are refused: {lane.reason}"
        self._forget(ticket.buffer, reason)
        self._effects.extend((Fail(ticket.buffer, reason), Settle(ticket.buffer)))

    def _forget(self, buffer: PartitionBuffer, reason: str) -> None:
        """The source's ranges are read again: later acknowledgements of their batches are ignored, and a transaction
        that has some of them is aborted."""
        self._drop_waiting(buffer)
        for entry, ticket in list(self._tickets.items()):
            if ticket.buffer is buffer:
                entry.take_back()
                del self._tickets[entry]
        self._effects.append(Abort(f"{buffer.source}: {reason}", awaits_answers=True))

    def roll_back(self) -> None:
        """The transaction is aborted: the ranges of all sources are read again. Those with records for a lane that has
        failed fail with it, unless the record of another was refused: then the lane goes on at once, if the target took
        records of it since it had failed before."""
        for lane in self.lanes.values():
            if lane.is_failed:
                lane.rewind()
        self._tickets.clear()
        for buffer in list(self._waiting):
            self._drop_waiting(buffer)
        for lane in self.lanes.values():
            lane.rewind()
        for lane in self._refused:
            if lane.state is State.FAILED and lane.failures <= 1:
                lane.retry_soon(self._clock.monotonic())
                self._effects.append(BackOff(lane, lane.retry_at))
        self._refused.clear()


def _first_offset(batch: Batch) -> int:
    return batch.spans[0].first_offset
