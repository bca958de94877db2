"""Decides which batch goes over which connection next: ready partitions by connection, and those without one.

Each request carries the next batch of every partition that is ready on its connection. The unanswered batches of a
broken connection go out again. Owned by `pipeline.produce.produce_task`.
"""

import selectors
from collections.abc import Sequence
from typing import Final

from sparkmirror.pipeline.produce.brokers import Brokers
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.connection import Part, ProduceConnection
from sparkmirror.pipeline.produce.effects import Effects, Settle
from sparkmirror.pipeline.produce.next_batch import NextBatches
from sparkmirror.pipeline.produce.queued_records import Batch
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics

_FULL_SECONDS: Final = 0.25
"""A connection that is full for longer is the limit, and no broker's short pause."""
_SPREAD_PARTS_MIN: Final = 4
"""Where its requests carry fewer batches, they would carry one each over several connections, and cost a fifth more."""
_HASTE_SECONDS: Final = 0.5
"""A pause that is longer costs more than a new connection."""


class Dispatch:
    """The sender's open connections, and the partitions that wait for each."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        brokers: Brokers,
        next_batches: NextBatches,
        task_metrics: TaskMetrics,
        effects: Effects,
        request_ms: int,
    ) -> None:
        self._selector = selector
        self._brokers = brokers
        self._next_batches = next_batches
        self._task_metrics = task_metrics
        self._effects = effects
        self._request_ms = request_ms
        self._ready: dict[ProduceConnection, dict[PartitionBuffer, None]] = {}
        self.leaderless: dict[PartitionBuffer, None] = {}
        self._moving: set[PartitionBuffer] = set()

    def open(self, connection: ProduceConnection) -> None:
        self._selector.register(connection.link.socket, selectors.EVENT_READ, connection)
        self._ready[connection] = {}

    def offer(self, buffer: PartitionBuffer) -> None:
        """Queue a buffer at its connection, if it has a batch to send."""
        if not buffer.sendable:
            return
        connection = self.connection_of(buffer)
        if connection is not None:
            self._ready[connection][buffer] = None
        elif buffer not in self._moving:
            self.leaderless[buffer] = None

    def connection_of(self, buffer: PartitionBuffer) -> ProduceConnection | None:
        """Called for every batch, so the buffer keeps the result until a leader or a connection changes.

        None also while a partition that is to move has answers to come over its connection, with the last of which it
        is offered again: over another one a later batch could arrive before an earlier one.
        """
        route = buffer.route
        if route is not None and route[0] == self._brokers.changes:
            connection: ProduceConnection = route[1]
            return connection
        found = self._brokers.route(buffer.target, is_ledger=buffer.is_ledger)
        if route is not None and found is not route[1] and route[1] in self._ready and not buffer.quiet:
            self._moving.add(buffer)
            return None
        self._moving.discard(buffer)
        buffer.lead_to(self._brokers.changes, found)
        return found

    def house_homeless(self) -> None:
        if self.leaderless:
            waiting, self.leaderless = self.leaderless, {}
            for buffer in waiting:
                self.offer(buffer)

    @property
    def connections(self) -> list[ProduceConnection]:
        return list(self._ready)

    def ready(self) -> list[ProduceConnection]:
        """The connections that partitions wait for."""
        return [connection for connection, waiting in self._ready.items() if waiting]

    def has_ready(self, connection: ProduceConnection) -> bool:
        """Whether partitions wait for that one."""
        return bool(self._ready.get(connection))

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for a connection, nor for an answer."""
        return not any(waiting or connection.unanswered for connection, waiting in self._ready.items())

    @property
    def may_leave_answers(self) -> bool:
        """Whether answers are due, and none that anything waits for: a partition with as many batches under way as may
        be is not ready, and has more to send."""
        is_due = False
        for connection, waiting in self._ready.items():
            if waiting or not connection.may_be_late:
                return False
            for request in connection.unanswered:
                is_due = True
                for buffer, _ in request.batches.values():
                    if buffer.awaits_answers:
                        return False
        return is_due

    @property
    def waits_for_nothing(self) -> bool:
        """Whether each partition's batches are out, and answered."""
        return not (self.leaderless or self._moving) and self.is_idle

    def send_rest(
        self, connection: ProduceConnection, correlation: int, parts: Sequence[Part], sent_bytes: int
    ) -> None:
        """Send what is left of a request that compiled code has not sent whole."""
        try:
            connection.send_rest(correlation, parts, self._request_ms, sent_bytes)
            self.watch(connection)
        except OSError:
            self.lose(connection)

    @property
    def request_ms(self) -> int:
        return self._request_ms

    def fill(self, connection: ProduceConnection, now: float) -> None:
        """Send requests while the connection has room: in each, the next batch of every ready partition.

        Once it is to authenticate again, it takes none, and when all are answered a new connection has its place.
        """
        ready = self._ready[connection]
        try:
            if now >= connection.link.reauthenticate_at and not connection.unanswered:
                self.lose(connection)
                return
            while ready and connection.takes_more(now):
                items = self._gather(connection, ready)
                if items:
                    connection.send(items, self._request_ms)
            self.watch(connection)
            if connection.is_full_for(now) > _FULL_SECONDS and connection.batches_a_request >= _SPREAD_PARTS_MIN:
                self._brokers.spread()
        except OSError:
            self.lose(connection)

    def send(self, connection: ProduceConnection, parts: Sequence[Part]) -> None:
        """Send one request of these batches."""
        try:
            connection.send(parts, self._request_ms)
            if connection.wants_to_write:
                self.watch(connection)
        except OSError:
            self.lose(connection)

    def _gather(self, connection: ProduceConnection, ready: dict[PartitionBuffer, None]) -> list[Part]:
        items: list[Part] = []
        size = 0
        for buffer in list(ready):
            if size >= connection.pace.bytes_max:
                break
            if buffer.route is None or buffer.route[1] is not connection:  # it was offered elsewhere since
                del ready[buffer]
                continue
            batch = self._next_batches.take(buffer)
            if batch is None or not buffer.sendable:
                del ready[buffer]
            if batch is not None:
                size += len(batch.data)
                items.append((self._brokers.topic_key(connection, buffer.target.topic), buffer, batch))
        return items

    def watch(self, connection: ProduceConnection) -> None:
        """Have the selector tell when a connection with something left to write has room."""
        if connection.wants_to_write != connection.is_watched_for_room:
            connection.is_watched_for_room = connection.wants_to_write
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.wants_to_write else 0)
            self._selector.modify(connection.link.socket, events, connection)

    def tend(self, now: float) -> None:
        """Look after all connections: their sessions end and their brokers fall silent also where nothing waits."""
        for connection in self.connections:
            self.fill(connection, now)
        for connection in self._brokers:
            if connection.overdue(now):
                self.lose(connection)

    def hasten(self, now: float) -> None:
        """While a transaction ends: what it still has to send over a throttled connection goes over a new one.

        Otherwise the coordinator might abort the transaction, and all of it would be sent again. The throttle time is
        respected after the transaction.
        """
        for connection in list(self._ready):
            if connection.not_before > now + _HASTE_SECONDS and self._is_owed(connection):
                self.lose(connection)

    def _is_owed(self, connection: ProduceConnection) -> bool:
        waiting = (one for one in self._ready[connection] if one.is_ledger or one.is_lane or one.is_resending)
        return bool(connection.unanswered) or any(one.sendable for one in waiting)

    def lose(self, connection: ProduceConnection) -> None:
        """A connection broke: its unanswered batches are sent again over a new one."""
        if connection not in self._ready:
            return
        orphans = self._ready[connection]
        for buffer, batch in self._close(connection):
            self._task_metrics.retries += 1
            buffer.retry(batch, in_doubt=True)
            if buffer.is_failed:
                self._effects.append(Settle(buffer))
            orphans[buffer] = None
        for buffer in orphans:
            self.leaderless[buffer] = None

    def _close(self, connection: ProduceConnection) -> list[tuple[PartitionBuffer, Batch]]:
        self._selector.unregister(connection.link.socket)
        del self._ready[connection]
        self._brokers.drop(connection)
        return connection.close()

    def hang_up(self) -> None:
        """Close all connections; unanswered requests are not waited for any more."""
        for connection in list(self._ready):
            self._close(connection)

    def flush_socket_of(self, buffer: PartitionBuffer) -> None:
        """Finish half-written requests with batches of this buffer, before its memory is given back."""
        for connection in list(self._ready):
            if connection.wants_to_write and connection.carries(buffer):
                self.lose(connection)
