"""`sparkmirror run` as a child process, as a user starts it, and the file that it is given.

Every process of its tree carries a mark in its environment, by which those that outlive it are found.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import psutil
from tests.oracle import DEADLINE_SECONDS_LEAST

COMMAND = Path(sys.executable).with_name("sparkmirror")
START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 30.0  # ten are promised for a machine that is not busy otherwise
_VANISH_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.05
_MARK = "SPARKMIRROR_SCENARIO"
_TELL_STACKS = {"PYTHONFAULTHANDLER": "1"}
OWN_PROGRAM = {
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_SUBMIT_ARGS": "--driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' pyspark-shell",
}
"""Of a Spark program of a user's own: its JVM, which runs for a moment alone, starts with less work."""


def flow_file(
    source: Mapping[str, str],
    target: Mapping[str, str],
    *,
    alias: str,
    topics: str,
    lines: Sequence[str] = (),
    replicas: int = 1,
) -> str:
    """A properties file of one flow, `alias->backup`. `source` and `target` are Java client properties."""
    clients = [("backup" if side else alias, client) for side, client in enumerate((source, target))]
    return "\n".join(
        [
            f"clusters = {alias}, backup",
            *(f"{name}.{key} = {value}" for name, client in clients for key, value in client.items()),
            f"{alias}->backup.enabled = true",
            f"topics = {topics}",
            f"replication.factor = {replicas}",
            f"offset.storage.replication.factor = {replicas}",
            "heartbeats.replication.enabled = false",  # clusters are shared: other tests' are not ours
            *lines,
            "",
        ]
    )


