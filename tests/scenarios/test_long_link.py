"""Both clusters far away: a backlog is read ahead, and comes out the same through links that break."""

import random
from collections.abc import Callable

import psutil
import pytest
from confluent_kafka import Producer
from tests.oracle import DEADLINE_SECONDS_LEAST, Client, assert_same, count_records, read_topic
from tests.scenarios.data import Note, make_topics, write
from tests.scenarios.mirror import StartMirror, flow_file

from sparkmirror.pipeline.fetch.read_ahead_connections import LANES_PER_BROKER
from sparkmirror.testing.kafka import KafkaCluster

RECORDS = 24_000
COPY_SECONDS_MAX = 60.0


def uneven(count: int) -> list[Note]:
    """Records of one partition whose size changes all the time, so that no range ends where it was expected to."""
    chance = random.Random(7)
    sizes = [chance.choice((40, 400, 1500, 6000)) for _ in range(count // 500)]
    filling = chance.randbytes(6000)
    return [Note(b"%d-" % at + filling[: sizes[at // 500 % len(sizes)]], key=b"k%d" % (at % 7)) for at in range(count)]


def write_aborted(client: Client, topic: str, transactional_id: str) -> None:
    """Committed and aborted transactions in turn, of several batches each."""
    producer = Producer({**client, "transactional.id": transactional_id, "batch.size": 20_000})
    producer.init_transactions(DEADLINE_SECONDS_LEAST)
    for number in range(40):
        producer.begin_transaction()
        for record in range(200):
            producer.produce(topic, b"%d-%d" % (number, record) + bytes(500), partition=0)
        producer.flush(DEADLINE_SECONDS_LEAST)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(DEADLINE_SECONDS_LEAST)


@pytest.mark.long
def test_over_long_links_a_backlog_comes_whole_and_in_order_though_they_break(
    source: Client,
    target: Client,
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
) -> None:
    story, alias = unique("far"), unique("west")
    orders, payments = f"{story}.orders", f"{story}.payments"
    make_topics(source, {orders: 1, payments: 1})
    write(source, orders, uneven(RECORDS), batch_size=50_000)
    write_aborted(source, payments, unique("writer"))
    text = flow_file(
        {"bootstrap.servers": source_cluster.bootstrap_servers_far},
        {"bootstrap.servers": target_cluster.bootstrap_servers_far},
        alias=alias,
        topics=rf"{story}\\..*",
        lines=[
            f"{alias}.consumer.max.partition.fetch.bytes = 262144",
            f"{alias}.consumer.isolation.level = read_committed",
        ],
    )

    widest = 0

    def mirrored(topic: str) -> int:
        nonlocal widest
        held, count = connections(source_cluster), count_records(target, f"{alias}.{topic}")
        if topic == orders and 0 < count < RECORDS:
            widest = max(widest, held)
        return count

    mirror = start_mirror(text)
    mirror.wait_until(lambda: mirrored(orders) > RECORDS // 10, "a part of the orders has come")
    source_cluster.proxy.cut()
    source_cluster.proxy.heal()
    mirror.wait_until(lambda: mirrored(orders) > RECORDS // 2, "half of the orders has come", COPY_SECONDS_MAX)
    target_cluster.proxy.cut()
    target_cluster.proxy.heal()
    mirror.wait_until(lambda: mirrored(orders) >= RECORDS, "all orders have come", COPY_SECONDS_MAX)
    mirror.wait_until(lambda: mirrored(payments) >= 20 * 200, "all committed payments have come", COPY_SECONDS_MAX)
    assert widest > LANES_PER_BROKER, "the backlog is read ahead, over connections of its own"
    mirror.stop()
    assert_same(read_topic(source, orders), read_topic(target, f"{alias}.{orders}"), orders)
    committed = [b"%d-%d" % (number, record) for number in range(0, 40, 2) for record in range(200)]
    seen = [record.value or b"" for record in read_topic(target, f"{alias}.{payments}")[0]]
    assert [value.rstrip(b"\0") for value in seen] == committed


def connections(cluster: KafkaCluster) -> int:
    """How many lead through the cluster's proxy now."""
    (port,) = cluster.proxy.ports
    held = psutil.Process(cluster.proxy.pid).net_connections("tcp4")
    return sum(1 for one in held if one.status == psutil.CONN_ESTABLISHED and one.laddr.port == port)
