"""Checks that each row continues its partition, and queues it in the partition's buffer: the writer decides what comes
next. Owned by `pipeline.produce.produce_task`.

A run below its partition's position is a duplicate: it is dropped, or cut. A run above it leaves a gap: unless a gap
row has explained that, the run is refused, and the reader is ordered to read again from the position (invariants 1 and
2).
"""

import logging
from collections.abc import Callable
from functools import partial

from sparkmirror.batch.unpacking import Unpacking, UnpackingBudget
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.control.assignment import Assigned
from sparkmirror.errors import SparkMirrorError
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.model import NO_EPOCH, TopicPartition
from sparkmirror.pipeline.produce.acked_position import Place
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.delivery import Delivery, MadeRange
from sparkmirror.pipeline.produce.direct_buffer import DirectBuffer
from sparkmirror.pipeline.produce.effects import Advance, Effects, Hold
from sparkmirror.pipeline.produce.lane_packing import LanePacking
from sparkmirror.pipeline.produce.limits import TargetLimits
from sparkmirror.pipeline.produce.packing import Packing
from sparkmirror.pipeline.produce.partition_state import State
from sparkmirror.pipeline.produce.progress import Progress
from sparkmirror.pipeline.produce.queued_records import MadePieces, QueuedRecords, free_nothing
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.relay.plan_row import GapRow, PlanRow
from sparkmirror.pipeline.relay.ring import RingPeer
from sparkmirror.pipeline.relay.schema import ORDERED_PAUSE, ORDERED_RESUME, ORDERED_RETRY
from sparkmirror.policy.loss import CONTINUE, DONE, LossPolicy, what_next
from sparkmirror.stored_json import decode

log = logging.getLogger(__name__)

CONTINUE_ALWAYS = LossPolicy()


