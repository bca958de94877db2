"""The ledger on a real broker; librdkafka plays the Connect worker that writes positions."""

import threading
import time
from collections.abc import Iterator
from itertools import count
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Producer
from tests.oracle import DEADLINE_SECONDS_LEAST

from sparkmirror.errors import ClusterError
from sparkmirror.kafka.clients import open_admin
from sparkmirror.ledger import connect, positions
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.topics import LedgerTopics, ledger_topics
from sparkmirror.model import Cluster, Connector, Position, TopicPartition
from sparkmirror.policy.partitioner import murmur2_partition
from sparkmirror.testing.kafka import KafkaCluster

ORDERS = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


@pytest.fixture
def alias() -> str:
    return f"A{uuid4().hex[:12]}"


@pytest.fixture
def target(target_cluster: KafkaCluster) -> Cluster:
    return Cluster("B", {"bootstrap.servers": target_cluster.bootstrap_servers})


@pytest.fixture
def topics(target: Cluster, alias: str) -> LedgerTopics:
    names = ledger_topics(alias)
    with open_admin(target, "test") as admin:
        ensure_ledger_topics(admin, names)
    return names


@pytest.fixture
def reader(target: Cluster, topics: LedgerTopics, alias: str) -> Iterator[LedgerReader]:
    with LedgerReader(target, topics, Connector.of_dedicated_mode(alias)) as opened:
        yield opened


def producer(target: Cluster, **more: str) -> Producer:
    # Java's default partitioner, as the Connect worker uses it.
    settings = {"bootstrap.servers": target.bootstrap_servers, "partitioner": "murmur2_random"}
    return Producer(settings | {key.replace("_", "."): value for key, value in more.items()})


def store(writer: Producer, topics: LedgerTopics, alias: str, partition: TopicPartition, next_offset: int) -> None:
    writer.produce(
        topics.offsets,
        key=connect.encode_key(Connector.of_dedicated_mode(alias), partition),
        value=connect.encode_value(next_offset),
    )


def changes_until(reader: LedgerReader, partition: TopicPartition, wanted: Position | None) -> None:
    ends_at = time.monotonic() + DEADLINE_SECONDS_LEAST
    while time.monotonic() < ends_at:
        if reader.poll(0.2).get(partition, "unchanged") == wanted:
            return
    pytest.fail(f"{partition} did not become {wanted}: {reader.view.positions}")


def test_topics_are_created_once_with_what_the_cluster_can_give(target: Cluster, alias: str) -> None:
    names = ledger_topics(alias)
    with open_admin(target, "test") as admin:
        warnings = ensure_ledger_topics(admin, names)
        assert any("replication factor 1 instead of 3" in warning for warning in warnings)
        assert ensure_ledger_topics(admin, names) == ()
        assert admin.list_topics([names.offsets])[names.offsets].partitions == 25
        assert {admin.list_topics([name])[name].partitions for name in list(names)[1:]} == {1}
        settings = admin.describe_configs(names)
        assert settings[names.offsets]["cleanup.policy"].value == "compact"
        assert settings[names.positions]["segment.bytes"].value == str(1 << 20)
        assert settings[names.commands]["cleanup.policy"].value == "compact,delete"


def test_an_empty_ledger_has_no_positions(reader: LedgerReader) -> None:
    assert reader.read_to_end() == {}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_positions_written_as_connect_does_are_read_and_lie_where_we_would_put_them(
    target: Cluster, topics: LedgerTopics, alias: str, reader: LedgerReader, codec: str
) -> None:
    writer = producer(target, compression_type=codec)
    placed: dict[bytes, int] = {}
    for number in range(40):
        writer.produce(
            topics.offsets,
            key=connect.encode_key(Connector.of_dedicated_mode(alias), TopicPartition("orders", number)),
            value=connect.encode_value(number + 1),
            on_delivery=lambda _, message: placed.update({message.key(): message.partition()}),
        )
    store(writer, topics, "another", ORDERS, 999)
    assert writer.flush(30) == 0
    assert placed == {key: murmur2_partition(key, 25) for key in placed}
    assert len(placed) == 40
    assert reader.read_to_end() == {TopicPartition("orders", number): Position(number + 1) for number in range(40)}


def test_a_ledger_of_ten_thousand_partitions_and_thrice_as_many_records_is_read_in_seconds(
    target: Cluster, topics: LedgerTopics, alias: str, reader: LedgerReader
) -> None:
    """The first answer of the broker to a fetch of all of it has several megabytes then."""
    partitions = [TopicPartition(f"crowd-{number // 10}", number % 10) for number in range(10_000)]
    writer = producer(target, linger_ms="50", batch_size="500000")
    for offset in (1, 2, 3):
        record = PositionRecord(Position(offset, ((5, 0),), UUID(int=7)), offset, 1, run="run")
        value = positions.encode_value(record)
        for partition in partitions:
            store(writer, topics, alias, partition, offset)
            writer.produce(topics.positions, key=positions.encode_key(alias, partition), value=value)
        assert writer.flush(60) == 0
    assert reader.read_to_end() == dict.fromkeys(partitions, Position(3, ((5, 0),), UUID(int=7)))


