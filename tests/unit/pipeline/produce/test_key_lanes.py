"""Records go to partitions by key as Java's producer sends them, each key's in order."""

from collections import defaultdict

import pytest

from sparkmirror.batch.columns import Columns, decode
from sparkmirror.batch.header import Codec
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.pipeline.produce.record_pieces import BATCH_BYTES_MAX, encode_lanes, partitions_by_key
from sparkmirror.policy.partitioner import murmur2_partition

KEYLESS = 5
COUNT = 3


def records(count: int, value_bytes: int = 0) -> list[Record]:
    """Seven keys, one of them empty, every eighth record without; half with headers, all with times of their own."""
    return [
        Record(
            offset=at,
            timestamp=10**12 + at * 7 % 5,
            key=None if at % 8 == 7 else b"key" * (at % 7),
            value=None if at % 11 == 3 else f"{at}".encode().ljust(value_bytes),
            headers=((b"n", str(at).encode()), (b"n", None)) if at % 2 else (),
        )
        for at in range(count)
    ]


def columns_of(wanted: list[Record], codec: Codec = Codec.NONE) -> Columns:
    batch = encode_batch(wanted, codec)
    return decode(memoryview(bytearray(batch)), 0, len(batch))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_every_record_arrives_whole_where_its_key_belongs_and_in_order(codec: Codec) -> None:
    wanted = records(500)
    columns = columns_of(wanted, codec)
    arrived: dict[int, list[Record]] = defaultdict(list)
    for target, piece in encode_lanes(columns, partitions_by_key(columns, KEYLESS, COUNT), "orders", codec):
        assert target.topic == "orders"
        arrived[target.partition] += decode_records(bytes(piece.data))
        assert sum(span.records for span in piece.spans) == piece.records

    def belongs_to(record: Record) -> int:
        return KEYLESS % COUNT if record.key is None else murmur2_partition(record.key, COUNT)

    assert sorted(arrived) == sorted({belongs_to(record) for record in wanted})
    for partition, found in arrived.items():
        expected = [record for record in wanted if belongs_to(record) == partition]
        assert [content(record) for record in found] == [content(record) for record in expected]


def content(record: Record) -> tuple[object, ...]:
    return record.key, record.value, record.headers, record.timestamp


def test_a_record_that_is_larger_than_a_batch_should_be_goes_alone_between_the_others() -> None:
    small = records(3, 10)
    large = Record(3, 10**12, b"", b"x" * (BATCH_BYTES_MAX + 1))
    columns = columns_of([*small, large, Record(4, 10**12, b"", b"last")])
    pieces = list(encode_lanes(columns, partitions_by_key(columns, 0, 1), "orders", Codec.NONE))
    assert [piece.records for _, piece in pieces] == [3, 1, 1]


def test_without_a_record_there_is_no_batch() -> None:
    columns = columns_of(records(1)).rows(1, 1)
    assert not list(encode_lanes(columns, partitions_by_key(columns, 0, COUNT), "orders", Codec.NONE))
