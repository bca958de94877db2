"""kill -9 of each process of a run in mid-copy: nothing is lost, little is repeated, nothing is left behind."""

import os
import signal

from tests.faults.numbered import NumberedWriter, wait_until
from tests.faults.story import REPEATED_MAX, Story
from tests.faults.tree import is_gone

HEAL_SECONDS_MAX = 20


def test_a_killed_driver_takes_its_children_with_it_and_a_new_run_goes_on(story: Story) -> None:
    with story.writer() as writer:
        with story.run() as first:
            story.wait_until_close(first, writer)
            started = [process.pid for process in first.processes()]
            assert len(started) > 3
            first.kill()
            wait_until(lambda: not first.processes(), "JVM and Python workers end by themselves", 15)
            assert all(is_gone(pid) for pid in started)
        _continue(story, writer)
    _assert_whole(story, writer.produced)


def test_a_killed_jvm_ends_the_run_with_a_sentence_and_a_new_run_loses_nothing(story: Story) -> None:
    with story.writer() as writer:
        with story.run() as first:
            story.wait_until_close(first, writer)
            first.jvm().kill()
            ended = first.finish(20)
            assert ended.status == 1
            assert "Spark's JVM has ended" in ended.errors.splitlines()[-2], ended.errors
            wait_until(lambda: not first.processes(), "nothing is left of the run", 15)
        _continue(story, writer)
    _assert_whole(story, writer.produced)


def test_a_killed_reading_worker_is_replaced_within_the_run(story: Story) -> None:
    _kill_a_worker(story, 0)


def test_a_killed_writing_worker_is_replaced_within_the_run(story: Story) -> None:
    _kill_a_worker(story, 1)


def _kill_a_worker(story: Story, end: int) -> None:
    with story.writer() as writer, story.run() as run:
        story.wait_until_close(run, writer)
        rings = list(run.rings())
        assert len(rings) == 2, "a ring for each task"
        os.kill(rings[0][end], signal.SIGKILL)
        wait_until(lambda: is_gone(rings[0][end]), "the worker is dead", 5)
        story.wait_for_flow(run, HEAL_SECONDS_MAX)
        story.wait_for_all(run, writer)
        run.stop(30)
    _assert_whole(story, writer.produced)


def _continue(story: Story, writer: NumberedWriter) -> None:
    with story.run() as second:
        story.wait_for_flow(second)
        story.wait_for_all(second, writer)
        second.stop(30)


def _assert_whole(story: Story, produced: list[int]) -> None:
    arrival = story.arrival()
    arrival.assert_complete(produced)
    assert arrival.repeats() <= REPEATED_MAX
