"""Gives rows of Python UDFs from one thread of a worker to the other by a hundred at once. Called by
`spark.python_daemon`.

Spark's workers read ahead on a thread of their own (`spark.python.udf.pipelined.enabled`). What they pass on one by one
are batches of an Arrow UDF, but rows of a Python UDF, though these have come pickled by the hundred. That costs each
row 9 µs; its share of a hundred costs 0.1.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from pyspark.serializers import BatchedSerializer


class Hundreds:
    """Reads what `rows` reads, without taking it apart."""

    def __init__(self, rows: BatchedSerializer) -> None:
        self._rows = rows

    def load_stream(self, stream: Any) -> Iterator[list[Any]]:
        batches: Iterator[list[Any]] = self._rows.serializer.load_stream(stream)
        return batches


def by_hundreds(read_udfs: Callable[..., Any]) -> Callable[..., Any]:
    """`pyspark.worker.read_udfs`, which returns a worker's function, its profiler, and how its rows are read and
    written."""

    def read(*parts: Any) -> Any:
        made = function, profiler, reads, writes = read_udfs(*parts)
        if type(reads) is not BatchedSerializer:
            return made
        return lambda split, batches: function(split, chain.from_iterable(batches)), profiler, Hundreds(reads), writes

    return read
