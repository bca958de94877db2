"""The demo's own Kafka client, librdkafka (confluent-kafka, the extra `demo`), and its comparison of two clusters.

It shares no code with a mirror. Called by `demo` and its parts.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka import admin

from sparkmirror.errors import SparkMirrorError
from sparkmirror.model import TopicPartition
from sparkmirror.testing.demo_events import Event, Headers, TopicSpec

WAIT_SECONDS_MAX = 30.0
_POLL_RECORDS = 2_000
_RETRY_SECONDS = 0.05


class Received(NamedTuple):
    """A record as a consumer sees it."""

    at: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


class Client:
    """One cluster without security."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.name = f"librdkafka {confluent_kafka.libversion()[0]}"
        # Brokers are started and stopped around it: its complaints about that are nobody's concern.
        self._settings = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self._admin = admin.AdminClient(self._settings)

    def create_topics(self, specs: Iterable[TopicSpec]) -> None:
        topics = [admin.NewTopic(spec.name, spec.partitions, 1, config=dict(spec.configs)) for spec in specs]
        for created in self._admin.create_topics(topics).values():
            created.result(WAIT_SECONDS_MAX)

    def ends(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """The end offsets of the partitions of those topics that exist."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            try:
                return self._ask_ends(set(topics))
            except confluent_kafka.KafkaException as problem:
                # A broker that has just heard of a topic may not know yet that it leads it.
                if time.monotonic() > deadline:
                    raise SparkMirrorError(f"Asking for end offsets failed: {problem.args[0].str()}.") from problem
            time.sleep(_RETRY_SECONDS)

    def producer(self, compression: str, linger_ms: int) -> "Producer":
        return Producer({**self._settings, "compression.type": compression, "linger.ms": linger_ms})

    def reader(self) -> "Reader":
        return Reader(self._settings)

    def commit_halves(self, topic: str, group: str) -> None:
        """Commits offsets as a consumer group that has read half of each partition of the topic and has stopped."""
        halves = [
            confluent_kafka.TopicPartition(at.topic, at.partition, end // 2) for at, end in self.ends([topic]).items()
        ]
        consumer = confluent_kafka.Consumer({**self._settings, "group.id": group, "enable.auto.commit": False})
        try:
            consumer.commit(offsets=halves, asynchronous=False)
        finally:
            consumer.close()

    def _ask_ends(self, topics: set[str]) -> dict[TopicPartition, int]:
        known = self._admin.list_topics(timeout=WAIT_SECONDS_MAX).topics
        wanted = [
            confluent_kafka.TopicPartition(topic, partition)
            for topic in topics & known.keys()
            for partition in known[topic].partitions
        ]
        asked = self._admin.list_offsets({one: admin.OffsetSpec.latest() for one in wanted}) if wanted else {}
        return {
            TopicPartition(one.topic, one.partition): answer.result(WAIT_SECONDS_MAX).offset
            for one, answer in asked.items()
        }


class Producer:
    """A producer that waits when its queue is full."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._producer = confluent_kafka.Producer({**settings, "acks": "all", "enable.idempotence": True})
        self._refused: list[object] = []

    def send(self, event: Event) -> None:
        while True:
            try:
                self._producer.produce(
                    event.topic, event.value, event.key, headers=list(event.headers), timestamp=event.timestamp_ms,
                    on_delivery=self._delivered,
                )  # fmt: skip
            except BufferError:
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def flush(self) -> None:
        """Waits for all records. Raises SparkMirrorError when a broker refused one."""
        missing = self._producer.flush(WAIT_SECONDS_MAX) or len(self._refused)
        if missing:
            reason = self._refused[0] if self._refused else f"no answer within {WAIT_SECONDS_MAX:.0f} s"
            raise SparkMirrorError(f"The source cluster did not take {missing} of the demo's records: {reason}.")

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self._refused.append(error)


class Reader:
    """Reads partitions from given offsets on, without a group and without commits."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._consumer = confluent_kafka.Consumer(
            {**settings, "group.id": "unused", "enable.auto.commit": False, "fetch.wait.max.ms": 50}
        )
        self._partitions: dict[tuple[str, int], TopicPartition] = {}

    def add(self, starts: Mapping[TopicPartition, int]) -> None:
        self._partitions |= {(one.topic, one.partition): one for one in starts}
        self._consumer.incremental_assign(
            [confluent_kafka.TopicPartition(one.topic, one.partition, offset) for one, offset in starts.items()]
        )

    def poll(self, wait_seconds: float) -> Sequence[Received]:
        """The records that have arrived; returns at once when any have."""
        first = self._consumer.poll(wait_seconds)
        if first is None:
            return ()
        return [self._received(message) for message in (first, *self._consumer.consume(_POLL_RECORDS, timeout=0))]

    def close(self) -> None:
        self._consumer.close()

    def _received(self, message: Any) -> Received:
        if message.error() is not None:
            raise SparkMirrorError(f"Reading {message.topic()}-{message.partition()} failed: {message.error()}.")
        at = self._partitions[message.topic(), message.partition()]
        headers = tuple(message.headers() or ())
        return Received(at, message.offset(), message.key(), message.value(), headers, message.timestamp()[1])


READ_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.5
_SHOWN_BYTES = 60


def read_to_ends(client: "Client", ends: Mapping[TopicPartition, int]) -> "dict[TopicPartition, list[Received]]":
    """All records of these partitions, in order, up to their end offsets. Raises SparkMirrorError after 60 s."""
    records: dict[TopicPartition, list[Received]] = {partition: [] for partition in ends}
    missing = {partition for partition, end in ends.items() if end > 0}
    reader = client.reader()
    deadline = time.monotonic() + READ_SECONDS_MAX
    try:
        reader.add(dict.fromkeys(sorted(missing), 0))
        while missing:
            for record in reader.poll(_POLL_SECONDS):
                records[record.at].append(record)
            missing = {partition for partition in missing if not _is_whole(records[partition], ends[partition])}
            if missing and time.monotonic() > deadline:
                raise SparkMirrorError(f"{min(missing)} could not be read to its end within {READ_SECONDS_MAX:.0f} s.")
    finally:
        reader.close()
    return records


def find_difference(source: "Sequence[Received]", target: "Sequence[Received]") -> str | None:
    """The first difference between a partition and its copy in words; None when key, value, headers and timestamp of
    all records are equal, in order. Offsets are not compared: a copy may have others."""
    for ours, theirs in zip(source, target, strict=False):
        if ours[2:] != theirs[2:]:
            return _describe(ours, theirs)
    if len(source) != len(target):
        return f"{len(source):,} records at the source, {len(target):,} at the target"
    return None


def _describe(ours: "Received", theirs: "Received") -> str:
    for name in ("key", "value", "headers", "timestamp_ms"):
        there, here = getattr(ours, name), getattr(theirs, name)
        if there != here:
            return (
                f"offset {ours.offset} at the source and {theirs.offset} at the target differ in {name}: "
                f"{_short(there)} and {_short(here)}"
            )
    raise AssertionError("the records are equal")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_BYTES else f"{text[:_SHOWN_BYTES]}…"


def _is_whole(records: "Sequence[Received]", end: int) -> bool:
    return bool(records) and records[-1].offset >= end - 1
