"""The demo's Kafka client, on a real broker: it reads what it has sent."""

import time
from collections.abc import Callable, Sequence

import pytest
from tests.oracle import DEADLINE_SECONDS_LEAST

from sparkmirror.model import TopicPartition
from sparkmirror.testing.demo_client import Client, Received, read_to_ends
from sparkmirror.testing.demo_events import Event, TopicSpec
from sparkmirror.testing.kafka import KafkaCluster


def some_events(topic: str) -> list[Event]:
    return [
        Event(topic, b"UA1545", b'{"miles":1400}', (("origin", b"EWR"), ("dest", b"IAH")), 1_357_035_300_000),
        Event(topic, b"N14228", None, (("origin", b"EWR"), ("origin", b"LGA")), 1_357_035_300_001),
        Event(topic, b"EWR", b"", (), 1_357_035_299_999),
    ]


@pytest.mark.parametrize("compression", ["none", "gzip", "lz4", "zstd"])
def test_what_is_sent_is_read_alike(
    compression: str, source_cluster: KafkaCluster, unique: Callable[[str], str]
) -> None:
    topic = unique("flights")
    client = Client(source_cluster.bootstrap_servers)
    client.create_topics([TopicSpec(topic, 1, compression, {"segment.ms": "100000"})])
    producer = client.producer(compression, 5)
    for event in some_events(topic):
        producer.send(event)
    producer.flush()
    ends = client.ends([topic, f"{topic}-that-is-not-there"])
    assert set(ends) == {TopicPartition(topic, 0)}
    records = read_to_ends(client, ends)[TopicPartition(topic, 0)]
    assert [record[2:] for record in records] == [event[1:] for event in some_events(topic)]


def test_a_reader_takes_partitions_on_the_way_from_the_offset_it_is_given(
    source_cluster: KafkaCluster, unique: Callable[[str], str]
) -> None:
    first, second = unique("flights"), unique("delays")
    client = Client(source_cluster.bootstrap_servers)
    client.create_topics([TopicSpec(first, 1, "none"), TopicSpec(second, 1, "none")])
    producer = client.producer("none", 0)
    for event in (*some_events(first), *some_events(second)):
        producer.send(event)
    producer.flush()
    reader = client.reader()
    try:
        reader.add({TopicPartition(first, 0): 2})
        assert [record.key for record in take(reader.poll, 1)] == [b"EWR"]
        reader.add({TopicPartition(second, 0): 1})
        assert [(record.at.topic, record.offset) for record in take(reader.poll, 2)] == [(second, 1), (second, 2)]
    finally:
        reader.close()


def take(poll: Callable[[float], Sequence[Received]], count: int) -> list[Received]:
    records: list[Received] = []
    deadline = time.monotonic() + DEADLINE_SECONDS_LEAST
    while len(records) < count and time.monotonic() < deadline:
        records += poll(0.1)
    return records
