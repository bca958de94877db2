"""From rows to outboxes: the writer is the authority on what comes next. Owned by `target.sender`.

A run below its partition's position is a duplicate and dropped, or cut; a run above it is a gap: it is refused, and the
reader is told to come again from the position, unless a gap row has explained it (invariants 1 and 2).
"""

import json
import logging
from collections.abc import Callable
from uuid import UUID

from sparkmirror.batch.unpacking import Unpacking, UnpackingBudget
from sparkmirror.errors import SparkMirrorError
from sparkmirror.ledger.lineage import Lineage, epochs_from_json
from sparkmirror.model import TopicPartition
from sparkmirror.policy.loss import CONTINUE, DONE, LossPolicy, what_next
from sparkmirror.relay.lease import RingPeer
from sparkmirror.relay.schema import ORDERED_PAUSE, ORDERED_RESUME, ORDERED_RETRY
from sparkmirror.target.delivery import Delivery
from sparkmirror.target.limits import TargetLimits
from sparkmirror.target.outbox import Outbox
from sparkmirror.target.packing import Packing
from sparkmirror.target.parcel import Parcel, free_nothing
from sparkmirror.target.plan_row import PlanRow
from sparkmirror.target.progress import Progress
from sparkmirror.target.standing import Place, State
from sparkmirror.target.tally import Tally

log = logging.getLogger(__name__)

CONTINUE_ALWAYS = LossPolicy()


