"""Connect's offsets topic has grown: of two values of a key the newest counts, in whichever partition each lies."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from tests.scenarios.data import grow_topic

from sparkmirror.kafka.clients import open_admin
from sparkmirror.ledger import connect
from sparkmirror.ledger.copies import Mark
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Cluster, Connector, TopicPartition
from sparkmirror.policy.partitioner import murmur2_partition
from sparkmirror.testing.kafka import KafkaCluster

BEFORE, NOW = 3, 8
OLD, NEW = 100, 500
LONG_AGO_MS = 1_700_000_000_000
WHERE = [TopicPartition("orders", number) for number in range(40)]


def nobody(_at: int) -> list[tuple[str, bytes]]:
    return []


def ours(at: int) -> list[tuple[str, bytes]]:
    name, value = Mark(4, at).header()
    return [(name.decode(), value)]


@pytest.mark.parametrize(
    ("first", "second", "is_said"),
    [(ours, ours, False), (nobody, nobody, True), (nobody, ours, True), (ours, nobody, True)],
    ids=["ours", "MirrorMaker", "MirrorMaker, then ours", "ours, then MirrorMaker"],
)
def test_the_newest_position_counts_in_an_offsets_topic_that_has_grown(
    target_cluster: KafkaCluster,
    caplog: pytest.LogCaptureFixture,
    first: Callable[[int], list[tuple[str, bytes]]],
    second: Callable[[int], list[tuple[str, bytes]]],
    is_said: bool,
) -> None:
    alias = f"A{uuid4().hex[:12]}"
    connector, topics = Connector.of_dedicated_mode(alias), ledger_topics(alias, offsets_partitions=BEFORE)
    target = Cluster("B", {"bootstrap.servers": target_cluster.bootstrap_servers})
    with open_admin(target, "test") as admin:
        ensure_ledger_topics(admin, topics)

    def store(offset: int, partitions: int, headers: list[tuple[str, bytes]], at_ms: int) -> None:
        producer = Producer({"bootstrap.servers": target.bootstrap_servers})  # one that knows the partitions of now
        for where in WHERE:
            key = connect.encode_key(connector, where)
            producer.produce(
                topics.offsets, connect.encode_value(offset), key, murmur2_partition(key, partitions),
                headers=headers, timestamp=at_ms,
            )  # fmt: skip
        assert producer.flush(60) == 0

    store(OLD, BEFORE, first(1), LONG_AGO_MS)
    grow_topic({"bootstrap.servers": target.bootstrap_servers}, topics.offsets, NOW)
    store(NEW, NOW, second(2), LONG_AGO_MS + 1)

    with LedgerReader(target, topics, connector) as reader:
        found = {where: position.offset for where, position in reader.read_to_end().items()}
    assert found == dict.fromkeys(WHERE, NEW)
    assert ("has grown" in caplog.text) is is_said
