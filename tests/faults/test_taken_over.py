"""Two runs of one flow: the later one goes on, the earlier one ends with a sentence, and harms nothing."""

import time

import pytest
from tests.faults.numbered import Arrival, NumberedWriter, wait_until
from tests.faults.story import REPEATED_MAX, Story
from tests.faults.tree import Run


def test_a_later_run_takes_over_from_one_that_works_and_from_one_that_sleeps(story: Story) -> None:
    with story.writer() as writer, story.run() as first:
        story.wait_until_close(first, writer)
        before = sum(writer.produced)
        with story.run() as second:
            _assert_taken_over(first)
            both_wrote = sum(writer.produced) - before
            story.wait_until_close(second, writer)
            second.pause()
            with story.run() as third:
                _wake_in_vain(story, second, third)
                arrival = _finish(story, third, writer)
    allowed = both_wrote + 2 * REPEATED_MAX
    assert arrival.repeats() <= allowed, "at least once: until the second's first batches arrive"


def _wake_in_vain(story: Story, asleep: Run, successor: Run) -> None:
    """The run that was asleep while it was replaced ends by itself, and moves nothing back."""
    story.wait_for_flow(successor)
    before = story.positions()
    asleep.resume()
    lowest = _lowest_until_ended(story, asleep)
    assert all(now >= then for now, then in zip(lowest, before, strict=True)), "the ledger moved backwards"
    _assert_taken_over(asleep)


@pytest.mark.long
def test_a_run_that_slept_over_its_epochs_end_does_not_take_the_flow_back(story: Story) -> None:
    """Nothing is written meanwhile, so no refused batch tells it."""
    writer = story.writer()
    writer.write(500)
    with story.run(lines=["epoch.seconds = 20"]) as first:
        story.wait_for_all(first, writer)
        generation = story.generation()
        started = time.monotonic()
        first.pause()
        with story.run() as second:
            wait_until(lambda: story.generation() > generation, "the second run has stored its first positions", 60)
            wait_until(lambda: time.monotonic() > started + 21, "the first run's epoch is over", 25)
            first.resume()
            _assert_taken_over(first)
            writer.write(100)
            story.wait_for_all(second, writer)
            second.stop(30)
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() == 0


def _lowest_until_ended(story: Story, run: Run) -> list[int]:
    seen = [story.positions()]
    deadline = time.monotonic() + 60
    while run.running:
        assert time.monotonic() < deadline, f"the replaced run goes on; it said:\n{run.errors}"
        seen.append(story.positions())
    return [min(column) for column in zip(*seen, strict=True)]


def _assert_taken_over(first: Run) -> None:
    ended = first.finish(60)
    assert ended.status == 1, ended.errors
    assert "taken over" in ended.errors.splitlines()[-2], ended.errors
    assert "Traceback" not in ended.errors, ended.errors
    wait_until(lambda: not first.processes(), "nothing is left of the first run", 15)


def _finish(story: Story, second: Run, writer: NumberedWriter) -> Arrival:
    story.wait_for_all(second, writer)
    second.stop(30)
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    return arrival
