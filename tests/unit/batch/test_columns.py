"""Records as columns: the kernels against kafka-python, Java's batches and the plain decoder, and against damage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.batch.witnesses import (
    ONE_MEBIBYTE,
    any_records,
    java_records,
    kafka_python_batch,
    kafka_python_records,
    number,
    numbered_from,
    read_by_kafka_python,
    records_of,
    sealed,
    with_attributes,
)

from sparkmirror.batch.columns import decode
from sparkmirror.batch.encoding import encode
from sparkmirror.batch.header import APPEND_TIME, DELETE_HORIZON, HEADER_BYTES, Codec, parse_header, refusal
from sparkmirror.batch.piece import Span
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.errors import ProtocolError, RecordTooLarge

CODECS = pytest.mark.parametrize("codec", list(Codec))
MAX_BYTES = ONE_MEBIBYTE
SAMPLE = [
    Record(0, 1_700_000_000_000, b"key", b"value " * 20, ((b"h", b"1"), (b"h", None))),
    Record(1, 1_700_000_000_001, None, None),
    Record(2, 1_600_000_000_000, b"", b"\0" * 50),
]


def decoded(*batches: bytes, max_bytes: int = MAX_BYTES) -> list[Record]:
    """Of batches in the middle of a buffer."""
    data = b"".join(batches)
    return records_of(decode(memoryview(b"frame: " + data + b"more"), 7, 7 + len(data), max_bytes=max_bytes))


def encoded(records: list[Record], codec: Codec = Codec.NONE, max_batch_bytes: int = MAX_BYTES) -> list[bytes]:
    whole = memoryview(encode_batch(records, codec, records[0].offset))
    return [bytes(piece.data) for piece in encode(decode(whole, 0, len(whole)), codec, max_batch_bytes)]


@CODECS
@given(records=any_records)
def test_records_of_any_kind_are_decoded(codec: Codec, records: list[Record]) -> None:
    assert decoded(encode_batch(records, codec, base_offset=100)) == records


@CODECS
@given(records=kafka_python_records)
def test_we_decode_what_kafka_python_writes(codec: Codec, records: list[Record]) -> None:
    assert decoded(kafka_python_batch(records, codec, 100)) == records


@CODECS
@given(records=kafka_python_records)
def test_kafka_python_reads_what_we_encode(codec: Codec, records: list[Record]) -> None:
    (batch,) = encoded(records, codec)
    assert read_by_kafka_python(batch) == number(records, base=0)
    header = parse_header(batch, 0)
    assert (header.codec, header.max_timestamp) == (codec, max(r.timestamp for r in records))
    assert refusal(header, MAX_BYTES) is None


@given(records=any_records)
def test_the_encoder_writes_the_bytes_of_the_plain_one(records: list[Record]) -> None:
    assert encoded(records) == [encode_batch(records)]


@pytest.mark.parametrize(
    ("codec", "times"), [("none", 20), ("gzip", 20_000), ("snappy", 8_000), ("lz4", 20_000), ("zstd", 20_000)]
)
def test_we_decode_what_java_writes(java_batches: dict[str, bytes], codec: str, times: int) -> None:
    assert decoded(java_batches[codec]) == java_records([1000, 1001, 1002, 1003], b"value " * times)


def test_uncompressed_we_encode_java_s_very_bytes(java_batches: dict[str, bytes]) -> None:
    batch = memoryview(java_batches["none"])
    (piece,) = encode(decode(batch, 0, len(batch)), Codec.NONE, MAX_BYTES)
    assert numbered_from(bytes(piece.data), 1000) == batch


def test_batches_of_several_codecs_are_decoded_together_without_control_batches(java_batches: dict[str, bytes]) -> None:
    first = numbered_from(encode_batch(SAMPLE), 0)
    marker = numbered_from(java_batches["commit-marker"], 3)
    packed, empty = encode_batch(SAMPLE, Codec.LZ4, base_offset=4), emptied(7, 9)
    last = encode_batch(SAMPLE, Codec.ZSTD, base_offset=20)
    offsets = [r.offset for r in decoded(first, marker, packed, empty, last)]
    assert offsets == [0, 1, 2, 4, 5, 6, 20, 21, 22]
    assert [r.offset for r in decoded(first, marker, empty)] == [0, 1, 2]
    assert decoded(marker) == decoded(empty) == decoded() == []


def emptied(first: int, last: int) -> bytes:
    """What compaction leaves of a batch whose records are all gone: its header, for the producer's sake."""
    batch = bytearray(encode_batch(SAMPLE, base_offset=first)[:HEADER_BYTES])
    batch[23:27] = (last - first).to_bytes(4, "big")
    batch[57:61] = bytes(4)
    return sealed(batch)


