"""A target's topic is deleted under a flow that writes records to partitions of its own choosing.

One task's sending end on a real broker, without Spark: what it wrote to the mirrored partition tells of the loss.
"""

import time
from collections.abc import Callable

from confluent_kafka.admin import AdminClient
from tests.faults.numbered import create_topic
from tests.waiting import wait_until

from sparkmirror.batch.piece import Piece, Span
from sparkmirror.batch.records import encode_batch
from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.fencing import init_producer_ids, transactional_id
from sparkmirror.kafka.settings import client_settings
from sparkmirror.ledger.gaps import decode
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Cluster, Connector, TopicPartition
from sparkmirror.pipeline.produce.assembly import SenderOptions
from sparkmirror.pipeline.produce.delivery import Bundle, Delivery
from sparkmirror.pipeline.produce.progress import ProgressOptions
from sparkmirror.pipeline.produce.sender import Sender
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingAddress
from sparkmirror.pipeline.relay.schema import RUN
from sparkmirror.testing.kafka import KafkaCluster

RECORDS, MORE = 300, 30


def test_a_flow_with_transforms_finds_that_its_target_was_deleted_in_mid_run(
    target_cluster: KafkaCluster, unique: Callable[[str], str]
) -> None:
    alias, topic = unique("A"), unique("numbers")
    remote, elsewhere = f"{alias}.{topic}", unique("elsewhere")
    servers = target_cluster.bootstrap_servers
    for name in (remote, elsewhere):
        create_topic(servers, name, 2)
    sender = _sender(Cluster("B", {"bootstrap.servers": servers}), alias, topic)
    sender.start()
    try:
        _pass(sender, TopicPartition(topic, 0), (remote, elsewhere), 0, RECORDS)
        client = AdminClient({"bootstrap.servers": servers})
        client.delete_topics([remote])[remote].result(60)
        wait_until(lambda: remote not in client.list_topics(timeout=60).topics, "it is gone")
        create_topic(servers, remote, 2)
        _pass(sender, TopicPartition(topic, 0), (remote, elsewhere), RECORDS, RECORDS + MORE)
    finally:
        sender.finish()
    assert (sender.task_metrics.gaps, sender.task_metrics.lost_records) == (1, RECORDS)
    with open_tail(Cluster("B", {"bootstrap.servers": servers}), "test", [_gaps(alias)]) as tail:
        found = [decode(alias, record.key, record.value) for record in tail.read_to_end()]
    assert [(gap.cause, gap.expected, gap.resumed, gap.action) for gap in found if gap] == [
        ("target deleted", RECORDS, 0, "went on")
    ]


def _gaps(alias: str) -> TopicPartition:
    return TopicPartition(ledger_topics(alias).gaps, 0)


def _pass(sender: Sender, where: TopicPartition, topics: tuple[str, ...], first: int, following: int) -> None:
    """One range of the source, each record of it to each of the topics; until all of it is acknowledged."""
    count = following - first
    home = TopicPartition(topics[0], where.partition)
    pieces = tuple(
        (
            TopicPartition(topic, where.partition),
            Piece(bytearray(encode_batch([(None, b"v")] * count)), (Span(first, count),), count),
        )
        for topic in topics
    )
    now_ms = int(time.time() * 1000)
    delivery = Delivery(RUN, where, home.topic, first, following, count, following, now_ms, memoryview(b""), None)
    sender.put(Bundle(delivery, 100, pieces, ""))
    wait_until(lambda: sender.error or sender.acknowledged()[where] == following, f"{following} is reached", 60)


def _sender(target: Cluster, alias: str, topic: str) -> Sender:
    connector, topics = Connector.of_dedicated_mode(alias), ledger_topics(alias)
    name = transactional_id(connector, 0)
    with open_admin(target, "test") as admin:
        ensure_ledger_topics(admin, topics)
        identity = init_producer_ids(admin, [name])[name]
    assigned = ((Assigned(TopicPartition(topic, 0), 0), -1),)
    plan = PlanRow(0, "run", 1, 1, identity.producer_id, identity.epoch, RingAddress(0, 0, 0, 0, 0), 25, assigned)
    return Sender(SenderOptions(client_settings(target, "writer"), ProgressOptions(connector, topics, 1.0)), plan, None)
