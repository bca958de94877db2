"""Fixtures of the scenarios: the shared clusters as clients name them, and mirrors that leave no process behind."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.oracle import Client
from tests.scenarios.mirror import COMMAND, Ended, Mirror, MirrorOnce, StartMirror, Verify

from sparkmirror.spark.cluster import SparkCluster
from sparkmirror.spark.session import launch_context
from sparkmirror.spark.warm_start import archive_options
from sparkmirror.testing.kafka import KafkaCluster


@pytest.fixture
def source(source_cluster: KafkaCluster) -> Client:
    """Reaches the shared source: for librdkafka and, as the names agree, for the mirror's file."""
    return {"bootstrap.servers": source_cluster.bootstrap_servers}


@pytest.fixture
def target(target_cluster: KafkaCluster) -> Client:
    """As `source`, the other end."""
    return {"bootstrap.servers": target_cluster.bootstrap_servers}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of a program without a mirror, which finds the data sources by itself."""
    context = launch_context(2, tmp_path_factory.mktemp("spark"), SparkCluster("local[2]"))
    try:
        yield SparkSession(context)
    finally:
        context.stop()


@pytest.fixture(scope="session")
def class_archive() -> None:
    """Made once for this machine, before any mirror: it is told when it is made, and takes 20 s."""
    archive_options()


@pytest.fixture
def start_mirror(tmp_path: Path, class_archive: None) -> Iterator[StartMirror]:
    """Mirrors that run until the test ends; one that leaves a process behind fails the test."""
    with ExitStack() as cleanup:

        def start(
            text: str,
            *arguments: str,
            program: Sequence[str] = (),
            environment: Mapping[str, str] | None = None,
            before_start: Callable[[], None] | None = None,
        ) -> Mirror:
            mirror = Mirror(
                tmp_path, text, arguments, program=program, environment=environment, before_start=before_start
            )
            cleanup.callback(mirror.close)
            return mirror

        yield start


@pytest.fixture
def mirror_once(start_mirror: StartMirror) -> MirrorOnce:
    """A bounded run as MirrorOnce says; a traceback in its output fails the test."""

    def run(text: str, *, before_start: Callable[[], None] | None = None) -> Ended:
        ended = start_mirror(text, "--once", before_start=before_start).finish()
        assert ended.status == 0, ended.errors
        assert "Traceback" not in ended.errors, ended.errors
        return ended

    return run


@pytest.fixture
def verify(start_mirror: StartMirror, tmp_path: Path) -> Verify:
    """`verify(text, *arguments)` runs the command on a file of that text: its exit status and output."""

    def run(text: str, *arguments: str) -> tuple[int, str, str]:
        file = tmp_path / "verify.properties"
        file.write_text(text)
        ended = start_mirror(text, *arguments, program=(str(COMMAND), "verify", str(file))).finish()
        assert "Traceback" not in ended.errors, ended.errors
        return ended.status, ended.output, ended.errors

    return run
