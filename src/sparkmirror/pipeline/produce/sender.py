"""The writer's sender thread. It owns all sockets and timers, so that acknowledgements, retries and progress go on
while no row comes.

Rows arrive through `put`; `finish` drains for a bounded time. No broker blocks the others: a partition whose target
does not answer is evicted from the reader's memory and paused there, a partition that the target refuses is FAILED and
retried later, and all others go on. Runs in a Python worker; owned by `pipeline.produce.writer`.
"""

import logging
import os
import selectors
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from sparkmirror.batch.loading import kernels_ready
from sparkmirror.batch.unpacking import CONTENT_HINT, UnpackingBusy
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import ContentTooLarge, ProtocolError, RecordTooLarge
from sparkmirror.kafka.background import Background
from sparkmirror.kafka.fencing import ProducerIdentity, transactional_id
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.data_requests import FIRST_TRANSACTIONS, SECOND_TRANSACTIONS, ProducedPartition
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.answers import (
    LIMITED,
    MESSAGE_TOO_LARGE,
    BatchOutcome,
    describe,
    judge,
    leaves_doubt,
    rest_seconds,
)
from sparkmirror.pipeline.produce.brokers import Brokers
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.connection import Dialect, ProduceConnection
from sparkmirror.pipeline.produce.coordinator import Coordinator
from sparkmirror.pipeline.produce.delivery import Bundle, Delivery
from sparkmirror.pipeline.produce.dispatch import Dispatch
from sparkmirror.pipeline.produce.effects import Effects, Hold
from sparkmirror.pipeline.produce.gate import CONTINUE_ALWAYS, SequenceGate
from sparkmirror.pipeline.produce.guarantee import AtLeastOnce, Guarantee
from sparkmirror.pipeline.produce.isolation import Isolation
from sparkmirror.pipeline.produce.limits import TargetLimits
from sparkmirror.pipeline.produce.log_check import TargetLogCheck
from sparkmirror.pipeline.produce.packing import PASS_OR_MERGE, Packing
from sparkmirror.pipeline.produce.partition_state import State
from sparkmirror.pipeline.produce.progress import Progress, ProgressOptions
from sparkmirror.pipeline.produce.queued_records import Batch
from sparkmirror.pipeline.produce.reports import Report, Reports
from sparkmirror.pipeline.produce.routing import Routing
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.produce.transaction import ExactlyOnce, Hooks, TransactionOptions
from sparkmirror.pipeline.produce.unfinished import Seat
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingPeer
from sparkmirror.policy.loss import LossPolicy

log = logging.getLogger(__name__)

DRAIN_SECONDS_MAX: Final = 2.0
_JOIN_SECONDS_MAX: Final = 60.0
"""The loop ends within twice the time to drain; only the compilation of kernels may hold it up for longer."""
_MAKING_SECONDS: Final = 0.2
_TEND_SECONDS: Final = 0.02
"""How often timers are checked while data flows: the loop has tens of thousands of turns a second."""
_BUSY_SECONDS: Final = 0.05
_PARK_SECONDS: Final = 2.0
_SHORT_SECONDS: Final = 0.001
_OTHERS_PARTS: Final = 9
_AWAY_SECONDS: Final = 2.0
_CUT_OFF: Final = (
    "task %d: the target has not acknowledged and stored in time what was under way at the end: "
    "%s, and the next run goes on from the stored positions."
)
_WAKE: Final = "wake"


@dataclass(frozen=True, slots=True)
class SenderOptions:
    """Target cluster, ledger, and sizes. `request_seconds` bounds the broker's wait for its replicas.

    `transactions` is set for exactly-once.
    """

    target: ClientSettings
    progress: ProgressOptions
    connections_per_broker: int = 2
    send_bytes: int = 0
    request_seconds: float = 30.0
    transactions: TransactionOptions | None = None
    packing: Packing = PASS_OR_MERGE
    on_data_loss: LossPolicy = CONTINUE_ALWAYS


