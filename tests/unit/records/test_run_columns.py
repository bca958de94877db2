"""Rows of batches are checked and placed before they are sent; a batch that brokers take stays as it is."""

import pyarrow as pa
import pytest
from tests.scenarios.odd_logs import emptied, java_batch, sealed

from sparkmirror.batch.any_format import decode_each
from sparkmirror.batch.header import APPEND_TIME, CONTROL, MAGIC, Codec, parse_header
from sparkmirror.batch.piece import Piece
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.batch.unpacking import USUAL_BOUND
from sparkmirror.errors import ClusterError, ConfigError
from sparkmirror.model import TopicPartition
from sparkmirror.records.run_columns import check_run_columns, pieces_of, run_lanes
from sparkmirror.records.run_rows import TYPES

RECORDS = [Record(at, 1000 + at, b"k%d" % at, b"value", ((b"h", None),)) for at in range(5)]
FINE = encode_batch(RECORDS, Codec.LZ4, 70)
OLD_KINDS = ("magic-0-none", "magic-0-lz4", "magic-1-gzip", "magic-1-snappy-append-time")


def lanes(
    payloads: list[bytes | None], partitions: list[int | None], topics: list[str | None] | None = None
) -> dict[TopicPartition, list[Piece]]:
    arrays = [pa.array(topics or ["t"] * len(payloads)), pa.array(partitions, pa.int32()), pa.array(payloads)]
    rows = pa.RecordBatch.from_arrays(arrays, names=["topic", "partition", "payload"])
    return {where: list(pieces) for where, pieces in run_lanes(rows, "", lambda _: 3).items()}


def test_a_batch_that_brokers_take_stays_as_it_is() -> None:
    zstd = encode_batch(RECORDS[:2], Codec.ZSTD, 75)
    found = lanes([FINE + zstd, zstd, FINE], [1, 0, 1])
    assert {where: [(bytes(one.data), one.records) for one in pieces] for where, pieces in found.items()} == {
        TopicPartition("t", 1): [(FINE, 5), (zstd, 2), (FINE, 5)],
        TopicPartition("t", 0): [(zstd, 2)],
    }
    assert list(lanes([FINE, FINE], [0, 0], ["a", "b"])) == [TopicPartition("a", 0), TopicPartition("b", 0)]


def test_markers_and_empty_batches_are_left_out() -> None:
    marker = sealed(FINE, attributes=CONTROL)
    assert [bytes(one.data) for one in pieces_of(memoryview(emptied(0, 5) + marker + FINE + emptied(80, 90)))] == [FINE]
    assert list(pieces_of(memoryview(b""))) == list(pieces_of(memoryview(marker))) == []


@pytest.mark.parametrize("name", ["holes", "delete-horizon", *OLD_KINDS])
def test_what_brokers_do_not_take_is_made_new_with_its_codec_and_times(name: str) -> None:
    odd = java_batch(name)
    before, made, after = pieces_of(memoryview(FINE + odd + FINE))
    assert bytes(before.data) == bytes(after.data) == FINE
    (wanted,) = decode_each(memoryview(odd), max_bytes=1 << 20, bound=USUAL_BOUND)
    found = decode_records(made.data)
    assert [one.timestamp for one in found] == wanted.timestamps.tolist()
    assert made.records == len(wanted)
    header = parse_header(made.data, 0)
    assert (header.magic, header.codec) == (MAGIC, parse_header(odd, 0).codec)
    assert header.attributes & ~0x07 == 0


def test_records_keep_the_time_that_a_broker_gave_them() -> None:
    (piece,) = pieces_of(memoryview(sealed(FINE, attributes=APPEND_TIME)))
    assert [one.timestamp for one in decode_records(piece.data)] == [1004] * 5
    assert [one.headers for one in decode_records(piece.data)] == [((b"h", None),)] * 5


def _flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (FINE + b"no batch, but bytes as long as a header of one, which is 61 bytes", r"batch at byte \d+ has magic"),
        (FINE + FINE[:-3], f"at offset 70 is damaged: it is cut off after {len(FINE) - 3} bytes"),
        (FINE + _flipped(FINE), "at offset 70 is damaged: its checksum is wrong"),
        (_flipped(java_batch("magic-1-gzip")), "its checksum is wrong"),
        (sealed(FINE, attributes=7), "names an unknown codec, number 7"),
        (b"short", "is damaged: it is cut off after 5 bytes"),
    ],
)
def test_bytes_that_are_no_batches_are_refused_before_any_of_their_row_is_sent(payload: bytes, said: str) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([2], pa.int32()), pa.array([payload])], names=["partition", "payload"])
    pieces = run_lanes(rows, "t", lambda _: 3)[TopicPartition("t", 2)]
    with pytest.raises(ClusterError, match=f"written to t-2 has a payload that cannot be produced: .*{said}"):
        list(pieces)


@pytest.mark.parametrize(
    ("payload", "partition", "topic", "said"),
    [
        (FINE, None, "t", "written to topic t has no partition: .*null.*\n.*as a whole"),
        (FINE, 3, "t", "asks for partition 3 of topic t, which has 3"),
        (FINE, -1, "t", "asks for partition -1 of topic t"),
        (FINE, 0, None, "has no topic: its column `topic` is null"),
        (None, 0, "t", "written to t-0 has no payload"),
    ],
)
def test_a_row_without_a_place_is_refused(
    payload: bytes | None, partition: int | None, topic: str | None, said: str
) -> None:
    with pytest.raises(ClusterError, match=said):
        lanes([FINE, payload], [0, partition], ["t", topic])


def test_columns_are_those_of_a_read_or_some_of_them() -> None:
    read = list(TYPES.items())
    check_run_columns(read, "")
    check_run_columns([("payload", "binary"), ("partition", "int")], "t")
    for columns, topic, said in (
        (read[:-1], "", "needs the column `payload`"),
        ([("payload", "binary")], "t", "needs the column `partition`"),
        ([("payload", "binary"), ("partition", "int")], "", "needs the option `topic`"),
        ([*read, ("value", "binary")], "", "A run has no `value`.*\n.*Select of topic, partition, payload"),
        ([*read[:-1], ("payload", "string")], "", "`payload` is string, and is to be binary"),
    ):
        with pytest.raises(ConfigError, match=said):
            check_run_columns(columns, topic)
