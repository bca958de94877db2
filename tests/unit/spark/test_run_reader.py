"""What Spark is told of epochs: a process that joins others first runs one in which nothing happens."""

from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.flows import SMALLEST

from sparkmirror.batch.records import encode_batch
from sparkmirror.pipeline.relay.options import RunsOptions
from sparkmirror.pipeline.relay.schema import FLUSH, RECORD_SCHEMA, ROW_SCHEMA, RUN, TRAIL, Row, end_batch
from sparkmirror.planning.planner import Planner
from sparkmirror.spark.run_reader import FlowRecordsReader, KafkaRunsReader

TEXT = f"{SMALLEST}tasks.max = 3\n"


@dataclass
class FakePlanner:
    """A planner of a process that shares its flow; `has_tasks` is None while it was told nothing."""

    has_tasks: bool | None = None
    stopped: bool = False
    rests: int = 0
    begun: list[int] = field(default_factory=list)

    def end_epoch(self) -> None:
        """No thread looks for anything."""

    def is_stopped(self) -> bool:
        return self.stopped

    def has_work(self) -> bool:
        return bool(self.has_tasks)

    @property
    def is_told_to_wait(self) -> bool:
        return self.has_tasks is False and not self.stopped

    def back_off(self, seconds_max: float) -> None:
        assert seconds_max < 1
        self.rests += 1

    def positions(self) -> dict[str, dict[str, int]]:
        return {"orders": {"0": 7}}

    def begin_epoch(self, epoch: int) -> list[Any]:
        self.begun.append(epoch)
        return ["plan"]


def reader_of(planner: FakePlanner) -> KafkaRunsReader:
    reader = KafkaRunsReader(RunsOptions(TEXT, "A->B", "run", "process"))
    reader._planner = cast(Planner, planner)
    return reader


def test_a_process_without_tasks_rehearses_once_and_only_then_says_that_it_waits() -> None:
    planner = FakePlanner(has_tasks=False)
    reader, first = reader_of(planner), {"epoch": 0}
    rehearsed = reader.latestOffset(first, ReadAllAvailable())
    assert rehearsed["epoch"] == 1
    assert planner.rests == 0, "nobody is told yet"
    parts = reader.partitions(first, rehearsed)
    assert [part.value for part in parts] == [None] * 3, "Spark's workers take part"
    kinds = [row["kind"] for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    assert set(kinds) == {FLUSH, TRAIL}, "rows that mean nothing"
    assert planner.begun == [], "nothing is fenced"
    assert reader.latestOffset(rehearsed, ReadAllAvailable()) == rehearsed
    assert planner.rests == 1
    planner.has_tasks = True
    real = reader.latestOffset(rehearsed, ReadAllAvailable())
    assert real == {"epoch": 2, "positions": {"orders": {"0": 7}}}
    assert [part.value for part in reader.partitions(rehearsed, real)] == ["plan"]
    assert planner.begun == [2]


def test_a_process_that_is_given_tasks_at_once_begins_with_them() -> None:
    planner = FakePlanner(has_tasks=True)
    assert reader_of(planner).latestOffset({"epoch": 0}, ReadAllAvailable())["epoch"] == 1
    assert "rehearsal" not in reader_of(planner).latestOffset({"epoch": 0}, ReadAllAvailable())


def test_one_that_knows_nothing_yet_or_is_stopped_waits() -> None:
    for planner in (FakePlanner(), FakePlanner(has_tasks=False, stopped=True)):
        assert reader_of(planner).latestOffset({"epoch": 0}, ReadAllAvailable()) == {"epoch": 0}
        assert planner.rests == 1


def test_a_rehearsals_rows_have_the_columns_of_their_source() -> None:
    options = RunsOptions(TEXT, "A->B", "run", "process")
    for reader, schema in ((KafkaRunsReader(options), ROW_SCHEMA), (FlowRecordsReader(options), RECORD_SCHEMA)):
        (batch,) = reader.read(InputPartition(None))
        assert batch.schema == schema


def test_a_flow_with_transforms_rests_as_long_after_every_small_answer() -> None:
    """An answer costs it much more, whatever it brings."""
    options = RunsOptions(TEXT, "A->B", "run", "process")
    flow = options.flow()
    usual, other = (kind(options)._task_options(flow).limits for kind in (KafkaRunsReader, FlowRecordsReader))
    assert usual.rest_seconds < other.rest_seconds < 2 * usual.rest_seconds
    assert other.half_rest_bytes > 1000 * other.bytes_max > 1000 * usual.half_rest_bytes
    assert other.bytes_max == usual.bytes_max


def test_the_reader_of_records_leaves_out_of_json_what_no_step_reads() -> None:
    payload = encode_batch([(b"k", b'{"a": 1, "b": 2}')])
    run = Row(RUN, "orders", 1, 0, 1, bytes=len(payload), payload=payload)
    for told, left in (({"members": "b"}, b'{"b": 2}'), ({}, b'{"a": 1, "b": 2}')):
        options = RunsOptions.from_mapping({"config": TEXT, "flow": "A->B", **told})
        decode = FlowRecordsReader(options)._task_options(options.flow()).decode
        assert decode is not None
        many = [run] * 100  # of a few, each is looked at by itself
        rows = pa.Table.from_batches(decode(iter([end_batch(many)]), lambda *_: memoryview(b"")))
        assert rows.column("value").drop_null().unique().to_pylist() == [left]
