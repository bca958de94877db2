"""How a worker of Spark reads and writes Arrow batches: on the thread that wants them, and small ones by one call.
Called by `spark.python_daemon`.

A flow with transforms that has caught up passes some hundred answers a second, and what a batch costs counts, not its
rows. Spark's pipelined workers (`spark.python.udf.pipelined.enabled`) read ahead on a thread of their own: each batch
wakes one thread more. And pyarrow writes a batch to a stream buffer by buffer: 28 to 47 calls for rows of
records.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, Final

import pyarrow as pa
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.util import PythonEvalType

from sparkmirror.pipeline.relay.schema import ROWS_PER_BATCH

_EVAL_TYPE_AT: Final = 2
"""Of the parameters of `pyspark.worker.read_udfs`."""
_FEW_ROWS: Final = 256
"""Of more rows the copy that a message is costs more than the calls."""


class _Unread:
    """Batches that their consumer reads from the stream."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.batches = batches


class OnDemand:
    """Reads nothing of a stream before it is asked for."""

    def __init__(self, reads: ArrowStreamSerializer) -> None:
        self._reads = reads

    def load_stream(self, stream: IO[bytes]) -> Iterator[_Unread]:
        yield _Unread(self._reads.load_stream(stream))


class WholeMessages(ArrowStreamSerializer):
    """Writes what `ArrowStreamSerializer` does, small batches in one call; those that come again and again are
    serialized once.

    Source: https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format
    """

    def __init__(self, *, write_start_stream: bool) -> None:
        super().__init__(write_start_stream=write_start_stream)
        self._full: pa.RecordBatch | None = None
        self._full_message = b""

    def dump_stream(self, iterator: Iterable[pa.RecordBatch], stream: IO[bytes]) -> None:
        batches = iter(iterator)
        if self._write_start_stream:
            batches = self._write_stream_start(batches, stream)
        writer = schema = None
        has_dictionaries = True
        try:
            for batch in batches:
                if writer is None:
                    schema = batch.schema
                    writer = pa.RecordBatchStreamWriter(stream, schema)
                    has_dictionaries = "dictionary" in str(schema)  # these are messages of their own
                    writer.write_batch(batch)
                elif has_dictionaries or batch.schema != schema or not self._write_at_once(batch, stream):
                    writer.write_batch(batch)  # which raises for another schema
                if self._flush_per_batch:
                    stream.flush()
        finally:
            if writer is not None:
                writer.close()

    def _write_at_once(self, batch: pa.RecordBatch, stream: IO[bytes]) -> bool:
        if batch.num_rows <= _FEW_ROWS:
            stream.write(batch.serialize())
            return True
        is_known = self._full is batch
        if not is_known:
            self._full, self._full_message = batch, b""
            return False
        if not self._full_message:
            self._full_message = batch.serialize().to_pybytes()
        stream.write(self._full_message)
        return True


class WrappedOnce:
    """`ArrowBatchTransformer.wrap_struct`, which makes one column of all, for a full batch that comes again and again:
    the padding behind a few rows."""

    def __init__(self, wrap: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        self._wrap = wrap
        self._full: tuple[pa.RecordBatch, pa.RecordBatch] | None = None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows != ROWS_PER_BATCH:
            return self._wrap(batch)
        if self._full is None or self._full[0] is not batch:
            self._full = batch, self._wrap(batch)
        return self._full[1]


def on_one_thread(read_udfs: Callable[..., Any]) -> Callable[..., Any]:
    """`pyspark.worker.read_udfs`, which returns a worker's function, its profiler, and how its rows are read and
    written; changed for functions of batches, as the ends of a data source are."""

    def read(*parts: Any) -> Any:
        made = function, profiler, reads, writes = read_udfs(*parts)
        if parts[_EVAL_TYPE_AT] != PythonEvalType.SQL_MAP_ARROW_ITER_UDF or type(writes) is not ArrowStreamSerializer:
            return made

        def call(split: int, unread: Iterator[_Unread]) -> Iterator[pa.RecordBatch]:
            batches = next(unread).batches
            yield from function(split, batches)
            for _ in batches:  # the next task finds the stream behind its end
                pass

        return call, profiler, OnDemand(reads), WholeMessages(write_start_stream=writes._write_start_stream)

    return read
