"""Internal topics take 1 MiB at most: whatever else lies in them is passed over, and what comes after is read."""

import logging
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from tests.oracle import DEADLINE_SECONDS_LEAST
from tests.scenarios.test_transactions import write_transactions

from sparkmirror.errors import ClusterUnreachable, ProtocolError
from sparkmirror.kafka import tail as tails
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.tail import TopicTail
from sparkmirror.model import TopicPartition
from sparkmirror.testing.kafka import KafkaCluster

MEBIBYTE = 1 << 20
CODECS = ("gzip", "snappy", "lz4", "zstd")


def write(cluster: KafkaCluster, topic: str, codec: str, *values: bytes) -> None:
    """Each in a batch of its own."""
    settings = {"compression.type": codec, "message.max.bytes": 100 * MEBIBYTE, "batch.num.messages": 1}
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
    for value in values:
        producer.produce(topic, value, b"key", 0)
    assert producer.flush(60) == 0


@pytest.fixture
def topic(target: Admin, unique: Callable[[str], str]) -> str:
    name = unique("internal")
    assert target.create_topics([NewTopic(name, 1, 1, {"max.message.bytes": str(8 * MEBIBYTE)})]) == {name: None}
    return name


def test_batches_of_more_than_a_mebibyte_are_skipped_and_reported(
    target_cluster: KafkaCluster, target: Admin, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    for codec in CODECS:
        write(target_cluster, topic, codec, codec.encode(), bytes(20 * MEBIBYTE), b"after " + codec.encode())
    write(target_cluster, topic, "none", bytes(2 * MEBIBYTE), b"last", bytes(2 * MEBIBYTE))
    with caplog.at_level(logging.WARNING), TopicTail(target.connection.settings, [TopicPartition(topic, 0)]) as tail:
        read = [record.value for record in tail.read_to_end(DEADLINE_SECONDS_LEAST)]
    assert read == [part for codec in CODECS for part in (codec.encode(), b"after " + codec.encode())] + [b"last"]
    assert caplog.text.count("of an internal topic is skipped") == 6
    assert "holds more than 1048576 bytes once decompressed" in caplog.text


def test_of_a_mirrored_topic_nothing_is_passed_over(
    target_cluster: KafkaCluster, target: Admin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(target_cluster, topic, "zstd", b"before", bytes(20 * MEBIBYTE))
    where = [TopicPartition(topic, 0)]
    with TopicTail(target.connection.settings, where, is_internal=False) as tail:
        assert [len(record.value or b"") for record in tail.read_to_end(DEADLINE_SECONDS_LEAST)] == [6, 20 * MEBIBYTE]
    monkeypatch.setattr(tails, "UNPACKED_BYTES_MAX", MEBIBYTE)
    with (
        TopicTail(target.connection.settings, where, is_internal=False) as tail,
        pytest.raises(ProtocolError, match="batch at offset 1 cannot be read: a zstd record batch holds more than"),
    ):
        tail.read_to_end(DEADLINE_SECONDS_LEAST)


def test_what_transactions_aborted_is_read_where_a_caller_asks_for_all(
    target_cluster: KafkaCluster, target: Admin, unique: Callable[[str], str]
) -> None:
    topic = unique("aborted")
    assert target.create_topics([NewTopic(topic, 2, 1)]) == {topic: None}
    write_transactions({"bootstrap.servers": target_cluster.bootstrap_servers}, topic, unique("writer"))
    where = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    for committed, records in ((True, 150), (False, 300)):
        with TopicTail(target.connection.settings, where, read_committed=committed) as tail:
            assert len(tail.read_to_end(DEADLINE_SECONDS_LEAST)) == records


def test_what_a_call_read_that_then_raised_comes_with_the_next_one(
    target_cluster: KafkaCluster, target: Admin, topic: str
) -> None:
    """Who keeps the tail would never see it: the client is behind it."""
    where = TopicPartition(topic, 0)
    write(target_cluster, topic, "none", b"first")
    with TopicTail(target.connection.settings, [where]) as tail:
        with pytest.raises(ClusterUnreachable, match=r"1 offsets of topic .* could not be read"):
            tail.read_to({where: 2}, seconds_max=2)
        assert tail.may_have_news
        assert [record.value for record in tail.read_to_end(DEADLINE_SECONDS_LEAST)] == [b"first"]
        with pytest.raises(ClusterUnreachable):
            tail.read_to({where: 2}, seconds_max=1)
        write(target_cluster, topic, "none", b"second")
        assert [record.value for record in tail.read_to({where: 2})] == [b"second"]


def test_a_quiet_tail_has_no_news_until_a_record_has_come(
    target_cluster: KafkaCluster, target: Admin, topic: str
) -> None:
    write(target_cluster, topic, "none", b"first")
    with TopicTail(target.connection.settings, [TopicPartition(topic, 0)], wait_seconds=30) as tail:
        assert tail.may_have_news, "nothing was asked yet"
        assert [record.value for record in tail.read_to_end(DEADLINE_SECONDS_LEAST)] == [b"first"]
        assert tail.poll(0.0) == []
        assert not tail.may_have_news, "the broker has yet to answer"
        write(target_cluster, topic, "none", b"second")
        deadline = time.monotonic() + 60
        while not tail.may_have_news:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert [record.value for record in tail.poll(0.0)] == [b"second"]
