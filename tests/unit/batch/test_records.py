"""Records: there and back, against kafka-python and Java, and cut at the position to resume at."""

import pytest
from hypothesis import given
from kafka.record.default_records import DefaultRecordBatch
from tests.unit.batch.witnesses import (
    ONE_MEBIBYTE,
    any_records,
    java_records,
    kafka_python_batch,
    kafka_python_records,
    read_by_kafka_python,
    with_attributes,
)

from sparkmirror.batch.header import APPEND_TIME, Codec, parse_header, refusal
from sparkmirror.batch.records import Record, decode_records, encode_batch
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


def test_append_time_set_by_a_broker_on_any_batch_wins_over_the_records_times() -> None:
    batch = encode_batch([Record(0, 5, b"k", b"v"), Record(1, 9, b"k", b"v")])
    assert [r.timestamp for r in decode_records(with_attributes(batch, APPEND_TIME))] == [9, 9]
