"""Transactional writes of Spark programs: what a repeated task has committed already comes no second time.

A micro-batch is repeated when Spark did not get to note in the checkpoint that it is done. That state is made by taking
this note away: all that the micro-batch has written is there, as after a kill at that moment.
"""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.oracle import Client, assert_same, read_topic
from tests.scenarios.data import make_topics, numbered, write

COUNT = 400
Step = Callable[[DataFrame], DataFrame]


class Program:
    """A stream that copies a topic of two partitions in micro-batches, as often as it is started."""

    def __init__(self, spark: SparkSession, source: Client, target: Client, name: str, checkpoint: Path) -> None:
        self.spark, self.source, self.target = spark, source, target
        self.topic, self.copy, self.checkpoint = name, f"{name}-copy", checkpoint
        self.copy_option = self.copy
        self.transactional_id = f"{name}-id"
        make_topics(source, {self.topic: 2})
        make_topics(target, {self.copy: 2})
        write(source, self.topic, numbered(0, COUNT, partitions=2))

    def run(self, step: Step = lambda rows: rows, name: str = "kafka-records", **more: str) -> None:
        """To the end of the topic, by the source of that name. `more` are options of the read."""
        start = {"subscribe": self.topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "200"} | more
        rows = self.spark.readStream.format(name).options(**_options(self.source, **start)).load()
        sink = _options(self.target, **({"topic": self.copy} if self.copy_option else {}))
        if self.transactional_id:
            sink["kafka.transactional.id"] = self.transactional_id
        writer = step(rows).writeStream.format(name).options(**sink, checkpointLocation=str(self.checkpoint))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination(120)
        finally:
            query.stop()

    def forget_last(self) -> None:
        """Spark has not noted that the last micro-batch is done."""
        notes = sorted((self.checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
        notes[-1].unlink()
        (notes[-1].parent / f".{notes[-1].name}.crc").unlink(missing_ok=True)

    def assert_each_came_once(self) -> None:
        assert_same(read_topic(self.source, self.topic), _committed(self.target, self.copy), self.topic)

    def assert_each_came_once_in_any_order(self) -> None:
        """Tasks that share a partition write side by side."""
        came, sent = _committed(self.target, self.copy), read_topic(self.source, self.topic)
        assert {at: Counter(log) for at, log in came.items()} == {at: Counter(log) for at, log in sent.items()}

    def repeats(self) -> int:
        values = Counter(one.value for log in _committed(self.target, self.copy).values() for one in log)
        return sum(times - 1 for times in values.values())


def _options(client: Client, **more: str) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in client.items()} | more


def _committed(client: Client, topic: str) -> Any:
    """Without the second client, which sees what was aborted, too."""
    return read_topic(client, topic, has_old_lz4=True)


@pytest.fixture
def program(
    spark: SparkSession, source: Client, target: Client, unique: Callable[[str], str], tmp_path: Path
) -> Program:
    return Program(spark, source, target, unique("once"), tmp_path / "checkpoint")


@pytest.mark.parametrize("name", ["kafka-records", "kafka-runs"])
def test_a_micro_batch_that_is_repeated_comes_once(program: Program, name: str) -> None:
    program.run(name=name)
    program.forget_last()
    write(program.source, program.topic, numbered(COUNT, COUNT + 50, partitions=2))
    program.run(name=name)
    program.assert_each_came_once()


def test_without_a_transactional_id_it_comes_twice(program: Program) -> None:
    program.transactional_id = ""
    program.run()
    program.forget_last()
    program.run()
    assert program.repeats() == 200


@pytest.mark.long
def test_what_another_query_of_the_same_id_has_committed_hides_nothing(program: Program, tmp_path: Path) -> None:
    """It came further, and to other partitions."""
    program.run(maxOffsetsPerTrigger="100")
    program.copy = f"{program.topic}-again"
    make_topics(program.target, {program.copy: 2})
    program.checkpoint = tmp_path / "another"
    for _ in range(2):
        program.run()
        program.forget_last()
    program.assert_each_came_once()


@pytest.mark.long
@pytest.mark.parametrize("name", ["kafka-records", "kafka-runs"])
def test_the_topic_may_be_a_column(program: Program, name: str) -> None:
    copy, program.copy_option = program.copy, ""
    for _ in range(2):
        program.run(lambda rows: rows.withColumn("topic", F.lit(copy)), name=name)
        program.forget_last()
    program.assert_each_came_once()


def test_a_task_that_fails_leaves_nothing_and_the_others_write_nothing_twice(program: Program, tmp_path: Path) -> None:
    """The task of partition 1 fails behind its first records; that of partition 0 may have committed by then."""
    mended = tmp_path / "mended"

    def step(rows: DataFrame) -> DataFrame:
        @F.udf("binary")  # type: ignore[untyped-decorator]
        def fails(value: bytes, partition: int, offset: int) -> bytes:
            if partition == 1 and offset == 90 and not mended.exists():
                raise ValueError("the task fails")
            return value

        return rows.withColumn("value", fails("value", "partition", "offset"))

    with pytest.raises(Exception, match="the task fails"):
        program.run(step)
    assert not _committed(program.target, program.copy)[1], "nothing of the failed task is committed"
    mended.touch()
    program.run(step)
    program.assert_each_came_once()


def test_other_rows_than_were_committed_are_refused(program: Program) -> None:
    program.run()
    program.forget_last()
    with pytest.raises(Exception, match=r"has committed 100 rows of micro-batch 1 .* or has other rows"):
        program.run(lambda rows: rows.withColumn("value", F.concat("value", F.lit("!"))))
    program.assert_each_came_once()


@pytest.mark.long
def test_a_micro_batch_that_is_split_otherwise_is_refused(program: Program) -> None:
    program.run(minPartitions="8")
    program.forget_last()
    with pytest.raises(Exception, match=r"has committed 25 rows of micro-batch 1 .* its task has 100 rows"):
        program.run()
    program.run(minPartitions="8")
    program.assert_each_came_once_in_any_order()


@pytest.mark.long
def test_rows_of_tasks_that_are_no_more_are_noticed(program: Program) -> None:
    """Only tasks had committed of which the repeated micro-batch has none."""
    program.run(lambda rows: rows.where("partition = 1"))
    program.forget_last()
    with pytest.raises(Exception, match=r"has committed 100 rows of micro-batch 1 .* has 1 tasks"):
        program.run(lambda rows: rows.coalesce(1))


def test_a_task_without_rows_whose_rows_were_committed_is_noticed(program: Program) -> None:
    program.run(lambda rows: rows.where("partition = 0"))
    program.forget_last()
    with pytest.raises(Exception, match=r"has committed 100 rows of micro-batch 1 .* has no rows of micro-batch 1"):
        program.run(lambda rows: rows.where("partition = 1"))


def test_a_batch_write_is_committed_each_time_it_is_made(program: Program) -> None:
    rows = (
        program.spark.read.format("kafka-records").options(**_options(program.source, subscribe=program.topic)).load()
    )
    sink = _options(program.target, topic=program.copy) | {"kafka.transactional.id": program.transactional_id}
    for times in (1, 2):
        rows.write.format("kafka-records").mode("append").options(**sink).save()
        assert program.repeats() == (times - 1) * COUNT, "each write has a name of its own"
    wrong = sink | {"kafka.transaction.timeout.ms": "1000000000"}
    with pytest.raises(Exception, match=re.escape("transaction.max.timeout.ms is smaller")):
        rows.write.format("kafka-records").mode("append").options(**wrong).save()
