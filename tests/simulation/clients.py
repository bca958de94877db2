"""What the planner and the ledger's readers use of kafka-python, at the project's own three classes for it.

kafka-python's clients are outside of the simulation. Requests of `ClusterConnection` still pass as bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from random import Random
from types import TracebackType
from typing import Any, Self

from tests.simulation.cluster import Cluster
from tests.simulation.log import PartitionLog
from tests.simulation.messages import body_of, encode_request
from tests.simulation.network import Network
from tests.simulation.scheduler import World
from tests.simulation.wire import REQUESTS

from sparkmirror.batch.records import encode_batch
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.settings import ClientSettings, client_settings
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.kafka.wire.raw_answer import RawAnswer, RawRequest
from sparkmirror.model import Cluster as ClusterConfig
from sparkmirror.model import TopicPartition

_RETRY_SECONDS = 0.1
_QUIET_SECONDS = 2.0
_EVENTS = {".checkpoints.": "checkpoint", "-commands.": "command", "-status.": "note"}
"""By a part of a topic's name."""


def _cluster(net: Network, settings: ClientSettings) -> Cluster:
    return net.clusters[settings.bootstrap_servers[0].rpartition("-")[0]]


@cache
def _version_max(kind: Any) -> int:
    return int(kind.max_version)


def _versions(request: Any) -> int:
    kind: Any = type(request)
    known, most = _version_max(kind), getattr(request, "_max_version", None)
    return known if most is None else min(int(most), known)


class SimClusterConnection:
    """Stands for `ClusterConnection`."""

    def __init__(self, world: World, net: Network, settings: ClientSettings) -> None:
        self.settings = settings
        self._world = world
        self._net = net
        self._cluster = _cluster(net, settings)
        self._is_closed = False
        self._correlation = 0

    @property
    def alias(self) -> str:
        return self.settings.alias

    def ask(
        self,
        make_request: Callable[[], Any],
        doing: str,
        node_id: int | None = None,
        wait_seconds_max: float | None = None,
    ) -> Any:
        seconds = self.settings.request_timeout_seconds if wait_seconds_max is None else wait_seconds_max
        until = self._world.now + seconds
        while True:
            request = make_request()
            found = self._once(request, node_id, until)
            if found is not None:
                return found
            if self._world.now + _RETRY_SECONDS >= until:
                raise ClusterUnreachable(f"Cluster {self.alias} does not answer while {doing}.")
            self._world.sleep(_RETRY_SECONDS)

    def _once(self, request: Any, node_id: int | None, until: float) -> Any:
        raw = isinstance(request, RawRequest)
        inner = request._request if raw else request
        number = self._pick(node_id)
        if number is None:
            return None
        known = self._cluster.known.versions[inner.API_KEY]
        version = min(known[1], _versions(inner))
        self._correlation += 1
        who = f"{self.settings.client_id} of {self._world.thread().process.name}"  # the judge tells processes apart
        frame = encode_request(inner, version, self._correlation, who)
        answer = self._send(number, frame, until)
        if answer is None:
            return None
        kind = _response(inner.API_KEY)
        if raw:
            return RawAnswer(body_of(kind, version, answer[4:]), kind[version])
        return kind.decode(answer[4:], version=version, header=True)

    def _pick(self, node_id: int | None) -> int | None:
        live = [one.number for one in self._cluster.nodes.values() if one.is_up]
        if node_id is not None:
            return node_id if node_id in live else None
        return self._world.random.choice(live) if live else None

    def _send(self, number: int, frame: bytes, until: float) -> bytes | None:
        """None where the request or its answer was lost."""
        world, thread = self._world, self._world.thread()
        world.sleep(self._net.delay(self._cluster))
        node = self._cluster.nodes[number]
        if node.frozen_until > world.now:
            world.sleep(max(min(node.frozen_until, until) - world.now, 0.0))
        if not node.is_up or node.frozen_until > world.now:
            return None
        found: list[bytes] = []

        def take(data: bytes) -> None:
            found.append(data)
            thread.wake()

        self._cluster.handle(number, frame, take)
        while not found and world.now < until:
            thread.park(until)
        world.sleep(self._net.delay(self._cluster))
        is_lost = world.random.random() < self._net.loss
        return None if is_lost or not found else found[0]

    def wait(self, seconds: float) -> bool:
        self._world.sleep(seconds)
        return self._is_closed

    def close(self) -> None:
        self._is_closed = True


@cache
def _response(api: int) -> Any:
    import kafka.protocol.admin as admin
    import kafka.protocol.admin.transactions as transactions
    import kafka.protocol.consumer as consumer
    import kafka.protocol.metadata as metadata
    import kafka.protocol.producer as producer

    name = REQUESTS[api].__name__.replace("Request", "Response")
    return next(
        getattr(module, name) for module in (admin, transactions, consumer, metadata, producer) if hasattr(module, name)
    )