def test_append_time_is_each_record_s_time(java_batches: dict[str, bytes]) -> None:
    assert {r.timestamp for r in decoded(java_batches["append-time"])} == {1_800_000_000_000}
    stamped = with_attributes(encode_batch([Record(0, 5, b"k", b"v"), Record(1, 9, b"k", b"v")]), APPEND_TIME)
    assert [r.timestamp for r in decoded(stamped)] == [9, 9]


def test_a_delete_horizon_is_only_the_base_of_the_records_times() -> None:
    """KIP-534: log compaction puts the horizon where the base timestamp was, and counts the records' times from it."""
    assert decoded(with_attributes(encode_batch(SAMPLE), DELETE_HORIZON)) == SAMPLE


def test_holes_are_closed_and_returned_as_spans(java_batches: dict[str, bytes]) -> None:
    batch = memoryview(java_batches["holes"])
    (piece,) = encode(decode(batch, 0, len(batch)), Codec.NONE, MAX_BYTES)
    assert piece.spans == (Span(1000, 4, bits=0b1010000001001),)
    assert decode_records(piece.data) == number(java_records([0] * 4, b"value " * 20), base=0)


@CODECS
@given(records=kafka_python_records, max_batch_bytes=st.integers(500, 900))
def test_pieces_are_in_order_and_none_is_larger_than_allowed(
    codec: Codec, records: list[Record], max_batch_bytes: int
) -> None:
    batches = encoded(records, codec, max_batch_bytes)
    assert max(map(len, batches)) <= max_batch_bytes
    assert number([r for batch in batches for r in read_by_kafka_python(batch)]) == records


def test_uncompressed_pieces_are_as_full_as_they_go() -> None:
    records = [Record(offset, 5, None, bytes(100)) for offset in range(1000)]
    batches = encoded(records, max_batch_bytes=1100)
    one = len(encode_batch(records[:2])) - len(encode_batch(records[:1]))
    assert all(1100 - one < len(batch) <= 1100 for batch in batches[:-1])


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_compressed_pieces_are_filled_by_what_the_first_ones_taught(codec: Codec) -> None:
    records = [Record(offset, 5, None, b"%d orders of the same kind, " % offset * 4) for offset in range(20_000)]
    batches = encoded(records, codec, max_batch_bytes=20_000)
    assert all(len(batch) > 12_000 for batch in batches[1:-1])


@CODECS
def test_a_record_too_large_alone_is_named_and_the_pieces_before_it_are_given(codec: Codec) -> None:
    noise = b"".join(i.to_bytes(2, "big") for i in range(700))
    records = number([Record(0, 5, None, value) for value in (b"a", b"b", noise, b"c")], base=40)
    whole = memoryview(encode_batch(records, codec, 40))
    given_first, caught = [], None
    try:
        for piece in encode(decode(whole, 0, len(whole)), codec, 500):
            given_first.append(piece)
    except RecordTooLarge as problem:
        caught = problem
    assert caught is not None
    assert sum((piece.spans for piece in given_first), ()) == (Span(40, 2),) or len(given_first) == 2
    assert (caught.offset, caught.limit_bytes) == (42, 500)
    assert caught.size_bytes == len(encode_batch([records[2]], codec))
    assert f"the record at source offset 42 is {caught.size_bytes} bytes" in str(caught)


def test_columns_of_nothing_are_no_batch() -> None:
    batch = memoryview(encode_batch(SAMPLE))
    assert list(encode(decode(batch, 0, len(batch)).rows(1, 1), Codec.NONE, MAX_BYTES)) == []


@CODECS
def test_a_batch_cut_off_anywhere_is_an_error(codec: Codec) -> None:
    batch = encode_batch(SAMPLE, codec)
    for left in range(1, len(batch)):
        with pytest.raises(ProtocolError):
            decoded(batch[:left])


