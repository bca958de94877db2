"""Append time that becomes the records' own, in place."""

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch
from tests.unit.batch.witnesses import ONE_MEBIBYTE, sealed, with_attributes

from sparkmirror.batch.append_time import settle_append_time
from sparkmirror.batch.header import (
    APPEND_TIME,
    ATTRIBUTES_AT,
    DELETE_HORIZON,
    HEADER_BYTES,
    Codec,
    parse_header,
    refusal,
)
from sparkmirror.batch.records import Record, decode_records, encode_batch

APPENDED_MS = 1_700_000_000_000
MAX_TIMESTAMP_AT = 35


def stamped(batch: bytes, appended_ms: int = APPENDED_MS) -> bytearray:
    """As a broker stamps it: bit and time stand in the header alone."""
    changed = bytearray(with_attributes(batch, APPEND_TIME))
    changed[MAX_TIMESTAMP_AT : MAX_TIMESTAMP_AT + 8] = appended_ms.to_bytes(8, "big", signed=True)
    return bytearray(sealed(changed))


def is_settled(batch: bytearray) -> bool:
    """In place; a batch that is not must be as it was."""
    before = bytes(batch)
    header = settle_append_time(memoryview(batch), parse_header(batch, 0))
    assert header is not None or batch == before
    assert header is None or header == parse_header(batch, 0)
    return header is not None


@given(
    records=st.lists(
        st.tuples(st.none() | st.binary(max_size=300), st.binary(max_size=3000), st.integers(0, 63)),
        min_size=1,
        max_size=16,
    ),
    produced=st.integers(0, 2**45),
    appended=st.integers(0, 2**45),
)
def test_the_records_have_the_time_and_are_otherwise_the_same(
    records: list[tuple[bytes | None, bytes, int]], produced: int, appended: int
) -> None:
    made = [Record(0, produced + later, key, value, ((b"h", b"1"),)) for key, value, later in records]
    batch = stamped(encode_batch(made, base_offset=40), appended)
    expected = decode_records(bytes(batch))
    assert is_settled(batch)
    assert decode_records(bytes(batch)) == expected
    assert {record.timestamp for record in expected} == {appended}
    header = parse_header(batch, 0)
    assert refusal(header, ONE_MEBIBYTE) is None
    assert DefaultRecordBatch(batch).validate_crc()
    assert header.base_timestamp == header.max_timestamp == appended


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_what_is_compressed_is_rebuilt(codec: Codec) -> None:
    assert not is_settled(stamped(encode_batch([(b"k", b"v")], codec)))


def test_a_batch_of_many_records_or_of_distant_times_is_rebuilt() -> None:
    assert is_settled(stamped(encode_batch([Record(0, 5, b"k", b"v")] * 16)))
    assert not is_settled(stamped(encode_batch([Record(0, 5, b"k", b"v")] * 17)))
    assert is_settled(stamped(encode_batch([Record(0, 5, b"k", b"v"), Record(1, 68, b"k", b"v")])))
    assert not is_settled(stamped(encode_batch([Record(0, 5, b"k", b"v"), Record(1, 69, b"k", b"v")])))
    assert not is_settled(stamped(encode_batch([(b"k", bytes(70_000))])))
    assert not is_settled(bytearray(with_attributes(bytes(stamped(encode_batch([(b"k", b"v")]))), DELETE_HORIZON)))
    assert not is_settled(stamped(encode_batch([(b"k", b"v")]), -1))


@pytest.mark.parametrize("times", [(5, 5), (5, 9)])
def test_what_is_damaged_stays_recognisably_so(times: tuple[int, int]) -> None:
    batch = stamped(encode_batch([Record(0, at, b"key", b"value") for at in times]))
    batch[-3] ^= 1
    is_settled(batch)
    assert google_crc32c.value(bytes(batch[ATTRIBUTES_AT:])) != parse_header(batch, 0).crc


def test_records_that_cannot_be_stepped_over_are_left_alone() -> None:
    whole = stamped(encode_batch([Record(0, 5, b"key", b"value"), Record(1, 5, b"key", b"value")]))
    for size in range(HEADER_BYTES, len(whole)):
        assert not is_settled(bytearray(sealed(whole[:size]))), "the last record is cut off"
    assert not is_settled(bytearray(sealed(whole + b"\0"))), "something follows the records"
    for length in (b"\x00", b"\x02", b"\x0f", b"\xff\xff\xff\xff\x7f", b"\xff" * 6):
        torn = bytearray(whole)
        torn[HEADER_BYTES : HEADER_BYTES + len(length)] = length
        assert not is_settled(bytearray(sealed(torn))), f"a record claims the length {length.hex()}"
