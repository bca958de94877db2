"""One task's producing: takes rows, answers, outcomes of background work and timers, and applies the effects that its
parts ask for, in one place (`ProduceTask.apply`). No thread and no waiting; owned by `pipeline.produce.sender`.

The parts know nothing of each other beyond what they are given; what one of them wants done elsewhere is an effect
(`pipeline.produce.effects`), which is applied as soon as the part has returned.
"""

import logging
import selectors
from collections.abc import Iterable, Sequence
from math import inf
from typing import Final
from uuid import UUID

from sparkmirror.batch.loading import kernels_ready
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.background import Outcome
from sparkmirror.kafka.wire.data_requests import FIRST_TRANSACTIONS, SECOND_TRANSACTIONS
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce import effects as wanted
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.connection import Dialect, ProduceConnection
from sparkmirror.pipeline.produce.delivery import Arrival, Bundle, Delivery, MadeRange
from sparkmirror.pipeline.produce.effects import Effect
from sparkmirror.pipeline.produce.limits import TopicLimits
from sparkmirror.pipeline.produce.partition_state import State
from sparkmirror.pipeline.produce.task_parts import Parts
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.pipeline.relay.plan_row import PlanRow

log = logging.getLogger(__name__)

_AWAY_SECONDS: Final = 2.0
_CUT_OFF: Final = """task %d: the target has not acknowledged and stored in time what was under way at the end: %s, \
and the next run goes on from the stored positions."""


