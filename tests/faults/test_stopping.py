"""SIGINT, SIGTERM and starts after them: ends are clean and complete, nothing stays behind, nothing comes twice."""

import os
import time
from pathlib import Path

from tests.faults.story import REPEATED_MAX, Story
from tests.faults.tree import RING, rings_of
from tests.waiting import wait_until

STOP_SECONDS_MAX = 30  # ten are promised for a machine that is not busy otherwise
DRAIN_SECONDS_MAX = 6.0
"""A run waits so long for its epoch's end. Where a machine is so slow that the stop took longer, what was under way may
come again."""


def test_ctrl_c_ends_cleanly_with_all_in_the_ledger_and_the_next_run_repeats_nothing(story: Story) -> None:
    with story.writer() as writer:
        with story.run() as first:
            story.wait_for_flow(first)
            asked_at = time.monotonic()
            first.interrupt()
            ended = first.finish(STOP_SECONDS_MAX)
            stop_seconds = time.monotonic() - asked_at
            assert ended.status == 0, ended.errors
            assert "Traceback" not in ended.errors
        if stop_seconds < DRAIN_SECONDS_MAX:
            assert story.positions() == story.arrived(), "what the target has and what the ledger says"
        with story.run() as second:
            story.wait_for_all(second, writer)
            second.stop(30)
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() <= (0 if stop_seconds < DRAIN_SECONDS_MAX else REPEATED_MAX)


def test_after_a_stop_no_process_file_or_leased_memory_is_left_and_the_old_plan_is_not_replayed(
    story: Story, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with story.writer() as writer:
        with story.run(environment=environment) as first:
            story.wait_for_flow(first)
            assert list(temporary.glob("sparkmirror-*")), "the run works elsewhere than where this test looks"
            started = {process.pid for process in first.processes()}
            assert rings_of(started), f"no process holds {RING}"
            stop_seconds = first.stop(STOP_SECONDS_MAX).seconds
            wait_until(lambda: not first.processes(), "all processes end", 8)
            assert not rings_of(started)
            assert list(temporary.iterdir()) == []
        first_end = story.positions()
        with story.run(environment=environment) as second:
            story.wait_for_all(second, writer)
            second.stop(30)
        assert list(temporary.iterdir()) == []
    assert story.positions() > first_end
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() <= (0 if stop_seconds < DRAIN_SECONDS_MAX else REPEATED_MAX)


def test_workers_run_on_this_interpreter_whatever_python3_comes_first_on_the_path(story: Story, tmp_path: Path) -> None:
    trap = tmp_path / "bin"
    trap.mkdir()
    for name in ("python", "python3"):
        (trap / name).write_text("#!/bin/sh\nexit 77\n")
        (trap / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{trap}:{os.environ['PATH']}"}
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        environment[name] = str(trap / "python3")
    writer = story.writer()
    writer.write(1000)
    with story.run("--once", environment=environment) as run:
        assert run.finish(90).status == 0, run.errors
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
