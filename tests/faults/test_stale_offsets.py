"""A mirror under way whose target topic is made again under an idle group: what it had committed goes too."""

import pytest
from tests.faults.story import PARTITIONS, Story
from tests.faults.test_lost_records import delete_topic

from sparkmirror.kafka.clients import open_admin, open_tail
from sparkmirror.kafka.group_answers import Committed
from sparkmirror.kafka.groups import GroupOffsetsClient
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.model import Cluster, TopicPartition

MIRRORED, MORE = 4000, 100
GROUP = "billing"


@pytest.mark.long
@pytest.mark.parametrize("lines", [(), ("backup.exactly.once.source.support = enabled",)], ids=["plain", "once"])
def test_an_idle_group_goes_on_at_the_beginning_of_the_new_log(story: Story, lines: tuple[str, ...]) -> None:
    """4,000 are mirrored and read, then the target's topic is deleted, and 100 come: 4,000 is no place in that log."""
    writer = story.writer()
    writer.write(MIRRORED)
    group = f"{GROUP}-{story.alias}"
    _commit(story, group)
    lines = (f"groups = {group}", "sync.group.offsets.enabled = true", *lines)
    with story.run(lines=lines) as run:
        story.wait_for_all(run, writer)
        print(story.arrived(), _stands(story, group), flush=True)
        run.wait_until(lambda: all(at >= MIRRORED for at in _stands(story, group)), "the group is moved", 240)
        delete_topic(story.target, story.remote_topic)
        writer.write(MORE)
        there = [0] * PARTITIONS
        run.wait_until(lambda: _ends(story) == _stands(story, group) == there, "the group is at the beginning", 240)
        run.wait_until(lambda: _checkpoints(story, group) == there, "its checkpoints say so")
        story.wait_for_all(run, writer)
    with story.run(lines=lines) as run:
        writer.write(MORE)
        story.wait_for_all(run, writer)
        run.wait_until(lambda: story.arrived()[0] >= 2 * MORE, "the next one goes on")
        assert _stands(story, group) == [0] * PARTITIONS, "a restart brings nothing back"


def _ends(story: Story) -> list[int]:
    """0 for each partition whose new log has records."""
    return [0 if MORE <= end < MIRRORED else -1 for end in story.arrived()]


def _commit(story: Story, group: str) -> None:
    with open_admin(Cluster("A", {"bootstrap.servers": story.source}), "test") as admin:
        offsets = {TopicPartition(story.topic, number): Committed(MIRRORED) for number in range(PARTITIONS)}
        assert GroupOffsetsClient(admin, 60).commit(group, offsets) == {}


def _stands(story: Story, group: str) -> list[int]:
    with open_admin(story.cluster(), "test") as admin:
        found, failed = GroupOffsetsClient(admin, 60).committed([group])
    assert failed == {}
    places = [found[group].get(TopicPartition(story.remote_topic, number)) for number in range(PARTITIONS)]
    return [-1 if place is None else place.offset for place in places]


def _checkpoints(story: Story, group: str) -> list[int]:
    with open_tail(story.cluster(), "test", [TopicPartition(f"{story.alias}.checkpoints.internal", 0)]) as tail:
        parsed = [Checkpoint.parse(record.key, record.value) for record in tail.read_to_end()]
    last = {one.partition: one.downstream for one in parsed if one.group == group}
    return [last[TopicPartition(story.remote_topic, number)] for number in range(PARTITIONS)]
