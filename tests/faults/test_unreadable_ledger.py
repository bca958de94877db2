"""Records of the ledger that cannot be read: what they said is unknown, which is neither nothing nor the beginning."""

from collections.abc import Mapping

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from tests.faults.numbered import NumberedWriter, end_offsets
from tests.faults.story import PARTITIONS, Story
from tests.scenarios.data import FLUSH_SECONDS_MAX

from sparkmirror.ledger import connect, positions
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Connector, TopicPartition
from sparkmirror.policy.partitioner import murmur2_partition

RECORDS = 100
MORE = 30
_OFFSETS_PARTITIONS = 25


@pytest.mark.parametrize(
    ("which", "reset"),
    [
        ("connects", "latest"),
        pytest.param("connects", "earliest", marks=pytest.mark.long),
        pytest.param("ours", "latest", marks=pytest.mark.long),
        pytest.param("ours", "earliest", marks=pytest.mark.long),
    ],
)
def test_an_unreadable_position_fails_its_partition_alone_and_is_never_begun_again(
    story: Story, which: str, reset: str
) -> None:
    lines = (f"{story.alias}.consumer.auto.offset.reset = {reset}",)
    writer = NumberedWriter(story.source, story.topic, PARTITIONS)
    writer.write(RECORDS)
    with story.run("--once") as first:
        assert first.finish(90).status == 0, first.errors
    first_partition = TopicPartition(story.topic, 0)
    place = _spoil_offset(story, first_partition) if which == "connects" else _spoil_record(story, first_partition)
    writer.write(MORE)
    with story.run("--once", lines=lines) as second:
        assert second.finish(120).status == 1, second.errors
        assert f"{first_partition}: its position is unknown: topic {place}" in second.last_words
    assert end_offsets(story.target, story.remote_topic, PARTITIONS) == [RECORDS, RECORDS + MORE]
    _mend(story, first_partition, which)
    with story.run("--once", lines=lines) as third:
        assert third.finish(90).status == 0, third.errors
    assert end_offsets(story.target, story.remote_topic, PARTITIONS) == [RECORDS + MORE] * PARTITIONS


@pytest.mark.long
def test_no_epoch_begins_while_a_record_does_not_tell_its_generation(story: Story) -> None:
    """A newer instance may have written it: to go on would make two planners."""
    writer = NumberedWriter(story.source, story.topic, PARTITIONS)
    writer.write(RECORDS)
    with story.run("--once") as first:
        assert first.finish(90).status == 0, first.errors
    where = TopicPartition(story.topic, 1)
    place = _write(story, ledger_topics(story.alias).positions, {_our_key(story, where): b"\xffgarbage"}, 0)
    writer.write(MORE)
    with story.run("--once") as second:
        wanted = f"no epoch begins, because a newer instance may run: topic {place}"
        second.wait_until(lambda: wanted in second.errors, "it says why no epoch begins")
        assert end_offsets(story.target, story.remote_topic, PARTITIONS) == [RECORDS] * PARTITIONS
        _mend(story, where, "ours")
        assert second.finish(120).status == 0, second.errors
    assert end_offsets(story.target, story.remote_topic, PARTITIONS) == [RECORDS + MORE] * PARTITIONS


def _spoil_offset(story: Story, where: TopicPartition) -> str:
    key = connect.encode_key(Connector.of_dedicated_mode(story.alias), where)
    home = murmur2_partition(key, _OFFSETS_PARTITIONS)
    return _write(story, ledger_topics(story.alias).offsets, {key: b'{"offset":"many"}'}, home)


def _spoil_record(story: Story, where: TopicPartition) -> str:
    """It still tells who wrote it."""
    value = b'{"offset":-7,"generation":1,"task":0,"run":"another"}'
    return _write(story, ledger_topics(story.alias).positions, {_our_key(story, where): value}, 0)


def _mend(story: Story, where: TopicPartition, which: str) -> None:
    if which == "ours":
        _write(story, ledger_topics(story.alias).positions, {_our_key(story, where): None}, 0)
        return
    key = connect.encode_key(Connector.of_dedicated_mode(story.alias), where)
    home = murmur2_partition(key, _OFFSETS_PARTITIONS)
    _write(story, ledger_topics(story.alias).offsets, {key: connect.encode_value(RECORDS)}, home)


def _our_key(story: Story, where: TopicPartition) -> bytes:
    return positions.encode_key(story.alias, where)


def _write(story: Story, topic: str, records: Mapping[bytes, bytes | None], partition: int) -> str:
    """Where the record is that was written: as people are told."""
    producer = Producer({"bootstrap.servers": story.target})
    for key, value in records.items():
        producer.produce(topic, value, key, partition)
    assert producer.flush(FLUSH_SECONDS_MAX) == 0
    reader = Consumer({"bootstrap.servers": story.target, "group.id": "unused"})
    _, end = reader.get_watermark_offsets(ClientPartition(topic, partition), FLUSH_SECONDS_MAX)
    reader.close()
    return f"{topic}, partition {partition}, offset {end - 1}"
