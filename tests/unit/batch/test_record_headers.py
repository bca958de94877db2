"""Headers between a record's bytes and Arrow's lists: order, repeated names, nulls and odd bytes survive."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batch.columns import HEADERS_START, decode
from sparkmirror.batch.record_headers import NO_HEADERS, decode_headers, encode_headers
from sparkmirror.batch.records import Record, encode_batch

HEADERS = st.lists(st.tuples(st.binary(max_size=6), st.none() | st.binary(max_size=200)), max_size=4)


@given(st.lists(HEADERS, max_size=6))
def test_what_is_decoded_is_encoded_to_the_same_bytes(records: list[list[tuple[bytes, bytes | None]]]) -> None:
    raw = [_as_written(headers) for headers in records]
    lists = decode_headers(pa.array(raw, pa.binary()))
    assert [len(headers) for headers in lists] == [len(headers) for headers in records]
    assert encode_headers(lists) == raw


def _as_written(headers: list[tuple[bytes, bytes | None]]) -> bytes:
    """By the codec that has no part in this: the bytes at the end of a record."""
    columns = decode(memoryview(encode_batch([Record(0, 0, None, None, tuple(headers))])), 0, _size(headers))
    start, length = int(columns.places[0, HEADERS_START]), int(columns.headers_lengths[0])
    return bytes(columns.content[start : start + length]) or NO_HEADERS


def _size(headers: list[tuple[bytes, bytes | None]]) -> int:
    return len(encode_batch([Record(0, 0, None, None, tuple(headers))]))


def test_a_slice_keeps_its_own_headers() -> None:
    raw = [_as_written([(b"a", b"1"), (b"b", None)]), NO_HEADERS, _as_written([(b"c", b"")])]
    lists = decode_headers(pa.array(raw, pa.binary()))
    assert encode_headers(lists.slice(1)) == raw[1:]


def test_an_absent_list_is_an_empty_one() -> None:
    lists = pa.array([None, [{"key": "a", "value": None}]], decode_headers(pa.array([], pa.binary())).type)
    assert encode_headers(lists)[0] == NO_HEADERS
