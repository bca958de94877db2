"""`sparkmirror demo` as a person runs it: it proves that source and target are equal, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from tests.oracle import DEADLINE_SECONDS_LEAST

DEMO = "import sys; from sparkmirror.cli.main import main; sys.exit(main())"
SECONDS_MAX = 200


class Demo:
    """The demo's process, its output, and every process that descended from it."""

    def __init__(self, process: subprocess.Popen[bytes], output_file: Path) -> None:
        self.process = process
        self.family: set[psutil.Process] = set()
        self._output_file = output_file

    @property
    def output(self) -> str:
        return self._output_file.read_text()

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not condition():
            with suppress(psutil.NoSuchProcess):
                self.family.update(psutil.Process(self.process.pid).children(recursive=True))
            assert time.monotonic() < deadline, f"not within {SECONDS_MAX} s: {what}\n{self.output}"
            time.sleep(0.05)

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def wait_until_empty(self, directory: Path) -> None:
        """Guards remove what is left of clusters a moment after the processes have ended."""
        self.wait(lambda: not list(directory.iterdir()), f"{directory} is empty")

    def survivors(self) -> list[psutil.Process]:
        return list(psutil.wait_procs(list(self.family), timeout=DEADLINE_SECONDS_LEAST)[1])


@contextmanager
def demo(directory: Path, *arguments: str) -> Iterator[Demo]:
    temporary = directory / "tmp"
    temporary.mkdir()
    output_file = directory / "output.txt"
    with output_file.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", DEMO, "demo", *arguments],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(temporary)}, cwd=directory,
        )  # fmt: skip
    running = Demo(process, output_file)
    try:
        yield running
    finally:
        for each in (process, *running.family):
            with suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()


def test_the_demo_finds_both_clusters_equal_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with demo(tmp_path, "--records", "3000", "--seconds", "4") as shown:
        shown.wait(shown.has_ended, "the end of the demo")
        survivors = shown.survivors()

    assert shown.process.returncode == 0, shown.output
    assert "A new topic on A: cancellations" in shown.output
    assert "its page is at http://127.0.0.1:" in shown.output
    assert "nothing was changed" in shown.output, "the drill"
    assert "departure-boards" in shown.output.partition("failover drill")[2], "the drill knows the group"
    assert "A->B: equal: " in shown.output, "verify"
    assert "Source and target are equal: " in shown.output
    assert "records in 5 topics." in shown.output
    assert len(shown.family) > 2, "two brokers and a mirror should have been seen"
    assert survivors == []
    shown.wait_until_empty(tmp_path / "tmp")


def test_a_demo_that_is_terminated_takes_its_brokers_and_its_mirror_along(tmp_path: Path) -> None:
    with demo(tmp_path, "--records", "3000") as shown:
        shown.wait(lambda: "sparkmirror run " in shown.output and len(shown.family) > 3, "the mirror's start")
        shown.process.send_signal(signal.SIGTERM)
        shown.wait(shown.has_ended, "the end of the demo")
        survivors = shown.survivors()

    assert shown.process.returncode == 130, shown.output
    assert survivors == []
    shown.wait_until_empty(tmp_path / "tmp")
