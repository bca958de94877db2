"""Small records written to real brokers: all of them, in their order, through what goes wrong on the way."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient
from tests.oracle import DEADLINE_SECONDS_LEAST

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.clients import open_tail
from sparkmirror.kafka.errors import RequestRefused
from sparkmirror.kafka.publish import Publisher
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.testing.kafka import KafkaCluster

SMALL_BYTES = 2000


@pytest.fixture
def cluster(target_cluster: KafkaCluster) -> Cluster:
    return Cluster("B", {"bootstrap.servers": target_cluster.bootstrap_servers})


@pytest.fixture
def publisher(cluster: Cluster) -> Iterator[Publisher]:
    with Publisher(cluster, "test", DEADLINE_SECONDS_LEAST) as opened:
        yield opened


def make_topic(admin: Admin, name: str, partitions: int = 1, **configs: str) -> str:
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    assert admin.create_topics([NewTopic(name, partitions, 1, settings)]) == {name: None}
    return name


def read(cluster: Cluster, topic: str, partition: int = 0) -> list[tuple[bytes | None, bytes | None, int]]:
    with open_tail(cluster, "test", [TopicPartition(topic, partition)]) as tail:
        return [(one.key, one.value, one.timestamp_ms) for one in tail.read_to_end()]


def test_records_come_in_their_order_at_their_time_and_where_their_keys_are_put(
    target: Admin, cluster: Cluster, publisher: Publisher, unique: Callable[[str], str]
) -> None:
    topic = make_topic(target, unique("published"), 2)
    records = [(b"%d" % number, None if number % 5 == 0 else b"v") for number in range(20)]
    publisher.write(topic, records, 1234, place=lambda key: int(key) % 2)
    for partition in (0, 1):
        expected = [(key, value, 1234) for key, value in records if int(key) % 2 == partition]
        assert read(cluster, topic, partition) == expected


def test_a_topic_that_takes_small_batches_gets_all_records_and_refuses_by_name_what_no_batch_holds(
    target: Admin, cluster: Cluster, publisher: Publisher, unique: Callable[[str], str]
) -> None:
    topic = make_topic(target, unique("small"), max_message_bytes=str(SMALL_BYTES))
    records = [(b"%d" % number, b"x" * (SMALL_BYTES // 4)) for number in range(10)]
    publisher.write(topic, records, 1)
    assert [(key, value) for key, value, _ in read(cluster, topic)] == records
    with pytest.raises(RequestRefused, match="TOO_LARGE"):
        publisher.write(topic, [(b"k", b"x" * SMALL_BYTES)])


def test_a_topic_that_is_not_there_is_waited_for_and_then_named(cluster: Cluster, unique: Callable[[str], str]) -> None:
    topic = unique("never-made")
    with Publisher(cluster, "test", 0.5) as publisher, pytest.raises(ClusterUnreachable, match=topic):
        publisher.write(topic, [(b"k", b"v")])


def test_a_topic_that_is_made_again_is_written_to_again(
    target: Admin, cluster: Cluster, target_cluster: KafkaCluster, publisher: Publisher, unique: Callable[[str], str]
) -> None:
    topic = make_topic(target, unique("again"))
    publisher.write(topic, [(b"before", b"v")])
    client = AdminClient({"bootstrap.servers": target_cluster.bootstrap_servers})
    client.delete_topics([topic])[topic].result()
    while target.list_topics([topic]):
        time.sleep(0.1)
    make_topic(target, topic)
    publisher.write(topic, [(b"after", b"v")])
    assert [key for key, _, _ in read(cluster, topic)][-1] == b"after"


def test_a_connection_that_broke_is_made_again(
    target: Admin, cluster: Cluster, publisher: Publisher, unique: Callable[[str], str]
) -> None:
    """As after `connections.max.idle.ms` of the broker, or its restart."""
    topic = make_topic(target, unique("broken"))
    publisher.write(topic, [(b"before", b"v")])
    for link in publisher._appender._links.values():
        link.socket.shutdown(2)
    publisher.write(topic, [(b"after", b"v")])
    assert [key for key, _, _ in read(cluster, topic)] == [b"before", b"after"]


def test_the_brokers_clock_is_read_from_its_own_stamp(
    target: Admin, publisher: Publisher, unique: Callable[[str], str]
) -> None:
    topic = make_topic(target, unique("clock"), message_timestamp_type="LogAppendTime")
    assert abs(publisher.read_clock(topic)) < 30.0  # one machine, one clock, however busy
