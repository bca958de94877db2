"""The offset job on real brokers, without a mirror: the offset map is written by hand, all else is as in a run."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping

import pytest
from confluent_kafka import Producer
from tests.brokers.offset_story import Story, told
from tests.faults.test_lost_records import delete_topic
from tests.oracle import DEADLINE_SECONDS_LEAST

from sparkmirror.kafka.clients import open_tail
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.kafka.groups import GroupOffsetsClient
from sparkmirror.kafka.publish import Publisher, publish
from sparkmirror.ledger.map_records import ChunkName, MapView, encode_chunk, encode_key
from sparkmirror.ledger.mirror_records import Checkpoint, OffsetSync
from sparkmirror.ledger.offset_map import OffsetMap
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.translate import Translated
from sparkmirror.model import TopicPartition
from sparkmirror.sync.offset_job import MapKeeper, OffsetJob
from sparkmirror.sync.offset_state import OffsetState
from sparkmirror.testing.kafka import KafkaCluster


@pytest.fixture
def story(source_cluster: KafkaCluster, target_cluster: KafkaCluster, unique: Callable[[str], str]) -> Iterator[Story]:
    clients = [{"bootstrap.servers": cluster.bootstrap_servers} for cluster in (source_cluster, target_cluster)]
    with told(clients[0], clients[1], unique("east")) as found:
        yield found


def test_a_group_is_translated_and_moved_forward_and_only_forward(story: Story) -> None:
    alias = story.flow.name.source
    topic, group = f"orders-{alias}", f"billing-{alias}"
    story.make_topic(topic, 2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    remote = [TopicPartition(story.flow.remote_topic(topic), number) for number in range(2)]
    story.map(first, (0, 100, 0), (101, 100, 100))  # a transaction marker at 100
    story.commit(group, {first: Committed(150, "by hand"), second: Committed(7)})
    story.job()
    assert story.checkpoints(group) == [Checkpoint(group, remote[0], 150, 149, "by hand")]
    assert story.on_target(group) == {remote[0]: Committed(149, "by hand")}

    story.job()
    assert len(story.checkpoints(group)) == 1, "nothing moved, nothing is written"
    story.map(second, (0, 100, 0))
    story.work_until(lambda: remote[1] in story.on_target(group), "the second partition's map is followed")
    assert story.on_target(group) == {remote[0]: Committed(149, "by hand"), remote[1]: Committed(7)}

    # The group rewinds on the source: the checkpoint says so, the group on the target is left where it is.
    story.commit(group, {first: Committed(20)})
    story.job()
    assert story.checkpoints(group)[-1] == Checkpoint(group, remote[0], 20, 20)
    assert story.on_target(group)[remote[0]] == Committed(149, "by hand")
    story.job.close()
    story.job()
    assert len(story.checkpoints(group)) == 3, "a restart repeats no checkpoint"


def test_a_topic_that_is_made_again_while_no_mirror_runs_has_no_group_at_its_former_place(story: Story) -> None:
    alias = story.flow.name.source
    topic, group, later = f"orders-{alias}", f"billing-{alias}", f"reports-{alias}"
    story.make_topic(topic)
    partition, remote = TopicPartition(topic, 0), TopicPartition(story.flow.remote_topic(topic), 0)
    story.map(partition, (0, 300, 0), with_id=True)
    story.commit(group, {partition: Committed(200)})
    story.commit(later, {partition: Committed(250)})
    story.job()
    assert story.checkpoints(group) == [Checkpoint(group, remote, 200, 200)]
    story.job.close()

    for client, name in ((story.source_client, topic), (story.target_client, remote.topic)):
        delete_topic(client["bootstrap.servers"], name)
    story.make_topic(topic)
    story.map(partition, (0, 300, 0), with_id=True)
    story.commit(later, {partition: Committed(30)})
    story.job = OffsetJob(story.flow)
    story.work_until(
        lambda: story.on_target(later) == {remote: Committed(30)}, "a group that reads the new topic moves"
    )
    assert story.checkpoints(group)[-1].downstream == 0
    assert story.on_target(group).get(remote, Committed(0)).offset == 0


def test_what_a_replaced_mirror_writes_late_is_written_again(story: Story) -> None:
    alias = story.flow.name.source
    topic, group = f"orders-{alias}", f"billing-{alias}"
    story.make_topic(topic)
    partition, remote = TopicPartition(topic, 0), TopicPartition(story.flow.remote_topic(topic), 0)
    story.map(partition, (0, 300, 0))
    story.commit(group, {partition: Committed(200)})
    story.job()
    ours = Checkpoint(group, remote, 200, 200)
    assert story.checkpoints(group) == [ours]
    late = [Checkpoint(group, remote, 200, 23), Checkpoint(group, remote, 290, 290)]
    for one in late:  # it woke up with an older map, or had read where the group stood before it was rewound
        records = [(one.key(), one.value())]
        publish(story.flow.target, f"{alias}.checkpoints.internal", records, DEADLINE_SECONDS_LEAST)
        story.work_until(lambda: story.checkpoints(group)[-1] == ours, "our checkpoint is the last")
    assert story.checkpoints(group) == [ours, late[0], ours, late[1], ours]


def test_offset_syncs_lie_on_the_source_as_mirrormaker_writes_them(story: Story) -> None:
    alias = story.flow.name.source
    topic = f"orders-{alias}"
    partition = TopicPartition(topic, 0)
    story.map(partition, (0, 150, 1000), (151, 10, 1150))
    story.job()
    found = _syncs(story, partition)
    assert found == [(0, 1000), (101, 1101), (151, 1150), (160, 1159)]
    story.job.close()
    story.map(partition, (161, 10, 1160))
    story.job()
    assert _syncs(story, partition)[4:] == [(161, 1160), (170, 1169)], "a restart goes on behind the last sync"


def _syncs(story: Story, partition: TopicPartition) -> list[tuple[int, int]]:
    with open_tail(story.flow.source, "test", [TopicPartition("mm2-offset-syncs.backup.internal", 0)]) as tail:
        found = [OffsetSync.parse(record.key, record.value) for record in tail.read_to_end()]
    return [(sync.upstream, sync.downstream) for sync in found if sync.partition == partition]


@pytest.mark.parametrize(
    ("line", "on_target"),
    [
        ("emit.checkpoints.enabled = false", []),
        ("emit.offset-syncs.enabled = false", ["{}.checkpoints.internal"]),
        ("offset-syncs.topic.location = target", ["{}.checkpoints.internal", "mm2-offset-syncs.{}.internal"]),
    ],
)
def test_only_what_is_asked_for_is_written_and_where(
    line: str, on_target: list[str], source_cluster: KafkaCluster, target_cluster: KafkaCluster,
    unique: Callable[[str], str],
) -> None:  # fmt: skip
    clients = [{"bootstrap.servers": cluster.bootstrap_servers} for cluster in (source_cluster, target_cluster)]
    with told(clients[0], clients[1], unique("east"), line) as story:
        alias = story.flow.name.source
        topic, group = f"orders-{alias}", f"billing-{alias}"
        story.make_topic(topic)
        story.map(TopicPartition(topic, 0), (0, 100, 0))
        story.commit(group, {TopicPartition(topic, 0): Committed(50)})
        story.job()
        names = [f"{alias}.checkpoints.internal", f"mm2-offset-syncs.{alias}.internal"]
        assert sorted(story.target.list_topics(names)) == [name.format(alias) for name in on_target]
        moved = {TopicPartition(f"{alias}.{topic}", 0): Committed(50)}
        assert story.on_target(group) == (moved if on_target else {})


def test_a_commit_that_crosses_ours_is_restored(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    alias = story.flow.name.source
    topic, group = f"orders-{alias}", f"billing-{alias}"
    story.make_topic(topic)
    partition, remote = TopicPartition(topic, 0), TopicPartition(story.flow.remote_topic(topic), 0)
    story.map(partition, (0, 300, 0))
    story.commit(group, {partition: Committed(100)})
    honest = GroupOffsetsClient.commit
    crossing = [True]

    def commit_late(client: GroupOffsetsClient, name: str, offsets: Mapping[TopicPartition, Committed]) -> object:
        """Between our look and our commit a consumer commits 200."""
        if crossing.pop() if crossing else False:
            honest(story.target_groups, group, {remote: Committed(200, "its own")})
        return honest(client, name, offsets)

    monkeypatch.setattr(GroupOffsetsClient, "commit", commit_late)
    story.job()
    assert story.on_target(group) == {remote: Committed(200, "its own")}


def test_a_map_whose_topic_is_deleted_is_written_again_by_the_running_mirror(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkmirror.sync.offset_job._LOOK_SECONDS", 0.0)
    alias = story.flow.name.source
    topic, group = f"orders-{alias}", f"billing-{alias}"
    story.make_topic(topic)
    partition, remote = TopicPartition(topic, 0), TopicPartition(story.flow.remote_topic(topic), 0)
    story.map(partition, (0, 100, 0), (101, 100, 100))
    story.job = OffsetJob(story.flow)
    story.job()
    _delete_map_topic(story)
    story.commit(group, {partition: Committed(150)})
    story.job()
    story.work_until(
        lambda: story.on_target(group) != {} and story.topics.offset_map in story.target.list_topics(),
        "the map is there again",
    )
    assert story.on_target(group) == {remote: Committed(149)}
    with OffsetState(story.flow, None, story.target) as state:
        state.follow()
        assert [state.translator.translate(partition, at) for at in (50, 150)] == [
            Translated(remote, 50, True), Translated(remote, 149, True)
        ]  # fmt: skip


def test_a_map_that_is_written_again_leaves_what_a_writer_stores_in_a_transaction(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is younger, and lies behind the last stable offset until its transaction ends."""
    monkeypatch.setattr("sparkmirror.sync.offset_job._LOOK_SECONDS", 0.0)
    partition = TopicPartition("orders", 0)
    older, younger = OffsetMap(0), OffsetMap(0)
    older.append(0, 100, 0)
    younger.append(0, 200, 0)
    key = encode_key(story.flow.name.source, partition, ChunkName(1, 1, 1))
    known = MapView(story.flow.name.source)
    known.take(key, encode_chunk(older.as_chunk()))
    keeper = MapKeeper(story.flow)
    with Publisher(story.flow.target, "test") as publisher:
        assert not keeper.keep(story.target, publisher, known)
        _make_map_topic_again(story)
        writer = Producer({**story.target_client, "transactional.id": f"writer-{story.flow.name.source}"})
        writer.init_transactions(DEADLINE_SECONDS_LEAST)
        writer.begin_transaction()
        writer.produce(story.topics.offset_map, encode_chunk(younger.as_chunk()), key)
        assert not writer.flush(DEADLINE_SECONDS_LEAST)
        kept: list[bool] = []
        keeping = threading.Thread(target=lambda: kept.append(keeper.keep(story.target, publisher, known)))
        keeping.start()
        keeping.join(3.0)  # it waits; it would have written by then
        writer.commit_transaction(DEADLINE_SECONDS_LEAST)
        keeping.join(DEADLINE_SECONDS_LEAST)
    assert kept == [True]
    with open_tail(story.flow.target, "test", [TopicPartition(story.topics.offset_map, 0)]) as tail:
        stored = [record.value for record in tail.read_to_end() if record.key == key]
    assert stored[-1] == encode_chunk(younger.as_chunk())


def _delete_map_topic(story: Story) -> None:
    delete_topic(story.target_client["bootstrap.servers"], story.topics.offset_map)


def _make_map_topic_again(story: Story) -> None:
    _delete_map_topic(story)
    ensure_ledger_topics(story.target, story.topics)


@pytest.mark.long
def test_a_thousand_groups_of_fifty_partitions_are_refreshed_in_one_round(story: Story) -> None:
    alias = story.flow.name.source
    topic = f"orders-{alias}"
    story.make_topic(topic, 50)
    partitions = [TopicPartition(topic, number) for number in range(50)]
    for partition in partitions:
        story.map(partition, (0, 300, 0))
    groups = [f"group-{number}-{alias}" for number in range(1000)]
    for group in groups:
        story.commit(group, dict.fromkeys(partitions, Committed(5)))
    began = time.monotonic()
    story.job()
    first = time.monotonic() - began
    began = time.monotonic()
    story.job()
    idle = time.monotonic() - began
    print(f"1,000 groups x 50 partitions: first round {first:.1f} s, without changes {idle:.1f} s")
    remote = TopicPartition(story.flow.remote_topic(topic), 49)
    assert story.on_target(groups[-1])[remote] == Committed(5)
