"""Which connection a target partition goes over: several connections per broker, to leaders as `kafka.wire.leaders`
knows them.

Owned by `pipeline.produce.produce_task`; nothing here blocks.
"""

from collections.abc import Iterable, Iterator
from math import inf
from typing import Final
from uuid import UUID
from zlib import crc32

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.background import Background, Outcome
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.data_requests import TopicKey
from sparkmirror.kafka.wire.leader_epochs import LeaderEpochs
from sparkmirror.kafka.wire.leaderless import Leaderless
from sparkmirror.kafka.wire.leaders import LOOK_UP_KEYS, Leaders
from sparkmirror.kafka.wire.lookup import ClusterView
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.connection import PLAIN, Dialect, ProduceConnection

ConnectionKey = tuple[int, int]
_DOUBT_SECONDS: Final = 1.0
_PROBLEM_SECONDS: Final = 60.0
"""Where something waits for a broker, look-ups and dials repeat a problem sooner."""


class Brokers:
    """Connections by (broker, number). Near a broker, the first one carries all partitions until it was full for a
    while with requests of many: several small requests cost more than one. Then, and far away from the beginning, a
    partition always hashes to the same number, so its order is one socket's; `pipeline.produce.dispatch` has it move
    between two batches.

    In transactions the ledger's partitions have a connection of their own: positions end a transaction, and must not
    wait behind data for which the broker pauses.

    `changes` counts events after which a partition may need another connection: a route stays valid while the count is
    the same. `problem` is the last reason why partitions wait for their broker.
    """

    def __init__(
        self,
        settings: ClientSettings,
        background: Background,
        per_broker: int,
        send_bytes: int,
        request_seconds: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._leaders = Leaders(settings, background, clock=clock)
        self._leaderless = Leaderless()
        self._waiting: set[TopicPartition] = set()
        self._doubt_at = 0.0
        self._per_broker = per_broker
        self._send_bytes = send_bytes
        self._request_seconds = request_seconds
        self._connections: dict[ConnectionKey, ProduceConnection] = {}
        self.problem = ""
        self._problem_at = 0.0
        self.is_far = False
        self._is_spread = False
        self.changes = 0
        self.dialect: Dialect | None = PLAIN

    def __iter__(self) -> Iterator[ProduceConnection]:
        return iter(list(self._connections.values()))

    def route(self, partition: TopicPartition, *, is_ledger: bool = False) -> ProduceConnection | None:
        """The open connection for a partition; None while its leader is looked up or dialled.

        Nothing is dialled while the `dialect` is not known.
        """
        leader = self._leaders.of(partition)
        if leader is None or self.dialect is None:
            if leader is None:
                self._waiting.add(partition)
            return None
        number = 0
        if is_ledger and self.dialect.transactional_id is not None:
            number = self._per_broker
        elif self._is_spread or self.is_far:
            number = crc32(str(partition).encode()) % self._per_broker
        connection = self._connections.get((leader, number))
        if connection is None:
            if not self._dial((leader, number)):
                self._waiting.add(partition)
            if number < self._per_broker:  # until it is there
                return self._connections.get((leader, 0))
        return connection

    def spread(self) -> None:
        """Use all connections from now on."""
        if not self._is_spread:
            self._is_spread = True
            self.changes += 1

    def topic_id(self, topic: str) -> UUID | None:
        """The topic's id by the last look-up."""
        return self._leaders.topic_ids.get(topic)

    def knows_id_since(self, topic: str) -> float:
        """When the topic's id was asked for, by the clock. inf where batches name their topic by its id: one that was
        made again takes none of the former's."""
        if all(connection.by_id for connection in self._connections.values()):
            return inf
        return self._leaders.asked_at(topic)

    def prefetch(self, topics: Iterable[str]) -> None:
        """Look topics up before anything waits for them: their leaders, addresses, how far away they are."""
        self._leaders.prefetch(topics)

    def topic_key(self, connection: ProduceConnection, topic: str) -> TopicKey:
        return self._leaders.topic_keys[topic] if connection.by_id else topic

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Look the leaders up again before the next batch goes out."""
        self.changes += 1
        self._leaders.forget(partitions)

    @property
    def doubted(self) -> set[TopicPartition]:
        """Partitions whose leader was in doubt since the set was last emptied."""
        return self._leaders.doubted

    def way_to_look(self) -> tuple[ClientSettings, LeaderEpochs]:
        """For a look-up beside the loop."""
        return self._leaders.way_to_look()

    def doubt(self, partition: TopicPartition) -> None:
        """Its leader is short of replicas: it may be cut off from the others, and another one lead. Leaders are looked
        up once a second at most, and kept meanwhile."""
        now = self._clock.monotonic()
        if now >= self._doubt_at:
            self._doubt_at = now + _DOUBT_SECONDS
            self._leaders.want([partition.topic])

    def refresh(self) -> None:
        """Look all leaders up again where that was long ago, and forget a problem that nothing has repeated: what
        waited for that broker may have been released."""
        self._leaders.refresh()
        if self._clock.monotonic() - self._problem_at > _PROBLEM_SECONDS:
            self.problem = ""

    def poll(self) -> None:
        """Start a look-up if one is needed and allowed by the back-off."""
        self._leaders.poll()

    def take(self, outcome: Outcome) -> ProduceConnection | None:
        """Take the result of background work; returns a new connection, to be registered with the selector."""
        if outcome.key in LOOK_UP_KEYS:
            self._take_view(outcome)
            return None
        match outcome.key:
            case ("dial", int(node), int(number)):
                return self._take_link((node, number), outcome)
        return None

    def _take_view(self, outcome: Outcome) -> None:
        view = self._leaders.take(outcome)
        self._note(self._leaders.problem)
        if view is not None:
            self.changes += 1
            self.is_far = view.is_far
            self._note(self._look_for_leaders(view))

    def _note(self, problem: str) -> None:
        self.problem, self._problem_at = problem, self._clock.monotonic()

    def _look_for_leaders(self, view: ClusterView) -> str:
        """Why partitions wait that the look-up was about, by the first of them; empty if none waits for long. Those
        that still wait ask for a route again, as after each change."""
        problems: list[str] = []
        waiting, self._waiting = self._waiting, set()
        for partition in sorted(waiting):
            leader = view.leaders.get(partition)
            if leader in self._leaders.addresses:
                self._leaderless.found(partition)
            elif partition.topic in view.errors or partition.topic in view.topic_ids:
                reason = self._leaderless.missed(partition, view, self._clock.monotonic())
                problems += [f"{partition} of the target waits: {reason}"] * bool(reason)
        return problems[0] if problems else ""

    def _dial(self, key: ConnectionKey) -> bool:
        """Whether the broker's address is known."""
        is_known = self._leaders.dial(("dial", *key), key[0], send_bytes=self._send_bytes)
        self.changes += not is_known
        return is_known

    def _take_link(self, key: ConnectionKey, outcome: Outcome) -> ProduceConnection | None:
        if outcome.error is not None:
            self._note(str(outcome.error))
            self._forget_node(key[0])
            return None
        if self.dialect is None:
            outcome.result.close()
            return None
        try:
            for_ledger = key[1] == self._per_broker
            connection = ProduceConnection(outcome.result, self._request_seconds, self.dialect, for_ledger=for_ledger)
        except ProtocolError as problem:
            self._note(str(problem))
            outcome.result.close()
            return None
        self._connections[key] = connection
        self.changes += 1
        return connection

    def _forget_node(self, node: int) -> None:
        self.changes += 1
        self._leaders.forget_node(node)

    def drop(self, connection: ProduceConnection) -> None:
        """Remove a broken connection; the leaders of its broker's partitions are looked up again."""
        self.changes += 1
        for key, candidate in list(self._connections.items()):
            if candidate is connection:
                del self._connections[key]
                self._leaders.broke(("dial", *key))
                self._forget_node(key[0])

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
