"""A target that stands still, dies or refuses a task: the mirror waits in bounded memory, goes on and loses nothing, or
ends with a sentence."""

import time

from confluent_kafka import Producer
from tests.faults.story import PARTITIONS, REPEATED_MAX, Story
from tests.faults.tree import Run
from tests.waiting import wait_until

from sparkmirror.kafka.fencing import transactional_id
from sparkmirror.model import Connector
from sparkmirror.testing.kafka import KafkaCluster

RING_BYTES = 8 << 20
RECORD_BYTES = 1000
BACKLOG_RECORDS = 100_000
"""To each partition: 200 MB in all, many times what the two rings hold."""
GROWTH_BYTES_MAX = 140 << 20
"""The JVM's heap and modules that are loaded meanwhile count too; 94 MB were seen."""


def test_a_target_may_stand_still_and_die_and_a_task_that_it_refuses_ends_the_run(
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
        assert story.arrival().repeats() == 0, "requests that were answered late were sent again"
        with story.writer(first=writer.produced) as late:
            story.wait_for_flow(run)
            breakable_target.broker(1).kill()
            breakable_target.broker(1).start()
            story.wait_for_flow(run, 30)
        story.wait_for_all(run, late)
        arrival = story.arrival()
        arrival.assert_complete(late.produced)
        assert arrival.repeats() <= REPEATED_MAX
        _refuse_a_writer(story, run)


def _largest_memory(run: Run) -> int:
    """Over eight seconds: longer than it takes to give up what is stuck, and to read on into the freed memory."""
    deadline = time.monotonic() + 8
    largest = 0
    while time.monotonic() < deadline:
        largest = max(largest, run.memory_bytes())
    return largest


def _refuse_a_writer(story: Story, run: Run) -> None:
    """In mid-epoch: its reader ends at once, and the run soon, though the other task is not refused."""
    rings = set(run.rings_of_both_tasks())
    _take_transactional_id(story, task=0)
    story.writer().write(50)
    wait_until(lambda: len(rings & set(run.rings())) < 2, "the refused task's ring is gone", 4)
    ended = run.finish(90)
    assert ended.status == 1
    assert "taken over" in run.last_words, ended.errors


def _take_transactional_id(story: Story, task: int) -> None:
    """As a newer producer would: its first batches on the partitions refuse the older epoch. They are aborted."""
    producer = Producer(
        {
            "bootstrap.servers": story.target,
            "transactional.id": transactional_id(Connector.of_dedicated_mode(story.alias), task),
            "log_level": 0,
        }
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(story.remote_topic, b"foreign", partition=partition)
    producer.flush(60)
    producer.abort_transaction(60)
