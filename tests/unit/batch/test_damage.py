"""Damaged batches: whatever the bytes, the answer is records or a ProtocolError that says what and where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.batch.witnesses import sealed

from sparkmirror.batch.header import ATTRIBUTES_AT, HEADER_BYTES, Codec, iterate_headers
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.errors import ProtocolError

RECORDS = [
    Record(0, 1_700_000_000_000, b"key", b"value " * 20, ((b"h", b"1"), (b"h", None))),
    Record(1, 1_700_000_000_001, None, None),
    Record(2, 1_600_000_000_000, b"", b"\0" * 50),
]
MAX_BYTES = 1024 * 1024


def with_content(content: bytes, records_count: int, last_offset_delta: int = 10) -> bytes:
    header = bytearray(encode_batch(RECORDS)[:HEADER_BYTES])
    header[23:27] = last_offset_delta.to_bytes(4, "big")
    header[57:61] = records_count.to_bytes(4, "big", signed=True)
    return sealed(header + content)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_cut_off_anywhere_is_an_error(codec: Codec) -> None:
    batch = encode_batch(RECORDS, codec)
    for left in range(len(batch)):
        with pytest.raises(ProtocolError):
            decode_records(batch[:left])


@pytest.mark.parametrize("codec", list(Codec))
def test_every_flipped_bit_under_the_checksum_is_found(codec: Codec) -> None:
    batch = encode_batch(RECORDS, codec)
    for bit in range(ATTRIBUTES_AT * 8, len(batch) * 8):
        flipped = bytearray(batch)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ProtocolError, match="offset 0"):
            decode_records(bytes(flipped))


@pytest.mark.parametrize("codec", list(Codec))
@given(
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=6),
    cut=st.integers(0, 40),
)
def test_damage_behind_a_right_checksum_is_an_error_or_other_records(
    codec: Codec, flips: list[tuple[int, int]], cut: int
) -> None:
    batch = bytearray(encode_batch(RECORDS, codec))
    for at, mask in flips:
        batch[ATTRIBUTES_AT + at % (len(batch) - ATTRIBUTES_AT)] ^= mask
    damaged = sealed(batch[: max(HEADER_BYTES, len(batch) - cut)])
    try:
        decode_records(damaged, MAX_BYTES)
    except ProtocolError as error:
        assert "record batch" in str(error)


@given(noise=st.binary(max_size=300))
def test_noise_is_stepped_through_to_its_end_or_refused(noise: bytes) -> None:
    try:
        ends = [position + header.total_bytes for position, header in iterate_headers(noise, 0, len(noise))]
    except ProtocolError:
        return
    assert ends == sorted(set(ends))
    assert all(end <= len(noise) for end in ends)


@given(content=st.binary(max_size=120), count=st.integers(-(2**31), 2**31 - 1) | st.integers(0, 5))
def test_any_content_under_any_count_is_an_error_or_that_many_records(content: bytes, count: int) -> None:
    try:
        records = decode_records(with_content(content, count))
    except ProtocolError as error:
        assert str(error).startswith("record batch at offset 0 is damaged: ")
    else:
        assert len(records) == count


@pytest.mark.parametrize(
    ("content", "count", "complaint"),
    [
        (b"", 1, "it claims 1 records in 0 bytes"),
        (b"\0" * 70, 2**31 - 1, "it claims 2147483647 records in 70 bytes"),
        (b"\0" * 70, -1, "it claims -1 records"),
        (b"\xff" * 70, 1, "a number at byte 5 of its records does not end"),
        (b"\x0c\0\0\0\1\1\0" + b"tail", 1, "4 bytes follow its last record"),
        (b"\x0e\0\0\0\1\1\0", 1, "does not end where its length of 7 says"),
        (b"\x0c\0\0\x16\1\1\0", 1, "a record stands 11 offsets after its first"),
        (b"\x0c\0\0\1\1\1\0", 1, "a record stands -1 offsets after its first"),
        (b"\x0c\0\0\0\xfe\xff\xff\xff\x0f\1\0", 1, "2147483647 bytes are claimed at byte 9 of its records, 2 are left"),
        (b"\x0c\0\0\0\1\1\xfe\xff\xff\xff\x0f", 1, "a record claims 2147483647 headers"),
        (b"\x0c\0\0\0\1\1\1", 1, "a record claims -1 headers"),
        (b"\x10\0\0\0\1\1\2\1\1", 1, "-1 bytes are claimed at byte 8"),
    ],
)
def test_each_kind_of_damage_is_named_when_records_are_decoded(content: bytes, count: int, complaint: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_records(with_content(content, count))
    assert complaint in str(caught.value)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_larger_than_allowed_is_refused_before_its_records_are_made(codec: Codec) -> None:
    batch = encode_batch([(None, bytes(5000))], codec)
    assert len(decode_records(batch, max_bytes=6000)) == 1
    with pytest.raises(ProtocolError, match="holds more than 4000 bytes"):
        decode_records(batch, max_bytes=4000)
