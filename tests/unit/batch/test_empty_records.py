"""Empty records are records like any other, with a key that compacted topics take."""

import pytest

from sparkmirror.batch.empty_records import RECORDS_MAX, encode_empty, is_empty
from sparkmirror.batch.header import HEADER_BYTES, parse_header
from sparkmirror.batch.records import Record, decode_records, encode_batch


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8191, 8192, 8193, 20_000])
def test_each_has_an_empty_key_and_value_and_its_own_offset(count: int) -> None:
    batch = encode_empty(count, 1_700_000_000_000)
    assert decode_records(batch) == [Record(at, 1_700_000_000_000, b"", b"") for at in range(count)]
    assert parse_header(batch, 0).last_offset_delta == count - 1


def test_the_last_varint_of_three_bytes_is_the_largest_batch() -> None:
    records = decode_records(encode_empty(RECORDS_MAX, 0))
    assert (records[-1].offset, len(records)) == (RECORDS_MAX - 1, RECORDS_MAX)
    for wrong in (0, RECORDS_MAX + 1):
        with pytest.raises(ValueError, match="empty records"):
            encode_empty(wrong, 0)


def test_they_are_recognised_and_nothing_else_is() -> None:
    batch, other = encode_empty(5, 0), encode_batch([(b"", b"")] * 4 + [(b"", b"x")])
    assert is_empty(memoryview(batch)[HEADER_BYTES:], 5)
    assert not is_empty(memoryview(batch)[HEADER_BYTES:], 4)
    assert not is_empty(memoryview(other)[HEADER_BYTES:], 5)
