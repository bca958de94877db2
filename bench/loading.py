"""Fills a source topic with batches of the wanted size, and proves that size. Called by `bench.plan`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from confluent_kafka import Producer

from bench.brokers import admin_of
from bench.compaction import COMPACTED, keyed_batches, wait_until_compacted
from bench.workloads import PARTITIONS, Workload, make_records, make_values
from sparkmirror.batch.header import iterate_headers
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.settings import client_settings
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire.link import dial
from sparkmirror.kafka.wire.lookup import look_up
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.testing.kafka import KafkaCluster

QUEUE_RECORDS_MAX = 200_000
LOAD_SECONDS_MAX = 600
_SAMPLE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Batches:
    """What the source holds: means over the whole batches of the first 4 MB of a partition."""

    records: float
    bytes: float

    def __str__(self) -> str:
        return f"{self.bytes:,.0f} bytes with {self.records:,.0f} records"


def create_topic(
    cluster: KafkaCluster,
    topic: str,
    replication_factor: int = 1,
    partitions: int = PARTITIONS,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Raises what the cluster answers."""
    with admin_of(cluster) as admin:
        for problem in admin.create_topics([NewTopic(topic, partitions, replication_factor, configs or {})]).values():
            if problem is not None:
                raise problem


def load(cluster: KafkaCluster, topic: str, workload: Workload) -> tuple[Batches, int]:
    """Create `topic` and fill it; partitions take turns batch by batch, so that all are full at the same time.

    Returns what its batches are like, and how many records it holds.

    Raises SparkMirrorError when records or batches are not what the workload says.
    """
    create_topic(cluster, topic, partitions=workload.partitions, configs=COMPACTED if workload.superseded else None)
    producer = Producer(_producer_settings(cluster, workload))
    for partition, batch in _batches(workload):
        while len(producer) > QUEUE_RECORDS_MAX:
            producer.poll(0.05)
        if workload.marked:
            for record in batch:
                producer.produce(topic, partition=partition, **record)
        else:
            producer.produce_batch(topic, batch, partition=partition)
    left = producer.flush(LOAD_SECONDS_MAX)
    if left:
        raise SparkMirrorError(f"{left} records of workload {workload.name} could not be produced.")
    records = workload.records
    if workload.superseded:
        records = wait_until_compacted(cluster.bootstrap_servers, topic, workload)
    found = sample_batches(cluster.bootstrap_servers, topic)
    if not _as_wanted(found, workload):
        raise SparkMirrorError(f"The batches of workload {workload.name} came out wrong: {found}.")
    return found, records


def _as_wanted(found: Batches, workload: Workload) -> bool:
    if workload.superseded:
        return found.records < 0.9 * workload.batch_records
    return abs(found.records - workload.batch_records) <= 0.1 * workload.batch_records


def _producer_settings(cluster: KafkaCluster, workload: Workload) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "compression.type": workload.codec,
        # The number of records alone decides the batch: neither bytes nor time may cut one short.
        "batch.num.messages": workload.batch_records,
        "batch.size": 1_000_000,
        "linger.ms": 2000 if workload.batch_records > 1 else 0,
        "queue.buffering.max.messages": 10 * QUEUE_RECORDS_MAX,
        "queue.buffering.max.kbytes": 2_000_000,
        "log_level": 0,
    }


def _batches(workload: Workload) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    if workload.superseded:
        yield from keyed_batches(workload)
        return
    made = make_records if workload.marked else lambda size: [{"value": value} for value in make_values(size)]
    values = made(workload.value_bytes)
    size = workload.batch_records
    blocks = [values[start : start + size] for start in range(0, len(values) - size + 1, size)]
    left = workload.records
    for index in count():
        block = blocks[index // workload.partitions % len(blocks)][:left]
        if not block:
            return
        left -= len(block)
        yield index % workload.partitions, block


def sample_batches(bootstrap_servers: str, topic: str) -> Batches:
    """Read the headers at the start of partition 0."""
    settings = client_settings(Cluster("bench", {"bootstrap.servers": bootstrap_servers}), "sample")
    view = look_up(settings, [topic])
    link = dial(*view.brokers[view.leaders[TopicPartition(topic, 0)]], settings)
    try:
        position = wire.FetchPosition(view.topic_ids[topic].bytes, 0, 0, -1, _SAMPLE_BYTES)
        body = wire.encode_fetch(
            13, session_id=0, session_epoch=-1, positions=[position],
            wait_ms=500, bytes_min=1, bytes_max=_SAMPLE_BYTES, read_committed=False,
        )  # fmt: skip
        link.socket.sendall(b"".join(wire.frame(wire.request_header(wire.FETCH, 13, 0, "bench"), body)))
        size = int.from_bytes(_receive(link.socket, 4))
        answer = memoryview(_receive(link.socket, size))
    finally:
        link.close()
    fetched = wire.decode_fetch(13, answer).partitions[0]
    headers = [header for _, header in iterate_headers(answer, fetched.start, fetched.stop)]
    if not headers:
        raise SparkMirrorError(f"{topic} has no batch in its first {_SAMPLE_BYTES} bytes.")
    return Batches(
        records=sum(header.records_count for header in headers) / len(headers),
        bytes=sum(header.total_bytes for header in headers) / len(headers),
    )


def _receive(sock: Any, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise SparkMirrorError("The source broker closed the connection while batches were looked at.")
        data += part
    return bytes(data)
