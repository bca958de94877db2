"""Several processes with one file: they share one flow's tasks, and nothing is lost whoever comes, goes or sleeps."""

import time

import pytest
from tests.faults.sharing import last_share, members, tasks_of, wait_until_shared
from tests.faults.story import REPEATED_MAX, Story
from tests.waiting import wait_until

SESSION_SECONDS = 10


def test_processes_share_a_flow_and_go_on_for_one_that_is_stopped_or_killed(story: Story) -> None:
    with story.writer() as writer, story.run() as first, story.run() as second:
        wait_until_shared(first, second)
        story.wait_until_close(first, writer)
        first.stop(30)
        wait_until(lambda: tasks_of(second) == {0, 1}, "the second goes on for the one that was stopped", 5)
        story.wait_until_close(second, writer)
        with story.run() as third:
            wait_until_shared(second, third)
            story.wait_until_close(third, writer)
            second.kill()
            wait_until(lambda: tasks_of(third) == {0, 1}, "the third goes on for the one that was killed", 8)
            wait_until(lambda: last_share(story).tasks == {0, 1}, "its planner is told", 60)
            assert last_share(story).at_once, "its own task goes on meanwhile"
            story.wait_for_all(third, writer)
            third.stop(30)
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() <= REPEATED_MAX, "one was killed; where tasks are shared again, nothing comes twice"


@pytest.mark.long
def test_a_process_that_sleeps_over_the_session_time_out_steps_down_and_joins_again(story: Story) -> None:
    with story.writer() as writer, story.run() as first, story.run() as second:
        wait_until_shared(first, second)
        story.wait_until_close(first, writer)
        first.pause()
        wait_until(lambda: tasks_of(second) == {0, 1}, "the second has all tasks", SESSION_SECONDS + 15)
        story.wait_until_close(second, writer)
        first.resume()
        first.wait_until(lambda: "joins again" in first.errors, "the one that slept steps down", 15)
        wait_until_shared(first, second)
        story.wait_until_close(second, writer)
        first.stop(30)
        story.wait_for_all(second, writer)
        second.stop(30)
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() <= REPEATED_MAX, "what it had under way, and what the ledger did not know yet"


@pytest.mark.long
def test_a_process_goes_on_that_wakes_when_the_one_that_had_replaced_it_is_dead(story: Story) -> None:
    """Nobody is left who knows the later run."""
    with story.writer() as writer, story.run() as first:
        story.wait_until_close(first, writer)
        first.pause()
        wait_until(lambda: not members(story), "the group is empty", SESSION_SECONDS + 30)
        with story.run() as second:
            story.wait_for_flow(second)
            story.wait_until_close(second, writer)
            second.kill()
        wait_until(lambda: not members(story), "the group has forgotten it", SESSION_SECONDS + 30)
        first.resume()
        first.wait_until(lambda: "joins again" in first.errors, "it joins again", 30)
        story.wait_for_flow(first)
        story.wait_until_close(first, writer)
        story.wait_for_all(first, writer)
        first.stop(30)
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() <= REPEATED_MAX


@pytest.mark.long
def test_a_process_that_slept_over_its_epochs_end_does_not_take_tasks_back(story: Story) -> None:
    """Nothing is written meanwhile, so no refused batch tells it."""
    writer = story.writer()
    writer.write(500)
    with story.run(lines=["epoch.seconds = 20"]) as first, story.run(lines=["epoch.seconds = 20"]) as second:
        story.wait_for_all(first, writer)
        wait_until_shared(first, second)
        started = time.monotonic()
        first.pause()
        wait_until(lambda: tasks_of(second) == {0, 1}, "the second has all tasks", SESSION_SECONDS + 15)
        wait_until(lambda: time.monotonic() > started + 21, "the first one's epoch is over", 25)
        first.resume()
        first.wait_until(lambda: "joins again" in first.errors, "the one that slept steps down", 15)
        wait_until_shared(first, second)
        writer.write(100)
        story.wait_for_all(second, writer)
        first.stop(30)
        second.stop(30)
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() == 0


@pytest.mark.long
def test_a_changed_file_is_taken_up_by_restarting_one_process_after_the_other(story: Story) -> None:
    """And while two files say something else of the flow, both processes say whose is obeyed."""
    changed = ("producer.linger.ms = 7", "epoch.seconds = 300")
    with story.writer() as writer, story.run() as first, story.run() as second:
        wait_until_shared(first, second)
        story.wait_until_close(first, writer)
        with story.run(lines=changed) as third:
            wait_until(lambda: tasks_of(third) == {0, 1}, "the changed file is obeyed", 90)
            wait_until(lambda: not tasks_of(first) and not tasks_of(second), "the others run nothing", 10)
            assert "its file was changed later and is obeyed, so this process runs nothing" in first.errors
            assert "this process's file was changed later and is obeyed" in third.errors
            story.wait_until_close(third, writer)
            first.stop(30)
            second.stop(30)
            with story.run(lines=changed) as fourth:
                wait_until(lambda: len(tasks_of(third)) == len(tasks_of(fourth)) == 1, "both share", 90)
                story.wait_for_all(third, writer)
                fourth.stop(30)
                third.stop(30)
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() == 0, "nobody was killed"
