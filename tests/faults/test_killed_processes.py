"""kill -9 of each process of a run in mid-copy: nothing is lost, little is repeated, nothing is left behind."""

import signal

from faults.conftest import Story
from mirror_process import Mirror, gone
from oracle import wait_until

REPEATED_SECONDS_MAX = 4
"""The ledger is flushed every second; the rest is for a busy machine."""
PER_SECOND = 2000


def test_a_killed_driver_takes_its_children_with_it_and_a_new_run_goes_on(story: Story) -> None:
    with story.writer(per_second=PER_SECOND) as writer:
        with story.mirror(name="first") as first:
            story.wait_for_flow(first)
            started = [process.pid for process in first.processes()]
            assert len(started) > 3
            first.signal(signal.SIGKILL)
            first.wait(5)
            wait_until(lambda: not first.processes(), "JVM and Python workers end by themselves", 15)
        with story.mirror(name="second") as second:
            story.wait_for_flow(second)
            writer.stop()
            story.wait_for_all(second, writer)
            assert second.stop() == 0
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() <= REPEATED_SECONDS_MAX * PER_SECOND
    assert all(gone(pid) for pid in started)
