"""Logs that lose their end to an unclean leader election, or their beginning to retention, under a running mirror."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.numbered import NumberedWriter, create_topic, end_offsets
from tests.faults.story import PARTITIONS, Story
from tests.faults.test_lost_records import list_gaps
from tests.faults.tree import Run
from tests.scenarios.data import alter_topic
from tests.scenarios.status import status_of
from tests.waiting import wait_until

from sparkmirror.testing.kafka import KafkaCluster

pytestmark = pytest.mark.long

LEADER, FOLLOWER = 2, 3
RECORDS, LOST, AFTER = 300, 100, 50
WAIT_SECONDS = 240.0
"""As `Story` waits: three brokers that elect, and a mirror that starts, take long on a busy machine."""
SMALL_SEGMENTS = {"segment.bytes": "1048576", "retention.bytes": "1048576", "file.delete.delay.ms": "0"}


@pytest.fixture(scope="module")
def three_brokers() -> Iterator[KafkaCluster]:
    """Its second and third broker lose what they have not copied from each other; tests leave all running."""
    with KafkaCluster(brokers=3, name="elections", config={"log.retention.check.interval.ms": "500"}) as cluster:
        yield cluster


@pytest.fixture
def to_three(
    tmp_path: Path, source_cluster: KafkaCluster, three_brokers: KafkaCluster, unique: Callable[[str], str]
) -> Story:
    addresses = (source_cluster.bootstrap_servers, three_brokers.bootstrap_servers)
    return Story(tmp_path, *addresses, unique("A"), unique("numbers"), replicas=3)


def test_a_source_that_is_truncated_goes_on_where_it_was_cut(from_three: Story, three_brokers: KafkaCluster) -> None:
    story = from_three
    create_unsafe(story.source, story.topic)
    _write(story, RECORDS)
    with story.run() as run:
        _wait_for_ends(story, run, RECORDS)
        lose_the_end(three_brokers, lambda: _copy_more(story, run))
        _write(story, AFTER)
        _wait_for_ends(story, run, RECORDS + LOST + AFTER)
        run.stop(30)
    expected = [*range(RECORDS), *range(LOST), *range(AFTER)]
    assert story.arrival().numbers == dict.fromkeys(range(PARTITIONS), expected)
    assert _told(story) == [("truncated", RECORDS + LOST, RECORDS, 0, "went on")] * PARTITIONS


def test_a_source_that_is_truncated_while_its_target_refuses_is_reported_when_it_takes_again(
    from_three: Story, three_brokers: KafkaCluster
) -> None:
    """By then the source's log reaches beyond where the mirror stands: only the leader epoch tells."""
    story = from_three
    create_unsafe(story.source, story.topic)
    create_topic(story.target, story.remote_topic, PARTITIONS)
    _write(story, RECORDS)
    with story.run(lines=["sync.topic.configs.enabled = false"]) as run:
        _wait_for_ends(story, run, RECORDS)
        lose_the_end(three_brokers, lambda: _copy_more_until_refused(story, run))
        _write(story, LOST + AFTER)
        _alter_target(story, "delete")
        _wait_for_ends(story, run, RECORDS + LOST + LOST + AFTER)
        run.stop(30)
    expected = [*range(RECORDS), *range(LOST), *range(LOST + AFTER)]
    assert story.arrival().numbers == dict.fromkeys(range(PARTITIONS), expected)
    assert _told(story) == [("truncated", RECORDS + LOST, RECORDS, 0, "went on")] * PARTITIONS


def test_two_logs_that_parted_several_times_are_followed_back_to_what_they_share(
    from_three: Story, three_brokers: KafkaCluster
) -> None:
    """Two replicas lead in turn, each without what the other one wrote. The mirror reads of the first one only, twice,
    and then finds the second one, whose last epoch before ours is none of ours."""
    story = from_three
    create_unsafe(story.source, story.topic)
    _write(story, RECORDS)
    await_copies(three_brokers)
    three_brokers.broker(FOLLOWER).kill()
    _write(story, LOST, first=1000)
    _mirror_all(story, RECORDS + LOST)
    _let_lead(three_brokers, FOLLOWER, LEADER)
    _write(story, 2 * LOST, first=2000)
    _let_lead(three_brokers, LEADER, FOLLOWER)
    _write(story, 3 * LOST, first=3000)
    _mirror_all(story, RECORDS + 4 * LOST)
    _let_lead(three_brokers, FOLLOWER, LEADER)
    _write(story, 4 * LOST, first=4000)
    three_brokers.broker(LEADER).start()
    three_brokers.wait_ready()
    _mirror_all(story, RECORDS + 10 * LOST)
    first, second = ([(1000, LOST), (3000, 3 * LOST)], [(2000, 2 * LOST), (4000, 4 * LOST)])
    parts = [(0, RECORDS), *first, *second]
    expected = [number for start, count in parts for number in range(start, start + count)]
    assert story.arrival().numbers == dict.fromkeys(range(PARTITIONS), expected)
    steps = [("truncated", RECORDS + 4 * LOST, RECORDS + LOST), ("truncated", RECORDS + LOST, RECORDS)]
    assert sorted(told[:3] for told in _told(story)) == sorted(steps * PARTITIONS)


