"""A task that never says a word, though its process mirrors: nobody may take the flow for whole."""

import json
import os
import subprocess
from contextlib import suppress
from typing import Any

import psutil
from tests.faults.story import Story
from tests.faults.tree import Run
from tests.scenarios.mirror import COMMAND

from sparkmirror.testing.kill_points import ENVIRONMENT as KILL_POINTS


def test_a_task_that_stands_still_from_the_start_is_named_and_the_lag_is_not_known(story: Story) -> None:
    points = story.directory / "points"
    points.mkdir()
    (points / "before-first-report").write_text("1")
    with story.writer() as writer, story.run(environment={**os.environ, KILL_POINTS: str(points)}) as run:
        stopped = _find_stopped(run)
        run.wait_until(lambda: max(story.arrived()) > 0, "the other task mirrors")
        run.wait_until(lambda: _is_named(_verdict(run)), "status names the task that has said nothing")
        told = _verdict(run)
        assert told["verdict"]["level"] in ("unknown", "red")
        assert told["lag"] is None, "of the silent task's partition nobody has said how far it is"
        stopped.resume()
        story.wait_until_close(run, writer)
        run.wait_until(lambda: not _is_named(_verdict(run)), "status has heard of it")
        story.wait_for_all(run, writer)
        run.stop(30)
    story.arrival().assert_complete(writer.produced)


def _find_stopped(run: Run) -> psutil.Process:
    """The writing process of the task that was first, which has stopped itself: it has reported nothing."""
    found: list[psutil.Process] = []

    def is_there() -> bool:
        for process in run.workers():
            with suppress(psutil.NoSuchProcess):  # Spark ends some early
                if process.status() == psutil.STATUS_STOPPED:
                    found.append(process)
        return bool(found)

    run.wait_until(is_there, "a worker that stands still before its first report")
    return found[0]


def _verdict(run: Run) -> dict[str, Any]:
    command = [str(COMMAND), "status", str(run.file), "--format", "json"]
    told = subprocess.run(command, env=os.environ, capture_output=True, text=True, timeout=120, check=False)
    found: dict[str, Any] = json.loads(told.stdout)[0]
    return found


def _is_named(told: dict[str, Any]) -> bool:
    return any("has not reported yet" in problem["cause"] for problem in told["verdict"]["problems"])
