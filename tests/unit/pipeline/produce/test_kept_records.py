"""What did not pass Spark is joined again: untouched columns, and whole batches as they came."""

from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.batch.witnesses import source_offsets

from sparkmirror.batch import picking
from sparkmirror.batch.header import Codec, parse_header
from sparkmirror.batch.joining import JOINED_BYTES_MAX
from sparkmirror.batch.piece import Span
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.batch.rewrite import Limits
from sparkmirror.batch.unpacking import Bound
from sparkmirror.errors import ContentTooLarge, ProtocolError
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.fetch.record_rows import Decoding
from sparkmirror.pipeline.produce import kept_records, record_pieces
from sparkmirror.pipeline.produce.kept_records import Kept, _Run
from sparkmirror.pipeline.produce.record_pieces import Origin, Unroutable, make_pieces
from sparkmirror.pipeline.relay.options import CARRIED_COLUMNS, CONTENT_COLUMNS, RETURNED_COLUMNS
from sparkmirror.pipeline.relay.schema import RECORD, RUN, Row, written_columns
from sparkmirror.policy.partitioner import murmur2_partition

HOME = TopicPartition("A.orders", 1)
ORIGIN = Origin(TopicPartition("orders", 1), "A.orders", Codec.LZ4)
NOT_PACKED = Origin(TopicPartition("orders", 1), "A.orders", Codec.NONE)
SET_KEY = b"set"


def batch_of(first: int, count: int, codec: Codec = Codec.LZ4) -> bytes:
    records = [Record(first + at, 9 * at, b"k%d" % at, bytes(1000), ((b"h", b"%d" % at),)) for at in range(count)]
    return encode_batch(records, codec, base_offset=first)


def rows_of(payload: bytes, kept: set[int], returned: frozenset[str] = frozenset()) -> list[pa.RecordBatch]:
    """What Spark gives back of a run, where it drops all records but `kept`, and sets the key where that is
    returned."""
    run = Row(RUN, "orders", 1, 0, 10_000, payload=payload)
    found = []
    for batch in Decoding(frozenset()).records(run, memoryview(payload)):
        if batch.column(0)[0].as_py() == RECORD:
            rows = batch.filter(pa.array([at in kept for at in batch.column("offset").to_pylist()]))
            if "key" in returned:
                rows = rows.append_column("key", pa.array([SET_KEY] * len(rows), pa.binary()))
            rows = rows.append_column("target_topic", pa.nulls(len(rows), pa.string()))
            found.append(rows.append_column("target_partition", pa.nulls(len(rows), pa.int32())))
    return found


def no_sizes(topic: str, source: TopicPartition) -> int:
    raise AssertionError(f"nobody needs to know how many partitions {topic} has, for {source}")


def pieces_of(payload: bytes, rows: list[pa.RecordBatch], returned: frozenset[str] = frozenset()) -> list[Any]:
    found = make_pieces(rows, Kept(memoryview(payload), returned), ORIGIN, no_sizes)
    assert {where for where, _ in found} <= {HOME}
    return [piece for _, piece in found]


def test_a_batch_that_lost_nothing_goes_on_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_records, "_WHOLE_BYTES_MIN", 1)
    payload = batch_of(100, 5) + batch_of(105, 5) + batch_of(120, 5)
    first, second, third = pieces_of(payload, rows_of(payload, {*range(100, 107), *range(120, 125)}))
    size = len(batch_of(100, 5))
    assert first.data[8:] == payload[8:size] and first.data[:8] == bytes(8)
    assert [one.offset for one in decode_records(second.data)] == [0, 1]
    assert third.data[8:] == batch_of(120, 5)[8:]
    assert [(piece.spans, piece.records) for piece in (first, second, third)] == [
        ((Span(100, 5),), 5), ((Span(105, 2),), 2), ((Span(120, 5),), 5),
    ]  # fmt: skip


def test_small_batches_are_gathered_although_they_lost_nothing() -> None:
    payload = batch_of(0, 1) + batch_of(1, 1)
    (piece,) = pieces_of(payload, rows_of(payload, {0, 1}))
    assert piece.records == 2


def test_what_a_filter_leaves_of_a_few_small_batches_is_joined_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = batch_of(100, 3) + batch_of(103, 2)
    rows = rows_of(payload, {100, 102, 104})
    monkeypatch.setattr(record_pieces, "join", None)
    (piece,) = pieces_of(payload, rows)
    assert [one.key for one in decode_records(piece.data)] == [b"k0", b"k2", b"k1"]
    assert (piece.spans, piece.records) == ((Span(100, 3, bits=0b10101),), 3)


