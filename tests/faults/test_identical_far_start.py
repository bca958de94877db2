"""Offsets are kept where all comes at once: a far start with all kinds of holes behind it, three brokers whose leaders
die one after the other, and mirrors that are killed with them, in the start, in the copy, in a hole, and where sequence
numbers begin again."""

from collections.abc import Callable
from pathlib import Path

import pytest
from bench.brokers import bench_cluster
from tests.faults.numbered import end_offsets
from tests.faults.story import Story
from tests.faults.test_identical_holes import FAR, source_ends, wait_for_end, write_holes
from tests.faults.test_identical_offsets import assert_identical, await_ends, lines_of
from tests.faults.test_truncated_logs import await_copies
from tests.faults.tree import Run
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.java_reader import read_with_java
from tests.scenarios.odd_logs import compacted_log, lay_logs, moved
from tests.scenarios.test_three_brokers import leader_of_first_partition

from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.log_edges import last_sequences
from sparkmirror.model import TopicPartition
from sparkmirror.testing.kafka import Broker, KafkaCluster

pytestmark = pytest.mark.long

COPY, HOLE, BEHIND = FAR, FAR + 2000, FAR + 5000
"""Where the compacted batches begin and end, and where the hole behind them does."""
SECONDS_MAX = 1200.0
"""For the start of more than two thousand million offsets."""


class Brokers:
    """The target's three, of which the one that leads partition 0 is killed."""

    def __init__(self, cluster: KafkaCluster, story: Story) -> None:
        self._cluster = cluster
        self._story = story

    def leader(self) -> Broker:
        return leader_of_first_partition(
            self._cluster, {"bootstrap.servers": self._story.target}, self._story.remote_topic
        )

    def kill_leader(self, run: Run) -> Broker:
        """Until another one leads, and more has come to it."""
        former, before = self.leader(), end_of(self._story)
        former.kill()
        run.wait_until(lambda: self.leader() is not former, "another broker leads", 240)
        run.wait_until(lambda: end_of(self._story) > before, "it goes on without the former leader", 240)
        return former

    def bring_back(self, broker: Broker) -> None:
        """Until it has all that the others have: two of the three must, for anything to be acknowledged."""
        broker.start()
        self._cluster.wait_ready()
        await_copies(self._cluster)

    def move_leader(self, run: Run) -> None:
        self.bring_back(self.kill_leader(run))


def end_of(story: Story) -> int:
    return end_offsets(story.target, story.remote_topic, 1)[0]


def has_begun_again(story: Story) -> bool:
    """Whether the flow's sequence numbers in partition 0 have, behind 2^31 - 1: the first of them equals FAR."""
    remote = TopicPartition(story.remote_topic, 0)
    with open_admin(story.cluster(), "test") as target:
        found = last_sequences(target, [remote], story.offsets_producer())[remote]
    return found is not None and found < FAR


@pytest.mark.timeout(3000)
def test_a_far_start_its_copy_and_its_holes_are_whole_though_leaders_and_mirrors_are_killed_in_each_of_them(
    tmp_path: Path, unique: Callable[[str], str]
) -> None:
    synced = {"min.insync.replicas": "2"}
    source_cluster = KafkaCluster(name="old", config={"log.cleaner.enable": "false"})
    with source_cluster as old, bench_cluster("target", 3, config=synced) as young:
        addresses = old.bootstrap_servers, young.bootstrap_servers
        story = Story(tmp_path, *addresses, unique("A"), unique("far"), replicas=3)
        brokers, lines = Brokers(young, story), lines_of(story)
        source, target = ({"bootstrap.servers": servers} for servers in addresses)
        make_topics(source, {story.topic: 2})
        lay_logs(old, {f"{story.topic}-0": moved(compacted_log(), FAR)})
        write_holes(story, 1)
        assert FAR > 2_000_000_000 and source_ends(story)[0] > BEHIND

        with story.run(lines=lines) as run:
            wait_for_end(story, run, 300_000_000, SECONDS_MAX)
            away = brokers.kill_leader(run)
            run.kill()
        assert end_of(story) < FAR, "the mirror died in the start, and a leader with it"
        brokers.bring_back(away)

        with story.run(lines=lines) as run:
            wait_for_end(story, run, 1_200_000_000, SECONDS_MAX)
            brokers.move_leader(run)
            assert end_of(story) < FAR, "the leader was moved in the start"
            wait_for_end(story, run, COPY + 500, SECONDS_MAX)
            away = brokers.kill_leader(run)
            run.kill()
        assert COPY < end_of(story) < HOLE, "the mirror died in the copy, and a leader with it"
        brokers.bring_back(away)

        with story.run(lines=lines) as run:
            wait_for_end(story, run, HOLE + 300)
            away = brokers.kill_leader(run)
            run.kill()
        assert HOLE < end_of(story) < BEHIND, "the mirror died in the hole, and a leader with it"
        brokers.bring_back(away)

        write(source, story.topic, numbered(0, 4000, 2))
        write_holes(story, 15)
        with story.run(lines=lines) as run:
            wait_for_end(story, run, end_of(story) + 200)
            brokers.move_leader(run)
            run.wait_until(lambda: has_begun_again(story), "sequence numbers have begun again", 600)
            away = brokers.kill_leader(run)
            run.kill()
        assert end_of(story) < source_ends(story)[0], "the mirror died behind that, and a leader with it"
        brokers.bring_back(away)

        write_holes(story, 5)
        with story.run(lines=lines) as run:
            wait_for_end(story, run, end_of(story))
            brokers.move_leader(run)
            await_ends(story, run, source_ends(story), 600)
            run.stop()

        assert_identical(story)
        for isolation in ("read_committed", "read_uncommitted"):
            found = read_with_java(target, story.remote_topic, isolation)
            assert found == read_with_java(source, story.topic, "read_committed"), isolation
