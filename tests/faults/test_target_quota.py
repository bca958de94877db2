"""A quota of the target that lets through less than comes in, exactly once: each pause is longer than an interval.

One task's sending end on a real broker, without Spark; the matrix has the whole mirror under such quotas.
"""

import time
from collections.abc import Callable

import pytest
from tests.faults.numbered import create_topic
from tests.oracle import read_topic
from tests.scenarios.quotas import quota
from tests.waiting import wait_until

from sparkmirror.batch.records import encode_batch
from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.fencing import init_producer_ids, transactional_id
from sparkmirror.kafka.settings import client_settings
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Cluster, Connector, TopicPartition
from sparkmirror.pipeline.produce.assembly import SenderOptions
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.produce.progress import ProgressOptions
from sparkmirror.pipeline.produce.sender import Sender
from sparkmirror.pipeline.produce.transaction_phase import TransactionOptions
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingAddress
from sparkmirror.pipeline.relay.schema import RUN
from sparkmirror.testing.kafka import KafkaCluster

QUOTA_BYTES_PER_SECOND = 40_000
BATCHES, BATCH_BYTES = 16, 40_000
"""More than the quota's window of ten seconds lets through: the rest takes six seconds more."""
TIMEOUT_MS = 4000
ATTEMPTS_MAX = 3
"""A machine that stands still for so long makes the coordinator abort a transaction; not three times."""


def test_no_transaction_lasts_through_the_pauses_of_a_quota(
    breakable_target: KafkaCluster, unique: Callable[[str], str]
) -> None:
    for _ in range(ATTEMPTS_MAX):
        if _records_under_a_quota(breakable_target, unique("A"), unique("numbers")) == [BATCHES // 2 + 1] * 2:
            return
    pytest.fail("a transaction was aborted every time: what it had written stands in the log beside what came again")


def _records_under_a_quota(breakable_target: KafkaCluster, alias: str, topic: str) -> list[int]:
    """How many each partition's log holds then, aborted ones included."""
    client = {"bootstrap.servers": breakable_target.bootstrap_servers}
    target = Cluster("B", client | {"client.id": alias})
    create_topic(breakable_target.bootstrap_servers, topic, 2)
    sender = _sender(target, alias, topic)
    with quota(client, f"{alias}-writer", "producer_byte_rate", QUOTA_BYTES_PER_SECOND):
        sender.start()
        try:
            _put(sender, topic, range(BATCHES))
            wait_until(lambda: sender.error or _is_committed(sender, BATCHES), "what was under way is committed", 30)
            _put(sender, topic, range(BATCHES, BATCHES + 2))
            wait_until(lambda: sender.error or _is_committed(sender, BATCHES + 2), "what came later follows", 60)
        finally:
            sender.finish()
    assert sender.task_metrics.throttled_ms > TIMEOUT_MS, "the quota counted"
    log = read_topic(client, topic)
    return [len(log[partition]) for partition in range(2)]


def _put(sender: Sender, topic: str, numbers: range) -> None:
    for number in numbers:
        sender.put(_run(topic, number % 2, number // 2))


def _is_committed(sender: Sender, batches: int) -> bool:
    return set(sender.acknowledged().values()) == {batches // 2}


def _sender(target: Cluster, alias: str, topic: str) -> Sender:
    connector, topics = Connector.of_dedicated_mode(alias), ledger_topics(alias)
    name = transactional_id(connector, 0)
    with open_admin(target, "test") as admin:
        ensure_ledger_topics(admin, topics)
        identity = init_producer_ids(admin, [name], TIMEOUT_MS)[name]
    assigned = tuple((Assigned(TopicPartition(topic, partition), 0), -1) for partition in range(2))
    plan = PlanRow(0, "run", 1, 1, identity.producer_id, identity.epoch, RingAddress(0, 0, 0, 0, 0), 25, assigned)
    options = SenderOptions(
        client_settings(target, "writer"),
        ProgressOptions(connector, topics, 1.0),
        transactions=TransactionOptions("B", connector, TIMEOUT_MS, 0.2, 1.0),
    )
    return Sender(options, plan, None)


def _run(topic: str, partition: int, offset: int) -> Delivery:
    batch = bytearray(encode_batch([(None, bytes(BATCH_BYTES))], base_offset=offset))
    now_ms = int(time.time() * 1000)
    where = TopicPartition(topic, partition)
    return Delivery(RUN, where, topic, offset, offset + 1, 1, offset + 1, now_ms, memoryview(batch), None)
