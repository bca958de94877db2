"""Messages of magic 0 and 1: as Java's and kafka-python's record classes write them, and damaged."""

import gzip
import struct
import zlib
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from tests.unit.batch.witnesses import ONE_MEBIBYTE, records_of, with_attributes

from sparkmirror.batch.header import Codec
from sparkmirror.batch.legacy import decode_messages
from sparkmirror.batch.records import Record, encode_batch
from sparkmirror.errors import ProtocolError

TIME = 1_700_000_000_000
OLD_CODECS = ["none", "gzip", "snappy", "lz4"]
Part: TypeAlias = bytes | None
parts = st.none() | st.binary(max_size=40)
pairs = st.lists(st.tuples(parts, parts), min_size=1, max_size=10)


def decoded(data: bytes, max_bytes: int = ONE_MEBIBYTE, first_offset: int = 0) -> list[Record]:
    whole = memoryview(b"frame: " + data + b"more")
    return records_of(decode_messages(whole, 7, 7 + len(data), first_offset=first_offset, max_bytes=max_bytes))


def expected(times: tuple[int, int, int, int]) -> list[Record]:
    """What the samples hold: with holes, as compaction leaves them."""
    first, second, third, fourth = times
    return [
        Record(1000, first, b"key-0", b"value " * 20),
        Record(1003, second, None, b"only a value"),
        Record(1010, third, b"only a key", None),
        Record(1012, fourth, b"", b""),
    ]


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_magic_0_of_java_has_no_times(java_batches: dict[str, bytes], codec: str) -> None:
    """Its lz4 frames have the wrong header checksum that all clients of the time wrote."""
    assert decoded(java_batches[f"magic-0-{codec}"]) == expected((-1, -1, -1, -1))


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_magic_1_of_java_has_relative_offsets_and_times(java_batches: dict[str, bytes], codec: str) -> None:
    assert decoded(java_batches[f"magic-1-{codec}"]) == expected((TIME, TIME - 5, TIME + 100_000, TIME + 1))


@pytest.mark.parametrize("codec", OLD_CODECS[1:])
def test_append_time_stands_in_the_wrapper(java_batches: dict[str, bytes], codec: str) -> None:
    stamped = 1_800_000_000_000
    assert decoded(java_batches[f"magic-1-{codec}-append-time"]) == expected((stamped,) * 4)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY])
@given(records=pairs)
def test_what_kafka_python_writes_is_read(
    magic: int, codec: Codec, records: list[tuple[bytes | None, bytes | None]]
) -> None:
    builder = LegacyRecordBatchBuilder(magic, codec, ONE_MEBIBYTE)
    for offset, (key, value) in enumerate(records):
        builder.append(offset, TIME + offset, key, value)
    times = [TIME + offset if magic else -1 for offset in range(len(records))]
    assert decoded(bytes(builder.build())) == [
        Record(offset, times[offset], key, value) for offset, (key, value) in enumerate(records)
    ]


def test_sets_follow_each_other_and_begin_at_the_position_wanted(java_batches: dict[str, bytes]) -> None:
    both = java_batches["magic-0"] + java_batches["magic-1-gzip"]
    assert [r.offset for r in decoded(both)] == [3, 1000, 1003, 1010, 1012]
    assert [r.offset for r in decoded(both, first_offset=1004)] == [1010, 1012]
    assert decoded(both, first_offset=2000) == []


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_a_set_cut_off_anywhere_is_an_error_or_its_beginning(
    java_batches: dict[str, bytes], magic: int, codec: str
) -> None:
    data = java_batches[f"magic-{magic}-{codec}"]
    whole = decoded(data)
    for left in range(1, len(data)):
        try:
            assert decoded(data[:left]) in [whole[:count] for count in range(1, 4)]
        except ProtocolError as error:
            assert "of an old format" in str(error)


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_every_flipped_bit_under_the_checksum_is_found(java_batches: dict[str, bytes], magic: int, codec: str) -> None:
    data = java_batches[f"magic-{magic}-{codec}"]
    for bit in range(12 * 8, min(len(data), 150) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ProtocolError):
            decoded(bytes(flipped))


@pytest.mark.parametrize("name", ["magic-0-none", "magic-0-lz4", "magic-1-gzip", "magic-1-snappy"])
@given(flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=6))
def test_damage_behind_a_right_checksum_is_an_error_or_other_records(
    java_batches: dict[str, bytes], name: str, flips: list[tuple[int, int]]
) -> None:
    data = bytearray(java_batches[name])
    for at, mask in flips:
        data[16 + at % (len(data) - 16)] ^= mask
    end = 12 + int.from_bytes(data[8:12], "big")
    data[12:16] = zlib.crc32(data[16:end]).to_bytes(4, "big")
    try:
        decoded(bytes(data))
    except ProtocolError as error:
        assert str(error)


@given(noise=st.binary(max_size=300))
def test_noise_is_refused(noise: bytes) -> None:
    try:
        assert decoded(noise) == []
    except ProtocolError as error:
        assert "of an old format" in str(error)


def test_a_bomb_in_a_wrapper_is_refused(java_batches: dict[str, bytes]) -> None:
    with pytest.raises(ProtocolError, match="more than 100 bytes once decompressed"):
        decoded(java_batches["magic-1-gzip"], max_bytes=100)
    with pytest.raises(ProtocolError, match="hold more than 100 bytes"):
        decoded(java_batches["magic-0-none"], max_bytes=100)


def sealed(message: bytearray) -> bytes:
    message[12:16] = zlib.crc32(message[16:]).to_bytes(4, "big")
    return bytes(message)


def test_absurd_wrappers_are_named(java_batches: dict[str, bytes]) -> None:
    zstd = bytearray(java_batches["magic-0-gzip"])
    zstd[17] = 4
    with pytest.raises(ProtocolError, match=r"offset 1012 is damaged: it names a codec that .* number 4"):
        decoded(sealed(zstd))
    hollow = bytearray(java_batches["magic-0"])
    hollow[17] = 1
    with pytest.raises(ProtocolError, match="it is compressed and has no value"):
        decoded(sealed(hollow))
    early = bytearray(java_batches["magic-1-gzip"])
    early[:8] = (5).to_bytes(8, "big")
    with pytest.raises(ProtocolError, match="its last message claims offset 12 in it"):
        decoded(bytes(early))
    with pytest.raises(ProtocolError, match="its checksum is wrong"):
        decoded(with_attributes(encode_batch([(b"k", b"v")]), 0))


def wrapper_of_nulls(count: int) -> bytes:
    """A gzip wrapper of magic 1 with so many messages that have neither key nor value."""
    inner = b"".join(_null_message(at) for at in range(count))
    packed = gzip.compress(inner)
    body = struct.pack(">bbqi", 1, int(Codec.GZIP), TIME, -1) + struct.pack(">i", len(packed)) + packed
    return _sealed_message(count - 1, body)


def _null_message(offset: int) -> bytes:
    return _sealed_message(offset, struct.pack(">bbqii", 1, 0, TIME, -1, -1))


def _sealed_message(offset: int, body: bytes) -> bytes:
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body
