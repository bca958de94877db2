"""Headers: read, stepped over, refused and stamped."""

import random

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from sparkmirror.batch.header import (
    APPEND_TIME,
    ATTRIBUTES_AT,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    Codec,
    iterate_headers,
    parse_header,
    refusal,
    stamp,
)
from sparkmirror.batch.records import encode_batch
from sparkmirror.errors import ProtocolError

int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
size_bytes = st.one_of(st.integers(HEADER_BYTES, 20_000), st.integers(HEADER_BYTES, 2 * 1024 * 1024))
any_header = st.builds(
    BatchHeader,
    base_offset=int64,
    batch_length=st.just(0),
    partition_leader_epoch=int32,
    magic=st.just(2),
    crc=st.just(0),
    attributes=int16,
    last_offset_delta=st.integers(0, 2**31 - 1),
    base_timestamp=int64,
    max_timestamp=int64,
    producer_id=int64,
    producer_epoch=int16,
    base_sequence=int32,
    records_count=int32,
)
ONE_MEBIBYTE = 1024 * 1024


def batch_of(header: BatchHeader, total_bytes: int) -> bytearray:
    """A batch with this header, random payload and the right checksum."""
    payload = random.Random(total_bytes).randbytes(total_bytes - HEADER_BYTES)
    covered = HEADER.pack(*header)[ATTRIBUTES_AT:] + payload
    complete = header._replace(batch_length=total_bytes - 12, crc=google_crc32c.value(covered))
    return bytearray(HEADER.pack(*complete)[:ATTRIBUTES_AT] + covered)


def sound_header(**changes: int) -> BatchHeader:
    header = parse_header(encode_batch([(b"k", b"v"), (None, b"w")], Codec.LZ4, base_offset=40), 0)
    return header._replace(**changes)


@given(header=any_header, before=st.binary(max_size=9))
def test_a_header_reads_as_it_was_written(header: BatchHeader, before: bytes) -> None:
    batch = batch_of(header, 70)
    parsed = parse_header(before + bytes(batch), len(before))
    assert parsed == header._replace(batch_length=58, crc=parsed.crc)
    witness = DefaultRecordBatch(batch)
    assert (parsed.crc, parsed.total_bytes, parsed.next_offset) == (
        witness.crc,
        witness.size_in_bytes,
        witness.next_offset,
    )
    assert (parsed.is_control, parsed.is_transactional) == (witness.is_control_batch, witness.is_transactional)
    assert parsed.has_append_time == bool(witness.timestamp_type)


def test_java_s_transactional_batch_and_commit_marker_are_distinguished(java_batches: dict[str, bytes]) -> None:
    batch = parse_header(java_batches["transactional"], 0)
    assert (batch.is_transactional, batch.is_control, batch.next_offset) == (True, False, 8)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (42, 3, 12)
    marker = parse_header(java_batches["commit-marker"], 0)
    assert (marker.is_transactional, marker.is_control, marker.next_offset) == (True, True, 9)


@pytest.mark.parametrize("codec", list(Codec))
def test_java_names_its_codecs_as_we_do(java_batches: dict[str, bytes], codec: Codec) -> None:
    assert parse_header(java_batches[codec.name.lower()], 0).codec is codec


def test_a_codec_that_kafka_has_not_given_out_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="offset 40 names an unknown codec, number 6"):
        _ = sound_header(attributes=6).codec


def test_every_complete_batch_is_found_and_the_cut_off_one_is_not() -> None:
    batches = [encode_batch([(b"k", bytes(size))], base_offset=offset) for offset, size in enumerate((1, 300, 2))]
    answer = b"????" + b"".join(batches)
    for missing in range(1, len(batches[2]) + 1):
        found = list(iterate_headers(memoryview(answer), 4, len(answer) - missing))
        assert [(at, header.base_offset) for at, header in found] == [(4, 0), (4 + len(batches[0]), 1)]
    assert len(list(iterate_headers(answer, 4, len(answer)))) == 3


def test_an_empty_answer_holds_no_batch() -> None:
    assert list(iterate_headers(b"", 0, 0)) == []


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_older_than_batches_are_stepped_over_and_refused(java_batches: dict[str, bytes], magic: int) -> None:
    message = java_batches[f"magic-{magic}"]
    answer = message + java_batches["none"] + message
    headers = [header for _, header in iterate_headers(answer, 0, len(answer))]
    assert [(header.magic, header.next_offset) for header in headers] == [(magic, 4), (2, 1004), (magic, 4)]
    assert headers[0].total_bytes == len(message)
    assert refusal(headers[0], ONE_MEBIBYTE) == "magic 0/1 message set"


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("batch_length", 48, r"offset 40 .byte 0. claims an absurd length, 48"),
        ("batch_length", -1, "absurd length, -1"),
        ("magic", 3, "magic 3; this program knows 0, 1 and 2"),
        ("magic", -1, "magic -1"),
        ("last_offset_delta", -2, "claims to end before it begins"),
    ],
)
def test_nonsense_in_a_header_is_named(field: str, value: int, complaint: str) -> None:
    nonsense = HEADER.pack(*sound_header(**{field: value})) + bytes(100)
    with pytest.raises(ProtocolError, match=complaint):
        list(iterate_headers(nonsense, 0, len(nonsense)))