class SimTail:
    """Stands for `TopicTail`: each partition in its order, partitions in any."""

    def __init__(
        self, world: World, net: Network, settings: ClientSettings, partitions: Sequence[TopicPartition],
        wait_seconds: float = 0.5, *, is_internal: bool = True, read_committed: bool = True,
    ) -> None:  # fmt: skip
        self._world = world
        self._net = net
        self._cluster = _cluster(net, settings)
        self._at = dict.fromkeys(partitions, 0)
        self._committed = read_committed
        self._held: list[TailRecord] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None: ...

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._held = [record for record in self._held if record.partition != partition]
        self._at[partition] = offset

    @property
    def may_have_news(self) -> bool:
        return True

    def poll(self, timeout_seconds: float) -> list[TailRecord]:
        return self._take_held() or self._receive(timeout_seconds)

    def _take_held(self) -> list[TailRecord]:
        held, self._held = self._held, []
        return held

    def _receive(self, timeout_seconds: float) -> list[TailRecord]:
        until = self._world.now + timeout_seconds
        while not (found := self._read()) and self._world.now < until:
            self._world.sleep(min(0.05, max(until - self._world.now, 0.001)))
        return found

    def _leads(self, where: TopicPartition) -> bool:
        partition = self._cluster.partition(where)
        if partition is None or partition.leader is None:
            return False
        return self._cluster.nodes[partition.leader].frozen_until <= self._world.now

    def _read(self) -> list[TailRecord]:
        self._world.sleep(self._net.delay(self._cluster))
        found: list[TailRecord] = []
        order = sorted(self._at)
        Random(self._world.random.random()).shuffle(order)
        for where in order:
            partition = self._cluster.partition(where)
            if partition is None or not self._leads(where):
                continue
            log = partition.log
            at = max(self._at[where], log.start) if self._at[where] <= log.end else log.start  # it was cut
            for one in log.read(at, self._end(log)):
                if not one.is_control and not (one.is_aborted and self._committed):
                    found += [_record(where, record) for record in one.records if record.offset >= at]
            self._at[where] = max(at, self._end(log))
        return found

    def read_to_end(self, seconds_max: float = 60.0) -> list[TailRecord]:
        ends: dict[TopicPartition, int] = {}
        until = self._world.now + seconds_max
        for where in self._at:
            while not self._leads(where):
                if self._world.now > until:
                    raise ClusterUnreachable(f"{where} has no leader")
                self._world.sleep(0.1)
            partition = self._cluster.partition(where)
            ends[where] = 0 if partition is None else self._end(partition.log)
        return self.read_to(ends, seconds_max)

    def _end(self, log: PartitionLog) -> int:
        return log.last_stable if self._committed else log.high_watermark

    def read_to(
        self,
        ends: Mapping[TopicPartition, int],
        seconds_max: float = 60.0,
        when_quiet: Callable[[], None] | None = None,
    ) -> list[TailRecord]:
        moved_at = quiet_at = self._world.now
        while any(self._at[where] < end for where, end in ends.items()):
            if self._world.now > moved_at + seconds_max:
                raise ClusterUnreachable("nothing more came")
            some = self._receive(0.5)
            self._held += some
            if some:
                moved_at = quiet_at = self._world.now
            elif when_quiet is not None and self._world.now > quiet_at + _QUIET_SECONDS:
                when_quiet()
                quiet_at = self._world.now
        return self._take_held()

    def read_between(self, partition: TopicPartition, first: int, end: int) -> Iterator[TailRecord]:
        self.seek(partition, first)
        yield from (record for record in self.read_to({partition: end}) if record.offset < end)


def _record(where: TopicPartition, record: Any) -> TailRecord:
    headers = tuple((name.decode(), value) for name, value in record.headers)
    return TailRecord(where, record.offset, record.timestamp, record.key, record.value, headers)


class SimPublisher:
    """Stands for `Publisher`: one batch, acknowledged by all replicas, or an error that leaves it open."""

    def __init__(
        self, world: World, net: Network, cluster: ClusterConfig, role: str, seconds_max: float = 30.0
    ) -> None:
        self._world = world
        self._net = net
        self._cluster = _cluster(net, client_settings(cluster, role))
        self._seconds_max = seconds_max

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None: ...

    def write(
        self, topic: str, records: Iterable[tuple[bytes, bytes | None]], timestamp_ms: int | None = None, *,
        place: Callable[[bytes], int] | None = None,
    ) -> None:  # fmt: skip
        world, until = self._world, self._world.now + self._seconds_max
        for key, value in records:
            where = TopicPartition(topic, place(key) if place else 0)
            while True:
                world.sleep(self._net.delay(self._cluster))
                partition = self._cluster.partition(where)
                if partition is not None and partition.leader is not None and not partition.is_stuck:
                    break
                if world.now > until:
                    raise ClusterUnreachable(f"{where} has no leader")
                world.sleep(0.1)
            partition.log.append(bytes(encode_batch([(key, value)], timestamp=int(world.wall * 1000))))
            self._cluster.replicate(partition)
            for watch in self._cluster.publications:
                watch(topic, world.thread().process, key, value)
            for part, event in _EVENTS.items():
                if part in topic:
                    self._cluster.note(event)
            world.sleep(self._net.delay(self._cluster))
            if world.random.random() < self._net.loss:
                raise ClusterUnreachable("the answer was lost")
