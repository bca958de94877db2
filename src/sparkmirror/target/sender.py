"""The writing end's own thread: it owns all sockets and timers, so that acknowledgements, retries and progress go on
while no row comes.

Rows arrive through `put`; `finish` drains for a bounded time. Nothing blocks on one broker: a partition whose target
does not answer is evicted from the reader's memory and paused there, one that the target refuses is FAILED and tried
again later, all others go on. Runs in a Python worker; owned by `target.writer`.
"""

import os
import selectors
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sparkmirror.errors import FencedError, ProtocolError, SparkMirrorError
from sparkmirror.kafka.background import Background
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire import ProducedPartition
from sparkmirror.model import TopicPartition
from sparkmirror.relay.lease import RingPeer
from sparkmirror.target.answers import Verdict, describe, judge
from sparkmirror.target.brokers import Brokers
from sparkmirror.target.connection import ProduceConnection
from sparkmirror.target.delivery import Delivery
from sparkmirror.target.intake import Intake
from sparkmirror.target.isolation import Isolation
from sparkmirror.target.outbox import Batch, Outbox, Refused, State
from sparkmirror.target.plan_row import PlanRow
from sparkmirror.target.progress import Progress, ProgressOptions
from sparkmirror.target.tally import Tally

DRAIN_SECONDS_MAX: Final = 2.0
_RETRY_SECONDS: Final = 0.1
_REQUEST_BYTES_MAX: Final = 8 << 20
_TEND_SECONDS: Final = 0.02
"""How often timers are looked at while data flows: tens of thousands of turns a second need it no oftener."""
_WAKE: Final = "wake"


@dataclass(frozen=True, slots=True)
class SenderOptions:
    """Target cluster, ledger, and sizes. `request_seconds` bounds the broker's wait for its replicas."""

    target: ClientSettings
    progress: ProgressOptions
    connections_per_broker: int = 2
    send_bytes: int = 0
    request_seconds: float = 30.0


