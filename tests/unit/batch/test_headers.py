"""Headers as columns: the same as one by one, for any bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.batch.witnesses import numbered_from, with_attributes

from sparkmirror.batch.header import APPEND_TIME, CONTROL, DELETE_HORIZON, MAGIC, Codec, iterate_headers, refusal
from sparkmirror.batch.headers import read_headers
from sparkmirror.batch.records import Record, encode_batch
from sparkmirror.errors import ProtocolError

BATCH = encode_batch([Record(0, 1_700_000_000_000, b"key", b"value"), Record(1, -1, None, None)])
KINDS = [
    BATCH,
    encode_batch([(None, bytes(400))] * 3, Codec.ZSTD),
    with_attributes(BATCH, APPEND_TIME),
    with_attributes(BATCH, DELETE_HORIZON),
    with_attributes(BATCH, CONTROL),
    BATCH[:23] + (9).to_bytes(4, "big") + BATCH[27:],
]


def one_by_one(data: bytes, stop: int) -> list[tuple[int, ...]]:
    """The rows of the table, by the plain reader."""
    rows: list[tuple[int, ...]] = []
    for at, h in iterate_headers(data, 7, stop):
        before = (at, h.total_bytes, h.base_offset, h.next_offset, h.partition_leader_epoch, h.magic)
        behind = (h.crc, h.attributes, h.base_timestamp, h.max_timestamp, h.producer_id, h.records_count)
        rows.append((*before, *behind))
    return rows


def compare(data: bytes, stop: int) -> None:
    try:
        expected = one_by_one(data, stop)
    except ProtocolError as error:
        with pytest.raises(ProtocolError) as caught:
            read_headers(memoryview(data), 7, stop)
        assert str(caught.value) == str(error)
    else:
        headers = read_headers(memoryview(data), 7, stop)
        assert [tuple(row) for row in headers.table.tolist()] == expected
        assert headers.stop == (expected[-1][0] + expected[-1][1] if expected else 7)


@given(kinds=st.lists(st.sampled_from(KINDS), max_size=6), cut=st.integers(0, 100), offset=st.integers(-1, 2**62))
def test_batches_of_all_kinds_cut_off_anywhere(kinds: list[bytes], cut: int, offset: int) -> None:
    data = b"frame: " + b"".join(numbered_from(kind, (offset + at) % 2**62) for at, kind in enumerate(kinds))
    compare(data + b"more", max(7, len(data) - cut))


@pytest.mark.parametrize("magic", [0, 1])
def test_headers_of_old_message_formats_are_read_too(java_batches: dict[str, bytes], magic: int) -> None:
    data = b"frame: " + java_batches[f"magic-{magic}-gzip"] + BATCH + java_batches[f"magic-{magic}"]
    for stop in range(7, len(data) + 1):
        compare(data, stop)


@given(flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=4))
def test_damaged_headers_are_refused_in_the_same_words(flips: list[tuple[int, int]]) -> None:
    data = bytearray(b"frame: " + BATCH * 3)
    for at, mask in flips:
        data[7 + at % (len(data) - 7)] ^= mask
    compare(bytes(data), len(data))


@given(noise=st.binary(max_size=200))
def test_noise_is_judged_alike(noise: bytes) -> None:
    compare(b"frame: " + noise, 7 + len(noise))


def test_a_range_outside_the_buffer_is_the_caller_s_mistake() -> None:
    with pytest.raises(ValueError, match="bytes 0 to 300 are not in a buffer of 200"):
        read_headers(memoryview(bytes(200)), 0, 300)


def test_what_passes_through_is_what_nothing_is_found_against(java_batches: dict[str, bytes]) -> None:
    data = b"frame: " + b"".join(KINDS) + java_batches["magic-1"]
    headers = read_headers(memoryview(data), 7, len(data))
    for limit in (len(BATCH) - 1, len(BATCH), 1 << 20):
        expected = [refusal(header, limit) is None for _, header in iterate_headers(data, 7, len(data))]
        assert headers.passable(limit).tolist() == expected
    assert headers.are_control.tolist() == [False] * 4 + [True, False, False]
    assert headers.codecs.tolist() == [0, Codec.ZSTD, 0, 0, 0, 0, 0]
    assert int(headers.table[0, 5]) == MAGIC


def test_rows_are_a_part_of_the_range() -> None:
    data = memoryview(b"".join(numbered_from(BATCH, offset) for offset in range(0, 10, 2)))
    part = read_headers(data, 0, len(data)).rows(1, 3)
    assert (len(part), part.stop) == (2, 3 * len(BATCH))
