"""How a worker of Spark reads and writes Arrow batches."""

import threading
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pyarrow as pa
import pytest
from pyspark.serializers import BatchedSerializer, CPickleSerializer
from pyspark.sql.conversion import ArrowBatchTransformer
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.util import PythonEvalType

from sparkmirror.pipeline.relay.schema import RECORD_SCHEMA, ROWS_PER_BATCH, padding, record_rows
from sparkmirror.spark.arrow_streams import WholeMessages, WrappedOnce, on_one_thread

BATCHES = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
PADDING = padding(RECORD_SCHEMA)


def numbered(first: int, count: int) -> pa.RecordBatch:
    values = {"kind": pa.array(["record"] * count), "offset": pa.array(range(first, first + count))}
    return record_rows(values | {"value": pa.array([b"v" * (at % 7) for at in range(count)])}, count)


ANSWERS = [
    numbered(0, 3), PADDING, numbered(3, 1), PADDING, numbered(4, 200), PADDING, numbered(204, 5000),
    numbered(5204, ROWS_PER_BATCH), numbered(6204, ROWS_PER_BATCH), PADDING, PADDING, numbered(7204, 0), PADDING,
]  # fmt: skip
"""A few rows, many, and none, with the same padding behind them, as the reader gives them."""


def written(batches: list[pa.RecordBatch], how: ArrowStreamSerializer) -> bytes:
    stream = BytesIO()
    how.dump_stream(iter(batches), stream)
    return stream.getvalue()


def double(split: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield numbered(2 * batch.column("offset")[0].as_py() + split, 1)


def made(function: Any = double) -> Any:
    arrow = ArrowStreamSerializer(write_start_stream=True)
    return on_one_thread(lambda *_: (function, None, arrow, arrow))("pickles", "udfs", BATCHES)


def test_what_is_written_is_to_the_byte_what_arrow_writes() -> None:
    assert written(ANSWERS, WholeMessages(write_start_stream=False)) == written(ANSWERS, ArrowStreamSerializer())
    with_start = written(ANSWERS, WholeMessages(write_start_stream=True))
    assert with_start == written(ANSWERS, ArrowStreamSerializer(write_start_stream=True))


def test_what_is_wrapped_in_one_column_is_written_so_too() -> None:
    wrap, once = ArrowBatchTransformer.wrap_struct, WrappedOnce(ArrowBatchTransformer.wrap_struct)
    wrapped = [once(batch) for batch in ANSWERS]
    assert all(one.equals(wrap(batch)) for one, batch in zip(wrapped, ANSWERS, strict=True))
    usual = written([wrap(batch) for batch in ANSWERS], ArrowStreamSerializer())
    assert written(wrapped, WholeMessages(write_start_stream=False)) == usual


def test_padding_that_follows_padding_is_wrapped_once() -> None:
    once = WrappedOnce(ArrowBatchTransformer.wrap_struct)
    assert once(PADDING) is once(PADDING)
    assert once(numbered(0, ROWS_PER_BATCH)) is not once(PADDING)


def test_columns_with_dictionaries_are_left_to_arrow() -> None:
    batches = [
        pa.record_batch([pa.array(words).dictionary_encode()], ["word"])
        for words in (["a", "b"], ["b", "b"], ["c"] * 300, ["d"])
    ]
    stream = BytesIO(written(batches, WholeMessages(write_start_stream=False)))
    assert [batch.to_pydict() for batch in pa.ipc.open_stream(stream)] == [batch.to_pydict() for batch in batches]


def test_a_batch_of_other_columns_than_the_first_is_refused_as_arrow_does() -> None:
    with pytest.raises(pa.ArrowInvalid, match="different schema"):
        written([numbered(0, 3), pa.record_batch([pa.array([1])], ["other"])], WholeMessages(write_start_stream=False))


def test_every_batch_goes_out_at_once_where_spark_asks_for_it() -> None:
    class Stream(BytesIO):
        def __init__(self) -> None:
            super().__init__()
            self.flushed: list[int] = []

        def flush(self) -> None:
            self.flushed.append(len(self.getvalue()))

    stream, serializer = Stream(), WholeMessages(write_start_stream=True)
    serializer._flush_per_batch = True  # as Spark's worker does
    serializer.dump_stream(iter(ANSWERS), stream)
    sizes = [
        len(written(ANSWERS[:count], ArrowStreamSerializer(write_start_stream=True)))
        for count in range(1, len(ANSWERS) + 1)
    ]
    end_of_stream = 8
    assert stream.flushed == [size - end_of_stream for size in sizes]


def test_a_function_of_batches_reads_them_on_its_own_thread_and_none_before_it_asks() -> None:
    asked: list[tuple[str, int]] = []

    class Stream(BytesIO):
        def read(self, *size: Any) -> bytes:
            asked.append((threading.current_thread().name, self.tell()))
            return super().read(*size)

    stream = Stream(written([numbered(at, 1) for at in range(3)], ArrowStreamSerializer()))
    function, profiler, reads, writes = made()
    ahead: list[Any] = []
    thread = threading.Thread(target=lambda: ahead.extend(reads.load_stream(stream)), name="reads ahead")
    thread.start()
    thread.join(10)
    assert not asked
    assert [batch.column("offset")[0].as_py() for batch in function(1, iter(ahead))] == [1, 3, 5]
    assert {name for name, _ in asked} == {threading.current_thread().name}
    assert profiler is None
    assert isinstance(writes, WholeMessages) and writes._write_start_stream


def test_what_a_function_leaves_unread_is_read_to_its_end() -> None:
    def first_only(_: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield next(batches)

    stream = BytesIO(written([numbered(at, 1) for at in range(3)], ArrowStreamSerializer()) + b"next")
    function, _, reads, _ = made(first_only)
    assert len(list(function(0, reads.load_stream(stream)))) == 1
    assert stream.read() == b"next"


def test_an_error_of_the_function_is_raised_as_it_is() -> None:
    def broken(_: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield next(batches)
        raise ValueError("no more")

    stream = BytesIO(written([numbered(0, 1)], ArrowStreamSerializer()))
    function, _, reads, _ = made(broken)
    with pytest.raises(ValueError, match="no more"):
        list(function(0, reads.load_stream(stream)))


@pytest.mark.parametrize("eval_type", [PythonEvalType.SQL_SCALAR_ARROW_UDF, PythonEvalType.SQL_BATCHED_UDF])
def test_other_functions_stay_as_they_are(eval_type: int) -> None:
    rows = BatchedSerializer(CPickleSerializer(), 100)
    parts: tuple[Any, ...] = (double, None, rows, rows)
    assert on_one_thread(lambda *_: parts)("pickles", "udfs", eval_type) is parts
