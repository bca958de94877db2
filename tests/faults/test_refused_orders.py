"""The target refuses an order of the planner for a while: the partitions in it are mirrored once it takes orders
again."""

import pytest
from tests.faults.numbered import NumberedWriter, end_offsets
from tests.faults.story import PARTITIONS, Story
from tests.scenarios.data import grow_topic, set_order_bytes_max

RECORDS = 100
ADDED = 2
TOO_SMALL = 120


@pytest.mark.long
def test_new_partitions_whose_first_order_was_refused_are_mirrored_by_the_next(story: Story) -> None:
    target = {"bootstrap.servers": story.target}
    NumberedWriter(story.source, story.topic, PARTITIONS).write(RECORDS)
    with story.run(lines=("refresh.topics.interval.seconds = 1",)) as run:
        run.wait_until(lambda: ends_of(story, PARTITIONS) == [RECORDS] * PARTITIONS, "all is mirrored")
        set_order_bytes_max(target, story.alias, TOO_SMALL)
        grow_topic({"bootstrap.servers": story.source}, story.topic, PARTITIONS + ADDED)
        run.wait_until(lambda: "looking for new topics and loads failed" in run.errors, "the order is refused")
        set_order_bytes_max(target, story.alias, None)
        writer = NumberedWriter(story.source, story.topic, PARTITIONS + ADDED)
        writer.write(RECORDS)
        whole = [2 * RECORDS] * PARTITIONS + [RECORDS] * ADDED
        run.wait_until(lambda: ends_of(story, PARTITIONS + ADDED) == whole, "the new partitions are mirrored too")
        run.stop()


def ends_of(story: Story, partitions: int) -> list[int]:
    return end_offsets(story.target, story.remote_topic, partitions)
