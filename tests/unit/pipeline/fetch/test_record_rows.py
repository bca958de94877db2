"""From runs to records: each record as it is, each range closed, whatever the batches hold."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from sparkmirror.batch.header import Codec, parse_header
from sparkmirror.batch.records import Record, encode_batch
from sparkmirror.pipeline.fetch import record_rows
from sparkmirror.pipeline.fetch.record_rows import Decoding
from sparkmirror.pipeline.relay.options import CARRIED_COLUMNS
from sparkmirror.pipeline.relay.schema import GAP, PADDING, RECORD, RECORD_SCHEMA, REFUSED, RUN, Row, close, row_at

ODD = [
    Record(0, 1_000, b"k", b"v", ((b"a", b"1"), (b"a", None), (b"\xff", b""))),
    Record(1, -1, None, b""),
    Record(2, 5, b"", None),
    Record(3, 1 << 60, b"\x00\xff", bytes(range(256))),
]


def run_of(payload: bytes, first: int, following: int) -> Row:
    return Row(RUN, "orders", 2, first, following, 1, 4, len(payload), 5, following, 7, payload=payload)


def decoded(run: Row, carried: frozenset[str] = CARRIED_COLUMNS) -> list[pa.RecordBatch]:
    return list(Decoding(carried).records(run, memoryview(run.payload or b"")))


def no_lease(lease: int, size: int) -> memoryview:
    raise AssertionError(f"{size} bytes at {lease}")


def records_in(batches: Iterator[pa.RecordBatch] | list[pa.RecordBatch]) -> list[Record]:
    found = []
    for batch in batches:
        assert batch.schema == RECORD_SCHEMA
        bare_rows = batch.drop_columns("headers").to_pylist()  # their names may be no text
        for row in bare_rows if batch.column(0)[0].as_py() == RECORD else []:
            assert (row["topic"], row["partition"]) == ("orders", 2)
            found.append(Record(row["offset"], row["timestamp"], row["key"], row["value"]))
    return found


def bare(records: list[Record]) -> list[Record]:
    return [Record(one.offset, one.timestamp, one.key, one.value) for one in records]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_records_of_two_batches_come_in_order_and_a_run_row_closes_them(codec: Codec) -> None:
    payload = encode_batch(ODD, codec) + encode_batch(ODD, codec, base_offset=4)
    batches = decoded(run_of(payload, 0, 8))
    later = [Record(one.offset + 4, one.timestamp, one.key, one.value) for one in ODD]
    assert records_in(batches) == bare([*ODD, *later])
    closing, its_codec = row_at(batches[-1], 0)
    assert (closing.kind, closing.first_offset, closing.next_offset) == (RUN, 0, 8)
    assert (closing.bytes, its_codec) == (len(payload), codec)
    assert batches[-1].column("payload").to_pylist() == [payload], "what no step reads or sets is in here"


def test_only_the_columns_that_a_step_reads_are_filled() -> None:
    payload = encode_batch(ODD)
    for carried in (frozenset({"key"}), frozenset[str]()):
        rows, _ = decoded(run_of(payload, 0, 4), carried)
        assert rows.column("offset").to_pylist() == [0, 1, 2, 3]
        filled = {name for name in CARRIED_COLUMNS if rows.column(name).null_count < 4}
        assert filled == carried
    assert rows.column("timestamp").to_pylist() == [one.timestamp for one in ODD]


def test_headers_keep_order_repeats_nulls_and_bytes_that_are_no_text() -> None:
    payload = encode_batch(ODD)
    batch = decoded(run_of(payload, 0, 4))[0]
    headers = batch.column("headers")
    keys = headers.values.field("key")
    raw = pa.Array.from_buffers(pa.binary(), len(keys), keys.buffers())
    assert raw.to_pylist() == [b"a", b"a", b"\xff"]
    assert headers.values.field("value").to_pylist() == [b"1", None, b""]
    assert [len(one) for one in headers] == [3, 0, 0, 0]


def test_records_below_the_position_are_left_out() -> None:
    payload = encode_batch(ODD)
    assert records_in(decoded(run_of(payload, 2, 4))) == bare(ODD[2:])


def test_a_large_run_comes_in_pieces_and_one_row_closes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_rows, "CHUNK_BYTES", 500)
    payload = b"".join(encode_batch([Record(at, 0, None, bytes(200))], base_offset=at) for at in range(7))
    batches = decoded(run_of(payload, 0, 9))
    assert [batch.column(0)[0].as_py() for batch in batches] == [RECORD] * 7 + [RUN]
    assert [one.offset for one in records_in(batches)] == list(range(7))


def test_bytes_that_cannot_be_read_are_refused_from_where_they_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_rows, "CHUNK_BYTES", 1)
    good, bad = encode_batch(ODD), bytearray(encode_batch(ODD, base_offset=4))
    bad[-1] ^= 1
    payload = good + bytes(bad)
    *read, before, refused = decoded(run_of(payload, 0, 8))
    assert records_in(read) == bare(ODD)
    run, _ = row_at(before, 0)
    assert (run.kind, run.first_offset, run.next_offset) == (RUN, 0, 4)
    assert (before.column("payload").to_pylist(), run.bytes) == ([good], len(good))
    row, _ = row_at(refused, 0)
    assert (row.kind, row.first_offset, row.next_offset) == (REFUSED, 4, 8)
    assert row.bytes == len(bad) == parse_header(bad, 0).total_bytes
    (reason,) = refused.column("payload").to_pylist()
    assert b"record batch at offset 4 is damaged: its checksum is wrong" in reason


def test_a_lent_run_that_cannot_be_read_to_its_end_is_one_row_which_says_from_where(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its memory goes back with that row."""
    monkeypatch.setattr(record_rows, "CHUNK_BYTES", 1)
    bad = bytearray(encode_batch(ODD, base_offset=4))
    bad[-1] ^= 1
    payload = encode_batch(ODD) + bytes(bad)
    run = run_of(payload, 0, 8)._replace(payload=None, lease=77)
    found = Decoding().rows(iter([close([run])]), lambda lease, size: memoryview(payload)[lease - 77 : size])
    *read, refused = [batch for batch in found if batch is not PADDING]
    assert records_in(read) == bare(ODD)
    row, _ = row_at(refused, 0)
    assert (row.kind, row.lease, row.bytes) == (REFUSED, 77, len(payload))
    assert (row.first_offset, row.next_offset, refused.column("offset").to_pylist()) == (0, 8, [4])


def test_all_other_rows_pass_and_flush_rows_become_padding() -> None:
    gap = Row(GAP, "orders", 2, 5, 9, payload=b"{}")
    empty = Row(RUN, "orders", 2, 9, 12)
    found = list(Decoding().rows(iter([close([gap, empty])]), no_lease))
    assert [batch.column(0)[0].as_py() for batch in found[:2]] == [GAP, RUN]
    assert found[0].column("payload")[0].as_py() == b"{}"
    assert found[-1] is PADDING