class Sender:
    """One task's producing loop, from `start` to `finish`."""

    def __init__(self, options: SenderOptions, plan: PlanRow, peer: RingPeer | None) -> None:
        self._options = options
        self._plan = plan
        self._peer = peer
        self._inbox: deque[Delivery] = deque()
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
        )
        self.tally = Tally(plan)
        self._progress = Progress(options.progress, plan.task, plan.offsets_partitions, plan.run)
        self._intake = Intake(peer, self._progress, self.tally)
        self._isolation = Isolation(peer, self._intake, self.tally, self._flush_socket_of)
        self._ready: dict[ProduceConnection, dict[Outbox, None]] = {}
        self._homeless: dict[Outbox, None] = {}
        self._resting: list[tuple[float, Outbox]] = []
        self._finish_by = 0.0
        self._tend_at = 0.0
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="sparkmirror-sender", daemon=True)
        self._intake.take_plan(plan)

    # Called by the row thread.

    def start(self) -> None:
        self._thread.start()

    def put(self, delivery: Delivery) -> None:
        self._inbox.append(delivery)
        self._wake()

    @property
    def inline_bytes(self) -> int:
        """Bytes of inline payload that are in this process and not acknowledged."""
        return self._intake.inline_bytes

    def finish(self) -> None:
        """Drain for at most two seconds, store the last positions, and end. Raises what ended the loop early."""
        self._finish_by = time.monotonic() + DRAIN_SECONDS_MAX
        self._wake()
        self._thread.join(3 * DRAIN_SECONDS_MAX)
        if self.error is not None:
            raise self.error

    @property
    def ended(self) -> bool:
        """Whether the loop is over: until then it may touch the reader's memory."""
        return not self._thread.is_alive()

    def acknowledged(self) -> dict[TopicPartition, int]:
        return {outbox.source: outbox.acknowledged for outbox in self._intake.outboxes.values()}

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
            self._brokers.close()
            self._selector.close()
            self._close_pipe()

    def _done(self) -> bool:
        """Drained, or out of time; either way the last acknowledged positions are stored first if they can be."""
        if not self._finish_by or self._inbox:
            return False
        now = time.monotonic()
        drained = all(outbox.idle or outbox.state is not State.FLOWING for outbox in self._intake.outboxes.values())
        if not drained and now < self._finish_by:
            return False
        if now > self._finish_by + DRAIN_SECONDS_MAX:
            return True
        if not self._progress.settled:
            return False
        return not self._store_progress()

    def _store_progress(self) -> bool:
        """Queue what the ledger does not know yet; False when it knows all."""
        outboxes = self._intake.outboxes.values()
        status = self.tally.status(outboxes, self._brokers.problem)
        fresh = self._progress.compose(outboxes, self._plan.generation, status)
        for outbox in fresh:
            self._offer(outbox)
        return bool(fresh)

    def _turn(self) -> None:
        now = time.monotonic()
        self._take_inbox()
        if now >= self._tend_at:
            self._tend_at = now + _TEND_SECONDS
            self._take_outcomes()
            self._tend_timers(now)
        for connection in list(self._ready):
            self._fill(connection, now)
        self._brokers.tend()
        if self._peer is not None:
            self._peer.publish()
        for key, events in self._selector.select(self._timeout(now)):
            self._serve(key.data, events)
        if self._peer is not None:
            self._peer.publish()

    def _take_outcomes(self) -> None:
        for outcome in self._background.collect():
            opened = self._brokers.take(outcome)
            if opened is not None:
                self._selector.register(opened.link.socket, selectors.EVENT_READ, opened)
                self._ready[opened] = {}
            self._house_homeless()

    def _timeout(self, now: float) -> float:
        if self._inbox:
            return 0.0
        soonest = min((at for at, _ in self._resting), default=now + 0.25)
        if self._homeless:
            soonest = min(soonest, now + 0.05)
        return min(max(soonest - now, 0.0), 0.25)

    def _serve(self, what: ProduceConnection | str, events: int) -> None:
        if isinstance(what, str):
            self._tend_at = 0.0
            with suppress(BlockingIOError):
                os.read(self._wake_reader, 4096)
            return
        try:
            if events & selectors.EVENT_WRITE:
                what.write()
            if events & selectors.EVENT_READ:
                now = time.monotonic()
                for sent, response in what.receive():
                    for produced in response.partitions:
                        outbox, batch = sent[(produced.topic_key, produced.partition)]
                        self._take_answer(outbox, batch, produced, now)
                    self.tally.throttled_ms += response.throttle_ms
                self._fill(what, now)
            self._watch(what)
        except (OSError, ProtocolError, KeyError):
            self._lose(what)

    def _watch(self, connection: ProduceConnection) -> None:
        if connection.wants_to_write != connection.is_watched_for_room:
            connection.is_watched_for_room = connection.wants_to_write
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.wants_to_write else 0)
            self._selector.modify(connection.link.socket, events, connection)

    # Rows in.

    def _take_inbox(self) -> None:
        while self._inbox:
            delivery = self._inbox.popleft()
            match delivery.kind:
                case "run":
                    touched = self._intake.take_run(delivery)
                case "gap":
                    touched = self._intake.take_gap(delivery)
                case "release":
                    touched = self._intake.take_release(delivery)
                case "plan":
                    self._plan = PlanRow.parse(bytes(delivery.payload))
                    self._intake.take_plan(self._plan)
                    continue
                case _:
                    self._intake.take_fault(delivery)
                    continue
            if touched is not None:
                self._offer(touched)

    # Batches out.

    def _offer(self, outbox: Outbox) -> None:
        """Queue an outbox at its connection, if it has anything to send."""
        if not outbox.sendable:
            return
        connection = self._connection_of(outbox)
        if connection is None:
            self._homeless[outbox] = None
        else:
            self._ready[connection][outbox] = None

    def _connection_of(self, outbox: Outbox) -> ProduceConnection | None:
        """Asked for every batch, so the answer is kept with the outbox until a leader or a connection changes."""
        route = outbox.route
        if route is None or route[0] != self._brokers.changes:
            found = self._brokers.route(outbox.target)
            route = outbox.route = (self._brokers.changes, found) if found else None
        return None if route is None else route[1]

    def _house_homeless(self) -> None:
        waiting, self._homeless = self._homeless, {}
        for outbox in waiting:
            self._offer(outbox)

    def _fill(self, connection: ProduceConnection, now: float) -> None:
        """Send requests while the connection has room: in each, the next batch of every ready partition."""
        ready = self._ready[connection]
        try:
            if now >= connection.link.reauthenticate_at and not connection.unanswered:
                self._lose(connection)
                return
            while ready and connection.has_room and now >= connection.not_before:
                items = self._gather(connection, ready)
                if items:
                    connection.send(items, int(self._options.request_seconds * 1000))
            self._watch(connection)
        except OSError:
            self._lose(connection)

    def _gather(
        self, connection: ProduceConnection, ready: dict[Outbox, None]
    ) -> list[tuple[UUID | str, Outbox, Batch]]:
        items: list[tuple[UUID | str, Outbox, Batch]] = []
        size = 0
        for outbox in list(ready):
            if size >= _REQUEST_BYTES_MAX:
                break
            batch = self._next_batch(outbox)
            if batch is None or not outbox.sendable:
                del ready[outbox]
            if batch is not None:
                size += len(batch.data)
                items.append((self._brokers.topic_key(connection, outbox.target.topic), outbox, batch))
        return items

    def _next_batch(self, outbox: Outbox) -> Batch | None:
        if not outbox.sendable:
            return None
        try:
            return outbox.next_batch(self._plan.producer_id, self._plan.producer_epoch)
        except (Refused, ProtocolError) as problem:
            self._fail(outbox, str(problem))
            return None

    # Answers.

    def _take_answer(self, outbox: Outbox, batch: Batch, produced: ProducedPartition, now: float) -> None:
        verdict = judge(produced.error, is_head=outbox.head is batch)
        if verdict is Verdict.DONE:
            moved = outbox.succeed(batch, produced.base_offset)
            if not outbox.is_ledger:
                self._progress.map_batches(outbox.source, moved)
                self.tally.sent(batch.records, len(batch.data))
                self._isolation.after_progress(outbox)
        elif verdict is Verdict.RETRY or verdict is Verdict.MOVED:
            self.tally.retries += 1
            if verdict is Verdict.MOVED:
                self._brokers.forget([outbox.target])
            outbox.retry(batch)
            self._resting.append((now + _RETRY_SECONDS, outbox))
        elif verdict is Verdict.FENCED:
            raise FencedError(f"task {self._plan.task} was fenced at {outbox.target}: a newer instance has taken over")
        elif verdict is Verdict.RESTART:
            raise SparkMirrorError(f"{outbox.target}: {describe(produced)}; the task starts anew with a new epoch")
        else:
            batch.waiting = False
            self._fail(outbox, describe(produced))
        if outbox.state is State.FAILED:
            self._settle_failed(outbox)
        else:
            self._offer(outbox)

    def _lose(self, connection: ProduceConnection) -> None:
        """The connection broke: everything unanswered on it is sent again over a new one."""
        if connection not in self._ready:
            return
        self._selector.unregister(connection.link.socket)
        orphans = self._ready.pop(connection)
        self._brokers.drop(connection)
        for outbox, batch in connection.close():
            self.tally.retries += 1
            outbox.retry(batch)
            orphans[outbox] = None
            if outbox.state is State.FAILED:
                self._settle_failed(outbox)
        for outbox in orphans:
            self._homeless[outbox] = None

    # Partitions in trouble.

    def _fail(self, outbox: Outbox, reason: str) -> None:
        """Isolate one partition: paused at the reader, tried again after a while; all others go on."""
        self._isolation.fail(outbox, reason)
        self._settle_failed(outbox)

    def _settle_failed(self, outbox: Outbox) -> None:
        retry_at = self._isolation.settle(outbox)
        if retry_at:
            self._resting.append((retry_at, outbox))

    def _tend_timers(self, now: float) -> None:
        due = [outbox for at, outbox in self._resting if at <= now]
        if due:
            self._resting = [(at, outbox) for at, outbox in self._resting if at > now]
            for outbox in due:
                self._isolation.wake_up(outbox, now)
                self._offer(outbox)
        if self._homeless:
            self._house_homeless()
        for connection in self._brokers:
            if connection.overdue(now):
                self._lose(connection)
        self._isolation.evict_stuck(self._intake.outboxes.values(), now)
        if self._progress.due(now) and not self._finish_by:
            self._store_progress()

    def _flush_socket_of(self, outbox: Outbox) -> None:
        """Requests that are half written still refer to the memory that is about to be given back."""
        for connection in list(self._ready):
            if connection.wants_to_write and connection.carries(outbox):
                self._lose(connection)
