"""How a worker reads the rows of a Python UDF."""

from collections.abc import Iterator
from io import BytesIO
from typing import Any

from pyspark.serializers import BatchedSerializer, CPickleSerializer
from pyspark.sql.pandas.serializers import ArrowStreamSerializer

from sparkmirror.spark.python_udfs import by_hundreds


def doubled(split: int, rows: Iterator[int]) -> Iterator[int]:
    return (2 * row + split for row in rows)


def test_rows_of_a_python_udf_are_read_as_they_were_sent_and_go_through_it_one_by_one() -> None:
    rows = BatchedSerializer(CPickleSerializer(), 100)
    stream = BytesIO()
    rows.dump_stream(iter(range(250)), stream)
    function, profiler, reads, writes = by_hundreds(lambda *_: (doubled, None, rows, rows))("pickles", "udfs")
    stream.seek(0)
    sent = list(reads.load_stream(stream))
    assert [len(batch) for batch in sent] == [100, 100, 50]
    assert list(function(1, iter(sent))) == [2 * row + 1 for row in range(250)]
    assert (profiler, writes) == (None, rows)


def test_batches_of_an_arrow_udf_stay_as_they_are() -> None:
    made: tuple[Any, ...] = (doubled, None, ArrowStreamSerializer(), ArrowStreamSerializer())
    assert by_hundreds(lambda *_: made)("pickles") is made
