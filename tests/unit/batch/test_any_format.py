"""Batches of magic 2 and older messages in one log."""

import pytest

from sparkmirror.batch.any_format import decode_alike, decode_each, first_offsets
from sparkmirror.batch.header import Codec
from sparkmirror.batch.headers import read_headers
from sparkmirror.batch.records import encode_batch
from sparkmirror.batch.unpacking import USUAL_BOUND
from sparkmirror.errors import ContentTooLarge, ProtocolError

NEW = encode_batch([(b"k", b"v")] * 3, Codec.LZ4)
LARGE = 1 << 20


def offsets(data: bytes, max_bytes: int = LARGE) -> list[list[int]]:
    return [one.offsets.tolist() for one in decode_each(memoryview(data), max_bytes=max_bytes, bound=USUAL_BOUND)]


def test_records_come_in_order_those_of_one_format_at_a_time(java_batches: dict[str, bytes]) -> None:
    later = encode_batch([(b"k", b"v")], base_offset=1013)
    found = offsets(NEW + java_batches["magic-0-gzip"] + later)
    assert found == [[0, 1, 2], [1000, 1003, 1010, 1012], [1013]]
    assert offsets(b"") == []


def test_a_compressed_message_may_hold_all_offsets_behind_the_batch_before(java_batches: dict[str, bytes]) -> None:
    data = memoryview(NEW + java_batches["magic-1-gzip"] + encode_batch([(b"k", b"v")], base_offset=1020))
    headers = read_headers(data, 0, len(data))
    assert first_offsets(headers).tolist() == [0, 3, 1020]
    assert first_offsets(headers.rows(1, 3)).tolist() == [0, 1020]
    assert first_offsets(read_headers(data, 0, 0)).tolist() == []
    columns, stop = decode_alike(data, headers, 1, enough_bytes=LARGE)
    assert (columns.offsets.tolist(), stop) == ([1000, 1003, 1010, 1012], 2)


def test_what_is_cut_off_goes_back_or_is_too_large_is_refused(java_batches: dict[str, bytes]) -> None:
    old = java_batches["magic-0-gzip"]
    with pytest.raises(ProtocolError, match="is damaged: it is cut off after 40 bytes"):
        offsets(NEW + old[:40])
    with pytest.raises(ProtocolError, match="at offset 1000 does not follow the one before it"):
        offsets(old + old)
    with pytest.raises(ContentTooLarge, match="from offset 0 on hold more than 300 bytes decompressed"):
        offsets(NEW + old, 300)
