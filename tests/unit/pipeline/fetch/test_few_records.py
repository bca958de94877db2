"""Few records are decoded one by one as the kernels decode them, and what is unusual is left to these."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batch import crc
from sparkmirror.batch.header import APPEND_TIME, ATTRIBUTES_AT, CONTROL, Codec
from sparkmirror.batch.records import Record, encode_batch
from sparkmirror.batch.unpacking import USUAL_BOUND, Bound
from sparkmirror.pipeline.fetch.few_records import RECORDS_MAX, few_rows
from sparkmirror.pipeline.fetch.record_rows import Decoding
from sparkmirror.pipeline.relay.options import CARRIED_COLUMNS
from sparkmirror.pipeline.relay.schema import GAP, RUN, Row, record_schema

_CRC_AT, _DELTA_AT = 17, 23

contents = st.none() | st.binary(max_size=200)
times = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(1_790_000_000_000, 1_790_000_001_000)
headers = st.lists(st.tuples(st.text(max_size=5).map(str.encode), contents), max_size=3).map(tuple)
records = st.builds(Record, st.just(0), times, contents, contents, headers)


def changed(batch: bytes, attributes: int = 0, holes: int = 0) -> bytes:
    """With more attributes, and the last offset so much later."""
    data = bytearray(batch)
    data[ATTRIBUTES_AT + 1] |= attributes
    last = int.from_bytes(data[_DELTA_AT : _DELTA_AT + 4], "big") + holes
    data[_DELTA_AT : _DELTA_AT + 4] = last.to_bytes(4, "big")
    data[_CRC_AT : _CRC_AT + 4] = crc.value(bytes(data[ATTRIBUTES_AT:])).to_bytes(4, "big")
    return bytes(data)


@st.composite
def runs(draw: st.DrawFn) -> Row:
    """A run of a few batches, some with holes, of append time, or of markers; it may begin within the first."""
    at = first = draw(st.integers(0, 1 << 40))
    payload = b""
    for _ in range(draw(st.integers(1, 3))):
        some, codec = draw(st.lists(records, min_size=1, max_size=4)), draw(st.sampled_from(Codec))
        holes, attributes = draw(st.integers(0, 2)), draw(st.sampled_from([0, 0, APPEND_TIME, CONTROL]))
        payload += changed(encode_batch(some, codec, at), attributes, holes)
        at += len(some) + holes
    begins = first + draw(st.integers(0, 2))
    return Row(RUN, "orders", draw(st.integers(0, 9)), begins, at, 1, 4, len(payload), 5, at, 7, payload=payload)


def few(
    rows: list[Row], carried: frozenset[str] = CARRIED_COLUMNS, bound: Bound = USUAL_BOUND
) -> pa.RecordBatch | None:
    payloads = [memoryview(row.payload if row.kind == RUN and row.payload else b"") for row in rows]
    return few_rows(rows, payloads, record_schema(carried), bound)


@given(st.lists(runs(), min_size=1, max_size=3), st.sets(st.sampled_from(sorted(CARRIED_COLUMNS))))
def test_few_records_are_as_the_kernels_decode_them(some: list[Row], carried: set[str]) -> None:
    decoding = Decoding(frozenset(carried))
    each = [batch for run in some for batch in decoding.records(run, memoryview(run.payload or b""))]
    found = few(some, frozenset(carried))
    assert found is not None
    assert pa.Table.from_batches([found]).equals(pa.Table.from_batches(each).combine_chunks())


def run_of(payload: bytes, **other: Any) -> Row:
    return Row(RUN, "orders", 2, 0, 9, 1, 4, len(payload), 5, 9, 7, payload=payload, **other)


def test_a_row_that_is_no_run_stands_where_it_came() -> None:
    gap = Row(GAP, "orders", 4, 5, 9, payload=b"{}")
    found = few([run_of(encode_batch([(b"k", b"v")])), gap, run_of(encode_batch([(b"k", b"v")]))])
    assert found is not None
    assert found.column("kind").to_pylist() == ["record", RUN, GAP, "record", RUN]


BACK = encode_batch([(None, b"v")] * 2, base_offset=5) + encode_batch([(None, b"v")], base_offset=6)
UNUSUAL = {
    "many records": encode_batch([(None, b"v")] * (RECORDS_MAX + 1)),
    "many batches": b"".join(encode_batch([(None, b"v")], base_offset=at) for at in range(RECORDS_MAX + 1)),
    "a wrong checksum": encode_batch([(None, b"v")])[:-1] + b"\1",
    "a batch cut off": encode_batch([(None, b"v")])[:-1],
    "batches that go back": encode_batch([(None, b"v")] * 2, base_offset=5)
    + encode_batch([(None, b"v")], base_offset=6),
    "a name that is no text": encode_batch([Record(0, 1, None, None, ((b"\xff", b"v"),))]),
    "fewer offsets than records": changed(encode_batch([(None, b"v")] * 2), holes=-1),
    "a message of magic 1": bytes(8) + (30).to_bytes(4, "big") + bytes(4) + b"\1" + bytes(25),
    "bytes behind the last record": changed(
        encode_batch([(None, b"v")])[:8] + (51 + 9).to_bytes(4, "big") + encode_batch([(None, b"v")])[12:] + b"\0"
    ),
}


@pytest.mark.parametrize("payload", UNUSUAL.values(), ids=UNUSUAL)
def test_what_is_unusual_is_left_to_the_kernels(payload: bytes) -> None:
    assert few([run_of(payload)]) is None


def test_what_becomes_more_than_its_bound_is_left_to_the_kernels() -> None:
    payload = encode_batch([(None, bytes(5000))], Codec.LZ4)
    assert few([run_of(payload)]) is not None
    assert few([run_of(payload)], bound=Bound(100, 1000)) is None
