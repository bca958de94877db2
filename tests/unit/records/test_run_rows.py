"""Batches become rows as they came; those at the edges of a range have its records alone."""

import pytest
from tests.scenarios.odd_logs import emptied, java_batch, moved, sealed
from tests.unit.records.test_range_reader import WHERE
from tests.unit.records.test_rows import part_of

from sparkmirror.batch.any_format import decode_each
from sparkmirror.batch.header import Codec, iterate_headers
from sparkmirror.batch.part import Part
from sparkmirror.batch.records import Record, encode_batch
from sparkmirror.batch.unpacking import USUAL_BOUND, Bound
from sparkmirror.errors import ContentTooLarge, ProtocolError
from sparkmirror.pipeline.relay.schema import ROW_DDL, ROW_SCHEMA
from sparkmirror.records import run_rows
from sparkmirror.records.run_rows import DDL, RUN_BYTES, SCHEMA, run_batches


def batch(first: int, records: int = 10, codec: Codec = Codec.LZ4, size: int = 5) -> bytes:
    made = [Record(at, 1000 + at, b"k%d" % at, b"v" * size, ((b"h", b"%d" % at),)) for at in range(records)]
    return encode_batch(made, codec, first)


def read(part: Part, first: int, end: int, bound: Bound = USUAL_BOUND) -> list[dict[str, object]]:
    return [row for rows in run_batches(part, WHERE, first, end, bound) for row in rows.to_pylist()]


def offsets(payload: object) -> list[int]:
    assert isinstance(payload, bytes)
    return [
        offset
        for columns in decode_each(memoryview(payload), max_bytes=1 << 30, bound=USUAL_BOUND)
        for offset in columns.offsets.tolist()
    ]


def codecs(payload: object) -> list[Codec]:
    assert isinstance(payload, bytes)
    return [header.codec for _, header in iterate_headers(payload, 0, len(payload))]


def test_columns_mean_what_they_mean_in_a_mirror_s_rows() -> None:
    assert [column for column in ROW_DDL.split(", ") if column in DDL.split(", ")] == DDL.split(", ")
    assert [field for field in ROW_SCHEMA if field.name in SCHEMA.names] == list(SCHEMA)


def test_whole_batches_stay_byte_for_byte_and_empty_ones_are_left_out() -> None:
    first, second = batch(0), batch(40, 5, Codec.NONE)
    part = part_of(first, emptied(10, 39), second)
    (row,) = read(part, 0, 45)
    assert row == {
        "topic": "t", "partition": 0, "first_offset": 0, "next_offset": 45, "batches": 2, "records": 15,
        "bytes": len(first + second), "max_timestamp": 1009, "payload": first + second,
    }  # fmt: skip
    assert read(part, 0, 0) == read(part, 12, 30) == []


def test_a_row_is_of_a_moderate_size_and_a_large_batch_is_alone() -> None:
    sizes = [300_000, 300_000, 300_000, 300_000, 2 * RUN_BYTES, 300_000]
    made = [batch(at * 10, 1, Codec.NONE, size) for at, size in enumerate(sizes)]
    rows = read(part_of(*made), 0, 60)
    assert [row["batches"] for row in rows] == [3, 1, 1, 1]
    assert b"".join(row["payload"] for row in rows) == b"".join(made)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_batches_at_the_edges_are_cut_to_the_records_of_the_range(codec: Codec) -> None:
    part = part_of(batch(0, codec=codec), batch(10, codec=codec), batch(20, codec=codec))
    rows = read(part, 7, 23)
    assert [offset for row in rows for offset in offsets(row["payload"])] == list(range(7, 23))
    assert [(row["first_offset"], row["next_offset"], row["records"]) for row in rows] == [
        (7, 10, 3), (10, 20, 10), (20, 23, 3)
    ]  # fmt: skip
    assert [row["max_timestamp"] for row in rows] == [1009, 1009, 1002]
    assert {one for row in rows for one in codecs(row["payload"])} == {codec}
    (inside,) = read(part, 12, 15)
    assert offsets(inside["payload"]) == [12, 13, 14]
    (columns,) = decode_each(memoryview(inside["payload"]), max_bytes=1 << 20, bound=USUAL_BOUND)  # type: ignore[arg-type]
    assert columns.timestamps.tolist() == [1002, 1003, 1004]


def test_a_cut_batch_keeps_its_holes() -> None:
    holes = java_batch("holes", 100)
    part = part_of(holes)
    (whole,) = read(part, 0, int(part.next_offset))
    assert whole["payload"] == holes
    there = offsets(holes)
    (row,) = read(part, there[0], there[-1])
    assert offsets(row["payload"]) == there[:-1]
    assert row["records"] == len(there) - 1
    assert any(there[at] + 1 < there[at + 1] for at in range(len(there) - 2)), there


def test_what_no_record_of_is_outside_of_the_range_stays_as_it_is() -> None:
    """A batch may claim more offsets than compaction has left it records."""
    part = part_of(sealed(batch(0), last_offset_delta=30))
    (row,) = read(part, 0, 15)
    assert (row["payload"], row["next_offset"]) == (bytes(part.buffer), 10)


@pytest.mark.parametrize("kind", ["magic-0-gzip", "magic-1-lz4"])
def test_a_message_of_an_old_format_is_cut_where_its_records_say(kind: str) -> None:
    """It does not say where it begins, and the reader takes it to begin where it was asked to read."""
    message = moved(java_batch(kind), 50)
    part = part_of(message)
    there = offsets(message)
    part.table[0, 2] = there[1]
    (row,) = read(part, there[1], there[-1] + 1)
    assert offsets(row["payload"]) == there[1:]
    part.table[0, 2] = there[0]
    (row,) = read(part, there[0], there[-1] + 1)
    assert row["payload"] == message


def test_a_damaged_batch_is_said_with_its_place() -> None:
    damaged = bytearray(batch(10))
    damaged[-1] ^= 1
    with pytest.raises(ProtocolError, match=r"^t-0: record batch at offset 10 is damaged: its checksum is wrong"):
        read(part_of(batch(0), bytes(damaged)), 0, 20)


def test_a_cut_batch_beyond_the_bound_names_the_option() -> None:
    part = part_of(encode_batch([Record(at, 0, None, bytes(5000)) for at in range(10)], Codec.ZSTD))
    assert len(read(part, 0, 10, Bound(100, 100))) == 1
    with pytest.raises(ContentTooLarge, match=r"t-0: .*\n.*maxUnpackedBytes"):
        read(part, 1, 10, Bound(100, 100))


def test_rows_come_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_rows, "RUN_BYTES", 1)
    assert [row["first_offset"] for row in read(part_of(batch(0), batch(10)), 0, 20)] == [0, 10]
