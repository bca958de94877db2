"""The demo's own Kafka clients, which share no code with a mirror's data path. Called by `demo` and its parts.

librdkafka (confluent-kafka) where it is installed; else kafka-python, which a mirror asks for metadata but never for
records. It needs packages of its own for lz4 and zstd: without them gzip is used.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import NamedTuple, Protocol, Self

from sparkmirror.model import TopicPartition
from sparkmirror.testing.demo_events import Event, Headers, TopicSpec

WAIT_SECONDS_MAX = 30.0


class Received(NamedTuple):
    """A record as a consumer sees it."""

    at: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


class Producer(Protocol):
    """Sends; raises SparkMirrorError in `flush` when a record was not taken."""

    def send(self, event: Event) -> None: ...

    def flush(self) -> None: ...


class Reader(Protocol):
    """Reads partitions from given offsets on; no group, no commits."""

    def add(self, starts: Mapping[TopicPartition, int]) -> None: ...

    def poll(self, wait_seconds: float) -> Sequence[Received]:
        """What has arrived; at once when something has."""

    def close(self) -> None: ...


class Client(Protocol):
    """One cluster, seen by a Kafka client. A context manager."""

    name: str

    def usable(self, compression: str) -> str:
        """`compression`, or gzip where this client lacks it."""

    def create_topics(self, specs: Iterable[TopicSpec]) -> None: ...

    def ends(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """End offsets of the partitions of those topics that exist."""

    def producer(self, compression: str, linger_ms: int) -> Producer: ...

    def reader(self) -> Reader: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def open_client(bootstrap_servers: str) -> Client:
    """The best client there is, for a cluster without security."""
    if find_spec("confluent_kafka") is not None:
        from sparkmirror.testing.demo_librdkafka import LibrdkafkaClient

        return LibrdkafkaClient(bootstrap_servers)
    from sparkmirror.testing.demo_kafka_python import KafkaPythonClient

    return KafkaPythonClient(bootstrap_servers)
