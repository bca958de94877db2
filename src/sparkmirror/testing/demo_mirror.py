"""The demo's mirror: `sparkmirror run FILE` in a process of its own, as a person would start it. Called by `demo`."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil

from sparkmirror.errors import SparkMirrorError
from sparkmirror.testing.guard import Guard

STOP_SECONDS_MAX = 30.0
LAST_SECONDS_MAX = 30.0
VERB_SECONDS_MAX = 120.0
POLL_SECONDS = 0.05
_SHOWN_CHARACTERS = 160
_RUN = "import sys; from sparkmirror.cli.main import main; sys.exit(main())"


def render_config(source_servers: str, target_servers: str, page: str) -> str:
    """The file: a MirrorMaker 2 file for one-broker clusters, which looks for new topics every second and has the
    page's address."""
    return (
        "clusters = A, B\n"
        f"A.bootstrap.servers = {source_servers}\n"
        f"B.bootstrap.servers = {target_servers}\n"
        "A->B.enabled = true\n"
        "tasks.max = 2\n"
        "replication.factor = 1\n"
        "offset.storage.replication.factor = 1\n"
        "refresh.topics.interval.seconds = 1\n"
        f"status.listen = {page}\n"
    )


def free_page() -> str:
    """A free port of loopback, in the form of `status.listen`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"127.0.0.1:{listening.getsockname()[1]}"


def run_verb(file: Path, guard: Guard, *verb: str) -> str:
    """The output of `sparkmirror VERB FILE`. Raises SparkMirrorError where its exit status is not 0."""
    child = subprocess.Popen(
        [sys.executable, "-c", _RUN, *verb, str(file)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "TMPDIR": str(guard.directory)}, cwd=guard.directory, start_new_session=True,
    )  # fmt: skip
    guard.watch(child.pid)
    try:
        said = child.communicate(timeout=VERB_SECONDS_MAX)[0]
    except BaseException:
        _end(_descendants(child.pid))
        child.kill()
        child.wait()
        raise
    finally:
        guard.forget(child.pid)
    if child.returncode:
        raise SparkMirrorError(f"`sparkmirror {' '.join(verb)}` ended with status {child.returncode}:\n{said}")
    return said


class MirrorProcess:
    """Runs the file in the guard's directory, with its log there; `stop` checks that no process of it is left."""

    def __init__(self, file: Path, guard: Guard) -> None:
        self._log_file = file.with_suffix(".log")
        self._guard = guard
        with self._log_file.open("wb") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-c", _RUN, "run", str(file)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={**os.environ, "TMPDIR": str(guard.directory)}, cwd=guard.directory, start_new_session=True,
            )  # fmt: skip
        guard.watch(self._child.pid)

    def check(self) -> None:
        """Raises SparkMirrorError with the end of the log when the mirror has ended by itself."""
        status = self._child.poll()
        if status is not None:
            raise SparkMirrorError(f"The mirror ended by itself with status {status}. {self.last_words()}")

    def last_words(self) -> str:
        lines = self._log_file.read_text(errors="replace").splitlines()[-15:]
        return "Its log ends:\n" + "\n".join(lines)

    def stop(self) -> int:
        """Sends SIGTERM and waits until the mirror and all its descendants have ended; returns how many processes
        they were. Raises SparkMirrorError when the mirror fails, takes longer than 30 s or leaves a process; it ends
        all of them first."""
        family = _descendants(self._child.pid)
        self._child.terminate()
        try:
            status = self._child.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise SparkMirrorError(
                f"The mirror did not stop within {STOP_SECONDS_MAX:.0f} s of SIGTERM and was killed. "
                f"{self.last_words()}"
            ) from None
        self._guard.forget(self._child.pid)
        if left := _wait_gone(family):
            named = "".join(f"\n  {line}" for line in left.values())
            _end(list(left))
            raise SparkMirrorError(f"The mirror stopped, but these of its processes lived on and were killed:{named}")
        if status:
            raise SparkMirrorError(f"The mirror stopped with status {status} instead of 0. {self.last_words()}")
        return 1 + len(family)

    def kill(self) -> None:
        """Sends SIGKILL to the mirror and its descendants; does nothing once it has ended."""
        if self._child.poll() is None:
            family = _descendants(self._child.pid)
            self._child.kill()
            self._child.wait()
            self._guard.forget(self._child.pid)
            _end(family)


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _wait_gone(processes: list[psutil.Process]) -> dict[psutil.Process, str]:
    """The processes that are left at the end of the wait, with their command lines."""
    deadline = time.monotonic() + LAST_SECONDS_MAX
    while True:
        left = {process: line for process in processes if (line := _living(process))}
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(POLL_SECONDS)


def _living(process: psutil.Process) -> str:
    """The process id and command line; None when the process has ended, even if its exit status was not read yet."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return ""
        return f"{process.pid}: {' '.join(process.cmdline())[:_SHOWN_CHARACTERS]}"
    except psutil.NoSuchProcess:
        return ""


def _end(processes: list[psutil.Process]) -> None:
    for process in processes:
        if process.is_running():
            process.kill()
    psutil.wait_procs(processes, LAST_SECONDS_MAX)
