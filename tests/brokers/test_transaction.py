"""A transaction of a caller that blocks: records and a group's offset are there together, or not at all."""

from collections.abc import Callable, Iterator

import pytest
from tests.waiting import wait_until

from sparkmirror.batch.piece import Piece, Span
from sparkmirror.batch.records import encode_batch
from sparkmirror.errors import ClusterError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.settings import ClientSettings, client_settings
from sparkmirror.kafka.wire.transaction import GroupOffset, Transaction
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.records.batch_producer import BatchProducer
from sparkmirror.testing.kafka import KafkaCluster


@pytest.fixture(scope="module", params=[0, 2], ids=["first protocol", "second protocol"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with KafkaCluster(name="once", features={"transaction.version": request.param}) as found:
        yield Cluster("kafka", {"bootstrap.servers": found.bootstrap_servers})


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with open_admin(cluster, "test") as opened:
        yield opened


@pytest.fixture
def where(admin: Admin, unique: Callable[[str], str]) -> TopicPartition:
    topic = unique("once")
    admin.create_topics([NewTopic(topic, 1, 1)])
    return TopicPartition(topic, 0)


def settings_of(cluster: Cluster) -> ClientSettings:
    return client_settings(cluster, "test")


def begun(cluster: Cluster, where: TopicPartition, timeout_ms: int = 60_000) -> Transaction:
    transaction = Transaction(settings_of(cluster), f"{where.topic}-id", timeout_ms, 30.0)
    transaction.begin()
    return transaction


def append(cluster: Cluster, transaction: Transaction, where: TopicPartition, *values: bytes) -> None:
    producer = BatchProducer(settings_of(cluster), 30.0, transaction)
    data = bytearray(encode_batch([(None, value) for value in values]))
    producer.send({where: Piece(data, (Span(0, len(values)),), len(values))})
    producer.flush()
    producer.close()


def committed_values(cluster: Cluster, where: TopicPartition) -> list[bytes]:
    with open_tail(cluster, "test", [where]) as tail:
        return [record.value or b"" for record in tail.read_to_end()]


def test_records_and_the_offset_are_committed_together(cluster: Cluster, where: TopicPartition) -> None:
    transaction = begun(cluster, where)
    assert transaction.committed(where.topic) == {}
    append(cluster, transaction, where, b"1", b"2")
    offset = GroupOffset(where, 7, '{"why": "a mark"}')
    transaction.commit_offset(where.topic, offset)
    transaction.commit()
    transaction.commit()  # whose answer may have been lost
    wait_until(lambda: committed_values(cluster, where) == [b"1", b"2"], "its records are committed")
    assert transaction.committed(where.topic) == {where: offset}
    transaction.close()


def test_neither_counts_where_it_is_aborted(cluster: Cluster, where: TopicPartition) -> None:
    transaction = begun(cluster, where)
    append(cluster, transaction, where, b"1")
    transaction.commit_offset(where.topic, GroupOffset(where, 7, ""))
    transaction.begin()
    after = begun(cluster, where)
    assert after.committed(where.topic) == {}
    append(cluster, after, where, b"2")
    after.commit()
    wait_until(lambda: committed_values(cluster, where) == [b"2"], "the later one's record alone is committed")


def test_who_wakes_up_late_can_neither_write_nor_commit(cluster: Cluster, where: TopicPartition) -> None:
    sleeper = begun(cluster, where)
    append(cluster, sleeper, where, b"sleeper")
    heir = begun(cluster, where)
    append(cluster, heir, where, b"heir")
    for attempt in (sleeper.commit, lambda: sleeper.commit_offset(where.topic, GroupOffset(where, 7, ""))):
        with pytest.raises(ClusterError, match="failed with") as refused:
            attempt()
        assert "Another task or program has begun" in str(refused.value.args) + refused.value.hint
    with pytest.raises(ClusterError, match="cannot"):
        append(cluster, sleeper, where, b"again")
    heir.commit()
    wait_until(lambda: committed_values(cluster, where) == [b"heir"], "the heir's record alone is committed")
    assert heir.committed(where.topic) == {}


def test_a_time_out_beyond_that_of_the_brokers_is_refused_by_a_sentence(
    cluster: Cluster, where: TopicPartition
) -> None:
    with pytest.raises(ClusterError, match="failed with") as refused:
        begun(cluster, where, timeout_ms=1_000_000_000)
    assert "transaction.max.timeout.ms" in refused.value.hint