def test_our_record_adds_epoch_and_id_until_somebody_else_mirrors(
    target: Cluster, topics: LedgerTopics, alias: str, reader: LedgerReader
) -> None:
    known = Position(100, ((5, 0),), UUID(int=7))
    writer = producer(target)
    store(writer, topics, alias, ORDERS, 100)
    record = PositionRecord(known, generation=2, task=1)
    writer.produce(topics.positions, key=positions.encode_key(alias, ORDERS), value=positions.encode_value(record))
    assert writer.flush(30) == 0
    assert reader.read_to_end() == {ORDERS: known}
    assert reader.view.records == {ORDERS: record}

    store(writer, topics, alias, ORDERS, 130)
    assert writer.flush(30) == 0
    changes_until(reader, ORDERS, Position(130))


def test_our_record_counts_where_connects_topic_has_none(
    target: Cluster, topics: LedgerTopics, alias: str, reader: LedgerReader
) -> None:
    """An unclean election has cut it. A partition that began by auto.offset.reset then could leave records out."""
    known = Position(100, ((5, 0),), UUID(int=7))
    writer = producer(target)
    value = positions.encode_value(PositionRecord(known, generation=2, task=1))
    writer.produce(topics.positions, key=positions.encode_key(alias, ORDERS), value=value)
    assert writer.flush(30) == 0
    assert reader.read_to_end() == {ORDERS: known}
    writer.produce(topics.offsets, key=connect.encode_key(Connector.of_dedicated_mode(alias), ORDERS), value=None)
    assert writer.flush(30) == 0
    changes_until(reader, ORDERS, None)


def test_new_positions_and_deletions_are_tailed(
    target: Cluster, topics: LedgerTopics, alias: str, reader: LedgerReader
) -> None:
    writer = producer(target)
    store(writer, topics, alias, ORDERS, 1)
    assert writer.flush(30) == 0
    assert reader.read_to_end() == {ORDERS: Position(1)}
    store(writer, topics, alias, OTHER, 5)
    assert writer.flush(30) == 0
    changes_until(reader, OTHER, Position(5))
    writer.produce(topics.offsets, key=connect.encode_key(Connector.of_dedicated_mode(alias), ORDERS), value=None)
    assert writer.flush(30) == 0
    changes_until(reader, ORDERS, None)
    assert reader.view.positions == {OTHER: Position(5)}


def test_only_committed_positions_count_and_markers_at_the_end_do_not_hold_the_reader_up(
    target: Cluster, topics: LedgerTopics, alias: str, reader: LedgerReader
) -> None:
    writer = producer(target, transactional_id=f"ledger-{uuid4().hex}")
    writer.init_transactions(30)
    writer.begin_transaction()
    store(writer, topics, alias, ORDERS, 10)
    writer.commit_transaction(30)
    writer.begin_transaction()
    store(writer, topics, alias, ORDERS, 20)
    assert writer.flush(30) == 0
    writer.abort_transaction(30)
    assert reader.read_to_end(seconds_max=60) == {ORDERS: Position(10)}, "held up it would raise"

    writer.begin_transaction()
    store(writer, topics, alias, ORDERS, 30)
    assert writer.flush(30) == 0
    with LedgerReader(target, topics, Connector.of_dedicated_mode(alias)) as second:
        assert second.read_to_end() == {ORDERS: Position(10)}
    writer.commit_transaction(30)
    changes_until(reader, ORDERS, Position(30))


def test_a_flow_that_never_ran_is_said(target: Cluster) -> None:
    with pytest.raises(ClusterError, match=r"has no topic mm2-offsets\.never\.internal"):
        LedgerReader(target, ledger_topics("never"), Connector.of_dedicated_mode("never"))


def test_positions_behind_another_tasks_open_transaction_are_waited_for(
    target: Cluster, topics: LedgerTopics, alias: str, reader: LedgerReader
) -> None:
    """They are committed, but no consumer sees them before what was open earlier in the same partition has ended."""
    neighbour = next(
        at for number in count(1) if home_of(alias, at := TopicPartition("orders", number)) == home_of(alias, ORDERS)
    )
    slow, quick = (producer(target, transactional_id=f"ledger-{uuid4().hex}") for _ in range(2))
    for writer, partition in ((slow, neighbour), (quick, ORDERS)):
        writer.init_transactions(30)
        writer.begin_transaction()
        store(writer, topics, alias, partition, 7)
        assert writer.flush(30) == 0
    quick.commit_transaction(30)
    assert reader.read_to_end() == {}, "hidden behind what is open"
    ending = threading.Timer(0.3, slow.commit_transaction, [30])
    ending.start()
    with open_admin(target, "ledger") as admin:
        assert reader.read_through(admin) == {ORDERS: Position(7), neighbour: Position(7)}
    ending.join()


def home_of(alias: str, partition: TopicPartition) -> int:
    return murmur2_partition(connect.encode_key(Connector.of_dedicated_mode(alias), partition), 25)