class SequenceGate:
    """The task's partition buffers, by source partition."""

    def __init__(
        self,
        peer: RingPeer | None,
        progress: Progress,
        task_metrics: TaskMetrics,
        limits: TargetLimits,
        packing: Packing,
        effects: Effects,
        on_data_loss: LossPolicy = CONTINUE_ALWAYS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._budget = UnpackingBudget(packing.unpacked_bytes_max)
        self._on_data_loss = on_data_loss
        self._peer = peer
        self._progress = progress
        self._task_metrics = task_metrics
        self._limits = limits
        self._packing = packing
        self._effects = effects
        self._releasing: set[TopicPartition] = set()
        self._left: set[TopicPartition] = set()
        self.buffers: dict[TopicPartition, PartitionBuffer] = {}
        self.inline_bytes = self.freed_extra_bytes = 0

    def take_plan(self, plan: PlanRow) -> None:
        for assigned, slot in plan.partitions:
            where = assigned.partition
            if assigned.unknown:  # without a buffer no position of it is ever stored
                self._task_metrics.assigned(where)
                self._task_metrics.failed[where] = assigned.unknown
                self._task_metrics.retry_at_ms.pop(where, None)
                self._left.add(where)
                continue
            self._left.discard(where)
            buffer = self.buffers.get(where)
            if buffer is None:
                buffer = self.buffers[where] = self._make_buffer(assigned, slot)
            buffer.use_slot(slot)
            if buffer.idle:
                self._restart(buffer, assigned)
                self._task_metrics.failed.pop(where, None)
            elif buffer.turns:  # its reader counts from 0 again
                raise SparkMirrorError(f"{where} is read again by a new attempt of the task: its log was rewritten")
            self._releasing.discard(where)
            self._task_metrics.assigned(where)
            if assigned.end is not None:
                self._task_metrics.answered(where, assigned.end, buffer)
            self._progress.adopt(where)

    def _make_buffer(self, assigned: Assigned, slot: int) -> PartitionBuffer:
        """A topic made again starts where the old one stood: a gap row follows and says so."""
        own, moved = Unpacking(self._budget), self._progress.moved
        return DirectBuffer(
            assigned.partition, None, assigned.stands_at.offset, slot, packing=self._packing, moved=moved,
            unpacking=own, clock=self._clock,
        )  # fmt: skip

    def make_lane(self, target: TopicPartition, clock: Clock) -> PartitionBuffer:
        """A buffer for records that others than the partition's own source send there, too. Its own name differs from
        every source partition's, also where topics keep theirs."""
        name, packing = TopicPartition(f"to {target.topic}", target.partition), LanePacking.of(self._packing)
        lane = PartitionBuffer(name, None, 0, -1, is_lane=True, packing=packing, clock=clock)
        lane.aim(target.topic, self._limits.of(target.topic))
        return lane

    def _restart(self, buffer: PartitionBuffer, assigned: Assigned) -> None:
        start = assigned.stands_at
        buffer.restart_at(Place(start.offset, Lineage.of(start)))
        buffer.know_committed_end(buffer.committed_end or assigned.committed_end)

    def take_run(self, delivery: Delivery) -> PartitionBuffer | None:
        """Queue a run; returns its buffer, which may now have a batch to send."""
        free = self._free(delivery)
        buffer = self.buffers.get(delivery.partition) if delivery.partition else None
        if buffer is None or not self._is_next(buffer, delivery):
            free()
            return None
        self._task_metrics.arrived(buffer, delivery)
        if delivery.target_topic is None:
            free()
            raise SparkMirrorError(f"{buffer.source} was assigned, but the flow's plan names no target topic for it")
        buffer.aim(delivery.target_topic, self._limits.of(delivery.target_topic))
        queued = QueuedRecords(delivery.payload, buffer.position, delivery.next_offset, free, delivery.fetched_at_ms)
        queued.leader_epoch = delivery.leader_epoch
        buffer.accept(queued)
        return buffer

    def take_range(self, made: MadeRange) -> PartitionBuffer | None:
        """Queue a range of records in the batches that they became, its problem behind them; returns its buffer, which
        may now have a batch to send."""
        delivery, pieces = made.delivery, made.pieces
        free = partial(self.free_range, delivery, made.size_bytes, made.extra_bytes)
        buffer = self.buffers.get(delivery.partition) if delivery.partition else None
        if buffer is None or not self.may_accept(buffer, delivery):
            free()
            return None
        assert delivery.target_topic is not None, "the flow names the topic"
        buffer.aim(delivery.target_topic, self._limits.of(delivery.target_topic))
        first, following = buffer.position, delivery.next_offset
        queued = QueuedRecords(delivery.payload, first, following, free, delivery.fetched_at_ms)
        queued.leader_epoch = delivery.leader_epoch
        if not (pieces or made.problem):
            buffer.accept(queued)
            self._effects.append(Advance(buffer, []))
            return None
        queued.rewriting = MadePieces(pieces, first, following, made.problem)
        buffer.accept(queued, sum([len(piece.data) for piece in pieces]))
        return buffer

    def free_range(self, delivery: Delivery, size_bytes: int, extra_bytes: int) -> None:
        """Give the memory of the run that a range was made of back to the reader."""
        self.freed_extra_bytes += extra_bytes
        if self._peer is None:
            return
        if delivery.lease is not None:
            self._peer.give_back(delivery.lease)
        else:
            self._peer.free_inline(size_bytes)

    def may_accept(self, buffer: PartitionBuffer, delivery: Delivery) -> bool:
        """Whether a range of records continues its partition. It cannot be cut: one that begins too low is read
        again."""
        if not self._is_next(buffer, delivery):
            return False
        if delivery.first_offset < buffer.position:
            self._refuse(buffer, delivery)
            return False
        self._task_metrics.arrived(buffer, delivery)
        return True

    def _is_next(self, buffer: PartitionBuffer, delivery: Delivery) -> bool:
        if buffer.is_failed:
            return False
        is_same_log = delivery.turns == buffer.turns
        if buffer.state is not State.FLOWING and not (is_same_log and buffer.take_up(delivery.first_offset)):
            return False
        if is_same_log and delivery.first_offset < buffer.position:
            _require_same_records(buffer, delivery)
        if is_same_log and delivery.next_offset <= buffer.position:
            self._task_metrics.duplicates += delivery.records
            return False
        if delivery.first_offset > buffer.position or not is_same_log:
            self._refuse(buffer, delivery)
            return False
        return True

    def _refuse(self, buffer: PartitionBuffer, delivery: Delivery) -> None:
        log.error(
            "%s: records of offsets %d to %d came where %d was due; they are read again from there.",
            buffer.source,
            delivery.first_offset,
            delivery.next_offset - 1,
            buffer.position,
            extra={"event": "order"},
        )
        self._task_metrics.refused_gaps += 1
        buffer.refuse_row()
        if self._peer is None or buffer.slot < 0:
            raise SparkMirrorError(f"{buffer.source} is read again from its position by a new attempt of the task")
        self._peer.order(buffer.slot, paused=False, offset=buffer.position, turns=buffer.turns)

    def take_extent(self, delivery: Delivery) -> None:
        """Check what an extent row accounts for, which was announced before: it has reached the partition, unless that
        is being read again from elsewhere. What has not is read again."""
        buffer = self.buffers.get(delivery.partition) if delivery.partition else None
        if buffer is None or buffer.state is not State.FLOWING or delivery.turns != buffer.turns:
            return
        if delivery.next_offset > buffer.position:
            self._refuse(buffer, delivery)

    def take_gap(self, delivery: Delivery) -> PartitionBuffer | None:
        """A gap row explains why the source continues at another offset: the position follows, and the loss is counted.

        A gap that leads back means that the log was rewritten from there on. It counts and is recorded from the
        position of the writer, not of the reader, which may have been ordered back: otherwise the new records would
        pass for duplicates. The reader reports a gap again that was not taken: the rows behind it are of a log that the
        writer does not know, and are refused.
        """
        buffer = self.buffers.get(delivery.partition) if delivery.partition else None
        if buffer is None or buffer.is_failed:
            return None
        told = decode(bytes(delivery.payload), GapRow, "A gap row")
        if told.from_turns != buffer.turns:
            return None
        if buffer.state is not State.FLOWING and not buffer.take_up(delivery.first_offset):
            return None
        if not _leads_on(buffer.position, delivery):
            return None
        turned = Lineage(told.id, told.epochs, delivery.turns)
        if not told.cause:
            self._turn(buffer, delivery, turned)
            return buffer
        left_at = buffer.position
        lost = max(delivery.next_offset - left_at, 0)
        action = self._on_data_loss.of(buffer.source.topic)
        found = (told.cause, left_at, delivery.next_offset)
        log.warning(
            "%s: the source's log was found changed (%s): mirroring %s from offset %d instead of %d; "
            "%d offsets are gone.",
            buffer.source,
            told.cause,
            "goes on" if action == CONTINUE else "would go on",
            delivery.next_offset,
            left_at,
            lost,
            extra={"event": "gap"},
        )
        beyond = (delivery.turns, delivery.next_offset) if action == CONTINUE else None
        self._progress.gaps.add(buffer, *found, DONE[action], turned.topic_id, beyond)
        if action != CONTINUE:
            self._effects.append(Hold(buffer, _describe_loss(*found, lost, action)))
            return buffer
        self._turn(buffer, delivery, turned)
        return buffer

    def _turn(self, buffer: PartitionBuffer, delivery: Delivery, turned: Lineage) -> None:
        """Queue the change to the rewritten log, behind all records of the log before."""
        self._progress.turn(buffer.source)
        queued = QueuedRecords(memoryview(b""), buffer.position, delivery.next_offset, free_nothing)
        queued.turned = turned
        buffer.accept(queued)

    def take_release(self, delivery: Delivery) -> PartitionBuffer | None:
        buffer = self.buffers.get(delivery.partition) if delivery.partition else None
        if buffer is not None:
            self._releasing.add(buffer.source)
            self.release_if_idle(buffer)
        return buffer

    @property
    def is_releasing(self) -> bool:
        """Whether a partition is to leave the task."""
        return bool(self._releasing)

    def release_if_idle(self, buffer: PartitionBuffer) -> None:
        """A released partition leaves the task when all of it is acknowledged; the ledger records this."""
        if self._releasing and buffer.source in self._releasing and buffer.idle:
            self._releasing.discard(buffer.source)
            self._left.add(buffer.source)
            self._task_metrics.released(buffer.source)
            self._progress.release(buffer.source)

    def has_left(self, buffer: PartitionBuffer) -> bool:
        """Whether nothing is read of the partition any more: it was released, and may have come back without a
        start."""
        return buffer.source in self._left

    def take_order(self, delivery: Delivery) -> PartitionBuffer | None:
        """Take an operator's command; returns the buffer of a partition that is to be retried at once."""
        where, word = delivery.partition, bytes(delivery.payload)
        if where is None:
            return None
        if word == ORDERED_PAUSE:
            self._task_metrics.paused.add(where)
        elif word == ORDERED_RESUME:
            self._task_metrics.paused.discard(where)
        return self.buffers.get(where) if word == ORDERED_RETRY else None

    def take_fault(self, delivery: Delivery) -> None:
        """Note why the partition does not move, and where it ends, if that is known. Without a payload nothing holds
        it."""
        where, end = delivery.partition, delivery.high_watermark
        if where is None:
            return
        self._task_metrics.faults.pop(where, None)
        if not delivery.payload or end >= 0:
            self._task_metrics.answered(where, end, self.buffers.get(where), is_read_up=True)
        else:
            self._task_metrics.unknown(where)
        if delivery.payload:
            self._task_metrics.faults[where] = bytes(delivery.payload).decode(errors="replace")

    def give_back_later(self, lease: int, size: int) -> Callable[[], None]:
        """What gives a lease back that counts among the leased bytes."""
        peer, task_metrics = self._peer, self._task_metrics
        assert peer is not None, "only a reader's memory is leased"

        def give_back() -> None:
            task_metrics.leased_bytes -= size
            peer.give_back(lease)

        return give_back

    def free_inline_later(self, size: int) -> Callable[[], None]:
        """What frees a payload that came in a row and counts among the inline bytes."""
        peer = self._peer

        def free() -> None:
            self.inline_bytes -= size
            if peer is not None:
                peer.free_inline(size)

        return free

    def _free(self, delivery: Delivery) -> Callable[[], None]:
        size = len(delivery.payload)
        if delivery.lease is not None and self._peer is not None:
            self._task_metrics.leased_bytes += size
            return self.give_back_later(delivery.lease, size)
        self.inline_bytes += size
        return self.free_inline_later(size)


def _require_same_records(buffer: PartitionBuffer, delivery: Delivery) -> None:
    """What comes again, and is dropped, must be what was taken. A reader that was ordered back forgets what it read;
    where the log is cut meanwhile, by an unclean election, other records come from there, of a later epoch. A new
    attempt begins with the epochs of what was taken: the source then says from where its log is another.

    A run may begin before its first record, where others were compacted or left out: that record's place counts. Raises
    SparkMirrorError, which ends the attempt.
    """
    begins = int.from_bytes(delivery.payload[:8], "big") if delivery.payload else delivery.first_offset
    if delivery.records and begins < buffer.position and delivery.leader_epoch > buffer.epoch_taken > NO_EPOCH:
        raise SparkMirrorError(
            f"{buffer.source} is read again by a new attempt of the task: its log was rewritten below offset "
            f"{buffer.position} after that was read"
        )


def _describe_loss(cause: str, expected: int, resumed: int, lost: int, action: str) -> str:
    what = (
        f"the source's log has changed ({cause}): it goes on at offset {resumed} instead of {expected}, {lost} are gone"
    )
    return f"{what}; {what_next(action)}"


def _leads_on(position: int, gap: Delivery) -> bool:
    return gap.first_offset == position or gap.next_offset < min(gap.first_offset, position)
