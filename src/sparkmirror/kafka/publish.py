"""Writes a few small records to internal topics: commands, notes, positions, heartbeats, offset syncs, checkpoints.

`publish` writes to one topic, `publish_as` so that brokers refuse earlier holders of the producer's id. `AtomicWriter`
writes to several, all or none, as the holder of a transactional id (KIP-98): the earlier holder of the id can no longer
write, and a later one makes the write fail.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple, Self

from kafka import KafkaProducer
from kafka.errors import BrokerResponseError

from sparkmirror.batch.header import parse_header, stamp
from sparkmirror.batch.records import encode_batch
from sparkmirror.errors import ClusterError, ProtocolError
from sparkmirror.kafka.client_records import use_fast_checksums
from sparkmirror.kafka.client_setup import prepare_clients
from sparkmirror.kafka.errors import translate
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.settings import client_settings
from sparkmirror.kafka.wire.appending import Appender
from sparkmirror.model import Cluster, TopicPartition

Record = tuple[bytes, bytes | None]
"""Key and value; None is a tombstone."""

_CLOCK_READINGS = 3
_BATCH_BYTES = 256 << 10


class Publisher:
    """Writes to a cluster's internal topics, over connections that stay open. A context manager, for any threads."""

    def __init__(self, cluster: Cluster, role: str, seconds_max: float = 30.0) -> None:
        """Connects when something is written; no `write` takes longer than `seconds_max`. Raises ConfigError."""
        prepare_clients()
        self._settings = client_settings(cluster, role)
        self._seconds_max = seconds_max
        self._appender = Appender(self._settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._appender.close()

    def write(
        self,
        topic: str,
        records: Iterable[Record],
        timestamp_ms: int | None = None,
        *,
        place: Callable[[bytes], int] | None = None,
    ) -> None:
        """Writes all records and waits for them; their time is `timestamp_ms` or now. Raises ClusterError.

        They go to partition 0, or where `place` puts a key. After an error, what was not acknowledged may be there.
        """
        ends_at = time.monotonic() + self._seconds_max
        now_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        for number, some in _by_partition(records, place).items():
            for part in _in_batches(some):
                self._append(TopicPartition(topic, number), part, now_ms, ends_at)

    def _append(self, where: TopicPartition, records: Sequence[Record], timestamp_ms: int, ends_at: float) -> int:
        try:
            return self._appender.append(where, records, timestamp_ms, ends_at)
        except ProtocolError as problem:
            raise ClusterError(
                f"Cluster {self._settings.alias}: writing to topic {where.topic} failed: {problem}"
            ) from None

    def read_clock(self, topic: str) -> float:
        """By how many seconds the clock of the broker that leads `topic` is ahead of ours, to within half a round trip.

        The quickest of a few answers counts, because the first one waits for the connection. The topic has
        `message.timestamp.type=LogAppendTime`. Raises ClusterError.
        """
        _, ahead_seconds = min(self._ask_clock(topic) for _ in range(_CLOCK_READINGS))
        return round(ahead_seconds, 3)

    def _ask_clock(self, topic: str) -> tuple[float, float]:
        """The round trip, and how far the broker is ahead, in seconds."""
        before, ends_at = time.time(), time.monotonic() + self._seconds_max
        stamped_ms = self._append(TopicPartition(topic, 0), [(b"", b"")], round(before * 1000), ends_at)
        after = time.time()
        return after - before, stamped_ms / 1000 - (before + after) / 2


def _by_partition(records: Iterable[Record], place: Callable[[bytes], int] | None) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for key, value in records:
        found.setdefault(place(key) if place else 0, []).append((key, value))
    return found


def _in_batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Batches of some 256 KiB: far below what a topic takes by default, and a smaller limit splits them."""
    some, size = list[Record](), 0
    for key, value in records:
        if some and size + len(key) + len(value or b"") > _BATCH_BYTES:
            yield some
            some, size = [], 0
        some.append((key, value))
        size += len(key) + len(value or b"")
    if some:
        yield some


def publish(
    cluster: Cluster,
    topic: str,
    records: Iterable[Record],
    seconds_max: float = 5.0,
    *,
    place: Callable[[bytes], int] | None = None,
) -> None:
    """Write the (key, value) pairs to `topic` and wait for them; to partition 0, or where `place` puts a key.

    Raises ClusterError.
    """
    with Publisher(cluster, "commands", seconds_max) as publisher:
        publisher.write(topic, records, place=place)


def publish_as(
    identity: ProducerIdentity, cluster: Cluster, topic: str, records: Sequence[Record], seconds_max: float = 5.0
) -> None:
    """As `publish` to partition 0, in one batch, the first of the producer's epoch: from then on brokers refuse what
    holders of earlier epochs write there. Raises FencedError where a later epoch has written."""
    batch = bytearray(encode_batch(records, timestamp=time.time_ns() // 1_000_000))
    stamp(memoryview(batch), 0, parse_header(batch, 0), *identity, 0)
    prepare_clients()
    with closing(Appender(client_settings(cluster, "commands"))) as appender:
        try:
            appender.append_batch(TopicPartition(topic, 0), batch, time.monotonic() + seconds_max)
        except ProtocolError as problem:
            raise ClusterError(f"Cluster {cluster.alias}: writing to topic {topic} failed: {problem}") from None


class Placed(NamedTuple):
    """A record and where it goes. A None value is a tombstone."""

    partition: TopicPartition
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class AtomicWriter:
    """A producer of one transaction; without a `transactional_id` it writes the records one by one.

    A context manager, for one thread.
    """

    def __init__(self, cluster: Cluster, role: str, transactional_id: str | None, seconds_max: float = 30.0) -> None:
        """Connects, and takes the id over. Raises ClusterError, AuthorizationFailed without access to the id."""
        prepare_clients()
        use_fast_checksums()
        self._settings = client_settings(cluster, role)
        self._seconds_max = seconds_max
        self.is_atomic = transactional_id is not None
        millis = int(seconds_max * 1000)
        try:
            self._producer = KafkaProducer(
                acks="all",
                transactional_id=transactional_id,
                enable_idempotence=self.is_atomic,
                max_block_ms=millis,
                bootstrap_timeout_ms=millis,
                **self._settings.client_arguments(),
            )
        except Exception as error:
            raise translate(error, self._settings, "connecting") from error
        self._producer._unregister_cleanup()
        if self.is_atomic:
            self._take_over()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the client; the broker aborts a transaction that was begun and not committed."""
        self._producer._sender.force_close()
        self._producer._sender.join(1.0)

    def _take_over(self) -> None:
        try:
            self._producer.init_transactions()
        except Exception as error:
            self.close()
            raise translate(error, self._settings, "taking over a transactional id") from error

    def write(self, records: Sequence[Placed]) -> None:
        """All records, or none where it raises FencedError; after another ClusterError, that is not known."""
        try:
            if self.is_atomic:
                self._producer.begin_transaction()
            self._send(records)
            if self.is_atomic:
                self._commit()
        except Exception as error:
            # The client hides why it cannot go on in an argument.
            cause = next((one for one in error.args if isinstance(one, BrokerResponseError)), error)
            raise translate(cause, self._settings, "writing to the ledger") from error

    def _send(self, records: Sequence[Placed]) -> None:
        ends_at = time.monotonic() + self._seconds_max
        sent = [
            self._producer.send(
                one.partition.topic,
                key=one.key,
                value=one.value,
                headers=list(one.headers),
                partition=one.partition.partition,
            )
            for one in records
        ]
        for future in sent:
            future.get(timeout=max(ends_at - time.monotonic(), 0.1))

    def _commit(self) -> None:
        """The client's own `commit_transaction` waits without an end."""
        result = self._producer._transaction_manager.begin_commit()
        self._producer._sender.wakeup()
        if not result.wait(self._seconds_max * 1000):
            raise ClusterError(
                f"Cluster {self._settings.alias} did not say in {self._seconds_max:.0f} s whether it has committed.",
                "See what counts now before you try again.",
            )
