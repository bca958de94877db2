"""Histories of a flow on simulated brokers: those that have failed once, and some fresh ones for each commit."""

import os
import subprocess
import sys
from pathlib import Path
from secrets import randbits

from tests.simulation.scripts import past_failures

_FRESH = 20
_ROOT = Path(__file__).parents[2]


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the order of sets is part of a history, and PYTHONHASHSEED decides it."""
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, check=False)


def commit_seed() -> int:
    """One seed for each commit, so that it passes each time or never; any where there is no commit to be asked for."""
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=False)
    return int(asked.stdout[:10], 16) if asked.returncode == 0 else randbits(40)


def test_histories_that_failed_once_hold_what_is_promised() -> None:
    done = simulate("--past")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(past_failures())} histories" in done.stdout


def test_fresh_histories_hold_what_is_promised() -> None:
    done = simulate("--from", str(commit_seed()), "--histories", str(_FRESH))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{_FRESH} histories" in done.stdout


def test_what_brokers_leave_open_is_not_lost() -> None:
    """In 5014 committed records lie open whose position is stored: an abort would destroy them."""
    done = simulate("--left-out", "--from", "5014", "--histories", "4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 histories" in done.stdout


def test_a_ledger_that_lacks_markers_is_read_and_nothing_is_lost_by_it() -> None:
    """In 9005, 9008 and 9044 a flow stood still for good before what lies open there was ended."""
    for seed in (9005, 9008, 9044):
        done = simulate("--left-in-ledger", "--from", str(seed), "--histories", "1")
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_history_is_the_same_each_time_it_is_played() -> None:
    stories = {simulate("--seed", "39").stdout for _ in range(2)}
    assert len(stories) == 1
    assert "epoch 1 begins" in stories.pop()
