"""Which connection a target partition goes over: look-ups, dialling, several connections per broker.

Owned by `pipeline.produce.sender`; nothing here blocks: look-ups and dials run in `kafka.background`.
"""

import time
from collections.abc import Iterable, Iterator
from functools import partial
from uuid import UUID
from zlib import crc32

from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.background import Background, Outcome
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.link import dial
from sparkmirror.kafka.wire.lookup import ClusterView, look_up
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.connection import PLAIN, Dialect, ProduceConnection

_LOOK_UP = "metadata"
_FORESIGHT = "foresight"
_BACKOFF_SECONDS = 0.2
_BACKOFF_SECONDS_MAX = 2.0

ConnectionKey = tuple[int, int]


class Brokers:
    """Connections by (broker, number). A partition always hashes to the same number, so its order is one socket's.

    In transactions the ledger's partitions have a connection of their own: positions end a transaction, and must not
    wait behind data for which the broker pauses.

    `changes` counts what may lead a partition elsewhere: a route found before is good while the count is the same.
    """

    def __init__(
        self, settings: ClientSettings, background: Background, per_broker: int, send_bytes: int, request_seconds: float
    ) -> None:
        self._settings = settings
        self._background = background
        self._per_broker = per_broker
        self._send_bytes = send_bytes
        self._request_seconds = request_seconds
        self._addresses: dict[int, tuple[str, int]] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, UUID] = {}
        self._unknown: set[str] = set()
        self._connections: dict[ConnectionKey, ProduceConnection] = {}
        self._dial_after: dict[ConnectionKey, float] = {}
        self._look_up_after = 0.0
        self._look_up_pause = _BACKOFF_SECONDS
        self.problem = ""
        self.is_far = False
        self.changes = 0
        self.dialect: Dialect | None = PLAIN

    def __iter__(self) -> Iterator[ProduceConnection]:
        return iter(list(self._connections.values()))

    def route(self, partition: TopicPartition, *, is_ledger: bool = False) -> ProduceConnection | None:
        """The open connection for a partition; None while it is being found, looked up or dialled.

        Nothing is dialled while it is not known what to speak (`dialect`).
        """
        leader = self._leaders.get(partition)
        if leader is None:
            self._unknown.add(partition.topic)
        if leader is None or self.dialect is None:
            return None
        is_apart = is_ledger and self.dialect.transactional_id is not None
        key = (leader, self._per_broker if is_apart else crc32(str(partition).encode()) % self._per_broker)
        connection = self._connections.get(key)
        if connection is None:
            self._dial(key)
        return connection

    def topic_id(self, topic: str) -> UUID | None:
        """As the last look-up said."""
        return self._topic_ids.get(topic)

    def prefetch(self, topics: Iterable[str]) -> None:
        """Look topics up before anything waits for them: their leaders, addresses, how far away they are."""
        self._background.submit(_FORESIGHT, partial(look_up, self._settings, list(topics)))

    def topic_key(self, connection: ProduceConnection, topic: str) -> UUID | str:
        return self._topic_ids[topic] if connection.by_id else topic

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """The leader is no longer to be trusted: it is looked up before the next batch goes out."""
        self.changes += 1
        for partition in partitions:
            self._leaders.pop(partition, None)

    def poll(self) -> None:
        """Start a look-up if one is needed and allowed by the back-off."""
        now = time.monotonic()
        if self._unknown and now >= self._look_up_after:
            topics, self._unknown = self._unknown, set()
            self._look_up_after = now + self._look_up_pause
            self._background.submit(_LOOK_UP, partial(look_up, self._settings, topics))

    def take(self, outcome: Outcome) -> ProduceConnection | None:
        """Digest what background work brought; a new connection is returned, to be registered with the selector."""
        if outcome.key in (_LOOK_UP, _FORESIGHT):
            self._take_view(outcome)
            return None
        match outcome.key:
            case ("dial", int(node), int(number)):
                return self._take_link((node, number), outcome)
        return None

    def _take_view(self, outcome: Outcome) -> None:
        if outcome.error is not None:
            self.problem = str(outcome.error)
            self._look_up_pause = min(self._look_up_pause * 2, _BACKOFF_SECONDS_MAX)
            return
        self.problem = ""
        self._look_up_pause = _BACKOFF_SECONDS
        self.changes += 1
        view: ClusterView = outcome.result
        self.is_far = view.is_far
        self._addresses.update(view.brokers)
        self._leaders.update(view.leaders)
        self._topic_ids.update(view.topic_ids)

    def _dial(self, key: ConnectionKey) -> None:
        now = time.monotonic()
        if now < self._dial_after.get(key, 0.0):
            return
        self._dial_after[key] = now + _BACKOFF_SECONDS
        host, port = self._addresses[key[0]]
        self._background.submit(("dial", *key), partial(dial, host, port, self._settings, send_bytes=self._send_bytes))

    def _take_link(self, key: ConnectionKey, outcome: Outcome) -> ProduceConnection | None:
        if outcome.error is not None:
            self.problem = str(outcome.error)
            self._forget_node(key[0])
            return None
        if self.dialect is None:
            outcome.result.close()
            return None
        try:
            for_ledger = key[1] == self._per_broker
            connection = ProduceConnection(outcome.result, self._request_seconds, self.dialect, for_ledger=for_ledger)
        except ProtocolError as problem:
            self.problem = str(problem)
            return None
        self._connections[key] = connection
        self.changes += 1
        return connection

    def _forget_node(self, node: int) -> None:
        self.forget([partition for partition, leader in self._leaders.items() if leader == node])

    def drop(self, connection: ProduceConnection) -> None:
        """A broken connection: its broker's partitions are looked up again."""
        self.changes += 1
        for key, candidate in list(self._connections.items()):
            if candidate is connection:
                del self._connections[key]
                self._dial_after[key] = time.monotonic() + _BACKOFF_SECONDS
                self._forget_node(key[0])

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