class Intake:
    """All outboxes of the task by source partition."""

    def __init__(
        self,
        peer: RingPeer | None,
        progress: Progress,
        tally: Tally,
        limits: TargetLimits,
        packing: Packing,
        on_data_loss: LossPolicy = CONTINUE_ALWAYS,
    ) -> None:
        self._budget = UnpackingBudget(packing.unpacked_bytes_max)
        self._on_data_loss = on_data_loss
        self._peer = peer
        self._progress = progress
        self._tally = tally
        self._limits = limits
        self._packing = packing
        self._releasing: set[TopicPartition] = set()
        self.outboxes: dict[TopicPartition, Outbox] = {}
        self.inline_bytes = 0

    def take_plan(self, plan: PlanRow) -> None:
        for assigned, slot in plan.partitions:
            where = assigned.partition
            if assigned.unknown:  # without an outbox no position of it is ever stored
                self._tally.assigned(where)
                self._tally.failed[where] = assigned.unknown
                continue
            # A topic made anew starts where the old one stood: a gap row follows and says so.
            start = assigned.stands_at
            outbox = self.outboxes.get(where)
            if outbox is None:
                own, moved = Unpacking(self._budget), self._progress.moved
                outbox = Outbox(where, None, start.offset, slot, packing=self._packing, moved=moved, unpacking=own)
                self.outboxes[where] = outbox
            outbox.slot = slot
            if outbox.idle:
                outbox.restart_at(Place(start.offset, Lineage.of(start)))
                self._tally.failed.pop(where, None)
            elif outbox.turns:  # its reader counts from 0 again
                raise SparkMirrorError(f"{where} is read again by a new attempt of the task: its log was rewritten")
            self._releasing.discard(where)
            self._tally.assigned(where)
            self._progress.adopt(where)

    def take_run(self, delivery: Delivery) -> Outbox | None:
        """Queue a run; returns its outbox when that may have something to send."""
        free = self._free(delivery)
        outbox = self.outboxes.get(delivery.partition) if delivery.partition else None
        if outbox is None or not self._is_next(outbox, delivery):
            free()
            return None
        self._tally.arrived(outbox, delivery)
        if delivery.target_topic is None:
            free()
            raise SparkMirrorError(f"{outbox.source} was assigned, but the flow's plan names no target topic for it")
        outbox.aim(delivery.target_topic, self._limits.of(delivery.target_topic))
        parcel = Parcel(delivery.payload, outbox.position, delivery.next_offset, free, delivery.fetched_at_ms)
        parcel.leader_epoch = delivery.leader_epoch
        outbox.accept(parcel)
        return outbox

    def may_route(self, outbox: Outbox, delivery: Delivery) -> bool:
        """Whether a range of records continues its partition. What they became cannot be cut: then they come again."""
        if not self._is_next(outbox, delivery):
            return False
        if delivery.first_offset < outbox.position:
            self._refuse(outbox, delivery)
            return False
        self._tally.arrived(outbox, delivery)
        return True

    def _is_next(self, outbox: Outbox, delivery: Delivery) -> bool:
        if outbox.state is State.FAILED:
            return False
        is_same_log = delivery.turns == outbox.turns
        if outbox.state is State.REWINDING and not (is_same_log and outbox.take_up(delivery.first_offset)):
            return False
        if is_same_log and delivery.next_offset <= outbox.position:
            self._tally.duplicates += delivery.records
            return False
        if delivery.first_offset > outbox.position or not is_same_log:
            self._refuse(outbox, delivery)
            return False
        return True

    def _refuse(self, outbox: Outbox, delivery: Delivery) -> None:
        log.error(
            "%s: records from offset %d came where %d was due; they are read again from there.",
            outbox.source,
            delivery.first_offset,
            outbox.position,
            extra={"event": "order"},
        )
        self._tally.refused_gaps += 1
        outbox.state = State.REWINDING
        if self._peer is None or outbox.slot < 0:
            raise SparkMirrorError(f"{outbox.source} is read again from its position by a new attempt of the task")
        self._peer.order(outbox.slot, paused=False, offset=outbox.position, turns=outbox.turns)

    def take_gap(self, delivery: Delivery) -> Outbox | None:
        """The reader explains why the source goes on elsewhere: the position follows, and the loss is counted.

        A gap that leads back says that the log was rewritten from there on. It counts from wherever this end stands, or
        the new records would pass for duplicates, and is recorded so: a reader that was ordered back stood before it.
        One that is not taken is told again: what follows it is of a log that this end does not know, and is refused.
        """
        outbox = self.outboxes.get(delivery.partition) if delivery.partition else None
        if outbox is None or outbox.state is State.FAILED:
            return None
        told = json.loads(bytes(delivery.payload))
        if told["from"] != outbox.turns:
            return None
        if outbox.state is State.REWINDING and not outbox.take_up(delivery.first_offset):
            return None
        if not _leads_on(outbox.position, delivery):
            return None
        turned = Lineage(UUID(told["id"]), epochs_from_json(told["epochs"]), delivery.turns)
        if not told["cause"]:
            self._turn(outbox, delivery, turned)
            return outbox
        left_at = outbox.position
        lost = max(delivery.next_offset - left_at, 0)
        action = self._on_data_loss.of(outbox.source.topic)
        found = (told["cause"], left_at, delivery.next_offset)
        log.warning(
            "%s: the source's log was found changed (%s): mirroring %s from offset %d instead of %d; "
            "%d offsets are gone.",
            outbox.source,
            told["cause"],
            "goes on" if action == CONTINUE else "would go on",
            delivery.next_offset,
            left_at,
            lost,
            extra={"event": "gap"},
        )
        beyond = (delivery.turns, delivery.next_offset) if action == CONTINUE else None
        self._progress.record_gap(outbox, *found, DONE[action], turned.topic_id, beyond)
        if action != CONTINUE:
            outbox.lost_reason = _describe_loss(*found, lost, action)
            return outbox
        self._turn(outbox, delivery, turned)
        return outbox

    def _turn(self, outbox: Outbox, delivery: Delivery, turned: Lineage) -> None:
        """The log goes on as another one, once all that came before is on the target."""
        self._progress.turn(outbox.source)
        parcel = Parcel(memoryview(b""), outbox.position, delivery.next_offset, free_nothing)
        parcel.turned = turned
        outbox.accept(parcel)

    def take_release(self, delivery: Delivery) -> Outbox | None:
        outbox = self.outboxes.get(delivery.partition) if delivery.partition else None
        if outbox is not None:
            self._releasing.add(outbox.source)
            self.release_if_idle(outbox)
        return outbox

    def release_if_idle(self, outbox: Outbox) -> None:
        """A released partition leaves the task once all of it is acknowledged; the ledger says so."""
        if self._releasing and outbox.source in self._releasing and outbox.idle:
            self._releasing.discard(outbox.source)
            self._tally.released(outbox.source)
            self._progress.release(outbox.source)

    def take_order(self, delivery: Delivery) -> Outbox | None:
        """The operator's word about a partition; its outbox where it is to be tried again at once."""
        where, word = delivery.partition, bytes(delivery.payload)
        if where is None:
            return None
        if word == ORDERED_PAUSE:
            self._tally.paused.add(where)
        elif word == ORDERED_RESUME:
            self._tally.paused.discard(where)
        return self.outboxes.get(where) if word == ORDERED_RETRY else None

    def take_fault(self, delivery: Delivery) -> None:
        """Why the partition does not move; an empty sentence says that nothing keeps it any more."""
        if delivery.partition is None:
            return
        self._tally.faults.pop(delivery.partition, None)
        if delivery.payload:
            self._tally.faults[delivery.partition] = bytes(delivery.payload).decode(errors="replace")

    def _free(self, delivery: Delivery) -> Callable[[], None]:
        peer, lease = self._peer, delivery.lease
        size = len(delivery.payload)
        if lease is not None and peer is not None:
            self._tally.leased_bytes += size

            def give_back() -> None:
                self._tally.leased_bytes -= size
                peer.give_back(lease)

            return give_back
        self.inline_bytes += size

        def free() -> None:
            self.inline_bytes -= size
            if peer is not None:
                peer.free_inline(size)

        return free


def _describe_loss(cause: str, expected: int, resumed: int, lost: int, action: str) -> str:
    what = (
        f"the source's log has changed ({cause}): it goes on at offset {resumed} instead of {expected}, {lost} are gone"
    )
    return f"{what}; {what_next(action)}"


def _leads_on(position: int, gap: Delivery) -> bool:
    return gap.first_offset == position or gap.next_offset < min(gap.first_offset, position)
