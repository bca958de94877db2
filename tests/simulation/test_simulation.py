"""Histories of a flow on simulated brokers: those that have failed once, and fresh ones for a while."""

import os
import subprocess
import sys
from pathlib import Path

PAST_FAILURES = (13, 39, 41, 113, 493, 125541714290, 125541714303)
"""Seeds that once showed something: a promise broken, or a broker simulated otherwise than real ones are."""
_FRESH_MINUTES = 0.5


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the order of sets is part of a history, and PYTHONHASHSEED decides it."""
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    root = Path(__file__).parents[2]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def test_histories_that_failed_once_hold_what_is_promised() -> None:
    done = simulate("--seeds", *map(str, PAST_FAILURES))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(PAST_FAILURES)} histories" in done.stdout


def test_fresh_histories_hold_what_is_promised() -> None:
    done = simulate("--minutes", str(_FRESH_MINUTES))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_history_is_the_same_each_time_it_is_played() -> None:
    stories = {simulate("--seed", "39").stdout for _ in range(2)}
    assert len(stories) == 1
    assert "take over" in stories.pop()