@pytest.mark.parametrize("lines", [(), ("backup.exactly.once.source.support = enabled",)], ids=["least", "once"])
def test_a_target_that_is_truncated_is_reported_with_what_it_lost(
    to_three: Story, three_brokers: KafkaCluster, lines: tuple[str, ...]
) -> None:
    story = to_three
    admin = AdminClient({"bootstrap.servers": story.source})
    admin.create_topics([NewTopic(story.topic, PARTITIONS, 1)])[story.topic].result(30)
    create_unsafe(story.target, story.remote_topic)
    _write(story, RECORDS)
    with story.run(lines=lines) as run:
        _wait_for_positions(story, run, RECORDS)
        kept = _ends_behind_markers(story)
        lose_the_end(three_brokers, lambda: _mirror_more(story, run))
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


def test_retention_that_overtakes_a_slow_mirror_is_reported_with_what_it_took(
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
            wait_until(lambda: min(_starts(story)) > RECORDS, "retention has overtaken the mirror", WAIT_SECONDS)
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


def create_unsafe(bootstrap: str, topic: str) -> None:
    """Led by one broker, followed by another, and lost by an election when only the follower is left."""
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    new = NewTopic(topic, PARTITIONS, replica_assignment=[[LEADER, FOLLOWER]] * PARTITIONS, config=config)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([new])[topic].result(30)


def lose_the_end(cluster: KafkaCluster, copy_more: Callable[[], None]) -> None:
    """What `copy_more` brings about is only on the leader, which dies; the follower leads without it, and with all that
    was there before."""
    await_copies(cluster)
    cluster.broker(FOLLOWER).kill()
    copy_more()
    cluster.broker(LEADER).kill()
    cluster.broker(FOLLOWER).start()
    cluster.broker(LEADER).start()
    cluster.wait_ready()


def await_copies(cluster: KafkaCluster) -> None:
    """Until all replicas are in sync: on a busy machine a broker that was late with its heartbeat has left the others,
    and lacks what was acknowledged meanwhile."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    def are_in_sync() -> bool:
        topics = admin.list_topics(timeout=10).topics.values()
        partitions = [partition for topic in topics for partition in topic.partitions.values()]
        return all(set(partition.isrs) == set(partition.replicas) for partition in partitions)

    wait_until(are_in_sync, "all replicas are in sync", WAIT_SECONDS)


def _ends_behind_markers(story: Story) -> list[int]:
    """The target's ends when all transactions are over: a position may be read before their markers stand in all
    partitions."""
    ends = partial(end_offsets, story.target, story.remote_topic, PARTITIONS)
    wait_until(lambda: ends(committed=True) == ends(), "no transaction is open", WAIT_SECONDS)
    return ends()


def _let_lead(cluster: KafkaCluster, one: int, other: int) -> None:
    """Without the other, and without what only that has."""
    cluster.broker(other).kill()
    cluster.broker(one).start()


def _mirror_all(story: Story, end: int) -> None:
    with story.run() as run:
        _wait_for_positions(story, run, _source_end(story))
        _wait_for_ends(story, run, end)
        run.stop(30)


def _source_end(story: Story) -> int:
    (end,) = set(end_offsets(story.source, story.topic, PARTITIONS))
    return end


def _copy_more_until_refused(story: Story, run: Run) -> None:
    """What follows has no keys, which a compacted topic does not take."""
    _copy_more(story, run)
    _alter_target(story, "compact")
    _write(story, 1)
    where = {f"{story.topic}-{number}" for number in range(PARTITIONS)}
    client = {"bootstrap.servers": story.target}
    run.wait_until(lambda: status_of(client, story.alias).failed.keys() == where, "the target refuses", WAIT_SECONDS)
    run.wait_until(lambda: _seconds_to_retry(story) > 30, "no try until the source has lost its end", WAIT_SECONDS)


def _seconds_to_retry(story: Story) -> float:
    """Until the first partition is tried again; the pauses grow."""
    tries = status_of({"bootstrap.servers": story.target}, story.alias).retry_at_ms
    return min(tries.values(), default=0) / 1000 - time.time()


def _alter_target(story: Story, policy: str) -> None:
    alter_topic({"bootstrap.servers": story.target}, story.remote_topic, {"cleanup.policy": policy})


def _copy_more(story: Story, run: Run) -> None:
    _write(story, LOST)
    _wait_for_ends(story, run, RECORDS + LOST)


def _mirror_more(story: Story, run: Run) -> None:
    _write(story, LOST)
    _wait_for_positions(story, run, RECORDS + LOST)


def _write(story: Story, records: int, first: int = 0) -> None:
    """Numbered from `first` on."""
    writer = NumberedWriter(story.source, story.topic, PARTITIONS)
    writer.produced = [first] * PARTITIONS
    writer.write(records)


def _wait_for_ends(story: Story, run: Run, end: int) -> None:
    run.wait_until(lambda: story.arrived() == [end] * PARTITIONS, f"{story.remote_topic} ends at {end}", WAIT_SECONDS)


def _wait_for_positions(story: Story, run: Run, offset: int) -> None:
    """In the ledger: what the mirror stored of the target's extent is as far."""
    run.wait_until(story.target_has_ledger, "the ledger's topics exist", WAIT_SECONDS)
    run.wait_until(lambda: story.positions() == [offset] * PARTITIONS, f"the ledger reaches {offset}", WAIT_SECONDS)


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
