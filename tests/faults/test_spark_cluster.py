"""The same run on a Spark standalone cluster: a master and two workers of the installed pyspark, on loopback."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest
from tests.faults.numbered import wait_until
from tests.faults.story import Story

from sparkmirror.testing.ports import PortReservation

LOOPBACK = "127.0.0.1"
_LOCAL = {"SPARK_LOCAL_IP": LOOPBACK, "SPARK_PUBLIC_DNS": LOOPBACK}


@pytest.fixture
def spark_master(tmp_path: Path) -> Iterator[str]:
    """The URL of a standalone cluster of two workers with one core each."""
    with PortReservation(3) as reserved, ExitStack() as cleanup:
        port, *worker_ports = reserved.ports
        url = f"spark://{LOOPBACK}:{port}"
        master = _Daemon(tmp_path, "master", "master.Master", "--host", LOOPBACK, "--port", str(port))
        cleanup.callback(master.close)
        wait_until(lambda: "New state: ALIVE" in master.log, f"the master serves; it said {master.log}", 60)
        for number, worker_port in enumerate(worker_ports):
            name = f"worker-{number}"
            place = ["--host", LOOPBACK, "--port", str(worker_port), "--work-dir", str(tmp_path / name)]
            worker = _Daemon(tmp_path, name, "worker.Worker", *place, "--cores", "1", "--memory", "768m", url)
            cleanup.callback(worker.close)
        wait_until(lambda: master.log.count("Registering worker") == 2, "both workers have joined", 60)
        yield url


class _Daemon:
    """A master or a worker. A worker ends its executors, which end their Python workers, when it is told to end."""

    def __init__(self, directory: Path, name: str, main_class: str, *arguments: str) -> None:
        self._log = directory / f"{name}.log"
        home = Path(pyspark.__file__).parent
        java = [f"-Dspark.{part}.ui.port=0" for part in ("master", "worker")] + ["-Dspark.master.ui.enabled=false"]
        place = {**_LOCAL, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"}
        command = [
            "java",
            "-Xmx256m",
            *java,
            "-cp",
            f"{home}/jars/*",
            f"org.apache.spark.deploy.{main_class}",
            *arguments,
        ]
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory,
                env={**os.environ, **place}, start_new_session=True,
            )  # fmt: skip

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def close(self) -> None:
        self._child.terminate()
        try:
            self._child.wait(20)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def test_a_bounded_run_mirrors_on_the_executors_of_a_standalone_cluster(
    story: Story, spark_master: str, tmp_path: Path
) -> None:
    writer = story.writer()
    writer.write(5000)
    with story.run("--once", "--master", spark_master, environment={**os.environ, **_LOCAL}) as run:
        ended = run.finish(150)
        assert ended.status == 0, ended.errors
    for log in tmp_path.glob("worker-*.log"):
        assert log.read_text().count("Asked to launch executor") == 1, "one executor on each worker, which stayed alive"
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() == 0
