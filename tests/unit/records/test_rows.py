"""Decoded batches become the columns of Spark's Kafka connector, to the bit."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)
from tests.scenarios.odd_logs import sealed

from sparkmirror.batch.header import APPEND_TIME, Codec
from sparkmirror.batch.headers import read_headers
from sparkmirror.batch.part import Part
from sparkmirror.batch.records import Record, encode_batch
from sparkmirror.errors import ContentTooLarge
from sparkmirror.model import TopicPartition
from sparkmirror.records import rows
from sparkmirror.records.options import read_options
from sparkmirror.records.rows import SCHEMA, arrow_batches

WHERE = TopicPartition("orders", 3)
ODD = [
    Record(0, 1_700_000_000_123, b"k", b"v", ((b"a", b"1"), (b"a", None), (b"\xff", b""))),
    Record(1, -1, None, b""),
    Record(2, 5, b"", None),
]


def part_of(*batches: bytes) -> Part:
    data = b"".join(batches)
    headers = read_headers(memoryview(data), 0, len(data))
    return Part(memoryview(data), headers.table, int(headers.table[-1, 3]))


def table(part: Part, first: int, end: int) -> pa.Table:
    return pa.Table.from_batches(list(arrow_batches(part, WHERE, first, end)), SCHEMA)


def test_the_schema_is_what_spark_makes_of_it() -> None:
    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    kinds = {
        "key": BinaryType(), "value": BinaryType(), "topic": StringType(), "partition": IntegerType(),
        "offset": LongType(), "timestamp": TimestampType(), "timestampType": IntegerType(),
        "headers": ArrayType(header),
    }  # fmt: skip
    wanted = to_arrow_schema(StructType([StructField(name, kind) for name, kind in kinds.items()]), timezone="UTC")
    assert wanted.equals(SCHEMA)
    assert [column.split()[0].strip() for column in rows.DDL.split(", ")][:8] == SCHEMA.names


def test_null_and_empty_are_two_things_and_headers_keep_their_order() -> None:
    for codec in (Codec.NONE, Codec.LZ4):
        found = table(part_of(encode_batch(ODD, codec)), 0, 3)
        assert found.column("key").to_pylist() == [b"k", None, b""]
        assert found.column("value").to_pylist() == [b"v", b"", None]
        assert found.column("topic").to_pylist() == ["orders"] * 3
        assert found.column("partition").to_pylist() == [3] * 3
        assert found.column("offset").to_pylist() == [0, 1, 2]
        assert found.column("timestamp").cast(pa.int64()).to_pylist() == [1_700_000_000_123_000, -1000, 5000]
        assert found.column("timestampType").to_pylist() == [0, 0, 0]
        headers = found.column("headers").combine_chunks()
        assert [len(one) for one in headers] == [3, 0, 0]
        assert headers.values.field("value").to_pylist() == [b"1", None, b""]


def test_only_the_offsets_of_the_range_are_rows() -> None:
    part = part_of(encode_batch(ODD), encode_batch([Record(3, 0, None, b"x"), Record(4, 0, None, b"y")], base_offset=3))
    assert table(part, 1, 4).column("offset").to_pylist() == [1, 2, 3]


def test_what_the_broker_stamped_is_called_so() -> None:
    stamped = sealed(encode_batch([Record(3, 7, None, b"x")], base_offset=3), attributes=APPEND_TIME)
    found = table(part_of(encode_batch(ODD), stamped), 0, 4)
    assert found.column("timestampType").to_pylist() == [0, 0, 0, 1]


def test_a_time_that_spark_does_not_have_is_null() -> None:
    far = rows._timestamps(np.array([2**62, -(2**63), 0]))
    assert far.cast(pa.int64()).to_pylist() == [None, None, 0]


def test_a_batch_that_becomes_too_large_is_refused_by_the_option_that_takes_it() -> None:
    part = part_of(encode_batch([Record(at, 0, None, bytes(1 << 20)) for at in range(17)], Codec.LZ4))
    with pytest.raises(ContentTooLarge, match=f"{WHERE}: .*decompressed") as caught:
        list(arrow_batches(part, WHERE, 0, 17))
    assert "maxUnpackedBytes" in caught.value.hint
    given = {"kafka.bootstrap.servers": "b:1", "subscribe": "t", "maxunpackedbytes": str(18 << 20)}
    bound = read_options(given, is_stream=True).bound
    assert sum(batch.num_rows for batch in arrow_batches(part, WHERE, 0, 17, bound)) == 17
