"""With exactly-once on, a read_committed consumer sees each record once, whatever dies or sleeps (invariant 4)."""

import os
import signal
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import psutil
import pytest
from kafka import KafkaAdminClient
from tests.faults.numbered import NumberedWriter, end_offsets
from tests.faults.sharing import tasks_of, wait_until_shared
from tests.faults.story import Story
from tests.faults.test_lost_records import delete_topic, list_gaps
from tests.faults.tree import Run, is_gone
from tests.oracle import list_topics
from tests.waiting import wait_until

from sparkmirror.testing.kafka import KafkaCluster

EXACTLY_ONCE = ("backup.exactly.once.source.support = enabled",)
HEAL_SECONDS_MAX = 30
SHORT_TRANSACTIONS = (*EXACTLY_ONCE, "backup.producer.transaction.timeout.ms = 3000")
UNDER_WAY = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


def kill_whatever_runs(story: Story, writer: NumberedWriter, lines: Sequence[str]) -> None:
    """Under load: workers, the process that another shares the flow with, that one's JVM. A last run ends the work."""
    with story.run(lines=lines) as first:
        story.wait_until_close(first, writer)
        kill_a_worker(story, first, writing=True)
        kill_a_worker(story, first, writing=False)
        with story.run(lines=lines) as second:
            wait_until_shared(first, second)
            story.wait_for_flow(second)
            first.kill()
            wait_until(lambda: tasks_of(second) == {0, 1}, "the second goes on for the first", 20)
            story.wait_for_flow(second)
            second.jvm().kill()
            assert second.finish(20).status == 1
    writer.stop()
    with story.run("--once", lines=lines) as last:
        ended = last.finish(90)
        assert ended.status == 0, ended.errors


def test_whatever_is_killed_under_load_each_record_comes_once(story: Story) -> None:
    with story.writer() as writer:
        kill_whatever_runs(story, writer, EXACTLY_ONCE)
    _assert_once(story, writer)
    ends = end_offsets(story.target, story.remote_topic, len(writer.produced))
    assert all(end > count for end, count in zip(ends, writer.produced, strict=True)), "no transaction marker"


def test_older_transactions_outlive_a_killed_target(
    first_protocol_story: Story, first_protocol_target: KafkaCluster
) -> None:
    story = first_protocol_story
    with story.writer() as writer, story.run(lines=EXACTLY_ONCE) as run:
        story.wait_until_close(run, writer)
        first_protocol_target.broker(1).kill()
        first_protocol_target.broker(1).start()
        story.wait_for_flow(run, HEAL_SECONDS_MAX)
        story.wait_for_all(run, writer)
        run.stop(30)
    _assert_once(story, writer)


@pytest.mark.long
def test_a_writer_that_sleeps_over_its_transactions_time_repeats_nothing(breakable_story: Story) -> None:
    _sleep_and_go_on(breakable_story)


@pytest.mark.long
def test_so_does_one_whose_target_has_the_older_transactions(first_protocol_story: Story) -> None:
    _sleep_and_go_on(first_protocol_story)


def _sleep_and_go_on(story: Story) -> None:
    with story.writer() as writer, story.run(lines=SHORT_TRANSACTIONS) as run:
        story.wait_until_close(run, writer)
        _sleep_over_a_transaction(story, run)
        run.wait_until(lambda: "its transaction is aborted and sent again" in run.errors, "the abort is told")
        story.wait_for_all(run, writer)
        run.stop(30)
    _assert_once(story, writer)


@pytest.mark.long
def test_a_topic_that_is_deleted_on_the_target_is_written_again_from_there_and_once(story: Story) -> None:
    _delete_and_go_on(story)


@pytest.mark.long
def test_so_is_one_of_a_target_with_the_older_transactions(first_protocol_story: Story) -> None:
    _delete_and_go_on(first_protocol_story)


def _delete_and_go_on(story: Story) -> None:
    """In the middle of a transaction, most likely: it holds up no more than the topic's own partitions."""
    with story.writer() as writer, story.run(lines=EXACTLY_ONCE) as run:
        story.wait_until_close(run, writer)
        delete_topic(story.target, story.remote_topic)
        run.wait_until(lambda: min(story.arrived()) > 0, "the topic is made again, and written", HEAL_SECONDS_MAX)
        story.wait_for_all(run, writer)
        run.stop(30)
    for partition, numbers in story.arrival().numbers.items():
        assert numbers == list(range(numbers[0], writer.produced[partition])), f"partition {partition}"
    assert story.positions() == writer.produced
    gaps = list_gaps(story)
    assert [(gap["cause"], gap["action"]) for gap in gaps] == [("target deleted", "went on")] * len(writer.produced)


@pytest.mark.long
def test_a_topic_that_is_made_again_while_nothing_is_written_is_known_by_its_new_id(
    first_protocol_story: Story,
) -> None:
    """Such a target takes batches by the topic's name: what the new one has is not taken for the former's, nor missed
    at the next start."""
    story = first_protocol_story
    writer = story.writer()
    writer.write(200)
    with story.run(lines=EXACTLY_ONCE) as run:
        story.wait_for_all(run, writer)
        delete_topic(story.target, story.remote_topic)
        run.wait_until(lambda: _is_there(story), "the topic is made again", HEAL_SECONDS_MAX)
        writer.write(100)
        story.wait_for_all(run, writer)
        run.stop(30)
    assert [len(numbers) for numbers in story.arrival().numbers.values()] == [100] * story.partitions
    first = list_gaps(story)
    assert [(gap["cause"], gap["action"]) for gap in first] == [("target deleted", "went on")] * story.partitions
    with story.run("--once", lines=EXACTLY_ONCE) as last:
        ended = last.finish(90)
        assert ended.status == 0, ended.errors
    assert list_gaps(story) == first, "the new topic's records are not missed"


def _is_there(story: Story) -> bool:
    return story.remote_topic in list_topics({"bootstrap.servers": story.target})


def _sleep_over_a_transaction(story: Story, run: Run) -> None:
    """SIGSTOP to the writers in the middle of a transaction, SIGCONT when the coordinator has long aborted it."""
    writers = [psutil.Process(writer) for _, writer in run.rings()]
    with closing(KafkaAdminClient(bootstrap_servers=story.target)) as admin:
        while not _transactions(admin, story, "CompleteAbort"):
            _signal(writers, signal.SIGCONT)
            _signal(writers, signal.SIGSTOP)
            wait_until(lambda: not _transactions(admin, story, *UNDER_WAY), "the transactions are over", 30)
    _signal(writers, signal.SIGCONT)


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        process.send_signal(number)


def _transactions(admin: Any, story: Story, *states: str) -> list[str]:
    """The flow's transactional ids whose transaction is in one of the states."""
    found = admin.list_transactions(state_filters=states).values()
    return [one.transactional_id for each in found for one in each if one.transactional_id.startswith(story.alias)]


def kill_a_worker(story: Story, run: Run, *, writing: bool) -> None:
    victim = run.rings_of_both_tasks()[0][1 if writing else 0]
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: is_gone(victim), "the worker is dead", 5)
    story.wait_for_flow(run, HEAL_SECONDS_MAX)
    run.rings_of_both_tasks()


def _assert_once(story: Story, writer: NumberedWriter) -> None:
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() == 0
    # A coordinator ends a transaction on all partitions a moment after it has answered.
    wait_until(lambda: story.positions() == writer.produced, f"the ledger says {writer.produced}")
