"""A backlog of large batches arrives in order though what copies it is killed, twice. Its answers are announced, not
rows; at least once, such batches go amid a run through a writer by a way of their own
(`pipeline.produce.direct_buffer`).
"""

import os
import signal
from collections.abc import Sequence

import pytest
from tests.faults.scene import EXACTLY_ONCE_LINES
from tests.faults.story import Story
from tests.faults.tree import Run

RECORD_BYTES = 60_000
"""So that each batch is large, whatever its producer does."""
RECORDS = 2_500
WRITER = 1


@pytest.mark.parametrize(
    ("lines", "repetitions"), [((), 4), (EXACTLY_ONCE_LINES, 0)], ids=["at-least-once", "exactly-once"]
)
def test_a_backlog_of_large_batches_arrives_in_order_though_all_and_then_a_writer_are_killed(
    story: Story, lines: Sequence[str], repetitions: int
) -> None:
    writer = story.writer(record_bytes=RECORD_BYTES)
    writer.write(RECORDS)
    with story.run(lines=lines) as first:
        _wait_until_amid(story, first, RECORDS // 20)
        first.destroy()
    reached = story.arrived()
    with story.run(lines=lines) as second:
        victim = second.rings_of_both_tasks()[0][WRITER]
        _wait_until_amid(story, second, max(reached))
        os.kill(victim, signal.SIGKILL)
        left = story.arrived()
        story.wait_for_all(second, writer)
        second.stop(30)
    assert max(reached) < RECORDS > min(left), "both died amid their copy"
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert len(arrival.repetitions()) <= repetitions, "at least once, two crashes may step back once in each partition"


def _wait_until_amid(story: Story, run: Run, reached: int) -> None:
    """Until it has written more than that, of the partition that is ahead."""
    run.wait_until(lambda: max(story.arrived()) > reached, f"more than {reached} records of a partition are mirrored")