def test_an_old_message_of_no_length_does_not_hold_the_reader_up(java_batches: dict[str, bytes]) -> None:
    message = bytearray(java_batches["magic-1"])
    message[8:12] = bytes(4)
    with pytest.raises(ProtocolError, match=r"message at offset 3 .byte 0. claims an absurd length, 0"):
        list(iterate_headers(bytes(message), 0, len(message)))


@pytest.mark.parametrize("left", [0, 16, 17, 60])
def test_a_header_that_is_cut_off_is_an_error_when_asked_for(left: int) -> None:
    with pytest.raises(ProtocolError, match="ends inside the header"):
        parse_header(encode_batch([(b"k", b"v")])[:left], 0)


def test_a_sound_batch_is_not_refused() -> None:
    header = sound_header()
    assert refusal(header, header.total_bytes) is None
    assert refusal(header._replace(attributes=header.attributes | TRANSACTIONAL), ONE_MEBIBYTE) is None
    assert refusal(header._replace(attributes=header.attributes | CONTROL), ONE_MEBIBYTE) is None


def test_each_reason_to_refuse_is_a_phrase_with_its_numbers() -> None:
    header = sound_header()
    too_small = header.total_bytes - 1
    assert (
        refusal(header, too_small) == f"is {too_small + 1} bytes, the target topic's max.message.bytes is {too_small}"
    )
    holes = refusal(header._replace(last_offset_delta=9), ONE_MEBIBYTE)
    assert holes == "has holes (compacted): 2 records over 10 offsets"
    append_time = refusal(header._replace(attributes=header.attributes | APPEND_TIME), ONE_MEBIBYTE)
    assert append_time == "has append time: the broker's clock stands in its header, not in its records"
    horizon = refusal(header._replace(attributes=header.attributes | DELETE_HORIZON), ONE_MEBIBYTE)
    assert horizon == "has a delete horizon: its base timestamp is not a record's"


@given(
    header=any_header,
    total_bytes=size_bytes,
    producer_id=int64,
    epoch=int16,
    sequence=int32,
    transactional=st.booleans(),
)
def test_a_stamped_batch_has_the_checksum_of_all_its_bytes(
    header: BatchHeader, total_bytes: int, producer_id: int, epoch: int, sequence: int, transactional: bool
) -> None:
    batch = batch_of(header, total_bytes)
    original = bytes(batch)
    before = parse_header(original, 0)
    stamp(memoryview(batch), 0, before, producer_id, epoch, sequence, transactional)
    stamped = parse_header(bytes(batch), 0)
    assert stamped.crc == google_crc32c.value(bytes(batch[ATTRIBUTES_AT:]))
    assert DefaultRecordBatch(batch).validate_crc()
    assert stamped.is_transactional is transactional
    assert stamped == before._replace(
        base_offset=0,
        partition_leader_epoch=-1,
        crc=stamped.crc,
        attributes=stamped.attributes,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    assert (stamped.attributes ^ before.attributes) & ~TRANSACTIONAL == 0
    assert batch[HEADER_BYTES:] == original[HEADER_BYTES:]


def test_only_the_batch_at_the_position_is_stamped_and_it_can_be_stamped_again() -> None:
    batch = encode_batch([(b"k", b"v")], base_offset=7)
    answer = bytearray(batch * 3)
    middle = len(batch)
    for sequence in (5, 2**31 - 1):
        stamp(memoryview(answer), middle, parse_header(bytes(answer), middle), 1, 2, sequence, transactional=True)
    assert answer[:middle] == batch == answer[2 * middle :]
    stamped = DefaultRecordBatch(answer[middle : 2 * middle])
    assert stamped.validate_crc()
    assert (stamped.producer_id, stamped.producer_epoch, stamped.base_sequence) == (1, 2, 2**31 - 1)


def test_a_corrupt_batch_stays_corrupt_when_stamped() -> None:
    batch = bytearray(encode_batch([(b"k", b"value")]))
    batch[-2] ^= 1
    stamp(memoryview(batch), 0, parse_header(bytes(batch), 0), 1, 2, 3)
    assert not DefaultRecordBatch(batch).validate_crc()
