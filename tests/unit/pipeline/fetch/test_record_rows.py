"""From runs to records: each record as it is, each range closed, whatever the batches hold."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sparkmirror.batch.header import Codec, parse_header
from sparkmirror.batch.records import Record, encode_batch
from sparkmirror.pipeline.fetch import record_rows
from sparkmirror.pipeline.fetch.record_rows import Decoding
from sparkmirror.pipeline.relay.options import CARRIED_COLUMNS
from sparkmirror.pipeline.relay.schema import (
    GAP,
    RECORD,
    RECORD_SCHEMA,
    REFUSED,
    RUN,
    TRAIL,
    Row,
    end_batch,
    padding,
    record_schema,
    rows_at,
)

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


def without_padding(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """What was decoded of one batch of the reader's; all of its padding is at its end."""
    *rows, last = batches
    assert last == padding(last.schema)
    return rows


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
    ((closing, its_codec),) = rows_at(batches[-1], [0])
    assert (closing.kind, closing.first_offset, closing.next_offset) == (RUN, 0, 8)
    assert (closing.bytes, its_codec) == (len(payload), codec)
    assert batches[-1].column("payload").to_pylist() == [payload], "what no step reads or sets is in here"


def test_only_the_columns_that_a_step_reads_are_there() -> None:
    payload = encode_batch(ODD)
    for carried in (frozenset({"key"}), frozenset[str]()):
        rows, _ = decoded(run_of(payload, 0, 4), carried)
        assert rows.column("offset").to_pylist() == [0, 1, 2, 3]
        assert rows.schema == record_schema(carried)
        assert CARRIED_COLUMNS.intersection(rows.schema.names) == carried
    rows, _ = decoded(run_of(payload, 0, 4), frozenset({"timestamp"}))
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
    ((run, _),) = rows_at(before, [0])
    assert (run.kind, run.first_offset, run.next_offset) == (RUN, 0, 4)
    assert (before.column("payload").to_pylist(), run.bytes) == ([good], len(good))
    ((row, _),) = rows_at(refused, [0])
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
    found = Decoding().rows(iter([end_batch([run])]), lambda lease, size: memoryview(payload)[lease - 77 : size])
    *read, refused = without_padding(found)
    assert records_in(read) == bare(ODD)
    ((row, _),) = rows_at(refused, [0])
    assert (row.kind, row.lease, row.bytes) == (REFUSED, 77, len(payload))
    assert (row.first_offset, row.next_offset, refused.column("offset").to_pylist()) == (0, 8, [4])


def test_all_other_rows_pass_and_flush_rows_become_padding() -> None:
    gap = Row(GAP, "orders", 2, 5, 9, payload=b"{}")
    empty = Row(RUN, "orders", 2, 9, 12)
    (found,) = without_padding(Decoding().rows(iter([end_batch([gap, empty])]), no_lease))
    assert found.column(0).to_pylist() == [GAP, RUN]
    assert found.column("payload")[0].as_py() == b"{}"
    assert list(Decoding().rows(iter([end_batch()]), no_lease)) == [padding(RECORD_SCHEMA)]


def test_each_further_trail_row_becomes_padding_that_the_writer_does_not_count() -> None:
    gap = Row(GAP, "orders", 2, 5, 9, payload=b"{}")
    rows, *pushing = Decoding().rows(iter([end_batch([gap], stages=3)]), no_lease)
    assert rows.column(0).to_pylist() == [GAP]
    assert pushing == [padding(RECORD_SCHEMA), *[padding(RECORD_SCHEMA, TRAIL)] * 2]


def _of(partition: int, payload: bytes, first: int, following: int) -> Row:
    return run_of(payload, first, following)._replace(partition=partition)


def _some_runs() -> list[Row]:
    return [
        _of(0, encode_batch(ODD, Codec.LZ4) + encode_batch(ODD, Codec.ZSTD, base_offset=7), 2, 11),
        _of(1, encode_batch([(None, b"alone")], base_offset=5), 5, 6),
        _of(3, encode_batch(ODD), 4, 8),  # all of it is below
        _of(2, encode_batch(ODD), 0, 4),
    ]


@pytest.mark.parametrize("few_bytes", [1 << 20, -1], ids=["one by one", "by kernels"])
@pytest.mark.parametrize("chunk_bytes", [1 << 20, 700, 1])
@pytest.mark.parametrize("damaged", [None, 0, 1, 3], ids="damaged {}".format)
@pytest.mark.parametrize("carried", [CARRIED_COLUMNS, frozenset[str]()], ids=["all columns", "none"])
def test_small_runs_that_come_together_are_as_each_by_itself(
    carried: frozenset[str], damaged: int | None, chunk_bytes: int, few_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_rows, "CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(record_rows, "_FEW_BYTES", few_bytes)
    runs = _some_runs()
    if damaged is not None:
        payload = bytearray(runs[damaged].payload or b"")
        payload[-1] ^= 1
        runs[damaged] = runs[damaged]._replace(payload=bytes(payload))
    gap = Row(GAP, "orders", 4, 5, 9, payload=b"{}")
    each = [batch for run in runs for batch in decoded(run, carried)]
    found = without_padding(Decoding(carried).rows(iter([end_batch([*runs[:2], gap, *runs[2:]])]), no_lease))
    rows = pa.Table.from_batches(found)
    is_gap = pc.equal(rows["kind"], GAP)
    assert rows.filter(is_gap).num_rows == 1
    assert rows.filter(pc.invert(is_gap)).combine_chunks().equals(pa.Table.from_batches(each).combine_chunks())
    assert len(found) == 1 or damaged is not None or chunk_bytes < 1000, "one batch of all"


def test_a_small_run_whose_batches_go_back_is_refused_beside_others_too() -> None:
    back = encode_batch([(None, b"later")] * 2, base_offset=5) + encode_batch([(None, b"before")] * 2, base_offset=4)
    runs = [_of(0, encode_batch(ODD), 0, 4), _of(1, back, 4, 7), _of(2, encode_batch(ODD), 0, 4)]
    rows = pa.Table.from_batches(without_padding(Decoding().rows(iter([end_batch(runs)]), no_lease)))
    assert [kind for kind in rows["kind"].to_pylist() if kind != RECORD] == [RUN, REFUSED, RUN]
    assert rows.filter(pc.equal(rows["kind"], RECORD))["partition"].to_pylist() == [0] * 4 + [2] * 4