class Sender:
    """One task's producing loop, from `start` to `finish`."""

    def __init__(
        self, options: SenderOptions, plan: PlanRow, peer: RingPeer | None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._clock = clock
        self._options = options
        self._plan = plan
        self._peer = peer
        self._inbox: deque[Delivery | Bundle] = deque()
        self._effects: Effects = deque()
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._pipe_lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_reader, selectors.EVENT_READ, _WAKE)
        self._background = Background(self._wake)
        self._brokers = Brokers(
            options.target,
            self._background,
            options.connections_per_broker,
            options.send_bytes,
            options.request_seconds + 10,
            clock,
        )
        self.task_metrics = TaskMetrics(plan, clock)
        in_transactions = options.transactions is not None
        self._progress = Progress(
            options.progress,
            plan.task,
            plan.offsets_partitions,
            plan.run,
            in_transactions=in_transactions,
            lost=self.task_metrics.lost,
            clock=clock,
        )
        self._limits = TargetLimits(options.target, self._background)
        self._gate = SequenceGate(
            peer, self._progress, self.task_metrics, self._limits, options.packing, self._effects,
            options.on_data_loss, clock,
        )  # fmt: skip
        source_alias = options.progress.connector.source_alias
        self._reports = Reports(self.task_metrics, self._gate.buffers, source_alias, clock)
        self._dispatch = Dispatch(
            self._selector, self._brokers, self._next_batch, self._take_back, int(options.request_seconds * 1000)
        )
        self._isolation = Isolation(
            peer, self._gate, self.task_metrics, self._dispatch.flush_socket_of, self._may_keep_doubtful
        )
        self._log_check = TargetLogCheck(self._progress, options.on_data_loss, self._brokers.topic_id)
        self._routing = Routing(
            peer, self._gate, self.task_metrics, self._isolation.fail, self._close_range, self._land, clock
        )
        self._finish_by = 0.0
        self._tend_at = 0.0
        self._park_at = 0.0
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="sparkmirror-sender", daemon=True)
        self._guarantee = self._make_guarantee()
        self._take_plan(plan)

    def _make_guarantee(self) -> Guarantee:
        transactions = self._options.transactions
        if transactions is None:
            return AtLeastOnce(self._plan, self._progress, self._store_progress)
        self._brokers.dialect = None
        plan = self._plan
        own = self._seat(plan.transactional_task, ProducerIdentity(plan.producer_id, plan.producer_epoch))
        spare = self._seat(plan.spare[0], ProducerIdentity(*plan.spare[1:])) if plan.spare else None
        hooks = Hooks(
            self._speak, self._dispatch.offer, self._store_progress, self._commit, self._roll_back, self._refuse_target
        )
        return ExactlyOnce(transactions, plan.task, own, self._progress, hooks, spare, self._clock)

    def _seat(self, task: int, identity: ProducerIdentity) -> Seat:
        name = transactional_id(self._options.progress.connector, task)
        seconds_max = self._options.request_seconds + 10
        return Seat(
            name, identity, Coordinator(self._options.target, name, self._background, self._selector, seconds_max)
        )

    # Called by the row thread.

    def start(self) -> None:
        self._brokers.prefetch([self._options.progress.topics.offsets])
        self._thread.start()

    def put(self, *deliveries: Delivery | Bundle) -> None:
        self._inbox.extend(deliveries)
        self._wake()

    @property
    def inline_bytes(self) -> int:
        """Bytes of unacknowledged inline payload in this process."""
        return self._gate.inline_bytes

    def finish(self) -> None:
        """Drain for at most two seconds, store the last positions, and end. Raises what ended the loop early."""
        self._finish_by = self._clock.monotonic() + DRAIN_SECONDS_MAX
        self._wake()
        self._thread.join(_JOIN_SECONDS_MAX)
        if self.error is not None:
            raise self.error

    @property
    def ended(self) -> bool:
        """Whether the loop is over: until then it may touch the reader's memory."""
        return not self._thread.is_alive()

    def acknowledged(self) -> dict[TopicPartition, int]:
        """Each partition's acknowledged position; with exactly-once, the committed one."""
        boxes = self._gate.buffers.values()
        if self._guarantee.transactional:
            return {buffer.source: buffer.committed.offset for buffer in boxes}
        return {buffer.source: buffer.acknowledged for buffer in boxes}

    def _wake(self) -> None:
        with self._pipe_lock, suppress(OSError):
            if self._wake_writer >= 0:
                os.write(self._wake_writer, b"\0")

    def _close_pipe(self) -> None:
        with self._pipe_lock:
            os.close(self._wake_reader)
            os.close(self._wake_writer)
            self._wake_writer = -1

    # The loop.

    def _run(self) -> None:
        try:
            while not self._done():
                self._turn()
        except Exception as problem:
            self.error = problem
            if self._peer is not None:
                self._peer.fail()
        finally:
            self._background.close()
            self._guarantee.close()
            self._brokers.close()
            self._selector.close()
            self._close_pipe()

    def _done(self) -> bool:
        """Whether the queues are drained or the time is over, and the answers to sent batches and the last positions
        are in, as far as possible."""
        if not self._finish_by or self._inbox:
            return False
        now = self._clock.monotonic()
        flowing = [buffer for buffer in self._gate.buffers.values() if buffer.state is State.FLOWING]
        if now < self._finish_by and not all(buffer.idle for buffer in flowing):
            return False
        is_stored = self._guarantee.finish()
        is_known = self._guarantee.transactional or all(buffer.settled for buffer in flowing)
        is_known = is_known and all(buffer.quiet for buffer in self._gate.buffers.values() if buffer.is_held)
        if is_stored and is_known:
            return True
        if now > self._finish_by + DRAIN_SECONDS_MAX:
            what = "its open transaction is aborted" if self._guarantee.transactional else "what it sent may come twice"
            log.warning(_CUT_OFF, self._plan.task, what, extra={"event": "cut-off"})
            return True
        return False

    def _store_progress(self, with_status: bool) -> bool:
        """Queue changes for the ledger; False if there are none."""
        if self._peer is not None:
            self.task_metrics.source_throttled_ms = self._peer.throttled_ms
            self.task_metrics.limited_ms = self._peer.limited_ms
        status: list[Report] | None = None
        if with_status:
            in_transactions, final = self._guarantee.transactional, bool(self._finish_by)
            status = self._reports.due(self._plan, self._brokers.problem, in_transactions=in_transactions, final=final)
        picked = self._progress.pick(self._gate.buffers)
        fresh = self._progress.compose(picked, self._plan.generation, status)
        for buffer in fresh:
            self._dispatch.offer(buffer)
        return bool(fresh)

    def _turn(self) -> None:
        now = self._clock.monotonic()
        self._take_inbox()
        if now >= self._tend_at:
            self._tend_at = now + _TEND_SECONDS
            self._take_outcomes()
            self._tend_timers(now)
        self._guarantee.poll(now)
        self._dispatch.fill_all(now)
        self._brokers.poll()
        if self._peer is not None:
            self._peer.publish()
        for key, events in self._selector.select(self._timeout(now)):
            self._serve(key.data, events)
        if self._peer is not None:
            self._peer.publish()

    def _take_outcomes(self) -> None:
        for outcome in self._background.collect():
            self._guarantee.take(outcome)
            self._heed_limits(self._limits.take(outcome))
            opened = self._brokers.take(outcome)
            if self._brokers.is_far and self._options.packing.merging:
                kernels_ready()
            if opened is not None:
                self._dispatch.open(opened)
            self._dispatch.house_homeless()

    def _timeout(self, now: float) -> float:
        if self._inbox:
            return 0.0
        soonest = min(max(self._isolation.wake_at, self._tend_at), now + 0.25)
        soonest = min(soonest, self._guarantee.wake_at)
        if self._dispatch.leaderless:
            soonest = min(soonest, now + 0.05)
        return min(max(soonest - now, 0.0), 0.25)

    def _serve(self, what: ProduceConnection | Coordinator | str, events: int) -> None:
        if isinstance(what, str):
            self._tend_at = 0.0
            with suppress(BlockingIOError):
                os.read(self._wake_reader, 4096)
        elif isinstance(what, Coordinator):
            self._guarantee.serve()
        else:
            self._serve_broker(what, events)

    def _serve_broker(self, what: ProduceConnection, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                what.write()
            if events & selectors.EVENT_READ:
                now = self._clock.monotonic()
                for sent, response in what.receive():
                    for produced in response.partitions:
                        buffer, batch = sent[(produced.topic_key, produced.partition)]
                        self._take_answer(buffer, batch, produced, now)
                    if response.throttle_ms:
                        self.task_metrics.throttled_ms += response.throttle_ms
                        self._guarantee.throttled(what.not_before)
                self._dispatch.fill(what, now)
            self._dispatch.watch(what)
        except (OSError, ProtocolError, KeyError):
            self._dispatch.lose(what)

    # Rows in.

    def _take_inbox(self) -> None:
        while self._inbox:
            delivery = self._inbox.popleft()
            if isinstance(delivery, Bundle):
                for lane in self._routing.take(delivery):
                    self._offer_fresh(lane)
                continue
            match delivery.kind:
                case "run":
                    touched = self._gate.take_run(delivery)
                case "gap":
                    touched = self._gate.take_gap(delivery)
                    self._apply()
                case "order":
                    touched = self._gate.take_order(delivery)
                    if touched is not None:
                        self._isolation.force(touched, self._clock.monotonic())
                case "release":
                    touched = self._gate.take_release(delivery)
                case "plan":
                    self._take_plan(PlanRow.parse(bytes(delivery.payload)))
                    continue
                case _:
                    self._gate.take_fault(delivery)
                    continue
            if touched is not None:
                self._offer_fresh(touched)

    def _apply(self) -> None:
        while self._effects:
            match self._effects.popleft():
                case Hold(buffer, reason):
                    self._isolation.hold(buffer, reason)

    def _offer_fresh(self, buffer: PartitionBuffer) -> None:
        """Offer a buffer with a new batch, now or when its linger time is over."""
        if until := buffer.linger.tell_end():
            self._isolation.back_off(buffer, until)
        self._dispatch.offer(buffer)

    def _take_plan(self, plan: PlanRow) -> None:
        self._plan = plan
        self._gate.take_plan(plan)
        for assigned, _ in plan.partitions:
            buffer = self._gate.buffers.get(assigned.partition)
            if buffer is not None and (reason := self._log_check.expect(buffer, assigned)):
                self._isolation.hold(buffer, reason)

    # Batches out.

    def _next_batch(self, buffer: PartitionBuffer) -> Batch | None:
        guarantee = self._guarantee
        if not buffer.sendable:
            return None
        is_again = buffer.is_resending
        began = self._clock.monotonic()
        if not is_again and not (self._may_begin(buffer, began) and guarantee.admits(buffer)):
            return None
        buffer.round_trip.note_distance(is_far=self._brokers.is_far)
        if buffer.awaits_kernels:
            self._isolation.back_off(buffer, began + _TEND_SECONDS)
            return None
        try:
            batch = buffer.next_batch(*guarantee.identity, guarantee.transactional)
        except UnpackingBusy:
            self._wait_to_unpack(buffer, began)
            return None
        except RecordTooLarge as problem:
            self._limits.ask(buffer.target.topic)
            self._isolation.fail(buffer, str(problem))
            return None
        except ContentTooLarge as problem:
            self._isolation.fail(buffer, f"{problem}, and it cannot pass as it is; {CONTENT_HINT}")
            return None
        except ProtocolError as problem:
            self._isolation.fail(buffer, str(problem))
            return None
        finally:
            self._wait_longer(self._clock.monotonic() - began)
            if buffer.unpacking.is_poor and len(self._gate.buffers) > 1:
                self._hold_back(buffer, began)
        if batch is not None:
            if not is_again:
                guarantee.sent(buffer, batch)
        elif buffer.idle:  # the rest had no record to send
            self._isolation.after_progress(buffer)
        return batch

    def _wait_to_unpack(self, buffer: PartitionBuffer, now: float) -> None:
        """Wait for room in the unpacking budget; partitions that do not move give their unpacked batches back."""
        buffer.rest()
        self._isolation.back_off(buffer, now + _BUSY_SECONDS)
        if now >= self._park_at:
            self._park_at = now + _PARK_SECONDS
            for other in self._gate.buffers.values():
                if other.is_stuck(now, _PARK_SECONDS):
                    other.park()

    def _hold_back(self, buffer: PartitionBuffer, began: float) -> None:
        """Give a partition whose batches become very large a tenth of the time, and the rest to the others.

        Its time is that spent here, and that which the target's broker spends on unpacking batches that pass as they
        are.
        """
        ended = self._clock.monotonic()
        spent = ended - began + buffer.unpacking.owed_seconds
        if spent > _SHORT_SECONDS and not buffer.rests:
            buffer.unpacking.pay()
            buffer.rest()
            self._isolation.back_off(buffer, ended + _OTHERS_PARTS * spent)

    def _may_begin(self, buffer: PartitionBuffer, now: float) -> bool:
        """After the time to drain no new batch goes out: its answer would come too late to be stored, and the batch
        would be sent twice.

        In transactions no batch goes out whose position the ledger would refuse.
        """
        if self._guarantee.transactional:
            return buffer.is_ledger or not self._fail_unstorable(buffer)
        return not self._finish_by or now < self._finish_by or buffer.is_ledger

    def _fail_unstorable(self, buffer: PartitionBuffer) -> bool:
        reason = self._progress.obstacle(buffer.source)
        if reason:
            self._isolation.fail(buffer, reason)
        return bool(reason)

    def _wait_longer(self, seconds: float) -> None:
        """Extend all deadlines by a wait for kernels, which must not count as a target's silence."""
        if seconds > _MAKING_SECONDS and self._finish_by:
            self._finish_by = self._clock.monotonic() + DRAIN_SECONDS_MAX

    # Answers.

    def _take_answer(self, buffer: PartitionBuffer, batch: Batch, produced: ProducedPartition, now: float) -> None:
        outcome = judge(produced.error, is_head=buffer.head is batch)
        if outcome is BatchOutcome.DONE:
            if not buffer.is_ledger:
                self.task_metrics.acknowledged(
                    self._routing.source_of(buffer, batch), batch, self._clock.time_ns() // 1_000_000
                )
            moved = buffer.succeed(batch, produced.base_offset)
            if self._routing.is_lane(buffer):
                self._routing.acknowledge(buffer, moved)
            elif not buffer.is_ledger:
                self._progress.map_batches(buffer.source, moved)
                self._land(buffer, moved, buffer.target.topic)
                self._isolation.after_progress(buffer)
        elif outcome is BatchOutcome.RETRY or outcome is BatchOutcome.MOVED:
            self.task_metrics.retries += 1
            if outcome is BatchOutcome.MOVED:
                self._brokers.forget([buffer.target])
            buffer.retry(batch, in_doubt=leaves_doubt(produced.error))
            buffer.rest()
            self._isolation.back_off(buffer, now + rest_seconds(produced.error))
        elif outcome is BatchOutcome.FENCED:
            self._guarantee.fenced(buffer)
        elif outcome is BatchOutcome.RESTART:
            self._guarantee.sequence_lost(buffer, describe(produced))
        else:
            buffer.refuse(batch, in_doubt=leaves_doubt(produced.error))
            if batch.in_doubt:
                self._guarantee.refused_in_doubt(buffer)
            self._refuse(buffer, batch, produced)
        if buffer.is_failed:
            self._isolation.settle(buffer)
        else:
            self._dispatch.offer(buffer)

    def _refuse(self, buffer: PartitionBuffer, batch: Batch, produced: ProducedPartition) -> None:
        """The target refused the batch. If the topic's limits were not known, smaller batches may be accepted."""
        if produced.error in LIMITED:
            self._limits.ask(buffer.target.topic)
            is_size = produced.error == MESSAGE_TOO_LARGE
            may_fit = batch.records > 1 if is_size else self._options.packing.clamp_timestamps
            is_own = not buffer.is_ledger and not self._routing.is_lane(buffer)
            if may_fit and is_own and not batch.refusals:
                buffer.await_limits(batch)
                return
        self._fail(buffer, describe(produced))

    def _fail(self, buffer: PartitionBuffer, reason: str) -> None:
        """Isolate a target partition. If it is the ledger's, transactions isolate the partitions whose positions go
        there too; at least once their data goes on."""
        self._isolation.fail(buffer, reason)
        if not buffer.is_ledger or not self._progress.note_refusal(buffer):
            return
        if self._guarantee.transactional:
            for one in self._gate.buffers.values():
                self._fail_unstorable(one)
        self._guarantee.positions_refused(buffer)

    def _may_keep_doubtful(self, buffer: PartitionBuffer) -> bool:
        """Whether batches in doubt are sent again as they were. In transactions a new epoch settles the doubt instead.
        A lane's next records are others, so its task gets a new epoch too."""
        if self._guarantee.transactional:
            self._guarantee.refused_in_doubt(buffer)
            return False
        if self._routing.is_lane(buffer):
            self._guarantee.sequence_lost(buffer, "it may have a batch that it did not acknowledge")
        return True

    def _land(self, buffer: PartitionBuffer, landed: list[Batch], topic: str) -> bool:
        """Whether the partition is held because its target has lost mirrored records."""
        reason = self._log_check.add(buffer, landed, topic)
        if reason:
            self._isolation.hold(buffer, reason)
        return bool(reason)

    def _close_range(self, buffer: PartitionBuffer, mapped: list[Batch]) -> None:
        """All records of a range are acknowledged, in whatever partitions."""
        self._progress.map_batches(buffer.source, mapped)
        self._isolation.after_progress(buffer)

    def _take_back(self, buffer: PartitionBuffer, batch: Batch) -> None:
        """The connection broke before the batch's answer came: send it again over a new one."""
        self.task_metrics.retries += 1
        buffer.retry(batch, in_doubt=True)
        if buffer.is_failed:
            self._isolation.settle(buffer)

    # Timers and limits.

    def _heed_limits(self, answered: tuple[str, bool] | None) -> None:
        """Send batches again, within limits that are known now, that were refused by them."""
        if answered is None:
            return
        topic, has_changed = answered
        now = self._clock.monotonic()
        for buffer in self._gate.buffers.values():
            if not buffer.is_aimed_at_topic(topic):
                continue
            if buffer.awaits_limits:
                buffer.know_limits()
                self._dispatch.offer(buffer)
            elif has_changed:
                self._isolation.retry_now(buffer, now)

    def _tend_timers(self, now: float) -> None:
        if self._finish_by:
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
        self._dispatch.lose_silent(now)
        if self._guarantee.hurries:
            self._dispatch.hasten(now)
        self._isolation.evict_stuck(self._gate.buffers.values(), now)

    # Transactions.

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
        for buffer in self._progress.buffers.values():
            self._isolation.settle(buffer)  # it failed while its answer was due, which will not come any more
        for buffer in self._gate.buffers.values():
            self._isolation.roll_back(buffer)
            self._isolation.settle(buffer)

    def _refuse_target(self, where: TopicPartition, reason: str) -> None:
        boxes = (self._gate.buffers, self._routing.lanes, self._progress.buffers)
        for buffer in [box for some in boxes for box in some.values() if box.is_aimed_at(where)]:
            self._fail(buffer, reason)