def test_a_batch_that_lost_one_record_and_has_another_twice_does_not_go_on_as_it_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_records, "_WHOLE_BYTES_MIN", 1)
    payload = batch_of(100, 3)
    (rows,) = rows_of(payload, {100, 101, 102})
    (piece,) = pieces_of(payload, [rows.take(pa.array([0, 0, 2]))])
    assert [one.key for one in decode_records(piece.data)] == [b"k0", b"k0", b"k2"]
    assert piece.spans == (Span(100, 1, 1), Span(102, 1))


def test_what_is_set_takes_the_place_of_what_came_and_all_else_stays() -> None:
    returned = frozenset({"key"})
    payload = batch_of(0, 3)
    (piece,) = pieces_of(payload, rows_of(payload, {0, 2}, returned), returned)
    found = decode_records(piece.data)
    assert [(one.key, one.value, one.headers, one.timestamp) for one in found] == [
        (SET_KEY, bytes(1000), ((b"h", b"%d" % at),), 9 * at) for at in (0, 2)
    ]


def test_rows_that_are_of_no_record_of_the_run_are_refused() -> None:
    payload = batch_of(0, 3)
    rows = rows_of(payload, {0, 1, 2})
    for other in (batch_of(10, 3), batch_of(0, 2), b""):
        with pytest.raises(ProtocolError, match=r"of no record"):
            pieces_of(other, rows)


def test_what_a_filter_leaves_of_larger_batches_is_picked_without_being_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    payload = b"".join(batch_of(at, 50, Codec.NONE) for at in range(0, 500, 50))
    kept = set(range(100)) | set(range(101, 500, 2))
    rows = rows_of(payload, kept)
    monkeypatch.setattr(_Run, "restore", None)
    found = [piece for _, piece in make_pieces(rows, Kept(memoryview(payload), frozenset()), NOT_PACKED, no_sizes)]
    assert [offset for piece in found for offset in source_offsets(piece.spans)] == sorted(kept)
    assert [piece.records for piece in found] == [50, 50, 200], "two batches as they came, and one of all that is left"


