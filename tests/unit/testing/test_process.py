"""Guard and JavaProcess, with shell scripts in Java's place: start, signals, logs, and nothing left behind."""

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from sparkmirror.errors import SparkMirrorError
from sparkmirror.testing.guard import Guard
from sparkmirror.testing.process import JavaProcess, JavaProgram


@dataclass(frozen=True, slots=True)
class ShellProgram(JavaProgram):
    """Runs `main_class` as a shell script."""

    def command(self) -> list[str]:
        return ["/bin/sh", "-c", self.main_class]


Start = Callable[[str], JavaProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Launches a script and waits until it has written a line."""
    directory = tmp_path / "guarded"
    directory.mkdir()
    with Guard(directory) as guard:

        def launch(script: str) -> JavaProcess:
            process = JavaProcess(ShellProgram("The script", script, ""), directory / "log", guard)
            process.launch()
            process.wait_until(lambda: process.log_tail() != "", "wrote", wait_seconds=60)
            return process

        yield launch
    assert not directory.exists()


def await_status(process: JavaProcess, status: str) -> None:
    deadline = time.monotonic() + 60
    while psutil.Process(process.pid).status() != status:
        assert time.monotonic() < deadline, f"the process is not {status}"
        time.sleep(0.01)


def test_stop_ends_a_process_cleanly(start: Start) -> None:
    process = start("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done")
    process.stop(wait_seconds=60)
    assert process.exit_status == 0
    assert process.log_tail(lines=1) == "bye"


def test_stop_kills_what_does_not_listen_and_says_so(start: Start) -> None:
    process = start("trap '' TERM; echo deaf; while :; do sleep 0.01; done")
    with pytest.raises(SparkMirrorError, match=r"The script did not stop within 0\.1 s and was killed") as caught:
        process.stop(wait_seconds=0.1)
    assert "deaf" in str(caught.value)
    assert process.exit_status == -signal.SIGKILL


def test_a_paused_process_can_be_resumed_stopped_and_killed(start: Start) -> None:
    process = start("echo up; exec sleep 60")
    process.pause()
    await_status(process, psutil.STATUS_STOPPED)
    process.resume()
    await_status(process, psutil.STATUS_SLEEPING)
    process.pause()
    process.stop(wait_seconds=60)
    assert process.exit_status == -signal.SIGTERM
    process.launch()
    process.pause()
    process.kill()
    assert process.exit_status == -signal.SIGKILL
    process.kill()


def test_a_running_process_is_not_started_twice(start: Start) -> None:
    process = start("echo up; exec sleep 60")
    with pytest.raises(SparkMirrorError, match=f"is running already \\(process {process.pid}\\)"):
        process.launch()
    process.kill()


def test_the_log_goes_on_over_restarts(start: Start) -> None:
    process = start("echo once; exec sleep 60")
    process.kill()
    process.launch()
    process.wait_until(lambda: process.log_tail() == "once\nonce", "wrote again", wait_seconds=60)
    process.kill()


def test_waiting_ends_when_the_process_does(start: Start) -> None:
    process = start("echo up; echo 'cannot bind' >&2; exit 3")
    with pytest.raises(SparkMirrorError, match="ended with status 3 before it served") as caught:
        process.wait_until(lambda: False, "served", wait_seconds=60)
    assert "cannot bind" in str(caught.value)
    process.kill()


def test_a_process_that_was_never_started_has_no_pid(tmp_path: Path) -> None:
    with Guard(tmp_path / "none") as guard:
        process = JavaProcess(ShellProgram("The script", "exit", ""), tmp_path / "log", guard)
        assert not process.running
        assert process.log_tail() == ""
        with pytest.raises(SparkMirrorError, match="was never started"):
            _ = process.pid


def test_closing_the_guard_kills_what_is_watched_and_nothing_else(tmp_path: Path) -> None:
    directory = tmp_path / "guarded"
    directory.mkdir()
    guard = Guard(directory)
    watched, forgotten = (psutil.Popen(["sleep", "60"]) for _ in range(2))
    for process in (watched, forgotten):
        guard.watch(process.pid)
    guard.forget(forgotten.pid)
    guard.close()
    assert watched.wait(60) == -signal.SIGKILL
    assert forgotten.poll() is None
    assert not directory.exists()
    forgotten.kill()
    forgotten.wait(60)
