"""The rewrite path: any batch of a source broker becomes new batches within the target's limits, record for record
(invariant 5)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.batch.witnesses import (
    ONE_MEBIBYTE,
    java_records,
    kafka_python_batch,
    kafka_python_records,
    number,
    numbered_from,
    read_by_kafka_python,
    source_offsets,
    with_attributes,
)

from sparkmirror.batch.header import APPEND_TIME, CONTROL, DELETE_HORIZON, HEADER_BYTES, Codec, parse_header, refusal
from sparkmirror.batch.piece import Piece, Span
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.batch.rewrite import Limits, rewrite
from sparkmirror.errors import ProtocolError, RecordTooLarge

LIMITS = Limits(ONE_MEBIBYTE)
CODECS = pytest.mark.parametrize("codec", list(Codec))


def pieces(*batches: bytes, first_offset: int = 0, limits: Limits = LIMITS) -> list[Piece]:
    return list(rewrite(memoryview(b"".join(batches)), first_offset, limits))


def records_of(made: list[Piece]) -> list[Record]:
    """Read by the plain decoder, each with the source offset that its piece's spans say."""
    records = []
    for piece in made:
        header = parse_header(piece.data, 0)
        assert refusal(header, LIMITS.max_batch_bytes) is None
        assert (header.base_offset, header.producer_id, header.is_transactional) == (0, -1, False)
        assert header.records_count == piece.records == sum(span.records for span in piece.spans)
        inside = decode_records(piece.data)
        for record, offset in zip(inside, source_offsets(piece.spans), strict=True):
            records.append(Record(offset, record.timestamp, record.key, record.value, record.headers))
    return records


def plain(offset: int, value: bytes = b"v", timestamp: int = 5) -> Record:
    return Record(offset, timestamp, None, value)


@CODECS
@given(records=kafka_python_records, skipped=st.integers(0, 13))
def test_a_batch_is_cut_at_the_position_to_resume_at(codec: Codec, records: list[Record], skipped: int) -> None:
    batch = kafka_python_batch(records, codec, 100)
    made = pieces(batch, first_offset=100 + skipped)
    assert records_of(made) == records[skipped:]
    if made:
        assert read_by_kafka_python(bytes(made[0].data)) == number(records[skipped:], base=0)
        assert parse_header(made[0].data, 0).codec == parse_header(batch, 0).codec


def test_holes_of_a_compacted_batch_are_closed_and_known(java_batches: dict[str, bytes]) -> None:
    expected = java_records([1000, 1003, 1010, 1012], b"value " * 20)
    (piece,) = pieces(java_batches["holes"])
    assert records_of([piece]) == expected
    assert piece.spans == (Span(1000, 4, bits=0b1010000001001),)
    for first_offset in (1001, 1002, 1003):
        assert records_of(pieces(java_batches["holes"], first_offset=first_offset)) == expected[1:]
    assert pieces(java_batches["holes"], first_offset=1013) == []


def test_what_log_compaction_leaves_is_rewritten_with_its_times(java_batches: dict[str, bytes]) -> None:
    batch = java_batches["delete-horizon"]
    assert parse_header(batch, 0).has_delete_horizon
    made = records_of(pieces(batch))
    times = [1_700_000_000_000, 1_699_999_999_995, 1_700_000_100_000, 1_700_000_000_001]
    assert [(r.offset, r.timestamp, r.value) for r in made] == [
        (offset, time, None) for offset, time in zip([1000, 1003, 1010, 1012], times, strict=True)
    ]