@pytest.mark.parametrize("count", [3, 100])
@pytest.mark.parametrize("dropped", [0, 1])
@pytest.mark.parametrize(
    "limits",
    [Limits(1 << 30, Codec.ZSTD), Limits(1 << 30, None, 20), Limits(1500)],
    ids=["codec", "time", "size"],
)
def test_a_batch_that_is_not_as_it_is_asked_to_be_does_not_go_on_as_it_came(
    limits: Limits, dropped: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that came whole, what a filter left of a few small ones, and of larger ones."""
    monkeypatch.setattr(kept_records, "_WHOLE_BYTES_MIN", 1)
    payload = batch_of(0, count, Codec.NONE) + batch_of(count, 2, Codec.NONE)
    kept = set(range(dropped, count + 2))
    found = make_pieces(
        rows_of(payload, kept), Kept(memoryview(payload), frozenset()), NOT_PACKED, no_sizes, lambda _: limits
    )
    pieces = [piece for _, piece in found]
    headers = [parse_header(memoryview(piece.data), 0) for piece in pieces]
    assert {one.codec for one in headers} == {limits.codec or Codec.NONE}
    assert max(one.total_bytes for one in headers) <= limits.max_batch_bytes
    assert max(one.max_timestamp for one in headers) <= (limits.clamp_to_ms or 9 * count)
    came = [one for at, size in ((0, count), (count, 2)) for one in decode_records(batch_of(at, size))]
    records = [one for piece in pieces for one in decode_records(piece.data)]
    assert [(one.key, one.value, one.headers) for one in records] == [
        (one.key, one.value, one.headers) for one in came[dropped:]
    ]


def test_what_would_be_more_than_a_batch_is_parted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_pieces, "BATCH_BYTES_MAX", 20_000)
    monkeypatch.setattr(picking, "pick", None)  # nothing is packed that cannot go out
    payload = batch_of(0, 100, Codec.NONE)
    rows = rows_of(payload, set(range(1, 100)))
    found = [piece for _, piece in make_pieces(rows, Kept(memoryview(payload), frozenset()), NOT_PACKED, no_sizes)]
    assert [offset for piece in found for offset in source_offsets(piece.spans)] == list(range(1, 100))
    assert max(len(piece.data) for piece in found) <= 20_000 and len(found) == 6


@given(st.data())
def test_any_choice_of_records_and_columns_gives_what_all_columns_through_spark_would(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
    codec = data.draw(st.sampled_from([Codec.NONE, Codec.LZ4, Codec.ZSTD]))
    apart = data.draw(st.sampled_from([0, 20]))
    firsts = list(accumulate([size + apart for size in sizes], initial=0))
    payload = b"".join(batch_of(first, size, codec) for first, size in zip(firsts, sizes, strict=False))
    offsets = [first + one for first, size in zip(firsts, sizes, strict=False) for one in range(size)]
    times = data.draw(st.lists(st.integers(0, 3), min_size=len(offsets), max_size=len(offsets)))
    kept = dict(zip(offsets, times, strict=True))
    returned = frozenset(data.draw(st.sets(st.sampled_from(sorted(CARRIED_COLUMNS)))))
    run = Row(RUN, "orders", 1, 0, 10_000, payload=payload)
    every = [
        _aimed(batch.take(pa.array(np.repeat(np.arange(len(batch)), [kept[at] for at in _offsets(batch)]))))
        for batch in Decoding().records(run, memoryview(payload))
        if batch.column(0)[0].as_py() == RECORD
    ]
    wanted = _records(make_pieces(every, Kept(memoryview(payload), RETURNED_COLUMNS), ORIGIN, no_sizes))
    some = [_without(batch, CARRIED_COLUMNS.difference(written_columns(returned))) for batch in every]
    assert _records(make_pieces(some, Kept(memoryview(payload), returned), ORIGIN, no_sizes)) == wanted
    assert [offset for offset, *_ in wanted] == [at for at in offsets for _ in range(kept[at])]


def _offsets(rows: pa.RecordBatch) -> list[int]:
    return rows.column("offset").to_pylist()


def _aimed(rows: pa.RecordBatch) -> pa.RecordBatch:
    rows = rows.append_column("target_topic", pa.array([HOME.topic] * len(rows), pa.string()))
    return rows.append_column("target_partition", pa.array([HOME.partition] * len(rows), pa.int32()))


def _without(rows: pa.RecordBatch, names: frozenset[str]) -> pa.RecordBatch:
    for name in names:
        rows = rows.drop_columns([name])
    return rows


def _records(pieces: Any) -> list[tuple[int, bytes | None, bytes | None, Any, int]]:
    found = []
    for _, piece in pieces:
        offsets = source_offsets(piece.spans)
        for offset, one in zip(offsets, decode_records(piece.data), strict=True):
            found.append((offset, one.key, one.value, one.headers, one.timestamp))
    return found


HOW = st.sampled_from(["same"] * 12 + ["set", "dropped", "elsewhere", "several"])
ELSEWHERE = TopicPartition("x", 1)


def _changed(rows: pa.RecordBatch, hows: dict[int, str], returned: frozenset[str]) -> pa.RecordBatch:
    """What Spark gives back where each record has a fate of its own."""
    offsets = _offsets(rows)
    times = [{"dropped": 0, "several": 2}.get(hows[at], 1) for at in offsets]
    rows = rows.take(pa.array(np.repeat(np.arange(len(rows)), times)))
    fates = [hows[at] for at in _offsets(rows)]
    same = [fate not in ("set", "several") for fate in fates]
    columns: dict[str, list[Any]] = {name: rows.column(name).to_pylist() for name in rows.schema.names}
    columns["payload"] = [b"" if one else None for one in same]
    for at, is_same in enumerate(same):
        for name in returned & CARRIED_COLUMNS:
            if not is_same:
                columns[name][at] = {"headers": [], "timestamp": 77}.get(name, SET_KEY)
            elif name != "timestamp" and not returned >= CONTENT_COLUMNS:
                columns[name][at] = None
        columns["target_topic"][at] = ELSEWHERE.topic if fates[at] == "elsewhere" else HOME.topic
        columns["target_partition"][at] = 1
    arrays = [pa.array(columns[name], rows.schema.field(name).type) for name in columns]
    made = pa.RecordBatch.from_arrays(arrays, names=list(columns))
    return _without(made, CARRIED_COLUMNS.difference(written_columns(returned)))


@settings(deadline=None)
@given(st.data())
def test_whatever_becomes_of_some_records_batches_without_them_stay_as_they_came(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.sampled_from([1, 3, 9, 12]), min_size=1, max_size=6))
    codec = data.draw(st.sampled_from([Codec.NONE, Codec.LZ4]))
    firsts = list(accumulate(sizes, initial=0))
    batches = [batch_of(first, size, codec) for first, size in zip(firsts, sizes, strict=False)]
    payload = b"".join(batches)
    hows = {at: data.draw(HOW) for at in range(firsts[-1])}
    carried = data.draw(st.sets(st.sampled_from(sorted(CARRIED_COLUMNS)), min_size=1))
    returned = frozenset(carried) | {"target_topic", "target_partition"}
    run = Row(RUN, "orders", 1, 0, 10_000, payload=payload)
    came = [_aimed(one) for one in Decoding().records(run, memoryview(payload)) if one.column(0)[0].as_py() == RECORD]
    rows = [_changed(one, hows, returned) for one in came]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_records, "_WHOLE_BYTES_MIN", 500)
        made = make_pieces(rows, Kept(memoryview(payload), returned), ORIGIN, lambda *_: 2)

    where = {"elsewhere": ELSEWHERE, "dropped": None}
    for place in (HOME, ELSEWHERE):
        wanted = []
        for one in (one for batch in batches for one in decode_records(batch)):
            how = hows[one.offset]
            record = (one.offset, one.key, one.value, one.headers, one.timestamp)
            if how in ("set", "several"):
                record = (
                    one.offset,
                    SET_KEY if "key" in returned else one.key,
                    SET_KEY if "value" in returned else one.value,
                    () if "headers" in returned else one.headers,
                    77 if "timestamp" in returned else one.timestamp,
                )
            if where.get(how, HOME) == place:
                wanted += [record] * (1 + (how == "several"))
        assert _records([one for one in made if one[0] == place]) == wanted
    passed = {bytes(piece.data[8:]) for target, piece in made if target == HOME}
    if len(payload) > JOINED_BYTES_MAX or not {"same", "dropped"}.issuperset(hows.values()):  # else they are joined
        for first, size, batch in zip(firsts, sizes, batches, strict=False):
            if len(batch) >= 500 and all(hows[at] == "same" for at in range(first, first + size)):
                assert batch[8:] in passed


def test_small_batches_of_unchanged_records_are_picked_without_being_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to one of which a record was changed; a few of them are joined without kernels."""
    returned = frozenset({"value", "target_topic"})
    monkeypatch.setattr(_Run, "restore", None)
    payload = b"".join(batch_of(at, 5, Codec.NONE) for at in range(0, 500, 5))
    run = Row(RUN, "orders", 1, 0, 10_000, payload=payload)
    came = [_aimed(one) for one in Decoding().records(run, memoryview(payload)) if one.column(0)[0].as_py() == RECORD]
    rows = [_changed(one, dict.fromkeys(range(500), "same"), returned) for one in came]
    made = make_pieces(rows, Kept(memoryview(payload), returned), NOT_PACKED, no_sizes)
    assert sum(piece.records for _, piece in made) == 500 and len(made) < 5
    monkeypatch.setattr(record_pieces, "join", None)
    few = payload[: len(batch_of(0, 5, Codec.NONE)) * 4]
    first = rows[0].slice(0, 20)
    ((_, piece),) = make_pieces([first], Kept(memoryview(few), returned), NOT_PACKED, no_sizes)
    assert piece.records == 20


def test_a_record_without_a_place_does_not_pass_with_the_batch_that_it_came_in() -> None:
    """A null is no place: nobody may take it for the one that mirrors its own."""
    payload = batch_of(0, 20, Codec.NONE)
    rows = pa.record_batch({"offset": pa.array(np.arange(20)), "target_topic": pa.nulls(20, pa.string())})
    with pytest.raises(Unroutable, match="offset 0 no topic"):
        make_pieces([rows], Kept(memoryview(payload), frozenset({"target_topic"})), NOT_PACKED, no_sizes)
    rows = pa.record_batch({"offset": pa.array(np.arange(20)), "target_partition": pa.nulls(20, pa.int32())})
    kept = Kept(memoryview(payload), frozenset({"target_partition"}))
    placed = {where.partition for where, _ in make_pieces([rows], kept, NOT_PACKED, lambda *_: 3)}
    assert placed == {murmur2_partition(b"k%d" % at, 3) for at in range(20)}


def test_a_whole_batch_that_goes_elsewhere_may_take_what_the_flow_says() -> None:
    """129 MiB that came in some 30 KB."""
    noise = np.random.default_rng(1).bytes(20_000)
    records = [Record(at, 0, None, bytes(1 << 20)) for at in range(129)]
    batch = encode_batch([*records, Record(129, 0, None, noise)], Codec.ZSTD)
    rows = pa.record_batch({"offset": pa.array(np.arange(130)), "target_topic": pa.array(["A.orders-x"] * 130)})

    def pieces(unpacked_bytes_max: int) -> Any:
        bound = Bound(unpacked_bytes_max, unpacked_bytes_max)
        kept = Kept(memoryview(batch), frozenset({"target_topic"}), bound)
        return make_pieces([rows], kept, ORIGIN, lambda *_: 1)

    assert sum(piece.records for _, piece in pieces(256 << 20)) == 130
    with pytest.raises(ContentTooLarge):
        pieces(128 << 20)
