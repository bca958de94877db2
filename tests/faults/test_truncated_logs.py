"""Logs that lose their end to an unclean leader election, or their beginning to retention, under a running mirror."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.numbered import NumberedWriter, end_offsets, wait_until
from tests.faults.story import PARTITIONS, Story
from tests.faults.test_lost_records import list_gaps
from tests.faults.tree import Run

from sparkmirror.testing.kafka import KafkaCluster

pytestmark = pytest.mark.long

LEADER, FOLLOWER = 2, 3
RECORDS, LOST, AFTER = 300, 100, 50
SMALL_SEGMENTS = {"segment.bytes": "1048576", "retention.bytes": "1048576", "file.delete.delay.ms": "0"}


@pytest.fixture(scope="module")
def three_brokers() -> Iterator[KafkaCluster]:
    """Its second and third broker lose what they have not copied from each other; tests leave all running."""
    with KafkaCluster(brokers=3, name="elections", config={"log.retention.check.interval.ms": "500"}) as cluster:
        yield cluster


@pytest.fixture
def from_three(
    tmp_path: Path, three_brokers: KafkaCluster, target_cluster: KafkaCluster, unique: Callable[[str], str]
) -> Story:
    addresses = (three_brokers.bootstrap_servers, target_cluster.bootstrap_servers)
    return Story(tmp_path, *addresses, unique("A"), unique("numbers"))


@pytest.fixture
def to_three(
    tmp_path: Path, source_cluster: KafkaCluster, three_brokers: KafkaCluster, unique: Callable[[str], str]
) -> Story:
    addresses = (source_cluster.bootstrap_servers, three_brokers.bootstrap_servers)
    return Story(tmp_path, *addresses, unique("A"), unique("numbers"), replicas=3)


def test_a_source_that_is_truncated_goes_on_where_it_was_cut(from_three: Story, three_brokers: KafkaCluster) -> None:
    story = from_three
    _create_unsafe(story.source, story.topic)
    _write(story, RECORDS)
    with story.run() as run:
        _wait_for_ends(story, run, RECORDS)
        _lose_the_end(three_brokers, lambda: _copy_more(story, run))
        _write(story, AFTER)
        _wait_for_ends(story, run, RECORDS + LOST + AFTER)
        run.stop(30)
    expected = [*range(RECORDS), *range(LOST), *range(AFTER)]
    assert story.arrival().numbers == dict.fromkeys(range(PARTITIONS), expected)
    assert _told(story) == [("truncated", RECORDS + LOST, RECORDS, 0, "went on")] * PARTITIONS


@pytest.mark.parametrize("lines", [(), ("backup.exactly.once.source.support = enabled",)], ids=["least", "once"])
def test_a_target_that_is_truncated_is_told_with_what_it_lost(
    to_three: Story, three_brokers: KafkaCluster, lines: tuple[str, ...]
) -> None:
    story = to_three
    admin = AdminClient({"bootstrap.servers": story.source})
    admin.create_topics([NewTopic(story.topic, PARTITIONS, 1)])[story.topic].result(30)
    _create_unsafe(story.target, story.remote_topic)
    _write(story, RECORDS)
    with story.run(lines=lines) as run:
        _wait_for_positions(story, run, RECORDS)
        kept = end_offsets(story.target, story.remote_topic, PARTITIONS)
        _lose_the_end(three_brokers, lambda: _mirror_more(story, run))
        _write(story, AFTER)
        _wait_for_positions(story, run, RECORDS + LOST + AFTER)
        run.stop(30)
    expected = [*range(RECORDS), *range(AFTER)]
    assert story.arrival().numbers == dict.fromkeys(range(PARTITIONS), expected)
    told = _told(story)
    assert [(cause, resumed, action) for cause, _, resumed, _, action in told] == [
        ("target truncated", end, "went on") for end in kept
    ]
    assert all(lost >= LOST for _, _, _, lost, _ in told)


def test_retention_that_overtakes_a_slow_mirror_is_told_with_what_it_took(
    from_three: Story, three_brokers: KafkaCluster
) -> None:
    story = from_three
    admin = AdminClient({"bootstrap.servers": story.source})
    admin.create_topics([NewTopic(story.topic, PARTITIONS, 3, config=SMALL_SEGMENTS)])[story.topic].result(30)
    writer = story.writer(record_bytes=1000)
    writer.write(RECORDS)
    with story.run() as run:
        story.wait_for_all(run, writer)
        run.pause()
        try:
            writer.write(6000)
            wait_until(lambda: min(_starts(story)) > RECORDS, "retention has overtaken the mirror", 60)
        finally:
            run.resume()
        story.wait_for_all(run, writer)
        run.stop(30)
    gaps = sorted(list_gaps(story), key=lambda gap: int(gap["partition"]))
    assert [(gap["cause"], gap["action"]) for gap in gaps] == [("retention", "went on")] * PARTITIONS
    arrived = story.arrival().numbers
    for partition, gap in enumerate(gaps):
        assert gap["expected"] >= RECORDS, "what was on its way when the mirror was paused may be more"
        assert arrived[partition] == [*range(gap["expected"]), *range(gap["resumed"], writer.produced[partition])]


def _create_unsafe(bootstrap: str, topic: str) -> None:
    """Led by one broker, followed by another, and lost by an election when only the follower is left."""
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    new = NewTopic(topic, PARTITIONS, replica_assignment=[[LEADER, FOLLOWER]] * PARTITIONS, config=config)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([new])[topic].result(30)


def _lose_the_end(cluster: KafkaCluster, copy_more: Callable[[], None]) -> None:
    """What `copy_more` brings about is only on the leader, which dies; the follower leads without it."""
    cluster.broker(FOLLOWER).kill()
    copy_more()
    cluster.broker(LEADER).kill()
    cluster.broker(FOLLOWER).start()
    cluster.broker(LEADER).start()
    cluster.wait_ready()


def _copy_more(story: Story, run: Run) -> None:
    _write(story, LOST)
    _wait_for_ends(story, run, RECORDS + LOST)


def _mirror_more(story: Story, run: Run) -> None:
    _write(story, LOST)
    _wait_for_positions(story, run, RECORDS + LOST)


def _write(story: Story, records: int) -> None:
    NumberedWriter(story.source, story.topic, PARTITIONS).write(records)


def _wait_for_ends(story: Story, run: Run, end: int) -> None:
    run.wait_until(lambda: story.arrived() == [end] * PARTITIONS, f"{story.remote_topic} ends at {end}", 90)


def _wait_for_positions(story: Story, run: Run, offset: int) -> None:
    """In the ledger: what the mirror stored of the target's extent is as far."""
    run.wait_until(story.target_has_ledger, "the ledger's topics exist", 90)
    run.wait_until(lambda: story.positions() == [offset] * PARTITIONS, f"the ledger reaches {offset}", 90)


def _starts(story: Story) -> list[int]:
    consumer = Consumer({"bootstrap.servers": story.source, "group.id": "starts", "log_level": 0})
    try:
        return [
            consumer.get_watermark_offsets(TopicPartition(story.topic, number), timeout=10)[0]
            for number in range(PARTITIONS)
        ]
    finally:
        consumer.close()


def _told(story: Story) -> list[tuple[str, int, int, int, str]]:
    gaps = sorted(list_gaps(story), key=lambda gap: int(gap["partition"]))
    return [(gap["cause"], gap["expected"], gap["resumed"], gap["lost_records"], gap["action"]) for gap in gaps]