def test_append_time_goes_into_the_records(java_batches: dict[str, bytes]) -> None:
    made = pieces(java_batches["append-time"], first_offset=1002)
    assert [(r.offset, r.timestamp) for r in records_of(made)] == [(1002, 1_800_000_000_000), (1003, 1_800_000_000_000)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_become_batches_of_their_codec(java_batches: dict[str, bytes], magic: int, codec: str) -> None:
    made = pieces(java_batches[f"magic-{magic}-{codec}"], first_offset=1001)
    assert [(r.offset, r.key, r.value) for r in records_of(made)] == [
        (1003, None, b"only a value"),
        (1010, b"only a key", None),
        (1012, b"", b""),
    ]
    assert {r.timestamp for r in records_of(made)} == (
        {1_699_999_999_995, 1_700_000_100_000, 1_700_000_000_001} if magic else {-1}
    )
    assert parse_header(made[0].data, 0).codec.name == codec.upper()


def test_a_transactional_batch_becomes_a_plain_one(java_batches: dict[str, bytes]) -> None:
    assert len(records_of(pieces(java_batches["transactional"], java_batches["commit-marker"]))) > 0


def test_markers_and_emptied_batches_leave_nothing(java_batches: dict[str, bytes]) -> None:
    emptied = bytearray(encode_batch([plain(0)])[:HEADER_BYTES])
    emptied[8:12] = (HEADER_BYTES - 12).to_bytes(4, "big")
    emptied[57:61] = bytes(4)
    assert pieces(java_batches["commit-marker"], numbered_from(bytes(emptied), 9)) == []
    assert pieces() == []


@CODECS
def test_neighbours_are_merged_across_markers(codec: Codec) -> None:
    batches = [encode_batch([plain(at), plain(at + 1)], codec, at) for at in (0, 2, 5)]
    marker = numbered_from(with_attributes(encode_batch([plain(4)]), CONTROL), 4)
    (piece,) = pieces(*batches[:2], marker, batches[2])
    assert piece.spans == (Span(0, 6, bits=0b1101111),)
    assert parse_header(piece.data, 0).codec == codec
    assert [r.offset for r in records_of([piece])] == [0, 1, 2, 3, 5, 6]


def test_batches_of_different_codecs_stay_apart_unless_one_is_asked_for() -> None:
    kinds = [Codec.LZ4, Codec.LZ4, Codec.NONE, Codec.ZSTD]
    batches = [encode_batch([plain(at)], codec, at) for at, codec in enumerate(kinds)]
    apart = pieces(*batches)
    assert [parse_header(piece.data, 0).codec for piece in apart] == [Codec.LZ4, Codec.NONE, Codec.ZSTD]
    assert [r.offset for r in records_of(apart)] == [0, 1, 2, 3]


@CODECS
@pytest.mark.parametrize("forced", list(Codec))
def test_a_codec_asked_for_is_used_for_all(codec: Codec, forced: Codec) -> None:
    batches = [encode_batch([plain(at, b"value " * 50)], codec, at) for at in range(3)]
    made = pieces(*batches, limits=Limits(ONE_MEBIBYTE, codec=forced))
    assert [parse_header(piece.data, 0).codec for piece in made] == [forced]
    assert records_of(made) == [plain(at, b"value " * 50) for at in range(3)]


@CODECS
def test_a_batch_over_the_limit_is_split(codec: Codec) -> None:
    records = [plain(at, b"%d orders of one kind, " % (at * at) * 10) for at in range(2000)]
    batch = encode_batch(records, codec, 0)
    limit = len(batch) // 3
    made = pieces(batch, limits=Limits(limit))
    assert 3 < len(made) < 9
    assert all(len(piece.data) <= limit for piece in made)
    assert records_of(made) == records


def test_many_batches_are_rewritten_a_chunk_at_a_time() -> None:
    batches = [encode_batch([plain(at, bytes(3000))], Codec.LZ4, at) for at in range(100)]
    made = pieces(*batches, limits=Limits(10_000))
    assert len(made) > 5
    assert [r.offset for r in records_of(made)] == list(range(100))


@CODECS
def test_a_record_too_large_is_named_after_the_pieces_before_it_are_given(codec: Codec) -> None:
    noise = b"".join(number.to_bytes(2, "big") for number in range(900))
    batches = [encode_batch([plain(7)], codec, 7), encode_batch([plain(8), plain(9, noise)], codec, 8)]
    stream = rewrite(memoryview(b"".join(batches)), 0, Limits(700))
    given_first: list[Any] = []
    with pytest.raises(RecordTooLarge, match=r"source offset 9 is .* max\.message\.bytes is 700") as caught:
        given_first.extend(stream)
    assert caught.value.offset == 9
    stream = rewrite(memoryview(b"".join(batches)), 0, Limits(700))
    assert records_of([next(stream)])[0].offset == 7


@pytest.mark.parametrize("bound", [None, 10, 7, 0])
def test_times_beyond_a_bound_become_the_bound(bound: int | None) -> None:
    batch = encode_batch([plain(0, timestamp=5), plain(1, timestamp=9), plain(2, timestamp=-1)], base_offset=0)
    (piece,) = pieces(batch, limits=Limits(ONE_MEBIBYTE, clamp_to_ms=bound))
    expected = [time if bound is None else min(time, bound) for time in (5, 9, -1)]
    assert [r.timestamp for r in decode_records(piece.data)] == expected
    assert parse_header(piece.data, 0).max_timestamp == max(expected)


def test_old_and_new_batches_may_alternate(java_batches: dict[str, bytes]) -> None:
    """A topic whose format was raised, lowered, and raised again."""
    made = pieces(
        java_batches["magic-0"],
        numbered_from(encode_batch([plain(4)]), 4),
        java_batches["magic-1-gzip"],
        numbered_from(with_attributes(encode_batch([plain(2000)]), DELETE_HORIZON | APPEND_TIME), 2000),
    )
    assert [r.offset for r in records_of(made)] == [3, 4, 1000, 1003, 1010, 1012, 2000]


def test_a_damaged_batch_names_its_damage_when_it_is_rewritten() -> None:
    good, bad = encode_batch([plain(0)]), bytearray(encode_batch([plain(1)], base_offset=1))
    with pytest.raises(ProtocolError, match="offset 1 is damaged: it is cut off after 61 bytes"):
        pieces(good, bytes(bad[:61]))
    bad[-1] ^= 1
    with pytest.raises(ProtocolError, match="record batch at offset 1 is damaged: its checksum is wrong"):
        pieces(good, bytes(bad))
    with pytest.raises(ProtocolError, match="unknown codec, number 5"):
        pieces(with_attributes(good, 5))


@given(noise=st.binary(max_size=300))
def test_noise_is_refused_or_holds_no_record(noise: bytes) -> None:
    try:
        assert pieces(noise) == []
    except ProtocolError as error:
        assert str(error)
