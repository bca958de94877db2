"""Which line counts: what `MirrorMakerConfig` and `MirrorSourceConfig` 4.3.0 answered for the same file."""

import pytest

from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.config.precedence import (
    Layer,
    admin_properties,
    cluster_properties,
    connector_properties,
    source_consumer_properties,
    target_producer_properties,
    worker_properties,
)
from sparkmirror.model import FlowName

FILE = parse_properties(b"""
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
ssl.truststore.location = top
consumer.ssl.truststore.location = ignored
consumer.fetch.min.bytes = 7
A.ssl.truststore.password = pa
A.consumer.fetch.min.bytes = 1
A.consumer.ssl.truststore.type = PEM
A.admin.client.id = watcher
A->B.consumer.fetch.min.bytes = 2
A->B.consumer.fetch.max.wait.ms = 3
A->B.source.consumer.fetch.max.bytes = 4
A->B.source.cluster.ssl.truststore.password = pf
A->B.topics = x
topics = y
tasks.max = 4
A.tasks.max = 5
B.offset.storage.topic = from-cluster
offset.storage.topic = from-top
B.offset.flush.interval.ms = 11
offset.flush.interval.ms = 12
B.producer.max.request.size = 13
B.producer.client.id = writer
A->B.producer.override.max.request.size = 14
A->B.producer.max.request.size = 15
""")
FLOW = FlowName("A", "B")


def values(layer: Layer) -> dict[str, str]:
    return {name: entry.value for name, entry in layer.items()}


def test_a_cluster_shares_its_security_with_each_of_its_clients() -> None:
    assert values(cluster_properties(FILE, "A")) == {
        "bootstrap.servers": "a:1",
        "admin.bootstrap.servers": "a:1",
        "consumer.bootstrap.servers": "a:1",
        "producer.bootstrap.servers": "a:1",
        "ssl.truststore.location": "top",
        "admin.ssl.truststore.location": "top",
        "consumer.ssl.truststore.location": "top",
        "producer.ssl.truststore.location": "top",
        "ssl.truststore.password": "pa",
        "admin.ssl.truststore.password": "pa",
        "consumer.ssl.truststore.password": "pa",
        "producer.ssl.truststore.password": "pa",
        "consumer.ssl.truststore.type": "PEM",
        "consumer.fetch.min.bytes": "1",
        "admin.client.id": "watcher",
        "tasks.max": "5",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("topics", "x"),
        ("tasks.max", "4"),
        ("consumer.fetch.min.bytes", "2"),
        ("source.consumer.fetch.min.bytes", "1"),
        ("source.consumer.fetch.max.bytes", "4"),
        ("source.cluster.ssl.truststore.password", "pf"),
        ("source.cluster.tasks.max", "5"),
        ("target.producer.max.request.size", "13"),
        ("target.cluster.offset.flush.interval.ms", "11"),
        ("offset.flush.interval.ms", None),
        ("offset.storage.topic", None),
    ],
)
def test_what_a_connector_is_given(name: str, value: str | None) -> None:
    assert values(connector_properties(FILE, FLOW)).get(name) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("offset.storage.topic", "from-top"),
        ("offset.flush.interval.ms", "11"),
        ("producer.max.request.size", "13"),
        ("producer.ssl.truststore.location", "top"),
        ("bootstrap.servers", "b:1"),
    ],
)
def test_what_a_worker_is_given(name: str, value: str) -> None:
    assert values(worker_properties(FILE, FLOW))[name] == value


def test_the_source_consumer_takes_its_cluster_before_its_flow() -> None:
    assert values(source_consumer_properties(connector_properties(FILE, FLOW))) == {
        "bootstrap.servers": "a:1",
        "ssl.truststore.location": "top",
        "ssl.truststore.password": "pa",
        "ssl.truststore.type": "PEM",
        "fetch.min.bytes": "1",
        "fetch.max.wait.ms": "3",
        "fetch.max.bytes": "4",
    }


def test_the_target_producer_takes_only_an_override_from_its_flow() -> None:
    connector, worker = connector_properties(FILE, FLOW), worker_properties(FILE, FLOW)
    assert values(target_producer_properties(connector, worker)) == {
        "bootstrap.servers": "b:1",
        "ssl.truststore.location": "top",
        "max.request.size": "14",
        "client.id": "writer",
    }


def test_the_admin_client_takes_its_own_beside_what_is_shared() -> None:
    assert values(admin_properties(cluster_properties(FILE, "A"))) == {
        "bootstrap.servers": "a:1",
        "ssl.truststore.location": "top",
        "ssl.truststore.password": "pa",
        "client.id": "watcher",
    }
