"""A target topic that is deleted and made again under groups that a mirror has moved there: nothing stale is left."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from tests.brokers.offset_story import Story, told
from tests.oracle import DEADLINE_SECONDS_LEAST
from tests.scenarios.data import ORDER_SECONDS_MAX, make_topics, numbered, write

from sparkmirror.errors import ClusterError
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.kafka.groups import GroupOffsetsClient
from sparkmirror.kafka.publish import Publisher
from sparkmirror.model import TopicPartition
from sparkmirror.operations.translation import group_checkpoints
from sparkmirror.sync.offset_job import OffsetJob
from sparkmirror.testing.kafka import KafkaCluster

MIRRORED = 300
"""Records of the source that were mirrored to the first log; what comes later goes to the next one."""


@dataclass
class Scene:
    """One topic, one idle group that has read all of it, and its log on the target, which is made again and again."""

    story: Story
    partition: TopicPartition
    remote: TopicPartition
    group: str

    def recreate(self, records: int) -> None:
        self.delete()
        make_topics(self.story.target_client, {self.remote.topic: 1})
        write(self.story.target_client, self.remote.topic, numbered(MIRRORED, MIRRORED + records))

    def delete(self) -> None:
        admin = AdminClient(dict(self.story.target_client))
        (deleted,) = admin.delete_topics([self.remote.topic]).values()
        deleted.result(ORDER_SECONDS_MAX)
        deadline = time.monotonic() + DEADLINE_SECONDS_LEAST
        while self.remote.topic in self.story.target.list_topics() or self.stands() is not None:
            assert time.monotonic() < deadline, "the topic and what groups committed for it are still there"

    def stands(self) -> Committed | None:
        return self.story.on_target(self.group).get(self.remote)

    def checkpoint(self) -> int:
        return self.story.checkpoints(self.group)[-1].downstream

    def commit_there(self, committed: Committed) -> None:
        assert self.story.target_groups.commit(self.group, {self.remote: committed}) == {}

    def work_until(self, condition: Callable[[], bool], what: str) -> None:
        self.story.work_until(condition, what)


@pytest.fixture
def scene(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    unique: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Scene]:
    monkeypatch.setattr("sparkmirror.sync.group_sync._LOOK_AGAIN_SECONDS", 0.0)
    clients = [{"bootstrap.servers": cluster.bootstrap_servers} for cluster in (source_cluster, target_cluster)]
    with told(clients[0], clients[1], unique("stale")) as story:
        alias = story.flow.name.source
        partition = TopicPartition(f"orders-{alias}", 0)
        remote = TopicPartition(story.flow.remote_topic(partition.topic), 0)
        story.make_topic(partition.topic)
        story.map(partition, (0, MIRRORED, 0), with_id=True)
        found = Scene(story, partition, remote, f"billing-{alias}")
        story.commit(found.group, {partition: Committed(MIRRORED)})
        found.work_until(lambda: found.stands() == Committed(MIRRORED), "the group is moved")
        assert found.checkpoint() == MIRRORED
        yield found


def test_a_log_that_was_made_again_takes_its_checkpoint_and_commit_with_it(scene: Scene) -> None:
    scene.recreate(records=0)
    scene.work_until(lambda: scene.checkpoint() == 0, "the checkpoint is that of the empty log")
    scene.work_until(lambda: scene.stands() == Committed(0), "so is the commit")
    write(scene.story.target_client, scene.remote.topic, numbered(MIRRORED, MIRRORED + 100))
    scene.story.map(scene.partition, (MIRRORED, 100, 0), with_id=True)
    for _ in range(3):
        scene.story.job()
    assert (scene.checkpoint(), scene.stands()) == (0, Committed(0)), "the group has read nothing of the new log"
    scene.story.commit(scene.group, {scene.partition: Committed(MIRRORED + 40)})
    scene.work_until(lambda: scene.stands() == Committed(40), "it goes forward in the new log")


def test_what_the_mirror_committed_for_the_former_log_is_taken_back_and_nothing_else(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    other = f"other-{scene.story.flow.name.source}"
    scene.story.commit(other, {scene.partition: Committed(MIRRORED)})
    scene.work_until(lambda: scene.remote in scene.story.on_target(other), "the other group is moved")
    scene.recreate(records=100)
    scene.story.map(scene.partition, (MIRRORED, 100, 0))
    scene.commit_there(Committed(MIRRORED))  # as a mirror does that was killed before it saw the new log
    own = Committed(MIRRORED, "its own")
    assert scene.story.target_groups.commit(other, {scene.remote: own}) == {}
    scene.work_until(lambda: scene.stands() == Committed(0) and scene.checkpoint() == 0, "ours is taken back")
    scene.work_until(lambda: scene.story.checkpoints(other)[-1].downstream == 0, "checkpoints are all ours")
    assert scene.story.on_target(other) == {scene.remote: own}
    assert f"group {other} stands at {MIRRORED} of {scene.remote}" in caplog.text


def test_a_log_that_the_map_does_not_know_yet_is_gone_on_with_from_its_beginning(scene: Scene) -> None:
    """It is longer than what a group had read of the former one, so its end alone says nothing."""
    group = f"slow-{scene.story.flow.name.source}"
    scene.story.commit(group, {scene.partition: Committed(40)})
    scene.work_until(lambda: scene.story.on_target(group) == {scene.remote: Committed(40)}, "it is moved")
    scene.recreate(records=100)
    assert group_checkpoints(scene.story.flow, group) == {scene.remote: Committed(0)}, "also while no mirror runs"
    scene.work_until(lambda: scene.story.on_target(group) == {scene.remote: Committed(0)}, "from the beginning")
    scene.story.commit(group, {scene.partition: Committed(50)})
    scene.story.job()
    assert scene.story.checkpoints(group)[-1].downstream == 0
    scene.recreate(records=30)
    scene.story.map(scene.partition, (MIRRORED, 30, 0), with_id=True)
    scene.story.commit(scene.group, {scene.partition: Committed(MIRRORED + 10)})
    scene.work_until(lambda: scene.stands() == Committed(10), "made once more, it is known by its own map")


def test_a_mirror_that_is_killed_between_taking_back_and_the_checkpoint_goes_on(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.recreate(records=100)
    scene.story.map(scene.partition, (MIRRORED, 100, 0), with_id=True)
    scene.commit_there(Committed(MIRRORED))
    honest = Publisher.write

    def die(publisher: Publisher, topic: str, *rest: Any) -> None:
        if topic.endswith(".checkpoints.internal"):
            raise ClusterError("killed")
        honest(publisher, topic, *rest)

    monkeypatch.setattr(Publisher, "write", die)
    with pytest.raises(ClusterError):
        scene.work_until(lambda: False, "the checkpoint is due")
    assert (scene.stands(), scene.checkpoint()) == (Committed(0), MIRRORED)
    monkeypatch.setattr(Publisher, "write", honest)
    scene.story.job = OffsetJob(scene.story.flow)
    scene.work_until(lambda: scene.checkpoint() == 0, "the next one writes it")
    assert scene.stands() == Committed(0)


def test_a_group_that_a_consumer_joins_between_look_and_commit_is_left_to_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.recreate(records=100)
    scene.story.map(scene.partition, (MIRRORED, 100, 0), with_id=True)
    scene.commit_there(Committed(MIRRORED))
    honest = GroupOffsetsClient.commit
    consumers: list[Consumer] = []

    def commit_late(client: GroupOffsetsClient, name: str, offsets: Mapping[TopicPartition, Committed]) -> object:
        if not consumers:
            settings = {**scene.story.target_client, "group.id": scene.group, "auto.offset.reset": "earliest"}
            consumers.append(Consumer({**settings, "enable.auto.commit": False}))
            consumers[0].subscribe([scene.remote.topic])
            while not consumers[0].assignment():
                consumers[0].poll(0.2)
        return honest(client, name, offsets)

    monkeypatch.setattr(GroupOffsetsClient, "commit", commit_late)
    scene.work_until(lambda: bool(consumers) and scene.checkpoint() == 0, "the group is its consumer's")
    assert scene.stands() == Committed(MIRRORED), "the broker refuses what is not its members'"
    consumers[0].close()


def test_a_topic_that_is_not_there_gets_no_commit(scene: Scene) -> None:
    scene.delete()
    for _ in range(3):
        scene.story.job()
    assert scene.stands() is None


def test_a_topic_that_is_made_again_between_look_and_commit(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = GroupOffsetsClient.commit
    crossing = [True]

    def commit_late(client: GroupOffsetsClient, name: str, offsets: Mapping[TopicPartition, Committed]) -> object:
        if crossing.pop() if crossing else False:
            scene.recreate(records=100)
            scene.story.map(scene.partition, (MIRRORED, 100, 0), with_id=True)
        return honest(client, name, offsets)

    scene.story.map(scene.partition, (MIRRORED, 10, MIRRORED), with_id=True)
    scene.story.commit(scene.group, {scene.partition: Committed(MIRRORED + 10)})
    write(scene.story.target_client, scene.remote.topic, numbered(MIRRORED, MIRRORED + 10))
    monkeypatch.setattr(GroupOffsetsClient, "commit", commit_late)
    scene.work_until(lambda: not crossing, "the commit for the former log is sent")
    scene.work_until(lambda: scene.stands() == Committed(10), "the commit holds in the log that is there")
    assert scene.checkpoint() == 10
