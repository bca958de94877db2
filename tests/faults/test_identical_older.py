"""Offsets are kept on older brokers too, which take batches by their topic's name."""

from collections.abc import Callable, Iterator
from pathlib import Path
from time import sleep

import pytest
from tests.faults.numbered import create_topic
from tests.faults.story import Story
from tests.faults.test_identical_holes import OLDER
from tests.faults.test_identical_offsets import assert_identical, await_ends, lines_of
from tests.scenarios.data import Note, write

from sparkmirror.testing.kafka import KafkaCluster

pytestmark = pytest.mark.long

APART_SECONDS = 3.0
"""Between two records: longer than what was looked up counts as fresh."""


@pytest.fixture(scope="module")
def older() -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    with KafkaCluster(name="older-source", version=OLDER) as one, KafkaCluster(name="older", version=OLDER) as other:
        yield one, other


@pytest.fixture
def older_story(tmp_path: Path, older: tuple[KafkaCluster, KafkaCluster], unique: Callable[[str], str]) -> Story:
    source, target = older
    addresses = source.bootstrap_servers, target.bootstrap_servers
    story = Story(tmp_path, *addresses, unique("A"), unique("orders"), partitions=4)
    create_topic(story.source, story.topic, story.partitions)
    return story


def test_partitions_whose_first_records_come_by_turns_are_one_attempt(older_story: Story) -> None:
    """Each task has two, and has long looked the topic up when the second one's record comes."""
    story, source = older_story, {"bootstrap.servers": older_story.source}
    ends = [0] * story.partitions
    with story.run(lines=lines_of(story)) as run:
        run.wait_until(story.target_has_ledger, "the flow begins", 120)
        for turn in range(2 * story.partitions):
            number = turn % story.partitions
            write(source, story.topic, [Note(b"%d" % turn, partition=number)])
            ends[number] += 1
            await_ends(story, run, ends)
            sleep(APART_SECONDS)
        assert "restart" not in run.errors, run.errors
        run.stop()
    assert_identical(story)
