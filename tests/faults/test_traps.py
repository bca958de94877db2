"""Traps of shared memory, on a running mirror: there is none to be had."""

import resource

from tests.faults.story import Story

FILE_BYTES_MAX = 700 << 10
"""More than a ring's control page, less than the smallest ring."""


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
