"""A contestant's program, ended with all its children. Called by `bench.copying` and `bench.steady`."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from bench import process_tree
from sparkmirror.errors import SparkMirrorError
from sparkmirror.testing.guard import Guard

STOP_SECONDS_MAX = 30.0
_LOG_LINES = 15
_LOG_COLUMNS = 300


class Mirror:
    """Runs `command` from entering to leaving the block; its output goes to `log_file`.

    `environment` is added to this process's own.
    """

    def __init__(
        self, command: Sequence[str], log_file: Path, guard: Guard, environment: Mapping[str, str] | None = None
    ) -> None:
        self._command = command
        self._log_file = log_file
        self._guard = guard
        self._environment = {**os.environ, **(environment or {})}
        self.started_at = 0.0

    def __enter__(self) -> Self:
        self.started_at = time.monotonic()
        with self._log_file.open("ab") as log:
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                env=self._environment,
            )  # fmt: skip
        self._guard.watch(self._child.pid)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """SIGTERM, and after 30 s SIGKILL to it and to each process it has left."""
        family = self._family()
        if self._child.poll() is None:
            self._child.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(STOP_SECONDS_MAX)
        _kill(family | self._family())
        self._child.wait()
        self._guard.forget(self.pid)

    @property
    def pid(self) -> int:
        return self._child.pid

    def cpu_seconds(self) -> float:
        """Of the whole tree since its start."""
        return process_tree.cpu_seconds(self.pid)

    def check(self) -> None:
        """Raises SparkMirrorError with the log's end when the program has ended by itself."""
        status = self._child.poll()
        if status is not None:
            raise SparkMirrorError(f"The program ended with status {status}. Its output ends:\n{self.log_tail()}")

    def _family(self) -> set[tuple[int, int]]:
        return {(process.pid, process.started) for process in process_tree.read_tree(self.pid)}

    def log_tail(self) -> str:
        """What it has said last."""
        lines = self._log_file.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return "\n".join(line[:_LOG_COLUMNS] for line in lines)


def _kill(family: set[tuple[int, int]]) -> None:
    """SIGKILL to those that still are who they were: a pid may have been given again."""
    for process in process_tree.read_processes():
        if (process.pid, process.started) in family:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
