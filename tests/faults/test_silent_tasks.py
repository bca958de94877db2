"""A task that never says a word, though its process mirrors: nobody may take the flow for whole."""

import json
import os
import subprocess
from typing import Any

import psutil
from tests.faults.story import Story
from tests.faults.tree import Run
from tests.scenarios.mirror import COMMAND


def test_a_task_that_stands_still_from_the_start_is_named_and_the_lag_is_not_known(story: Story) -> None:
    with story.writer() as writer, story.run() as run:
        stopped = _stop_first_writer(run)
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


def _stop_first_writer(run: Run) -> psutil.Process:
    """The first task's writing process, stopped before the ledger's first interval is over: it has reported nothing."""
    found: list[int] = []

    def is_there() -> bool:
        found.extend(writer for _, writer in run.rings())
        return bool(found)

    run.wait_until(is_there, "a ring that both ends have open")
    writer = psutil.Process(found[0])
    writer.suspend()
    return writer


def _verdict(run: Run) -> dict[str, Any]:
    command = [str(COMMAND), "status", str(run.file), "--format", "json"]
    told = subprocess.run(command, env=os.environ, capture_output=True, text=True, timeout=120, check=False)
    found: dict[str, Any] = json.loads(told.stdout)[0]
    return found


def _is_named(told: dict[str, Any]) -> bool:
    return any("has not reported yet" in problem["cause"] for problem in told["verdict"]["problems"])
