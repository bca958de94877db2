"""Clusters of three: brokers die and come back in the middle of a copy, on both sides."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, islice

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from tests.oracle import Client, assert_whole_repeats, count_records, read_topic
from tests.scenarios.data import make_topics
from tests.scenarios.mirror import StartMirror, flow_file

from sparkmirror.testing.kafka import Broker, KafkaCluster

PARTITIONS = 6
RECORDS_PER_SECOND = 500
STEP_RECORDS = 1_000
STEP_SECONDS_MAX = 120.0


@pytest.mark.long
def test_killed_brokers_on_both_sides_cost_no_record_and_no_order(
    unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    topic, alias = unique("orders"), unique("east")
    with KafkaCluster(brokers=3, name="source") as source_cluster, KafkaCluster(brokers=3, name="target") as there:
        source, target = ({"bootstrap.servers": cluster.bootstrap_servers} for cluster in (source_cluster, there))
        make_topics(source, {topic: PARTITIONS})
        text = flow_file(
            source, target, alias=alias, topics=topic, lines=["tasks.max = 2", "tasks.min = 2"], replicas=3
        )
        mirror = start_mirror(text)

        def goes_on(what: str) -> None:
            enough = count_records(target, f"{alias}.{topic}") + STEP_RECORDS
            mirror.wait_until(
                lambda: count_records(target, f"{alias}.{topic}") >= enough, f"it goes on {what}", STEP_SECONDS_MAX
            )

        with steady_writer(source, topic):
            mirror.wait_until(lambda: count_records(target, f"{alias}.{topic}") > 0, "the first records arrive")
            for cluster, client, name in ((there, target, f"{alias}.{topic}"), (source_cluster, source, topic)):
                leader = leader_of_first_partition(cluster, client, name)
                leader.kill()
                goes_on(f"without a leader of the {cluster.name}")
                leader.start()
                cluster.wait_ready()
                goes_on(f"when the {cluster.name}'s broker is back")
        written = count_records(source, topic)
        mirror.wait_until(lambda: count_records(target, f"{alias}.{topic}") >= written, "the rest arrives")
        mirror.stop()
        assert_whole_repeats(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)


def leader_of_first_partition(cluster: KafkaCluster, client: Client, topic: str) -> Broker:
    """Some broker may tell of a new topic, or of a new leader, later than others."""
    admin, leader = AdminClient(dict(client)), -1
    deadline = time.monotonic() + STEP_SECONDS_MAX
    while leader < 0:
        assert time.monotonic() < deadline, f"{topic} has no leader"
        found = admin.list_topics(topic, timeout=STEP_SECONDS_MAX).topics[topic].partitions
        leader = found[0].leader if found else -1
    return cluster.broker(leader)


@contextmanager
def steady_writer(client: Client, topic: str) -> Iterator[None]:
    """Writes numbers round the partitions, each exactly once, until the block ends and all are acknowledged."""
    producer = Producer({**client, "enable.idempotence": True, "linger.ms": 5})
    done = threading.Event()

    def run() -> None:
        numbers = count()
        while not done.wait(0.02):
            for number in islice(numbers, RECORDS_PER_SECOND // 50):
                producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
            producer.poll(0)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        assert producer.flush(STEP_SECONDS_MAX) == 0
