"""Messages of magic 0 and 1 in flows that look at records: with transforms, and with partitioning by key.

Java wrote the messages. Among them are batches of magic 2, as where clients of a log moved on.
"""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.scenarios.odd_logs import OLD_KINDS, java_batch
from tests.unit.batch.witnesses import source_offsets

from sparkmirror.batch.header import Codec
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.fetch import record_rows
from sparkmirror.pipeline.fetch.record_rows import Decoding
from sparkmirror.pipeline.produce import kept_records
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.produce.kept_records import Kept
from sparkmirror.pipeline.produce.record_pieces import Origin, make_pieces
from sparkmirror.pipeline.produce.repartition import spread
from sparkmirror.pipeline.relay.options import RETURNED_COLUMNS
from sparkmirror.pipeline.relay.schema import RECORD, REFUSED, RUN, Row, end_batch, rows_at, written_columns

HOME = TopicPartition("A.orders", 1)
ORIGIN = Origin(TopicPartition("orders", 1), HOME.topic, Codec.LZ4)
TIME = 1_700_000_000_000
OLD = [(b"key-0", b"value " * 20), (None, b"only a value"), (b"only a key", None), (b"", b"")]
OLD_OFFSETS = [1000, 1003, 1010, 1012]
NEW = [Record(at, TIME + at, b"new-%d" % at, bytes(3000), ((b"h", b"1"),)) for at in range(6)]
CHANGED = [frozenset[str](), frozenset({"key"}), frozenset({"timestamp", "value"}), RETURNED_COLUMNS]


def times_of(kind: str) -> list[int]:
    """As `tests.unit.batch.test_legacy` knows them."""
    if "append-time" in kind:
        return [1_800_000_000_000] * 4
    return [-1] * 4 if "magic-0" in kind else [TIME, TIME - 5, TIME + 100_000, TIME + 1]


def log_of(kind: str) -> tuple[bytes, list[Record]]:
    """Batches of both formats in turn, and their records."""
    later = "magic-1-gzip"
    new = encode_batch(NEW[:3], Codec.LZ4), encode_batch(NEW[3:], Codec.NONE, 1013)
    payload = new[0] + java_batch(kind) + new[1] + java_batch(later, 2012)
    old = [Record(at, ms, *pair) for at, ms, pair in zip(OLD_OFFSETS, times_of(kind), OLD, strict=True)]
    last = [Record(1000 + at, ms, *pair) for at, ms, pair in zip(OLD_OFFSETS, times_of(later), OLD, strict=True)]
    between = [replace(one, offset=1013 + at) for at, one in enumerate(NEW[3:])]
    return payload, [*NEW[:3], *old, *between, *last]


def run_of(payload: bytes, first: int = 0) -> Row:
    return Row(RUN, "orders", 1, first, 2013, 4, 8, len(payload), payload=payload)


def written(batch: pa.RecordBatch, returned: frozenset[str]) -> pa.RecordBatch:
    """As Spark gives rows back of which no column was changed."""
    batch = batch.append_column("target_topic", pa.array([HOME.topic] * len(batch), pa.string()))
    batch = batch.append_column("target_partition", pa.array([HOME.partition] * len(batch), pa.int32()))
    return batch.select([name for name in batch.schema.names if name in written_columns(returned)])


def rows_of(payload: bytes, returned: frozenset[str] = RETURNED_COLUMNS) -> list[pa.RecordBatch]:
    *rows, closing = Decoding().records(run_of(payload), memoryview(payload))
    assert closing.column("kind").to_pylist() == [RUN], closing.column("payload").to_pylist()
    return [written(batch, returned) for batch in rows]


