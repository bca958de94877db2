"""Transactional writes whose tasks Spark itself repeats, and whose program is killed: each row is committed once."""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.oracle import Client, read_topic
from tests.scenarios.data import make_topics, numbered, write

from sparkmirror.records.kafka_records import KafkaRecords
from sparkmirror.records.options import write_options
from sparkmirror.records.sink import RecordsWriter, Written
from sparkmirror.spark.cluster import SparkCluster
from sparkmirror.spark.session import launch_context

if TYPE_CHECKING:
    import pyarrow as pa

PROGRAM = Path(__file__).with_name("once_program.py")
MANY = 300

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A task may fail twice."""
    context = launch_context(2, tmp_path_factory.mktemp("spark"), SparkCluster("local[2,3]"))
    session = SparkSession(context)
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    try:
        yield session
    finally:
        context.stop()


def committed(client: Client, topic: str) -> Counter[bytes | None]:
    log = read_topic(client, topic, has_old_lz4=True)
    return Counter(one.value for records in log.values() for one in records)


def failing_source(name: str, flag: Path, *, after_rows: int) -> type[KafkaRecords]:
    """A source whose first task fails once: after so many Arrow batches, or with 0 when it has committed."""

    def fail_once(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for count, rows in enumerate(batches):
            if count == after_rows and after_rows and not flag.exists():
                flag.touch()
                raise ValueError("as asked")
            yield rows

    class Failing(RecordsWriter):
        def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
            context = TaskContext.get()
            if context is None or context.partitionId():
                return super().write(iterator)
            written = super().write(fail_once(iterator))
            if not after_rows and not flag.exists():
                flag.touch()
                raise ValueError("as asked")
            return written

    class Source(KafkaRecords):
        @classmethod
        def name(cls) -> str:
            return name

        def writer(self, schema: Any, overwrite: bool) -> RecordsWriter:
            return Failing(write_options(self.options, is_stream=False))

    return Source


@pytest.mark.parametrize(
    ("after_rows", "is_transactional"),
    [(4, True), (0, True), (0, False)],
    ids=["amid its rows", "when it has committed", "when it has written, at least once"],
)
def test_a_task_that_fails_and_is_repeated_has_its_rows_once(
    spark: SparkSession,
    target: Client,
    unique: Callable[[str], str],
    tmp_path: Path,
    after_rows: int,
    is_transactional: bool,
) -> None:
    """Rows are many enough that some were written before."""
    topic, name = unique("task"), unique("failing")
    make_topics(target, {topic: 2})
    spark.dataSource.register(failing_source(name, tmp_path / "failed", after_rows=after_rows))
    value = F.concat(F.col("id").cast("string"), F.lit("." * 60_000))
    frame = spark.range(0, 2 * MANY, 1, 2).select(value.alias("value"), F.col("id").cast("string").alias("key"))
    sink = {"kafka.bootstrap.servers": target["bootstrap.servers"], "topic": topic}
    sink |= {"kafka.transactional.id": unique("id")} if is_transactional else {}
    frame.write.format(name).mode("append").options(**sink).save()
    assert (tmp_path / "failed").exists()
    seen = committed(target, topic)
    assert len(seen) == 2 * MANY
    assert (set(seen.values()) == {1}) is is_transactional


@pytest.mark.parametrize("is_transactional", [True, False], ids=["in transactions", "at least once"])
def test_a_program_that_is_killed_before_spark_notes_its_micro_batch_has_each_record_once(
    source: Client, unique: Callable[[str], str], tmp_path: Path, is_transactional: bool
) -> None:
    topic, copy = unique("killed"), unique("copy")
    make_topics(source, {topic: 2, copy: 2})
    write(source, topic, numbered(0, MANY, partitions=2))
    name = unique("id") if is_transactional else ""
    command = [sys.executable, str(PROGRAM), source["bootstrap.servers"], topic, copy, str(tmp_path), name]
    first = subprocess.run(command, capture_output=True, timeout=200, check=False, start_new_session=True)
    assert first.returncode == -signal.SIGKILL, first.stderr[-3000:]
    assert sum(committed(source, copy).values()) == 200
    second = subprocess.run(command, capture_output=True, timeout=200, check=False, start_new_session=True)
    assert second.returncode == 0, second.stderr[-3000:]
    seen = committed(source, copy)
    assert len(seen) == MANY
    assert (set(seen.values()) == {1}) is is_transactional
