"""The target stops answering, or is killed and comes back: the mirror waits, goes on by itself, and loses nothing."""

import time

from tests.faults.numbered import wait_until
from tests.faults.story import REPEATED_MAX, Story

from sparkmirror.testing.kafka import KafkaCluster

PAUSE_SECONDS = 5.0


def test_a_target_that_stops_costs_time_only_and_one_that_is_killed_is_found_again(
    breakable_story: Story, breakable_target: KafkaCluster
) -> None:
    story = breakable_story
    with story.writer() as writer, story.run() as run:
        story.wait_until_close(run, writer)
        _pause(breakable_target)
        story.wait_for_flow(run, 20)
        story.wait_until_close(run, writer)
        assert story.arrival().repeats() == 0, "requests that were answered late were sent again"
        breakable_target.broker(1).kill()
        breakable_target.broker(1).start()
        story.wait_for_flow(run, 30)
        story.wait_for_all(run, writer)
        run.stop(30)
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() <= REPEATED_MAX


def _pause(target: KafkaCluster) -> None:
    resume_at = time.monotonic() + PAUSE_SECONDS
    target.broker(1).pause()
    try:
        wait_until(lambda: time.monotonic() >= resume_at, "the pause is over", PAUSE_SECONDS + 1)
    finally:
        target.broker(1).resume()
