"""Histories of a flow on simulated brokers: those that have failed once, and fresh ones for a while."""

import os
import subprocess
import sys
from pathlib import Path

from tests.simulation.history import read_scripts

PAST_FAILURES = Path(__file__).with_name("past_failures.json")
"""Histories that once showed something: a promise broken, or a broker simulated otherwise than real ones are."""
_FRESH_MINUTES = 0.5


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the order of sets is part of a history, and PYTHONHASHSEED decides it."""
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    root = Path(__file__).parents[2]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def test_histories_that_failed_once_hold_what_is_promised() -> None:
    done = simulate("--past")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(read_scripts(PAST_FAILURES.read_text()))} histories" in done.stdout


def test_fresh_histories_hold_what_is_promised() -> None:
    done = simulate("--minutes", str(_FRESH_MINUTES))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_history_is_the_same_each_time_it_is_played() -> None:
    stories = {simulate("--seed", "39").stdout for _ in range(2)}
    assert len(stories) == 1
    assert "epoch 1 begins" in stories.pop()