def two_way_file(
    clients: Mapping[str, Mapping[str, str]], *, topics: str, groups: str, lines: Sequence[str] = ()
) -> str:
    """A properties file of two flows, there and back, that keep groups in step. `clients` is by alias, two of them."""
    a, b = clients
    return "\n".join(
        [
            f"clusters = {a}, {b}",
            *(f"{name}.{key} = {value}" for name, client in clients.items() for key, value in client.items()),
            f"{a}->{b}.enabled = true",
            f"{b}->{a}.enabled = true",
            f"topics = {topics}",
            f"groups = {groups}",
            "sync.group.offsets.enabled = true",
            "replication.factor = 1",
            "offset.storage.replication.factor = 1",
            *lines,
            "",
        ]
    )


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended; `seconds` from the request to stop, or from the start."""

    status: int
    seconds: float
    output: str
    errors: str


class Mirror:
    """One run: of `sparkmirror run FILE`, of another `verb` or `command`, or of the `program`. Its output goes
    to files."""

    def __init__(
        self,
        directory: Path,
        text: str,
        arguments: Sequence[str] = (),
        *,
        program: Sequence[str] = (),
        command: Path = COMMAND,
        verb: str = "run",
        environment: Mapping[str, str] | None = None,
        before_start: Callable[[], None] | None = None,
    ) -> None:
        self._mark = uuid4().hex
        stem = directory / f"mirror-{self._mark[:6]}"
        self._output, self._errors = stem.with_suffix(".out"), stem.with_suffix(".err")
        self.file = file = stem.with_suffix(".properties")
        file.write_text(text)
        self._started = time.monotonic()
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self._child = subprocess.Popen(
                [*(program or (str(command), verb, str(file))), *arguments],
                stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                env={**(os.environ if environment is None else environment), _MARK: self._mark, **_TELL_STACKS},
                cwd=directory, start_new_session=True, preexec_fn=before_start,
            )  # fmt: skip

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    @property
    def output(self) -> str:
        """What it has written to stdout so far."""
        return self._output.read_text(errors="replace")

    @property
    def errors(self) -> str:
        """What it has written to stderr so far."""
        return self._errors.read_text(errors="replace")

    @property
    def last_words(self) -> str:
        """What a run that failed says at its end, and what other threads may say behind it."""
        lines = self.errors.splitlines()
        said = [number for number, line in enumerate(lines) if line.startswith("sparkmirror: ")]
        assert said, self.errors
        return "\n".join(lines[said[-1] :])

    def processes(self) -> list[psutil.Process]:
        """All living processes of this run, also those that lost their parent."""
        return [process for process in psutil.process_iter() if _mark_of(process) == self._mark]

    def workers(self) -> list[psutil.Process]:
        """Spark's Python processes: its daemons and what they forked."""
        return [process for process in self.processes() if "sparkmirror.spark.python_daemon" in _command_of(process)]

    def jvms(self) -> list[psutil.Process]:
        """The Java processes of Spark: the engine's, and before that one that may make the class archive."""
        main_classes = ("org.apache.spark.deploy.SparkSubmit", "org.apache.spark.api.python.PythonGatewayServer")
        return [process for process in self.processes() if any(one in _command_of(process) for one in main_classes)]

    def jvm(self) -> psutil.Process:
        """The engine's Java process. Waits until there is exactly one: what it starts bears its name for a moment."""
        found: list[psutil.Process] = []

        def is_one() -> bool:
            found[:] = self.jvms()
            return len(found) == 1

        self.wait_until(is_one, "it has one JVM")
        return found[0]

    def commands(self) -> list[str]:
        """How each of its processes was called; what ends meanwhile is left out."""
        return [found for process in self.processes() if (found := _command_of(process))]

    def wait_until(self, condition: Callable[[], object], what: str, seconds_max: float = START_SECONDS_MAX) -> None:
        """Wait until `condition` is true; fails with the log when the run ends or time is up."""
        seconds_max = max(seconds_max, DEADLINE_SECONDS_LEAST)
        deadline = time.monotonic() + seconds_max
        while not condition():
            assert self.running, f"the mirror ended with status {self._child.returncode} before {what}:\n{self.errors}"
            assert time.monotonic() < deadline, f"not in {seconds_max:g} s: {what}. The mirror said:\n{self.errors}"
            time.sleep(_POLL_SECONDS)

    def finish(self, seconds_max: float = START_SECONDS_MAX) -> Ended:
        """Wait until it ends by itself."""
        return self._wait(self._started, seconds_max)

    def stop(self, seconds_max: float = STOP_SECONDS_MAX) -> Ended:
        """SIGTERM, and the clean end that must follow: in time, with status 0, without a traceback."""
        asked = time.monotonic()
        self._child.send_signal(signal.SIGTERM)
        ended = self._wait(asked, seconds_max)
        assert ended.status == 0, f"status {ended.status} after SIGTERM:\n{ended.errors}"
        assert "Traceback" not in ended.errors, ended.errors
        return ended

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._child.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL to the driver."""
        self._child.kill()
        self._child.wait()

    def _wait(self, since: float, seconds_max: float) -> Ended:
        seconds_max = max(seconds_max, DEADLINE_SECONDS_LEAST)
        try:
            status = self._child.wait(seconds_max)
        except subprocess.TimeoutExpired:
            self._child.send_signal(signal.SIGABRT)  # faulthandler writes where its threads stand
            self._child.wait()
            raise AssertionError(f"the mirror did not end in {seconds_max:g} s. It said:\n{self.errors}") from None
        return Ended(status, time.monotonic() - since, self.output, self.errors)

    def close(self) -> None:
        """Kill it if it runs; fails when any process of its tree is still there a moment later."""
        if self.running:
            self.kill()
        deadline = time.monotonic() + _VANISH_SECONDS_MAX
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        described = [f"{process.pid} {_command_of(process)[:120]}" for process in left]
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        assert not described, "processes outlived the mirror:\n  " + "\n  ".join(described)


class StartMirror(Protocol):
    """`start_mirror(text, *arguments)` starts `sparkmirror run` with a file of that text; see `conftest`."""

    def __call__(
        self,
        text: str,
        *arguments: str,
        program: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        before_start: Callable[[], None] | None = None,
    ) -> Mirror: ...


class MirrorOnce(Protocol):
    """`mirror_once(text)` is a whole bounded run, which must end well."""

    def __call__(self, text: str, *, before_start: Callable[[], None] | None = None) -> Ended: ...


class Verify(Protocol):
    """`verify(text, *arguments)` runs `sparkmirror verify` on a file of that text: its status, output and errors."""

    def __call__(self, text: str, *arguments: str) -> tuple[int, str, str]: ...


def _mark_of(process: psutil.Process) -> str:
    try:
        return str(process.environ().get(_MARK, "")) if process.status() != psutil.STATUS_ZOMBIE else ""
    except (psutil.Error, OSError):
        return ""


def _command_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
