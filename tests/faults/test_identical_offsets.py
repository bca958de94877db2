"""Offsets are kept through kills, zombies, changes of leaders, and lost producer state; a foreign record is found."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import time

import pytest
from tests.faults.numbered import create_topic, end_offsets
from tests.faults.story import Story
from tests.faults.test_lost_records import delete_topic
from tests.faults.tree import Run
from tests.oracle import read_messages
from tests.scenarios.data import Note, make_topics, write
from tests.scenarios.test_identical_offsets import KEEPS, begin_at, places, spans
from tests.scenarios.test_transactions import write_transactions

from sparkmirror.kafka.publish import publish
from sparkmirror.testing.kafka import KafkaCluster

pytestmark = pytest.mark.long

DAY_MS = 24 * 3_600_000


def assert_identical(story: Story) -> None:
    """What consumers see, and where the logs begin and end."""
    source, target = ({"bootstrap.servers": servers} for servers in (story.source, story.target))
    committed = {"isolation.level": "read_committed"}
    assert places({**target, **committed}, story.remote_topic) == places({**source, **committed}, story.topic)
    found, wanted = spans(target, story.remote_topic, story.partitions), spans(source, story.topic, story.partitions)
    assert found == wanted


def lines_of(story: Story, *lines: str) -> Sequence[str]:
    return (KEEPS, f"{story.alias}.consumer.isolation.level = read_committed", *lines)


def await_ends(story: Story, run: Run, ends: Sequence[int], seconds: float = 240.0) -> None:
    run.wait_until(
        lambda: end_offsets(story.target, story.remote_topic, story.partitions) == list(ends), f"ends {ends}", seconds
    )


def test_killed_processes_leave_each_record_once_at_its_own_offset(story: Story) -> None:
    with story.writer() as writer:
        with story.run(lines=lines_of(story)) as first:
            story.wait_until_close(first, writer)
            first.wait_until(lambda: len(list(first.rings())) == 2, "a ring for each task")
            for end in (0, 1):
                victim = next(iter(first.rings()))[end]
                next(one for one in first.processes() if one.pid == victim).kill()
                story.wait_for_flow(first)
            first.kill()
        with story.run(lines=lines_of(story)) as second:
            story.wait_for_flow(second)
            story.wait_for_all(second, writer)
            second.stop()
    assert_identical(story)


def test_a_process_that_slept_while_another_took_over_changes_nothing_when_it_wakes(story: Story) -> None:
    with story.writer() as writer, story.run(lines=lines_of(story)) as zombie:
        story.wait_until_close(zombie, writer)
        zombie.pause()
        with story.run(lines=lines_of(story)) as heir:
            story.wait_for_flow(heir)
            zombie.resume()
            story.wait_until_close(heir, writer)
            story.wait_for_all(heir, writer)
            heir.stop()
        zombie.stop()
    assert_identical(story)


def test_a_foreign_record_holds_its_partition_within_a_batch_and_in_every_later_run(story: Story) -> None:
    with story.writer() as writer:
        with story.run(lines=lines_of(story)) as run:
            story.wait_until_close(run, writer)
            publish(story.cluster(), story.remote_topic, [(b"foreign", b"record")])
            run.wait_until(lambda: f"{story.topic}-0: FAILED" in run.errors, "the partition is held")
            assert "came to stand at offset" in run.errors
            (_, before) = story.arrived()
            run.wait_until(lambda: story.arrived()[1] > before, "the other partition goes on")
            run.stop()
        assert_good_before_the_foreign_one(story)
        with story.run(lines=lines_of(story)) as again:
            again.wait_until(lambda: f"{story.topic}-0: FAILED" in again.errors, "the partition stays held")
            assert "offsets cannot be kept" in again.errors, "by what the ledger notes, before anything is written"
            assert "somebody else has written there" in again.errors
            again.stop()
    assert_good_before_the_foreign_one(story)


def test_a_topic_that_is_deleted_on_the_target_is_mirrored_again_from_the_source_s_beginning(story: Story) -> None:
    """While the flow runs, and its batches are under way: none of the former log comes to the new one."""
    with story.writer(per_second=2000) as writer, story.run(lines=lines_of(story)) as run:
        for _ in range(2):
            story.wait_until_close(run, writer)
            delete_topic(story.target, story.remote_topic)
            story.wait_until_passed(run, writer.produced)
        story.wait_for_all(run, writer)
        assert "FAILED" not in run.errors, run.errors
        run.stop()
    assert_identical(story)


def assert_good_before_the_foreign_one(story: Story) -> None:
    """Records that came behind it are at most those that were under way."""
    target, source = ({"bootstrap.servers": servers} for servers in (story.target, story.source))
    (_, found), (_, wanted) = (
        read_messages(one, topic)[0] for one, topic in ((target, story.remote_topic), (source, story.topic))
    )
    foreign = next(one.offset() for one in found if one.key() == b"foreign")
    assert [(one.offset(), one.value()) for one in found[:foreign]] == [
        (one.offset(), one.value()) for one in wanted[:foreign]
    ]


def test_a_record_that_came_while_no_mirror_ran_is_found_before_anything_is_written(story: Story) -> None:
    writer = story.writer()
    writer.write(500)
    with story.run(lines=lines_of(story)) as run:
        story.wait_for_all(run, writer)
        run.stop()
    publish(story.cluster(), story.remote_topic, [(b"foreign", b"record")])
    late = story.writer(first=writer.produced)
    late.write(50)
    with story.run(lines=lines_of(story)) as again:
        again.wait_until(lambda: f"{story.topic}-0: FAILED" in again.errors, "the partition is held")
        again.wait_until(lambda: story.arrived()[1] == 550, "the other partition is mirrored")
        assert story.arrived()[0] == 501
        again.stop()


def test_a_kill_while_the_start_is_filled_and_one_within_a_hole_are_gone_on_from(story: Story) -> None:
    source = {"bootstrap.servers": story.source}
    begin = 30_000_000
    begin_at(source, story.topic, begin)
    with story.run(lines=lines_of(story)) as first:
        first.wait_until(lambda: 0 < _end(story) < begin, "a part of the start is filled")
        first.kill()
    assert 0 < _end(story) <= begin
    write_transactions(source, story.topic, f"{story.topic}-early")
    with story.run(lines=lines_of(story)) as second:
        await_ends(story, second, end_offsets(story.source, story.topic, 2))
        second.stop()
    assert_identical(story)

    for _ in range(30):
        write_transactions(source, story.topic, f"{story.topic}-late")
    ends = end_offsets(story.source, story.topic, 2)
    between = (_end(story), ends[0])
    with story.run(lines=lines_of(story)) as third:
        third.wait_until(lambda: between[0] + 200 < _end(story) < between[1] - 200, "it is among the holes")
        third.kill()
    with story.run(lines=lines_of(story)) as fourth:
        await_ends(story, fourth, ends)
        fourth.stop()
    assert_identical(story)


def _end(story: Story) -> int:
    try:
        return end_offsets(story.target, story.remote_topic, 1)[0]
    except Exception:  # the topic is not there yet
        return 0


@pytest.fixture(scope="module")
def three_targets() -> Iterator[KafkaCluster]:
    with KafkaCluster(3, name="three-targets", config={"min.insync.replicas": "2"}) as cluster:
        yield cluster


def test_leaders_that_are_killed_one_after_the_other_keep_every_record_at_its_offset(
    tmp_path: Path, source_cluster: KafkaCluster, three_targets: KafkaCluster, unique: Callable[[str], str]
) -> None:
    addresses = source_cluster.bootstrap_servers, three_targets.bootstrap_servers
    story = Story(tmp_path, *addresses, unique("A"), unique("numbers"), replicas=3)
    create_topic(story.source, story.topic, story.partitions)
    with story.writer() as writer, story.run(lines=lines_of(story)) as run:
        story.wait_until_close(run, writer)
        for node_id in (1, 2, 3):
            three_targets.broker(node_id).kill()
            story.wait_for_flow(run)
            three_targets.broker(node_id).start()
            three_targets.wait_ready()
        story.wait_for_all(run, writer)
        run.stop()
    assert_identical(story)


def test_records_of_three_days_ago_of_which_the_target_forgets_the_producer_at_once_keep_their_offsets(
    tmp_path: Path, source_cluster: KafkaCluster, unique: Callable[[str], str]
) -> None:
    forgets = {"producer.id.expiration.ms": "1000", "producer.id.expiration.check.interval.ms": "1000"}
    with KafkaCluster(name="forgetful", config=forgets) as target:
        story = Story(tmp_path, source_cluster.bootstrap_servers, target.bootstrap_servers, unique("A"), unique("old"))
        story = replace(story, partitions=1)
        make_topics({"bootstrap.servers": story.source}, {story.topic: 1})
        old_ms = round(time() * 1000) - 3 * DAY_MS
        source = {"bootstrap.servers": story.source}
        for part in range(6):
            notes = [Note(b"%d %d" % (part, at), timestamp_ms=old_ms + at) for at in range(3000)]
            write(source, story.topic, notes, batch_size=2000)
            with story.run(lines=lines_of(story)) as run:
                run.wait_until(lambda part=part: _end(story) > 3000 * part + 500, "it copies")
                run.kill()
        write(source, story.topic, [Note(b"last", timestamp_ms=old_ms)])
        with story.run(lines=lines_of(story)) as last:
            await_ends(story, last, [18_001])
            last.stop()
        assert_identical(story)
