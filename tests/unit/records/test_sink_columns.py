"""Rows become records: to the bit, with their time, and where they ask to go or their key says."""

import pyarrow as pa
import pytest

from sparkmirror.batch.columns import Columns
from sparkmirror.batch.encoding import encode
from sparkmirror.batch.header import Codec
from sparkmirror.batch.records import Record, decode_records
from sparkmirror.errors import ClusterError, ConfigError
from sparkmirror.model import TopicPartition
from sparkmirror.policy.partitioner import murmur2_partition
from sparkmirror.records.sink_columns import Placement, check_columns, records_of

NOW = 1_700_000_000_000
HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])


def rows(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def decoded(records: Columns) -> list[Record]:
    (piece,) = encode(records, Codec.NONE, 1 << 20)
    return decode_records(piece.data)


def lanes(batch: pa.RecordBatch, topic: str = "", partitions: int = 4) -> dict[TopicPartition, list[bytes | None]]:
    placement = Placement(topic, lambda _: partitions)
    found = placement.lanes(batch, records_of(batch, NOW))
    return {where: [one.value for one in decoded(lane)] for where, lane in found}


def test_key_value_headers_and_time_are_kept() -> None:
    headers = pa.array([[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None, []], pa.list_(HEADER))
    times = pa.array([5_000_000, None, -1000], pa.timestamp("us", tz="Europe/Paris"))
    batch = rows(key=pa.array([b"k", None, b""]), value=pa.array([None, b"", b"v"]), headers=headers, timestamp=times)
    assert decoded(records_of(batch, NOW)) == [
        Record(0, 5000, b"k", None, ((b"a", b"1"), (b"a", None))),
        Record(1, NOW, None, b""),
        Record(2, -1, b"", b"v"),
    ]


@pytest.mark.parametrize("header", [None, {"key": None, "value": b"1"}])
def test_a_header_without_a_name_is_refused(header: object) -> None:
    headers = pa.array([None, [{"key": "a", "value": None}, header]], pa.list_(HEADER))
    with pytest.raises(ClusterError, match="a header without a name: in its column `headers`, a `key` is null"):
        records_of(rows(value=pa.array([b"1", b"2"]), headers=headers), NOW)


def test_text_is_written_as_its_bytes() -> None:
    batch = rows(value=pa.array(["ä", None]))
    assert decoded(records_of(batch, NOW)) == [Record(0, NOW, None, "ä".encode()), Record(1, NOW, None, None)]


def test_rows_that_are_a_slice_are_read_from_where_they_begin() -> None:
    headers = pa.array([[{"key": "a", "value": b"1"}], [{"key": "b", "value": b"2"}]], pa.list_(HEADER))
    batch = rows(value=pa.array([b"one", b"two"]), headers=headers).slice(1)
    assert decoded(records_of(batch, NOW)) == [Record(0, NOW, None, b"two", ((b"b", b"2"),))]


def test_a_record_goes_where_its_row_says_and_else_where_its_key_says() -> None:
    batch = rows(
        topic=pa.array(["a", "b", "a", "a"]), partition=pa.array([2, None, None, 2], pa.int32()),
        key=pa.array([None, b"k", b"key", None]), value=pa.array([b"1", b"2", b"3", b"4"]),
    )  # fmt: skip
    assert lanes(batch) == {
        TopicPartition("a", 2): [b"1", b"4"],
        TopicPartition("a", murmur2_partition(b"key", 4)): [b"3"],
        TopicPartition("b", murmur2_partition(b"k", 4)): [b"2"],
    }
    assert {where.topic for where in lanes(batch, topic="c")} == {"c"}, "the option overrides the column"


def test_records_without_a_key_are_dealt_out_in_large_parts() -> None:
    batch = rows(value=pa.array([b"%d" % at for at in range(2000)]))
    dealt = lanes(batch, topic="t")
    assert [len(values) for values in dealt.values()] == [500] * 4
    assert len(lanes(batch.slice(0, 10), topic="t")) == 1


def test_what_has_no_place_is_refused() -> None:
    with pytest.raises(ClusterError, match="asks for partition 4 of topic t, which has 4"):
        lanes(rows(value=pa.array([b"v"]), partition=pa.array([4], pa.int32())), topic="t")
    with pytest.raises(ClusterError, match="asks for partition -1 of topic t"):
        lanes(rows(value=pa.array([b"v"]), partition=pa.array([-1], pa.int32())), topic="t")
    with pytest.raises(ClusterError, match="its column `topic` is null"):
        lanes(rows(value=pa.array([b"v"]), topic=pa.array([None], pa.string())))


def test_a_topic_whose_name_is_no_text_is_a_sentence() -> None:
    names = pa.array([b"orders", b"a\xff"]).view(pa.string())
    with pytest.raises(ClusterError, match=r"has the topic b'a\\xff', which is no text"):
        lanes(rows(value=pa.array([b"1", b"2"]), topic=names))


@pytest.mark.parametrize(
    ("columns", "topic", "said"),
    [
        ([("key", "binary")], "t", "needs the column `value`"),
        ([("value", "binary")], "", "needs the option `topic`, or a column"),
        ([("value", "int")], "t", "The column `value` is int, and is to be binary or string"),
        ([("value", "string"), ("timestamp", "bigint")], "t", "`timestamp` is bigint, and is to be timestamp"),
        ([("value", "string"), ("name", "string")], "t", "A Kafka record has no `name`"),
    ],
)
def test_columns_that_are_no_record_are_refused(columns: list[tuple[str, str]], topic: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_columns(columns, topic)


def test_what_a_read_gives_can_be_written() -> None:
    header = "array<struct<key:string,value:binary>>"
    read = {"key": "binary", "value": "binary", "topic": "string", "partition": "int", "offset": "bigint"}
    check_columns([*read.items(), ("timestamp", "timestamp"), ("timestampType", "int"), ("headers", header)], "")