def records_in(pieces: Any) -> list[Record]:
    found = []
    for where, piece in pieces:
        assert where == HOME
        for offset, one in zip(source_offsets(piece.spans), decode_records(piece.data), strict=True):
            found.append(replace(one, offset=offset))
    return found


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 1], ids=["together", "one by one"])
@pytest.mark.parametrize("returned", CHANGED, ids=["nothing", "key", "time and value", "all"])
@pytest.mark.parametrize("kind", OLD_KINDS)
def test_records_of_all_formats_pass_transforms_as_they_are(
    kind: str, returned: frozenset[str], chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_rows, "CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(kept_records, "_CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(kept_records, "_WHOLE_BYTES_MIN", chunk_bytes)
    payload, records = log_of(kind)
    made = make_pieces(rows_of(payload, returned), Kept(memoryview(payload), returned), ORIGIN, no_sizes)
    assert records_in(made) == records


@pytest.mark.parametrize("returned", CHANGED, ids=["nothing", "key", "time and value", "all"])
@pytest.mark.parametrize("kind", ["magic-0-lz4", "magic-1-none"])
@pytest.mark.parametrize("kept", [{1003, 2012}, {1, 1000, 1014}, {1010, 1012}])
def test_what_a_filter_drops_is_left_out(kept: set[int], kind: str, returned: frozenset[str]) -> None:
    payload, records = log_of(kind)
    rows = [
        batch.filter(pa.array([at in kept for at in batch.column("offset").to_pylist()]))
        for batch in rows_of(payload, returned)
    ]
    made = make_pieces(rows, Kept(memoryview(payload), returned), ORIGIN, no_sizes)
    assert records_in(made) == [one for one in records if one.offset in kept]


def test_a_run_begins_within_a_compressed_message() -> None:
    payload = java_batch("magic-1-lz4")
    batches = list(Decoding().records(run_of(payload, 1004), memoryview(payload)))
    assert [at for batch in batches[:-1] for at in batch.column("offset").to_pylist()] == [1010, 1012]


def test_small_runs_of_both_formats_come_together() -> None:
    payloads = [encode_batch(NEW), java_batch("magic-0-gzip"), encode_batch(NEW), java_batch("magic-1-none")]
    runs = [run_of(payload)._replace(partition=at) for at, payload in enumerate(payloads)]
    found = pa.Table.from_batches(Decoding().rows(iter([end_batch(runs)]), no_lease))
    records = found.filter(pa.compute.is_in(found["kind"], pa.array([RECORD, RUN, REFUSED])))
    came = [(one["partition"], one["kind"], one["offset"]) for one in records.drop_columns("headers").to_pylist()]
    new, old = list(range(6)), OLD_OFFSETS
    assert came == [
        one
        for at, offsets in enumerate((new, old, new, old))
        for one in [*((at, RECORD, offset) for offset in offsets), (at, RUN, None)]
    ]


def test_a_damaged_message_is_refused_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_rows, "CHUNK_BYTES", 1)
    good, damaged = java_batch("magic-1-gzip"), bytearray(java_batch("magic-1-gzip", 2012))
    damaged[-1] ^= 1
    payload = good + bytes(damaged)
    *rows, before, refused = Decoding().records(run_of(payload), memoryview(payload))
    assert [at for batch in rows for at in batch.column("offset").to_pylist()] == OLD_OFFSETS
    ((read, _),) = rows_at(before, [0])
    assert (read.next_offset, before.column("payload").to_pylist()) == (1013, [good])
    ((row, _),) = rows_at(refused, [0])
    assert (row.kind, row.first_offset) == (REFUSED, 1013)
    assert b"message of an old format at offset 2012 is damaged" in refused.column("payload")[0].as_py()


@pytest.mark.parametrize("kind", OLD_KINDS)
def test_records_of_all_formats_are_put_by_key(kind: str) -> None:
    payload, records = log_of(kind)
    run = Delivery("run", ORIGIN.source, "orders", 1001, 2013, 0, 0, 0, memoryview(payload), None)
    pieces = spread(run, TopicPartition("orders", 0), 3)
    found: dict[int, list[Record]] = {0: [], 1: [], 2: []}
    for where, piece in pieces:
        for offset, one in zip(source_offsets(piece.spans), decode_records(piece.data), strict=True):
            found[where.partition].append(replace(one, offset=offset))
    assert all(log == sorted(log, key=lambda one: one.offset) for log in found.values())
    came = sorted((one for log in found.values() for one in log), key=lambda one: one.offset)
    assert came == [one for one in records if one.offset >= 1001]
    homes = {one.key: number for number, log in found.items() for one in log}
    assert homes[None] == 0
    assert len(set(homes.values())) > 1


def no_sizes(topic: str, source: TopicPartition) -> int:
    raise AssertionError(f"nobody needs to know how many partitions {topic} has, for {source}")


def no_lease(lease: int, size: int) -> memoryview:
    raise AssertionError(f"{size} bytes at {lease}")
