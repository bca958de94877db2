"""Routes records of one source partition to several target partitions; its progress waits for all of them.

Each target partition has a buffer here, a *lane*, with its own producer sequence; the source's buffer in
`pipeline.produce.gate` holds one entry per range, acknowledged when the last of its batches is (invariants 1 and 3). If
the target refuses a lane, the lane gives up its records: their source partitions fail and are read again. Owned by
`pipeline.produce.produce_task`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from sparkmirror.batch.piece import Span
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.delivery import Bundle
from sparkmirror.pipeline.produce.effects import Advance, Effects, Fail, Hold
from sparkmirror.pipeline.produce.gate import SequenceGate
from sparkmirror.pipeline.produce.log_check import TargetLogCheck
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.relay.ring import RingPeer


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
    open_batches: int
    mapped: list[Batch] = field(default_factory=list)


class Routing:
    """The lanes of one task."""

    def __init__(
        self,
        peer: RingPeer | None,
        gate: SequenceGate,
        task_metrics: TaskMetrics,
        log_check: TargetLogCheck,
        effects: Effects,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._peer = peer
        self._gate = gate
        self._task_metrics = task_metrics
        self._log_check = log_check
        self._effects = effects
        self._tickets: dict[Batch, Ticket] = {}
        self.lanes: dict[TopicPartition, PartitionBuffer] = {}

    def take(self, bundle: Bundle) -> list[PartitionBuffer]:
        """Queue a range; returns the lanes that have a batch to send."""
        delivery = bundle.delivery
        free = partial(self._free, bundle)
        buffer = self._gate.buffers.get(delivery.partition) if delivery.partition else None
        if buffer is None or not self._gate.may_route(buffer, delivery):
            free()
            return []
        if bundle.problem:
            free()
            self._effects.append(Fail(buffer, bundle.problem))
            return []
        return self._open(buffer, bundle, free)

    def _open(self, buffer: PartitionBuffer, bundle: Bundle, free: Callable[[], None]) -> list[PartitionBuffer]:
        delivery = bundle.delivery
        fetched_at_ms = delivery.fetched_at_ms
        queued = QueuedRecords(delivery.payload, buffer.position, delivery.next_offset, free, fetched_at_ms)
        queued.leader_epoch = delivery.leader_epoch
        entry = buffer.expect(queued, delivery.records)
        home = TopicPartition(delivery.target_topic or "", buffer.source.partition)
        ticket = self._tickets[entry] = Ticket(buffer, entry, home, len(bundle.pieces))
        if not bundle.pieces:
            self._finish(ticket)
        lanes = [self._lane(target) for target, _ in bundle.pieces]
        for lane, (_, piece) in zip(lanes, bundle.pieces, strict=True):
            following = lane.position + piece.records
            lost = partial(self._settled, lane, following, ticket)
            lane.accept(QueuedLaneRecords(memoryview(piece.data), following, lost, ticket, piece.spans))
        return lanes

    def _lane(self, target: TopicPartition) -> PartitionBuffer:
        lane = self.lanes.get(target)
        if lane is None:
            # Its own name differs from every source partition's, also where topics keep theirs.
            lane = self.lanes[target] = PartitionBuffer(
                TopicPartition(f"to {target.topic}", target.partition), target, 0, -1, is_lane=True, clock=self._clock
            )
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
            if lane.target == ticket.home:
                batch.spans = queued.spans
                ticket.mapped.append(batch)
                if ticket.entry in self._tickets:
                    self._check_home(ticket.buffer, batch, lane.target.topic)
            ticket.open_batches -= 1
            if not ticket.open_batches and ticket.entry in self._tickets:
                self._finish(ticket)

    def _check_home(self, buffer: PartitionBuffer, batch: Batch, topic: str) -> None:
        """Hold the source if mirrored records are gone from the partition that has its name and number."""
        reason = self._log_check.add(buffer, [batch], topic)
        if reason:
            self._forget(buffer)
            self._effects.append(Hold(buffer, reason))

    def _finish(self, ticket: Ticket) -> None:
        moved = ticket.buffer.succeed(ticket.entry)
        mapped: list[Batch] = []
        for entry in moved:
            done = self._tickets.pop(entry)
            mapped.extend(sorted(done.mapped, key=_first_offset))
        self._effects.append(Advance(ticket.buffer, mapped))

    def _settled(self, lane: PartitionBuffer, following: int, ticket: Ticket) -> None:
        """A batch has left its lane: acknowledged, or given up with all that waited there."""
        if lane.acknowledged >= following or ticket.entry not in self._tickets:
            return
        self._forget(ticket.buffer)
        self._effects.append(Fail(ticket.buffer, f"its records for {lane.target} are refused: {lane.reason}"))

    def _forget(self, buffer: PartitionBuffer) -> None:
        """The source's ranges are read again: later acknowledgements of their batches are ignored."""
        self._tickets = {entry: other for entry, other in self._tickets.items() if other.buffer is not buffer}

    def _free(self, bundle: Bundle) -> None:
        if self._peer is None:
            return
        if bundle.delivery.lease is not None:
            self._peer.give_back(bundle.delivery.lease)
        else:
            self._peer.free_inline(bundle.size_bytes)


def _first_offset(batch: Batch) -> int:
    return batch.spans[0].first_offset
