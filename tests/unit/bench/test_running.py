"""A contestant is ended with everything it started."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.running import Mirror

from sparkmirror.errors import SparkMirrorError
from sparkmirror.testing.guard import Guard


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Guard]:
    directory = tmp_path / "guarded"
    directory.mkdir()
    with Guard(directory) as guard:
        yield guard


def wait_for_line(file: Path) -> str:
    deadline = time.monotonic() + 60
    while not (text := file.read_text() if file.exists() else "").endswith("\n"):
        assert time.monotonic() < deadline, "the program wrote nothing"
        time.sleep(0.01)
    return text


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_child_that_outlives_its_parent_is_ended_too(tmp_path: Path, guard: Guard) -> None:
    log_file = tmp_path / "log"
    with Mirror(["sh", "-c", "sleep 300 & echo $!; exec sleep 300"], log_file, guard) as mirror:
        child = int(wait_for_line(log_file))
        assert is_alive(child)
        mirror.check()
    assert not is_alive(mirror.pid)
    deadline = time.monotonic() + 60
    while is_alive(child):
        assert time.monotonic() < deadline, "the child is still there"
        time.sleep(0.01)


def test_a_program_that_ends_by_itself_is_reported_with_its_last_words(tmp_path: Path, guard: Guard) -> None:
    log_file = tmp_path / "log"
    with Mirror(["sh", "-c", "echo no such cluster; exit 2"], log_file, guard) as mirror:
        os.waitid(os.P_PID, mirror.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(SparkMirrorError, match=r"status 2.*\n.*no such cluster"):
            mirror.check()