class ProduceTask:
    """The parts of one task, put together."""

    def __init__(self, parts: Parts, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._effects = parts.effects
        self._brokers = parts.brokers
        self.task_metrics = parts.task_metrics
        self._progress = parts.progress
        self._limits = parts.limits
        self._gate = parts.gate
        self._extents = parts.extents
        self._direct = parts.direct
        self._ledger_flush = parts.ledger_flush
        self._guarantee = parts.guarantee
        self._dispatch = parts.dispatch
        self._isolation = parts.isolation
        self._log_check = parts.log_check
        self._routing = parts.routing
        self._answer_taker = parts.answer_taker
        self._drain = parts.drain
        self._merges, self._offsets_topic = parts.merges, parts.offsets_topic

    def prefetch(self) -> None:
        """Look up what is needed first, before anything waits for it."""
        self._brokers.prefetch([self._offsets_topic])

    @property
    def inline_bytes(self) -> int:
        """Bytes of unacknowledged inline payload in this process."""
        return self._gate.inline_bytes

    @property
    def freed_extra_bytes(self) -> int:
        """Of all ranges that are done, what their batches took beyond the reader's memory."""
        return self._gate.freed_extra_bytes

    def limits_of(self, topic: str) -> TopicLimits:
        return self._limits.known(topic)

    def topic_id_of(self, topic: str) -> UUID | None:
        return self._brokers.topic_id(topic)

    def acknowledged(self) -> dict[TopicPartition, int]:
        """Each partition's acknowledged position; with exactly-once, the committed one."""
        is_final, boxes = self._guarantee.transactional, self._gate.buffers.values()
        return {one.source: one.committed.offset if is_final else one.acknowledged for one in boxes}

    # Rows in.

    def take_plan(self, plan: PlanRow) -> None:
        self._ledger_flush.take_plan(plan)
        self._gate.take_plan(plan)
        self._extents.take_plan(plan)
        for assigned, _ in plan.partitions:
            buffer = self._gate.buffers.get(assigned.partition)
            if buffer is not None and (reason := self._log_check.expect(buffer, assigned)):
                self._isolation.hold(buffer, reason)
        self.apply()

    def take_announced(self, announcements: Iterable[Announcement]) -> bool:
        """Take announcements, in order. Whether all of them are gathered to be sent at once."""
        are_gathered = True
        for announcement in self._direct.take_all(announcements):
            are_gathered = False
            run = self._extents.deliver(announcement)
            touched = None if run is None else self._gate.take_run(run)
            self._offer_fresh(() if touched is None else (touched,))
        return are_gathered

    def take(self, arrived: Arrival) -> None:
        """Take a row, or a range of records."""
        if isinstance(arrived, Delivery) and self._direct.take_row(arrived):
            return
        self._direct.send()
        if isinstance(arrived, Bundle):
            self._offer_fresh(self._routing.take(arrived))
        else:
            touched = self._gate.take_range(arrived) if isinstance(arrived, MadeRange) else self._take_row(arrived)
            self._offer_fresh(() if touched is None else (touched,))

    def _offer_fresh(self, fresh: Sequence[PartitionBuffer]) -> None:
        if self._effects:
            self.apply()
        for buffer in fresh:
            if until := buffer.linger.tell_end():
                self._isolation.back_off(buffer, until)
            self._dispatch.offer(buffer)

    def _take_row(self, delivery: Delivery) -> PartitionBuffer | None:
        """The buffer that may now have a batch to send, if there is one."""
        touched: PartitionBuffer | None = None
        match delivery.kind:
            case "run":
                touched = self._gate.take_run(delivery)
            case "extent":
                self._gate.take_extent(delivery)
            case "gap":
                touched = self._gate.take_gap(delivery)
            case "order":
                touched = self._gate.take_order(delivery)
                if touched is not None:
                    self._isolation.force(touched, self._clock.monotonic())
            case "release":
                touched = self._gate.take_release(delivery)
            case "plan":
                self.take_plan(PlanRow.parse(bytes(delivery.payload)))
            case _:
                self._gate.take_fault(delivery)
        return touched

    # What the sockets bring.

    def serve(self, connection: ProduceConnection, events: int) -> None:
        """Write to a connection, take its answers, and send what it has room for."""
        try:
            if events & selectors.EVENT_WRITE:
                connection.write()
            if events & selectors.EVENT_READ:
                self._take_answers(connection)
            if connection.is_watched_for_room or connection.wants_to_write:
                self._dispatch.watch(connection)
        except (OSError, ProtocolError, KeyError):
            self._dispatch.lose(connection)
        if self._effects:
            self.apply()

    def _take_answers(self, connection: ProduceConnection) -> None:
        now = self._clock.monotonic()
        for answer in connection.receive():
            for buffer, batch, produced in answer.parts:
                self._answer_taker.take(buffer, batch, produced, now, answer.arrived_at_ms)
                if self._effects:
                    self.apply()
                if buffer.is_failed:
                    self._isolation.settle(buffer)
                else:
                    self._dispatch.offer(buffer)
            if answer.throttle_ms:
                self.task_metrics.throttled_ms += answer.throttle_ms
                self._guarantee.throttled(connection.not_before)
        if self._dispatch.has_ready(connection):
            self._dispatch.fill(connection, now)

    def serve_coordinator(self) -> None:
        self._guarantee.serve()
        self.apply()

    # What is due.

    def send_announced(self) -> None:
        """Send what `take_announced` has gathered: all that `send` would do where nothing else has happened."""
        self._direct.send()
        if self._effects:
            self.apply()

    def send(self, now: float) -> None:
        """Do what the guarantee has due, and send what there is room for."""
        self._direct.send()
        self._guarantee.poll(now)
        self.apply()
        self._routing.pass_on()
        if self._effects:
            self.apply()
        for connection in self._dispatch.ready():
            self._dispatch.fill(connection, now)
            if self._effects:
                self.apply()
        self._brokers.poll()

    @property
    def may_leave_answers(self) -> bool:
        """Whether due answers may be read with the next announcement, at one wake-up: nothing waits for them."""
        return self._direct.is_open and not self._effects and not self.has_timers and self._dispatch.may_leave_answers

    @property
    def has_timers(self) -> bool:
        """Whether `tend` may have something to do because time has passed."""
        waits = self._isolation.wake_at < inf or bool(self._dispatch.leaderless)
        return waits or self._drain.has_begun or self._guarantee.hurries

    def wake_at(self, now: float, tend_at: float, rest_seconds: float) -> float:
        """When `send`, or `tend` at `tend_at`, is due at the latest, if nothing happens before."""
        soonest = min(max(self._isolation.wake_at, tend_at), now + rest_seconds, self._guarantee.wake_at)
        return min(soonest, now + 0.05) if self._dispatch.leaderless else soonest

    def tend(self, now: float, outcomes: Iterable[Outcome], *, row_thread_waits: bool = False) -> None:
        """Take what background work has brought, and look after timers. `row_thread_waits` for room in this process."""
        self._direct.send()
        for outcome in outcomes:
            self._take_outcome(outcome)
        if self._drain.has_begun:
            for buffer in self._gate.buffers.values():
                buffer.linger.stop()
                self._dispatch.offer(buffer)
        for buffer in self._isolation.due(now):
            if self._guarantee.holds(buffer):
                self._isolation.back_off(buffer, now + _AWAY_SECONDS)
                continue
            buffer.wake()
            self._isolation.wake_up(buffer, now)
            self._dispatch.offer(buffer)
        self._dispatch.house_homeless()
        self._dispatch.tend(now)
        if self._guarantee.hurries:
            self._dispatch.hasten(now)
        self.apply()  # what has failed by now is no stuck one
        self._isolation.evict_stuck(self._gate.buffers.values(), now, row_thread_waits=row_thread_waits)
        self.apply()

    def _take_outcome(self, outcome: Outcome) -> None:
        self._guarantee.take(outcome)
        self._heed_limits(self._limits.take(outcome))
        opened = self._brokers.take(outcome)
        if self._brokers.is_far and self._merges:
            kernels_ready()
        if opened is not None:
            self._dispatch.open(opened)
        self._dispatch.house_homeless()
        self.apply()

    def _heed_limits(self, answered: tuple[str, bool] | None) -> None:
        """Send batches again, within limits that are known now, that were refused by them."""
        if answered is None:
            return
        topic, has_changed = answered
        for buffer in (*self._gate.buffers.values(), *self._routing.lanes.values()):
            if not buffer.is_aimed_at(topic):
                continue
            if buffer.awaits_limits:
                buffer.know_limits()
                self._dispatch.offer(buffer)
            elif has_changed:
                self._isolation.retry_now(buffer, self._clock.monotonic())

    # The end.

    def is_over(self, now: float) -> bool:
        """Whether the queues are drained or the time is over, and the answers to sent batches and the last positions
        are in, as far as possible."""
        flowing = [buffer for buffer in self._gate.buffers.values() if buffer.state is State.FLOWING]
        if self._drain.takes_new(now) and not all(buffer.idle for buffer in flowing):
            return False
        is_stored = self._guarantee.finish()
        self.apply()
        is_known = self._guarantee.transactional or all(buffer.settled for buffer in flowing)
        are_held_known = all(buffer.quiet for buffer in self._gate.buffers.values() if buffer.is_held)
        is_done = is_stored and is_known and are_held_known
        if not is_done and self._drain.is_over(now):
            what = "its open transaction is aborted" if self._guarantee.transactional else "what it sent may come twice"
            log.warning(_CUT_OFF, self._ledger_flush.plan.task, what, extra={"event": "cut-off"})
            return True
        return is_done

    def close(self) -> None:
        self._guarantee.close()
        self._brokers.close()

    # Effects.

    def apply(self) -> None:
        """Do what the parts have asked for; what an effect asks for in its turn comes before those behind it."""
        effects = self._effects
        while effects:
            effect = effects.popleft()
            behind = len(effects)
            self._carry_out(effect)
            if behind:
                effects.rotate(len(effects) - behind)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case wanted.Offer(buffer):
                self._dispatch.offer(buffer)
            case wanted.Placed(buffer, batch, base_offset, came_at_ms):
                self._answer_taker.go_on(buffer, batch, base_offset, came_at_ms)
            case wanted.Advance(buffer, mapped, is_alone):
                self._progress.map_batches(buffer.source, mapped, is_alone=is_alone)
                self._isolation.after_progress(buffer)
            case wanted.BackOff(buffer, until):
                self._isolation.back_off(buffer, until)
            case wanted.Fail(buffer, reason):
                self._fail(buffer, reason)
            case wanted.Hold(buffer, reason):
                self._isolation.hold(buffer, reason)
            case wanted.NoteMisplaced(buffer, found, reason):
                self._progress.misplaced.add(buffer.source, found, reason)
            case wanted.Settle(buffer):
                self._isolation.settle(buffer)
            case wanted.Evict(buffer) if buffer.state is State.FLOWING:  # else an effect before it has freed its memory
                self._dispatch.flush_socket_of(buffer)
                self._isolation.evict(buffer)
            case wanted.InDoubt(buffer):
                self._settle_doubt(buffer)
            case wanted.RefusePositions(ledger):
                self._guarantee.positions_refused(ledger)
            case wanted.Refuse(where, reason):
                self._refuse_target(where, reason)
            case wanted.Absent(where) if where in self._routing.lanes:
                self._brokers.forget([where])
            case wanted.Speak(second_protocol, transactional_id):
                self._speak(second_protocol, transactional_id)
            case wanted.Abort(reason, awaits_answers):
                self._guarantee.abort(reason, awaits_answers=awaits_answers)
            case wanted.Commit():
                self._commit()
            case wanted.RollBack():
                self._roll_back()

    def _fail(self, buffer: PartitionBuffer, reason: str) -> None:
        """Isolate a target partition. If it is the ledger's, transactions isolate the partitions whose positions go
        there too; at least once their data goes on."""
        self._isolation.fail(buffer, reason)
        if not buffer.is_ledger or not self._progress.note_refusal(buffer):
            return
        if self._guarantee.transactional:
            for one in self._gate.buffers.values():
                if obstacle := self._progress.obstacle(one.source):
                    self._isolation.fail(one, obstacle)
        self._effects.append(wanted.RefusePositions(buffer))  # behind what is in doubt, which forbids EndTxn

    def _settle_doubt(self, buffer: PartitionBuffer) -> None:
        """In transactions a new epoch settles the doubt. A lane's next records are others, so its task gets a new epoch
        too; another buffer sends its batches again as they were."""
        if not self._guarantee.transactional and buffer.is_lane:
            self._guarantee.sequence_lost(buffer, "it may have a batch that it did not acknowledge")
        self._guarantee.refused_in_doubt(buffer)

    def _refuse_target(self, where: TopicPartition, reason: str) -> None:
        boxes = (self._gate.buffers, self._routing.lanes, self._progress.buffers)
        for buffer in [box for some in boxes for box in some.values() if box.is_aimed_at(*where)]:
            self._fail(buffer, reason)

    def _speak(self, second_protocol: bool, transactional_id: str) -> None:
        """Set the transaction protocol of the connections; those with the other protocol are opened again."""
        versions = SECOND_TRANSACTIONS if second_protocol else FIRST_TRANSACTIONS
        dialect = Dialect(versions, transactional_id)
        if dialect != self._brokers.dialect:
            self._dispatch.hang_up()
            self._brokers.dialect = dialect
        for buffer in self._gate.buffers.values():
            self._dispatch.offer(buffer)

    def _commit(self) -> None:
        self._progress.commit()
        for buffer in self._gate.buffers.values():
            buffer.commit()

    def _roll_back(self) -> None:
        """Go back to the last commit: drop all since then, and have the reader read it again."""
        self._dispatch.hang_up()
        self._progress.roll_back()
        self._routing.roll_back()
        for buffer in (*self._progress.buffers.values(), *self._routing.lanes.values()):
            self._isolation.settle(buffer)  # it failed while its answer was due, which will not come any more
        for buffer in self._gate.buffers.values():
            self._isolation.roll_back(buffer)
            self._isolation.settle(buffer)
