"""Records: there and back, against kafka-python and Java, and cut at the position to resume at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch
from tests.unit.batch.witnesses import (
    ONE_MEBIBYTE,
    any_records,
    java_records,
    kafka_python_batch,
    kafka_python_records,
    number,
    read_by_kafka_python,
    with_attributes,
)

from sparkmirror.batch.header import APPEND_TIME, Codec, parse_header, refusal
from sparkmirror.batch.records import Record, cut_batch, decode_records, encode_batch
from sparkmirror.errors import ProtocolError


@pytest.mark.parametrize("codec", list(Codec))
@given(records=any_records)
def test_records_come_back_bit_for_bit(codec: Codec, records: list[Record]) -> None:
    assert decode_records(encode_batch(records, codec, base_offset=100)) == records


@pytest.mark.parametrize("codec", list(Codec))
@given(records=kafka_python_records)
def test_kafka_python_reads_what_we_write(codec: Codec, records: list[Record]) -> None:
    batch = encode_batch(records, codec, base_offset=100)
    assert read_by_kafka_python(batch) == records
    witness = DefaultRecordBatch(batch)
    assert (witness.producer_id, witness.producer_epoch, witness.base_sequence) == (-1, -1, -1)
    assert witness.max_timestamp == max(r.timestamp for r in records)
    assert witness.compression_type == codec


@pytest.mark.parametrize("codec", list(Codec))
@given(records=kafka_python_records)
def test_we_read_what_kafka_python_writes(codec: Codec, records: list[Record]) -> None:
    assert decode_records(memoryview(kafka_python_batch(records, codec, 100))) == records


@pytest.mark.parametrize(
    ("codec", "times"), [("none", 20), ("gzip", 20_000), ("snappy", 8_000), ("lz4", 20_000), ("zstd", 20_000)]
)
def test_we_read_what_java_writes(java_batches: dict[str, bytes], codec: str, times: int) -> None:
    expected = java_records([1000, 1001, 1002, 1003], b"value " * times)
    assert decode_records(java_batches[codec]) == expected


def test_uncompressed_we_write_java_s_very_bytes(java_batches: dict[str, bytes]) -> None:
    records = java_records([1000, 1001, 1002, 1003], b"value " * 20)
    assert encode_batch(records, base_offset=1000) == java_batches["none"]


def test_append_time_becomes_each_record_s_own_time(java_batches: dict[str, bytes]) -> None:
    batch = java_batches["append-time"]
    assert {r.timestamp for r in decode_records(batch)} == {1_800_000_000_000}
    cut = cut_batch(batch, 1002)
    assert cut is not None
    assert not parse_header(cut, 0).has_append_time
    assert [(r.offset, r.timestamp) for r in decode_records(cut)] == [
        (1002, 1_800_000_000_000),
        (1003, 1_800_000_000_000),
    ]


def test_a_commit_marker_decodes_but_is_never_cut(java_batches: dict[str, bytes]) -> None:
    marker = java_batches["commit-marker"]
    assert [(r.offset, r.key) for r in decode_records(marker)] == [(8, b"\0\0\0\1")]
    with pytest.raises(ProtocolError, match="offset 8 is a control batch"):
        cut_batch(marker, 8)


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_older_than_batches_are_named(java_batches: dict[str, bytes], magic: int) -> None:
    with pytest.raises(ProtocolError, match=f"offset 3 is a message set of magic {magic}, older than Kafka 0.11"):
        decode_records(java_batches[f"magic-{magic}"])


def test_plain_pairs_make_a_batch_for_a_ledger_topic() -> None:
    batch = encode_batch([(b"key", b"value"), (b"gone", None)], timestamp=1234)
    assert decode_records(batch) == [Record(0, 1234, b"key", b"value"), Record(1, 1234, b"gone", None)]
    assert refusal(parse_header(batch, 0), ONE_MEBIBYTE) is None


def test_a_batch_of_nothing_is_refused_where_it_is_made() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch([])


@pytest.mark.parametrize("codec", list(Codec))
@given(records=kafka_python_records, skipped=st.integers(0, 13))
def test_a_batch_is_cut_at_the_position(codec: Codec, records: list[Record], skipped: int) -> None:
    batch = kafka_python_batch(records, codec, 100)
    cut = cut_batch(batch, 100 + skipped)
    if skipped >= len(records):
        assert cut is None
        return
    assert cut is not None
    assert read_by_kafka_python(cut) == records[skipped:]
    header = parse_header(cut, 0)
    assert (header.base_offset, header.codec) == (100 + skipped, parse_header(batch, 0).codec)
    assert refusal(header, ONE_MEBIBYTE) is None


def test_holes_are_read_where_they_are_and_closed_by_the_cut(java_batches: dict[str, bytes]) -> None:
    batch = java_batches["holes"]
    expected = java_records([1000, 1003, 1010, 1012], b"value " * 20)
    assert decode_records(batch) == expected
    for first_offset in (1001, 1002, 1003):
        cut = cut_batch(batch, first_offset)
        assert cut is not None
        assert decode_records(cut) == number(expected[1:], base=1003)
        assert refusal(parse_header(cut, 0), ONE_MEBIBYTE) is None
    assert cut_batch(batch, 1013) is None


def test_a_transactional_batch_is_cut_into_a_plain_one(java_batches: dict[str, bytes]) -> None:
    cut = cut_batch(java_batches["transactional"], 7)
    assert cut is not None
    header = parse_header(cut, 0)
    assert (header.is_transactional, header.producer_id, header.partition_leader_epoch) == (False, -1, -1)


def test_append_time_set_by_a_broker_on_any_batch_wins_over_the_records_times() -> None:
    batch = encode_batch([Record(0, 5, b"k", b"v"), Record(1, 9, b"k", b"v")])
    assert [r.timestamp for r in decode_records(with_attributes(batch, APPEND_TIME))] == [9, 9]
