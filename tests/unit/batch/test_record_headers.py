"""Headers between a record's bytes and Arrow's lists: order, repeated names, nulls and odd bytes survive."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batch.arrow_content import decode_headers
from sparkmirror.batch.columns import HEADERS_START, Columns, decode
from sparkmirror.batch.record_headers import HEADER_TYPE, NO_HEADERS, encode_headers, split_headers
from sparkmirror.batch.records import Record, encode_batch

Headers = list[tuple[bytes, bytes | None]]
HEADERS = st.lists(st.tuples(st.binary(max_size=200), st.none() | st.binary(max_size=200)), max_size=70)


def columns_of(records: list[Headers]) -> Columns:
    """By the codec that has no part in this."""
    batch = encode_batch([Record(at, 0, b"k", b"v", tuple(headers)) for at, headers in enumerate(records)])
    return decode(memoryview(batch), 0, len(batch))


def written(columns: Columns) -> list[bytes]:
    """The bytes at the end of each record."""
    places = zip(columns.places[:, HEADERS_START].tolist(), columns.headers_lengths.tolist(), strict=True)
    return [bytes(columns.content[start : start + length]) or NO_HEADERS for start, length in places]


@given(st.lists(HEADERS, min_size=1, max_size=6))
def test_what_is_decoded_is_what_was_there_and_is_encoded_to_the_same_bytes(records: list[Headers]) -> None:
    columns = columns_of(records)
    lists = decode_headers(columns)
    assert encode_headers(lists) == written(columns)
    keys, values = lists.values.field("key").cast(pa.binary()), lists.values.field("value")
    found = zip(keys.to_pylist(), values.to_pylist(), strict=True)
    assert list(found) == [header for headers in records for header in headers]
    assert [split_headers(data) for data in written(columns)] == records


def test_a_slice_keeps_its_own_headers() -> None:
    columns = columns_of([[(b"a", b"1"), (b"b", None)], [], [(b"c", b"")]])
    assert encode_headers(decode_headers(columns).slice(1)) == written(columns)[1:]
    assert encode_headers(decode_headers(columns.rows(1, 3))) == written(columns)[1:]


def test_an_absent_list_is_an_empty_one() -> None:
    lists = pa.array([None, [{"key": "a", "value": None}]], pa.list_(HEADER_TYPE))
    assert encode_headers(lists)[0] == NO_HEADERS
