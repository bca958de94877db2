"""Runs integration tests of MirrorMaker 2 in a Java process, against the command that stands beside this Python."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.mm2suite.build import class_path
from tests.mm2suite.results import Outcome, Result

from sparkmirror.java import find_java
from sparkmirror.testing.process import QUICK_START

COMMAND = Path(sys.executable).with_name("connect-mirror-maker")
PATIENCE_MAX = 3
HEAP_MB = 1500
STOP_SECONDS_MAX = 200  # two processes of ours, which have 90 s each


def run_tests(tests: Sequence[str], patience: int, directory: Path) -> Iterator[Result]:
    """A result for each as soon as it is there. `directory` gets files, logs and `notes.log`.

    `patience` multiplies the tests' time limits.
    """
    with (directory / "java.log").open("ab") as log:
        child = subprocess.Popen(
            _command(tests, patience, directory), stdout=subprocess.PIPE, stderr=log, text=True, cwd=directory
        )
        try:
            assert child.stdout is not None
            yield from map(_result, child.stdout)
        finally:
            child.terminate()  # its shutdown hook ends the mirrors
            child.wait(STOP_SECONDS_MAX)


def _command(tests: Sequence[str], patience: int, directory: Path) -> list[str]:
    return [
        str(find_java()), *QUICK_START, f"-Xmx{HEAP_MB}m", f"-Djava.io.tmpdir={directory}",
        f"-Dsuite.command={COMMAND}", f"-Dsuite.directory={directory}", f"-Dsuite.patience={patience}",
        "-cp", class_path(), "sparkmirror.suite.Suite", *tests,
    ]  # fmt: skip


def _result(line: str) -> Result:
    told = json.loads(line)
    today = datetime.now(UTC).date().isoformat()
    return Result(told["test"], Outcome(told["outcome"]), told["said"], told["seconds"], today)
