"""`demo_clients.Client` by kafka-python, for installations without confluent-kafka."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import kafka
from kafka import codec
from kafka.admin import KafkaAdminClient, NewTopic

from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.errors import quiet_client_logging
from sparkmirror.model import TopicPartition
from sparkmirror.testing.demo_clients import WAIT_SECONDS_MAX, Received
from sparkmirror.testing.demo_events import Event, TopicSpec

_CODECS = {"lz4": codec.has_lz4, "zstd": codec.has_zstd}


class KafkaPythonClient:
    """One cluster."""

    def __init__(self, bootstrap_servers: str) -> None:
        quiet_client_logging()
        self.name = f"kafka-python {kafka.__version__}"
        self._bootstrap_servers = bootstrap_servers
        self._consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap_servers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def usable(self, compression: str) -> str:
        return compression if _CODECS.get(compression, codec.has_gzip)() else "gzip"

    def create_topics(self, specs: Iterable[TopicSpec]) -> None:
        client = KafkaAdminClient(bootstrap_servers=self._bootstrap_servers)
        try:
            client.create_topics([NewTopic(s.name, s.partitions, 1, topic_configs=dict(s.configs)) for s in specs])
        finally:
            client.close()

    def ends(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        known = self._consumer.topics() & set(topics)
        wanted = [
            kafka.TopicPartition(topic, partition)
            for topic in known
            for partition in self._consumer.partitions_for_topic(topic) or ()
        ]
        found = self._consumer.end_offsets(wanted) if wanted else {}
        return {TopicPartition(one.topic, one.partition): offset for one, offset in found.items()}

    def producer(self, compression: str, linger_ms: int) -> "KafkaPythonProducer":
        return KafkaPythonProducer(
            bootstrap_servers=self._bootstrap_servers,
            compression_type=None if compression == "none" else compression,
            linger_ms=linger_ms,
            batch_size=64 * 1024,
            acks="all",
        )

    def reader(self) -> "KafkaPythonReader":
        return KafkaPythonReader(self._bootstrap_servers)


class KafkaPythonProducer:
    """A producer that remembers the first refusal."""

    def __init__(self, **settings: Any) -> None:
        self._producer = kafka.KafkaProducer(**settings)
        self._refused: list[BaseException] = []

    def send(self, event: Event) -> None:
        # kafka-python refuses to send a header without a value.
        headers = [(name, b"" if value is None else value) for name, value in event.headers]
        sent = self._producer.send(event.topic, event.value, event.key, headers, timestamp_ms=event.timestamp_ms)
        sent.add_errback(self._refused.append)

    def flush(self) -> None:
        self._producer.flush(WAIT_SECONDS_MAX)
        if self._refused:
            count, reason = len(self._refused), self._refused[0]
            raise SparkMirrorError(f"The source cluster did not take {count} of the demo's records: {reason}.")


class KafkaPythonReader:
    """A consumer of assigned partitions."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap_servers, enable_auto_commit=False, fetch_max_wait_ms=50
        )

    def add(self, starts: Mapping[TopicPartition, int]) -> None:
        added = {kafka.TopicPartition(one.topic, one.partition): offset for one, offset in starts.items()}
        self._consumer.assign([*self._consumer.assignment(), *added])
        for one, offset in added.items():
            self._consumer.seek(one, offset)

    def poll(self, wait_seconds: float) -> Sequence[Received]:
        batches = self._consumer.poll(timeout_ms=int(wait_seconds * 1000))
        return [
            Received(
                TopicPartition(record.topic, record.partition), record.offset, record.key, record.value,
                tuple(record.headers), record.timestamp,
            )
            for records in batches.values()
            for record in records
        ]  # fmt: skip

    def close(self) -> None:
        self._consumer.close()
