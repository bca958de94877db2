"""One Java program under a test's control: a broker, or MirrorMaker 2. Called by `kafka`, parity tests and bench."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sparkmirror.errors import SparkMirrorError
from sparkmirror.java import find_java
from sparkmirror.testing.guard import Guard

POLL_SECONDS = 0.02
# C1 only and the serial collector: programs that live for seconds start fastest so.
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-Xshare:auto")
LOGGING = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.xml').as_uri()}"


@dataclass(frozen=True, slots=True)
class JavaProgram:
    """The program to run. `options` are JVM options beyond heap size and logging; throughput benchmarks pass their
    own."""

    title: str
    main_class: str
    class_path: str
    arguments: Sequence[str] = ()
    options: Sequence[str] = QUICK_START
    heap_mb: int = 256

    def command(self) -> list[str]:
        java = [str(find_java()), *self.options, f"-Xmx{self.heap_mb}m", LOGGING]
        return [*java, "-cp", self.class_path, self.main_class, *self.arguments]


class JavaProcess:
    """Starts a JavaProgram, repeatedly if wanted, in a session of its own; its output is appended to `log_file`."""

    def __init__(self, program: JavaProgram, log_file: Path, guard: Guard) -> None:
        self.program = program
        self.log_file = log_file
        self._guard = guard
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the last start. Raises SparkMirrorError before the first."""
        return self._started().pid

    @property
    def exit_status(self) -> int | None:
        """The exit status as in subprocess: None while it runs, negative when a signal ended it."""
        return self._started().poll()

    def launch(self) -> None:
        """Starts the program without waiting until it serves. Raises SparkMirrorError when it is running already."""
        if self.running:
            raise SparkMirrorError(f"{self.program.title} is running already (process {self.pid}).")
        with self.log_file.open("ab") as log:
            self._child = subprocess.Popen(
                self.program.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                cwd=self.log_file.parent, start_new_session=True,
            )  # fmt: skip
        self._guard.watch(self._child.pid)

    def kill(self) -> None:
        """Sends SIGKILL; returns when the process has ended. Does nothing to one that has ended already."""
        if self.running:
            self._started().kill()
        self._reap(wait_seconds=30)

    def stop(self, wait_seconds: float = 60) -> None:
        """Sends SIGTERM, for a clean end. Kills a process that takes longer than `wait_seconds`, and raises
        SparkMirrorError."""
        if not self.running:
            return
        self.resume()
        self._started().terminate()
        try:
            self._reap(wait_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise SparkMirrorError(
                f"{self.program.title} did not stop within {wait_seconds:g} s and was killed. Its log ends:\n"
                f"{self.log_tail()}"
            ) from None

    def pause(self) -> None:
        """Sends SIGSTOP: the process keeps its connections and answers nothing. Returns when it is suspended."""
        child = self._started()
        child.send_signal(signal.SIGSTOP)
        if self.running:
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Sends SIGCONT, which ends a pause."""
        self._started().send_signal(signal.SIGCONT)

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of the output of all starts."""
        with suppress(FileNotFoundError):
            return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])
        return ""

    def wait_until(self, condition: Callable[[], bool], what: str, wait_seconds: float) -> None:
        """Waits for `condition`. Raises SparkMirrorError with the end of the log when the process ends or the time
        is over."""
        deadline = time.monotonic() + wait_seconds
        while not condition():
            if not self.running:
                raise self._failure(f"ended with status {self.exit_status} before it {what}")
            if time.monotonic() > deadline:
                raise self._failure(f"took longer than {wait_seconds:.0f} s until it {what}")
            time.sleep(POLL_SECONDS)

    def _failure(self, sentence: str) -> SparkMirrorError:
        return SparkMirrorError(f"{self.program.title} {sentence}. Its log ends:\n{self.log_tail()}")

    def _reap(self, wait_seconds: float) -> None:
        if self._child is not None:
            self._child.wait(wait_seconds)
            self._guard.forget(self._child.pid)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            raise SparkMirrorError(f"{self.program.title} was never started.")
        return self._child
