"""Offsets are kept where holes are filled: far starts, changes of leaders, zombies that wake across a hole, a target
that forgets what was deleted or loses its end."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import psutil
import pytest
from bench.brokers import bench_cluster
from tests.faults.numbered import create_topic, end_offsets
from tests.faults.story import Story
from tests.faults.test_identical_offsets import assert_identical, await_ends, lines_of
from tests.faults.test_truncated_logs import create_unsafe, lose_the_end
from tests.faults.tree import Run
from tests.oracle import read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.java_reader import read_with_java
from tests.scenarios.odd_logs import compacted_log, lay_logs, moved
from tests.scenarios.test_identical_offsets import START, begin_at, places, spans
from tests.scenarios.test_transactions import write_aborted, write_transactions

from sparkmirror.kafka.clients import open_admin
from sparkmirror.model import TopicPartition
from sparkmirror.testing.jars import KAFKA
from sparkmirror.testing.kafka import KafkaCluster

pytestmark = pytest.mark.long

FAR = (1 << 31) - 3000
"""Beyond 2,000,000,000."""
OLDER = "3.9.1"
"""The last release whose brokers take batches by their topic's name."""
LATE = 30_000_000
"""A start that takes seconds to be filled."""
COPIED = 50_000
TURNS = 30
"""Of six transactions each: 1,080 holes and their records in each partition."""


def write_holes(story: Story, turns: int = TURNS) -> None:
    for turn in range(turns):
        write_transactions({"bootstrap.servers": story.source}, story.topic, f"{story.topic}-{turn % 3}")


def source_ends(story: Story) -> list[int]:
    return end_offsets(story.source, story.topic, story.partitions)


def wait_for_end(story: Story, run: Run, offset: int, seconds: float = 240.0) -> None:
    """Until the target has partition 0 beyond an offset."""

    def has_come() -> bool:
        return end_offsets(story.target, story.remote_topic, 1)[0] > offset

    run.wait_until(story.target_has_ledger, "the flow begins", seconds)
    run.wait_until(has_come, f"{story.remote_topic}-0 goes beyond {offset}", seconds)


def wait_for_progress(story: Story, run: Run) -> None:
    """Until more has come, or all that the source has."""
    before = end_offsets(story.target, story.remote_topic, story.partitions)

    def has_moved() -> bool:
        now = end_offsets(story.target, story.remote_topic, story.partitions)
        return now != before or now == source_ends(story)

    run.wait_until(has_moved, "holes are filled further", 240.0)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("release", [KAFKA.version, OLDER])
