"""A Spark standalone cluster of the installed pyspark on loopback, whose workers and executors may be killed."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
import pyspark
from tests.waiting import wait_until

from sparkmirror.testing.ports import PortReservation

LOOPBACK = "127.0.0.1"
LOCAL = {"SPARK_LOCAL_IP": LOOPBACK, "SPARK_PUBLIC_DNS": LOOPBACK}
_WORKERS_MAX = 4
_JOIN_SECONDS_MAX = 240
_QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
_EXECUTOR = "CoarseGrainedExecutorBackend"


class Standalone:
    """A master, and workers that are added; in a `with` block, which leaves nothing behind."""

    def __init__(
        self, directory: Path, *, environment: Mapping[str, str] = os.environ, java_options: Sequence[str] = ()
    ) -> None:
        self._directory = directory
        self._java_options = java_options
        self._environment = environment
        self._ports = PortReservation(_WORKERS_MAX + 1)
        self._master: _Daemon | None = None
        self.workers: list[_Daemon] = []

    def __enter__(self) -> Self:
        self._ports.__enter__()
        place = ["--host", LOOPBACK, "--port", str(self._ports.ports[0])]
        master = self._master = self._start("master", "master.Master", place)
        wait_until(lambda: "New state: ALIVE" in master.log, "the master serves", _JOIN_SECONDS_MAX)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for daemon in [*self.workers, *([self._master] if self._master else [])]:
            daemon.close()
        self._ports.__exit__(kind, error, at)

    @property
    def url(self) -> str:
        return f"spark://{LOOPBACK}:{self._ports.ports[0]}"

    def add_worker(self, *, cores: int = 1) -> None:
        """One that has joined when this returns."""
        master = self._master
        assert master is not None
        number = len(self.workers)
        name = f"worker-{number}"
        place = ["--host", LOOPBACK, "--port", str(self._ports.ports[number + 1])]
        room = ["--work-dir", str(self._directory / name), "--cores", str(cores), "--memory", f"{768 * cores}m"]
        self.workers.append(self._start(name, "worker.Worker", [*place, *room, self.url]))
        wait_until(
            lambda: master.log.count("Registering worker") > number, f"worker {number} has joined", _JOIN_SECONDS_MAX
        )

    def _start(self, name: str, main_class: str, arguments: Sequence[str]) -> "_Daemon":
        return _Daemon(self._directory, name, main_class, arguments, self._environment, self._java_options)


class _Daemon:
    """A master or a worker. A worker ends its executors, which end their Python workers, when it is told to end."""

    def __init__(
        self,
        directory: Path,
        name: str,
        main_class: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        java_options: Sequence[str],
    ) -> None:
        self._log = directory / f"{name}.log"
        home = Path(pyspark.__file__).parent
        java = [f"-Dspark.{part}.ui.port=0" for part in ("master", "worker")] + ["-Dspark.master.ui.enabled=false"]
        place = {**LOCAL, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"}
        main = ["-cp", f"{home}/jars/*", f"org.apache.spark.deploy.{main_class}"]
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(
                ["java", "-Xmx256m", *_QUICK_START, *java, *java_options, *main, *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory,
                env={**environment, **place}, start_new_session=True,
            )  # fmt: skip

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def executors(self) -> list[psutil.Process]:
        """The JVMs of its executors that live now."""
        children = psutil.Process(self._child.pid).children() if self._child.poll() is None else []
        return [child for child in children if _is_executor(child)]

    def kill(self) -> None:
        """As when its machine goes: the worker and all that it has started, at once."""
        tree = [psutil.Process(self._child.pid), *psutil.Process(self._child.pid).children(recursive=True)]
        for process in tree:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._child.wait()

    def close(self) -> None:
        self._child.terminate()
        try:
            self._child.wait(60)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def _is_executor(process: psutil.Process) -> bool:
    try:
        return any(_EXECUTOR in word for word in process.cmdline())
    except psutil.Error:  # it ends meanwhile
        return False
