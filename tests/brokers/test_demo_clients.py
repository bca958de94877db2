"""The demo's two Kafka clients, on a real broker: what one of them sends, both read alike."""

import time
from collections.abc import Callable, Sequence

import pytest
from tests.oracle import DEADLINE_SECONDS_LEAST

from sparkmirror.model import TopicPartition
from sparkmirror.testing.demo_clients import Client, Received
from sparkmirror.testing.demo_compare import find_difference, read_to_ends
from sparkmirror.testing.demo_events import Event, TopicSpec
from sparkmirror.testing.demo_kafka_python import KafkaPythonClient
from sparkmirror.testing.demo_librdkafka import LibrdkafkaClient
from sparkmirror.testing.kafka import KafkaCluster

MakeClient = Callable[[str], Client]
CLIENTS = [LibrdkafkaClient, KafkaPythonClient]


def some_events(topic: str) -> list[Event]:
    return [
        Event(topic, b"UA1545", b'{"miles":1400}', (("origin", b"EWR"), ("dest", b"IAH")), 1_357_035_300_000),
        Event(topic, b"N14228", None, (("origin", b"EWR"), ("origin", b"LGA")), 1_357_035_300_001),
        Event(topic, b"EWR", b"", (), 1_357_035_299_999),
    ]


def read(make_client: MakeClient, cluster: KafkaCluster, topic: str) -> Sequence[Received]:
    with make_client(cluster.bootstrap_servers) as client:
        ends = client.ends([topic, f"{topic}-that-is-not-there"])
        assert set(ends) == {TopicPartition(topic, 0)}
        return read_to_ends(client, ends)[TopicPartition(topic, 0)]


@pytest.mark.parametrize("make_client", CLIENTS)
@pytest.mark.parametrize("wanted", ["none", "gzip", "lz4", "zstd"])
def test_what_one_client_sends_both_read_alike(
    make_client: MakeClient, wanted: str, source_cluster: KafkaCluster, unique: Callable[[str], str]
) -> None:
    topic = unique("flights")
    with make_client(source_cluster.bootstrap_servers) as client:
        # What kafka-python can read decides: it may lack packages for lz4 and zstd.
        with KafkaPythonClient(source_cluster.bootstrap_servers) as other:
            compression = other.usable(client.usable(wanted))
        client.create_topics([TopicSpec(topic, 1, compression, {"segment.ms": "100000"})])
        producer = client.producer(compression, 5)
        for event in some_events(topic):
            producer.send(event)
        producer.flush()

    by_librdkafka, by_kafka_python = (read(each, source_cluster, topic) for each in CLIENTS)

    assert [record[2:] for record in by_librdkafka] == [event[1:] for event in some_events(topic)]
    assert find_difference(by_librdkafka, by_kafka_python) is None


@pytest.mark.parametrize("make_client", CLIENTS)
def test_a_reader_takes_partitions_on_the_way_from_the_offset_it_is_told(
    make_client: MakeClient, source_cluster: KafkaCluster, unique: Callable[[str], str]
) -> None:
    first, second = unique("flights"), unique("delays")
    with make_client(source_cluster.bootstrap_servers) as client:
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