@CODECS
def test_every_flipped_bit_under_the_checksum_is_found(codec: Codec) -> None:
    batch = encode_batch([*SAMPLE, Record(3, 0, None, bytes(3000) if codec is Codec.NONE else b"")], codec)
    for bit in [*range(21 * 8, 300 * 8), *range(300 * 8, len(batch) * 8, 97)]:
        if bit < len(batch) * 8:
            flipped = bytearray(batch)
            flipped[bit // 8] ^= 1 << bit % 8
            with pytest.raises(ProtocolError, match="offset 0"):
                decoded(bytes(flipped))


@CODECS
@given(
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=6),
    cut=st.integers(0, 40),
)
def test_damage_behind_a_right_checksum_is_an_error_or_what_the_plain_decoder_reads(
    codec: Codec, flips: list[tuple[int, int]], cut: int
) -> None:
    batch = bytearray(encode_batch(SAMPLE, codec))
    for at, mask in flips:
        batch[21 + at % (len(batch) - 21)] ^= mask
    damaged = sealed(batch[: max(HEADER_BYTES, len(batch) - cut)])
    try:
        found = decoded(damaged)
    except ProtocolError as error:
        assert "record batch" in str(error)
        return
    if parse_header(damaged, 0).is_control or not found:
        assert found == []
    else:
        assert found == decode_records(damaged, MAX_BYTES)


def with_content(content: bytes, records_count: int) -> bytes:
    header = bytearray(encode_batch(SAMPLE)[:HEADER_BYTES])
    header[23:27] = (10).to_bytes(4, "big")
    header[57:61] = records_count.to_bytes(4, "big", signed=True)
    return sealed(header + content)


@given(content=st.binary(max_size=120), count=st.integers(-(2**31), 2**31 - 1) | st.integers(1, 5))
def test_any_content_under_any_count_is_an_error_or_what_the_plain_decoder_reads(content: bytes, count: int) -> None:
    batch = with_content(content, count)
    try:
        found = decoded(batch)
    except ProtocolError as error:
        assert str(error).startswith("record batch at offset 0 is damaged: ")
    else:
        assert not count or found == decode_records(batch)


@pytest.mark.parametrize(
    ("content", "count", "complaint"),
    [
        (b"", 1, "it claims 1 records in 0 bytes"),
        (b"\0" * 70, 2**31 - 1, "it claims 2147483647 records in 70 bytes"),
        (b"\0" * 70, -1, "it claims -1 records"),
        (b"\0" * 70, 1, "a length reaches beyond the bytes there are"),
        (b"\xff" * 70, 1, "a number does not end, at byte 0 of its records"),
        (b"\x0c\0\0\0\1\1\0" + b"tail", 1, "bytes follow its last record, at byte 7"),
        (b"\x0e\0\0\0\1\1\0\0", 1, "a record does not end where its length says"),
        (b"\x0c\0\0\x16\1\1\0", 1, "an offset is not between its neighbours"),
        (b"\x0c\0\0\1\1\1\0", 1, "an offset is not between its neighbours"),
        (b"\x0c\0\0\2\1\1\0\x0c\0\0\2\1\1\0", 2, "an offset is not between its neighbours, at byte 11"),
        (b"\x14\0\0\0\xfe\xff\xff\xff\x0f\1\0", 1, "a length reaches beyond the bytes there are"),
        (b"\x14\0\0\0\1\1\xfe\xff\xff\xff\x0f", 1, "a record claims more headers than there are bytes"),
        (b"\x0c\0\0\0\1\1\1", 1, "a record claims more headers than there are bytes"),
        (b"\x10\0\0\0\1\1\2\1\1", 1, "a length reaches beyond the bytes there are"),
    ],
)
def test_each_kind_of_damage_is_named_when_columns_are_decoded(content: bytes, count: int, complaint: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decoded(with_content(content, count))
    assert complaint in str(caught.value)


@CODECS
def test_more_than_allowed_is_refused_before_records_are_made(codec: Codec) -> None:
    batch = encode_batch([(None, bytes(5000))], codec)
    assert len(decoded(batch, max_bytes=6000)) == 1
    with pytest.raises(ProtocolError, match="more than 4000 bytes"):
        decoded(batch, max_bytes=4000)
    with pytest.raises(ProtocolError, match="those behind it hold more than 6000 bytes"):
        decoded(batch, numbered_from(batch, 1), max_bytes=6000)


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_older_than_batches_are_not_columns(java_batches: dict[str, bytes], magic: int) -> None:
    with pytest.raises(ProtocolError, match="magic is not 2"):
        decoded(java_batches[f"magic-{magic}"])


def test_a_codec_that_kafka_has_not_given_out_is_named() -> None:
    with pytest.raises(ProtocolError, match="unknown codec, number 6"):
        decoded(with_attributes(encode_batch(SAMPLE), 6))
