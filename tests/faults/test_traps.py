"""Traps of Spark and of shared memory, on a running mirror: late errors, missing memory, a reader that runs ahead."""

import resource
import time

from confluent_kafka import Producer
from tests.faults.numbered import wait_until
from tests.faults.story import PARTITIONS, Story
from tests.faults.tree import Run

from sparkmirror.kafka.fencing import transactional_id
from sparkmirror.model import Connector
from sparkmirror.testing.kafka import KafkaCluster

RING_BYTES = 8 << 20
RECORD_BYTES = 1000
BACKLOG_RECORDS = 100_000
"""To each partition: 200 MB in all, many times what the two rings hold."""
GROWTH_BYTES_MAX = 140 << 20
"""The JVM's heap and modules that are loaded meanwhile count too; 94 MB were seen."""
FILE_BYTES_MAX = 700 << 10
"""More than a ring's control page, less than the smallest ring."""


def _take_transactional_id(story: Story, task: int) -> None:
    """As a newer producer would: its first batches on the partitions refuse the older epoch. They are aborted."""
    producer = Producer(
        {
            "bootstrap.servers": story.target,
            "transactional.id": transactional_id(Connector.of_dedicated_mode(story.alias), task),
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(story.remote_topic, b"foreign", partition=partition)
    producer.flush(30)
    producer.abort_transaction(30)


def _largest_memory(run: Run) -> int:
    """Over eight seconds: longer than it takes to give up what is stuck, and to read on into the freed memory."""
    deadline = time.monotonic() + 8
    largest = 0
    while time.monotonic() < deadline:
        largest = max(largest, run.memory_bytes())
    return largest


def test_without_room_for_a_ring_everything_goes_inline(story: Story) -> None:
    def limit_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))

    with story.writer() as writer, story.run(before_start=limit_files) as run:
        story.wait_for_flow(run)
        sizes = run.ring_sizes()
        assert sizes, "no process holds a ring"
        assert max(sizes) <= FILE_BYTES_MAX
        story.wait_for_all(run, writer)
        run.stop(30)
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() == 0


def test_a_standing_target_holds_the_reader_and_a_refused_writer_ends_it(
    breakable_story: Story, breakable_target: KafkaCluster
) -> None:
    """Memory of a task is bounded by configuration, whatever the backlog (invariant 9)."""
    story = breakable_story
    writer = story.writer(record_bytes=RECORD_BYTES)
    writer.write(1000)
    with story.run(lines=[f"lease.ring.bytes = {RING_BYTES}"]) as run:
        story.wait_for_all(run, writer)
        before = run.memory_bytes()
        breakable_target.broker(1).pause()
        try:
            writer.write(BACKLOG_RECORDS)
            largest = _largest_memory(run)
        finally:
            breakable_target.broker(1).resume()
        assert largest - before < GROWTH_BYTES_MAX, f"{before >> 20} MB became {largest >> 20} MB"
        story.wait_for_all(run, writer)
        arrival = story.arrival()
        arrival.assert_complete(writer.produced)
        assert arrival.repeats() == 0
        _refuse_a_writer(story, run)


def _refuse_a_writer(story: Story, run: Run) -> None:
    """In mid-epoch: its reader ends at once, and the run soon, though the other task is not refused."""
    rings = set(run.rings())
    assert len(rings) == 2
    _take_transactional_id(story, task=0)
    story.writer().write(50)
    wait_until(lambda: len(rings & set(run.rings())) < 2, "the refused task's ring is gone", 4)
    ended = run.finish(90)
    assert ended.status == 1
    assert "taken over" in ended.errors.splitlines()[-2]
