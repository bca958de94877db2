"""kill -9 of each process of a run in mid-copy: nothing is lost, little is repeated, nothing is left behind."""

import os
import signal

from tests.faults.story import REPEATED_MAX, Story
from tests.faults.tree import Run, is_gone
from tests.waiting import wait_until

HEAL_SECONDS_MAX = 20
READER, WRITER = 0, 1


def test_killed_workers_are_replaced_and_a_killed_driver_or_jvm_by_a_new_run(story: Story) -> None:
    with story.writer() as writer:
        with story.run() as first:
            story.wait_until_close(first, writer)
            for end in (READER, WRITER):
                _kill_a_worker(story, first, end)
                story.wait_until_close(first, writer)
            _kill_the_driver(first)
        with story.run() as second:
            story.wait_for_flow(second)
            story.wait_until_close(second, writer)
            _kill_the_jvm(second)
        with story.run() as third:
            story.wait_for_flow(third)
            story.wait_for_all(third, writer)
            third.stop(30)
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    repeated = arrival.repetitions()
    assert len(repeated) <= 4 * len(arrival.numbers), "each of four crashes may step back once in each partition"
    assert all(count <= REPEATED_MAX for count in repeated), repeated


def _kill_a_worker(story: Story, run: Run, end: int) -> None:
    """Its task begins again within the run; the other task goes on."""
    victim = run.rings_of_both_tasks()[0][end]
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: is_gone(victim), "the worker is dead", 5)
    story.wait_for_flow(run, HEAL_SECONDS_MAX)
    run.rings_of_both_tasks()


def _kill_the_driver(run: Run) -> None:
    """It takes its children with it. One that is ending is known by its number alone: its environment is gone."""
    started = [process.pid for process in run.processes()]
    assert len(started) > 3
    run.kill()
    wait_until(lambda: all(map(is_gone, started)), "JVM and Python workers end by themselves", 15)
    wait_until(lambda: not run.processes(), "those that came while it was killed end, too")


def _kill_the_jvm(run: Run) -> None:
    """The run ends, with a sentence."""
    run.jvm().kill()
    ended = run.finish(20)
    assert ended.status == 1
    assert "Spark's JVM has ended" in run.last_words, ended.errors
    wait_until(lambda: not run.processes(), "nothing is left of the run", 15)