def test_a_log_that_begins_beyond_two_thousand_million_is_copied_through_kills_and_holes(
    release: str, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    """The target's broker runs as one in production: it looks at each of the empty records."""
    never_cleans = {"log.cleaner.enable": "false"}
    source_cluster = KafkaCluster(name="old", version=release, config=never_cleans)
    with source_cluster as old, bench_cluster("target", version=release) as young:
        story = Story(tmp_path, old.bootstrap_servers, young.bootstrap_servers, unique("A"), unique("far"))
        source, target = ({"bootstrap.servers": servers} for servers in (story.source, story.target))
        make_topics(source, {story.topic: 2})
        lay_logs(old, {f"{story.topic}-0": moved(compacted_log(), FAR)})
        write_holes(story, 1)
        ends = source_ends(story)
        assert FAR > 2_000_000_000 and ends[0] > FAR + 5000
        for reached in (400_000_000, FAR + 1500, FAR + 3500):
            with story.run(lines=lines_of(story)) as run:
                wait_for_end(story, run, reached, 900)
                run.kill()
        with story.run(lines=lines_of(story)) as last:
            await_ends(story, last, ends)
            last.stop()
        assert_identical(story)
        for isolation in ("read_committed", "read_uncommitted"):
            found = read_with_java(target, story.remote_topic, isolation)
            assert found == read_with_java(source, story.topic, "read_committed"), isolation


@pytest.fixture(scope="module", params=((1, KAFKA.version), (3, KAFKA.version), (1, OLDER), (3, OLDER)), ids=str)
def targets(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    size, release = request.param
    synced = {"min.insync.replicas": str(min(size, 2))}
    with KafkaCluster(size, name=f"{size}-targets-{release}", version=release, config=synced) as cluster:
        yield cluster


def test_brokers_that_are_killed_while_holes_are_filled_leave_every_record_at_its_offset(
    tmp_path: Path, source_cluster: KafkaCluster, targets: KafkaCluster, unique: Callable[[str], str]
) -> None:
    addresses = source_cluster.bootstrap_servers, targets.bootstrap_servers
    story = Story(tmp_path, *addresses, unique("A"), unique("numbers"), replicas=targets.size)
    create_topic(story.source, story.topic, story.partitions)
    write_holes(story)
    with story.run(lines=lines_of(story)) as run:
        wait_for_end(story, run, 0)
        for node_id in range(1, 4):
            broker = targets.broker(min(node_id, targets.size))
            broker.kill()
            if targets.size > 1:
                wait_for_progress(story, run)
            broker.start()
            targets.wait_ready()
            write_holes(story, 5)
            wait_for_progress(story, run)
        await_ends(story, run, source_ends(story))
        run.stop()
    assert_identical(story)


def test_three_writers_at_once_of_which_two_wake_across_holes_write_each_record_once(story: Story) -> None:
    write_holes(story)
    with story.run(lines=lines_of(story)) as first:
        wait_for_end(story, first, 500)
        first.pause()
        with story.run(lines=lines_of(story)) as second:
            wait_for_end(story, second, end_offsets(story.target, story.remote_topic, 1)[0] + 500)
            second.pause()
            write_holes(story, 10)
            with story.run(lines=lines_of(story)) as third:
                wait_for_end(story, third, end_offsets(story.target, story.remote_topic, 1)[0] + 200)
                first.resume()
                second.resume()
                for turn in range(5):
                    write_holes(story, 2)
                    write({"bootstrap.servers": story.source}, story.topic, numbered(turn * 500, turn * 500 + 500, 2))
                await_ends(story, third, source_ends(story))
                third.stop()
            second.stop()
        first.stop()
    assert_identical(story)


def test_a_large_hole_is_filled_by_written_markers_through_kills_and_by_a_writer_that_wakes_in_it(story: Story) -> None:
    source = {"bootstrap.servers": story.source}
    write(source, story.topic, numbered(0, 200, 2))
    write_aborted(source, story.topic, 40_000)
    write(source, story.topic, numbered(200, 400, 2))
    lines = lines_of(story, "preserve.offsets.filler = write-markers")
    with story.run(lines=lines) as first:
        wait_for_end(story, first, 3000)
        first.kill()
    with story.run(lines=lines) as zombie:
        wait_for_end(story, zombie, end_offsets(story.target, story.remote_topic, 1)[0] + 3000)
        zombie.pause()
        assert end_offsets(story.target, story.remote_topic, 1)[0] < 40_000
        with story.run(lines=lines) as heir:
            wait_for_end(story, heir, end_offsets(story.target, story.remote_topic, 1)[0] + 1000)
            zombie.resume()
            await_ends(story, heir, source_ends(story))
            heir.stop()
        zombie.stop()
    assert_identical(story)


def late_story(story: Story, start: int) -> Story:
    """Its source has one partition, which begins at `start`."""
    source = {"bootstrap.servers": story.source}
    make_topics(source, {story.topic: 1})
    begin_at(source, story.topic, start)
    return story


def test_empty_records_that_a_killed_broker_brings_back_are_deleted_again(
    tmp_path: Path, source_cluster: KafkaCluster, unique: Callable[[str], str]
) -> None:
    """It keeps on disk where its logs begin once a minute."""
    with KafkaCluster(name="forgetful") as target:
        addresses = source_cluster.bootstrap_servers, target.bootstrap_servers
        story = late_story(Story(tmp_path, *addresses, unique("A"), unique("late"), partitions=1), START)
        source, there = ({"bootstrap.servers": servers} for servers in addresses)
        write(source, story.topic, numbered(0, 100))
        with story.run(lines=lines_of(story)) as run:
            await_ends(story, run, [START + 100])
            run.kill()
        assert spans(there, story.remote_topic, 1) == {0: (START, START + 100)}
        (broker,) = target.brokers
        broker.kill()
        broker.start()
        assert spans(there, story.remote_topic, 1) == {0: (0, START + 100)}, "the broker has forgotten it"
        write(source, story.topic, numbered(100, 200))
        with story.run(lines=lines_of(story)) as again:
            await_ends(story, again, [START + 200])
            again.stop()
        assert_identical(story)
        assert places(there, story.remote_topic) == places(source, story.topic)


def strike_behind_the_start(story: Story, run: Run, start: int) -> None:
    """Kill the run's whole tree in the moment in which the target's log begins at `start`."""
    where = TopicPartition(story.remote_topic, 0)
    run.wait_until(lambda: end_offsets(story.target, story.remote_topic, 1)[0] > 0, "the start is being filled")
    with open_admin(story.cluster(), "test") as admin:
        known = run.processes()
        assert admin.earliest_offsets([where]).of(where) == 0, "the planner is among the processes, and fills yet"
        ends_at = monotonic() + 120
        while admin.earliest_offsets([where]).of(where) != start:
            assert run.running and monotonic() < ends_at, run.errors
    for process in known:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    run.destroy()


@pytest.mark.parametrize("strikes_broker", [False, True], ids=["mirror", "mirror-and-broker"])
def test_a_mirror_killed_right_behind_the_deletion_of_empty_records_is_gone_on_from_where_the_log_begins(
    tmp_path: Path, source_cluster: KafkaCluster, unique: Callable[[str], str], strikes_broker: bool
) -> None:
    """Nothing was mirrored yet, nor a position stored. The broker has forgotten the deletion, if it is killed too."""
    with KafkaCluster(name="forgetful") as target:
        addresses = source_cluster.bootstrap_servers, target.bootstrap_servers
        story = late_story(Story(tmp_path, *addresses, unique("A"), unique("late"), partitions=1), LATE)
        source, there = ({"bootstrap.servers": servers} for servers in addresses)
        write(source, story.topic, numbered(0, COPIED, size_bytes=100))
        (broker,) = target.brokers
        with story.run(lines=lines_of(story)) as run:
            strike_behind_the_start(story, run, LATE)
            if strikes_broker:
                broker.kill()
                broker.start()
        ((begin, end),) = spans(there, story.remote_topic, 1).values()
        assert begin == (0 if strikes_broker else LATE)
        assert LATE <= end < LATE + COPIED, "the kill came before all was mirrored"
        assert story.positions() == [0], "and before a position was stored"
        with story.run(lines=lines_of(story)) as again:
            await_ends(story, again, [LATE + COPIED])
            again.stop()
        assert_identical(story)
        assert spans(there, story.remote_topic, 1) == {0: (LATE, LATE + COPIED)}
        assert places(there, story.remote_topic) == places(source, story.topic)


def test_a_target_that_lost_its_end_is_held_with_the_offset(
    tmp_path: Path, source_cluster: KafkaCluster, unique: Callable[[str], str]
) -> None:
    with KafkaCluster(3, name="elections") as target:
        addresses = source_cluster.bootstrap_servers, target.bootstrap_servers
        story = Story(tmp_path, *addresses, unique("A"), unique("cut"), replicas=3)
        create_topic(story.source, story.topic, story.partitions)
        create_unsafe(story.target, story.remote_topic)
        source, there = ({"bootstrap.servers": servers} for servers in (story.source, story.target))
        write(source, story.topic, numbered(0, 1000, 2))
        with story.run(lines=lines_of(story)) as run:
            run.wait_until(story.target_has_ledger, "the ledger's topics exist", 90)

            def copy_more() -> None:
                write(source, story.topic, numbered(1000, 1400, 2))
                run.wait_until(lambda: story.positions() == [700, 700], "the ledger has them", 90)

            run.wait_until(lambda: story.positions() == [500, 500], "the first records have come", 90)
            lose_the_end(target, copy_more)
            assert end_offsets(story.target, story.remote_topic, 2) == [500, 500]
            write(source, story.topic, numbered(1400, 1500, 2))
            said = (f"{story.topic}-{number}: FAILED" for number in range(2))
            for line in said:
                run.wait_until(lambda line=line: line in run.errors, line, 240)
            run.stop()
        assert "the target's log ends at offset 500, and had 700 offsets before: it was cut" in run.errors
        wanted = read_topic(source, story.topic)
        assert read_topic(there, story.remote_topic) == {number: log[:500] for number, log in wanted.items()}
