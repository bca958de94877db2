"""Decodes fetched runs into record rows, for flows with transforms. Used by `spark.record_reader`.

A generator behind `pipeline.fetch.reader`: rows in, rows out, in the same order. A run row closes every range of
records, also an empty one.
"""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from sparkmirror.batch.columns import Columns, decode_some
from sparkmirror.batch.headers import NEXT_OFFSET, RECORDS, TOTAL_BYTES, Headers, read_headers
from sparkmirror.batch.record_headers import decode_headers
from sparkmirror.batch.unpacking import CONTENT_HINT, USUAL_BOUND, Bound
from sparkmirror.errors import ContentTooLarge, ProtocolError
from sparkmirror.pipeline.relay.schema import (
    FLUSH,
    PADDING,
    RECORD,
    RECORD_SCHEMA,
    REFUSED,
    ROW_SCHEMA,
    RUN,
    TRAIL,
    Row,
    to_arrow,
    widen,
)

_CHUNK_BYTES = 1 << 20
_PADDING_SECONDS = 0.1
"""How often rows are flushed while data arrives. After the last ones `pipeline.fetch.reader` does, each second."""
_PAYLOAD = ROW_SCHEMA.get_field_index("payload")


def decode_rows(batches: Iterator[pa.RecordBatch], bound: Bound = USUAL_BOUND) -> Iterator[pa.RecordBatch]:
    """Rows of `pipeline.relay.schema`, payload inline, as rows of its `RECORD_SCHEMA`. `bound` is for each batch."""
    pushed_at = 0.0
    for batch in batches:
        for at, kind in enumerate(batch.column(0).to_pylist()):
            if kind not in (FLUSH, TRAIL):
                yield from _decode_row(batch, at, bound)
            elif kind == TRAIL or time.monotonic() - pushed_at >= _PADDING_SECONDS:
                pushed_at = time.monotonic()
                yield PADDING


def _decode_row(batch: pa.RecordBatch, at: int, bound: Bound) -> Iterator[pa.RecordBatch]:
    payload = batch.column(_PAYLOAD)[at]
    if batch.column(0)[at].as_py() != RUN or not payload.is_valid or not payload.as_buffer().size:
        yield widen(batch.slice(at, 1))
        return
    names = (name for name in batch.schema.names if name != "payload")
    run = Row(**{name: batch.column(name)[at].as_py() for name in names})
    yield from decode_run(run, memoryview(payload.as_buffer()), bound)


def decode_run(run: Row, payload: memoryview, bound: Bound = USUAL_BOUND) -> Iterator[pa.RecordBatch]:
    """The records of a run from its `first_offset` on, in chunks, each closed by a run row for its range.

    If the bytes cannot be decoded, one refused row stands for the rest of the range, with the reason as payload.
    """
    first, left = run.first_offset, run.bytes
    try:
        headers = read_headers(payload, 0, len(payload))
        row = 0
        while row < len(headers):
            columns, stop = decode_some(payload, headers, row, bound=bound, enough_bytes=_CHUNK_BYTES)
            is_last = stop == len(headers)
            closing = _closing(run, headers, row, stop, first, left if is_last else None)
            yield from _chunk(columns, closing, int(headers.codec_of(stop - 1)))
            row, first, left = stop, closing.next_offset, left - closing.bytes
    except ProtocolError as problem:
        reason = f"{problem}; {CONTENT_HINT}" if isinstance(problem, ContentTooLarge) else str(problem)
        rest = run._replace(kind=REFUSED, first_offset=first, bytes=left, payload=reason.encode(), lease=None)
        yield widen(to_arrow([rest]))


def _closing(run: Row, headers: Headers, row: int, stop: int, first: int | None, left: int | None) -> Row:
    """The run row for the batches `row` … `stop - 1`; the last one (`left` given) reaches the end of the whole run."""
    table = headers.table[row:stop]
    following = run.next_offset if left is not None else int(table[-1, NEXT_OFFSET])
    return run._replace(
        first_offset=first,
        next_offset=following,
        batches=stop - row,
        records=int(table[~headers.are_control[row:stop], RECORDS].sum()),
        bytes=int(table[:, TOTAL_BYTES].sum()) if left is None else left,
        payload=None,
        lease=None,
    )


def _chunk(columns: Columns, closing: Row, codec: int) -> Iterator[pa.RecordBatch]:
    kept = columns.rows(int(np.searchsorted(columns.offsets, closing.first_offset or 0)), len(columns))
    if len(kept):
        yield _record_rows(kept, closing)
    place = RECORD_SCHEMA.get_field_index("codec")
    yield widen(to_arrow([closing])).set_column(place, RECORD_SCHEMA.field(place), pa.array([codec], pa.int32()))


def _record_rows(columns: Columns, run: Row) -> pa.RecordBatch:
    count = len(columns)
    segments = _segments(columns)
    values: dict[str, Any] = {
        "kind": _repeat(RECORD, count),
        "topic": _repeat(run.topic, count),
        "partition": pa.array(np.full(count, run.partition, np.int32)),
        "proposed_topic": _repeat(run.proposed_topic, count),
        "offset": pa.array(columns.offsets),
        "timestamp": pa.array(columns.timestamps),
        "key": segments.take(_every_third(0, columns.key_lengths)),
        "value": segments.take(_every_third(1, columns.value_lengths)),
        "headers": decode_headers(segments.take(_every_third(2, columns.headers_lengths))),
    }
    arrays = [values.get(field.name) for field in RECORD_SCHEMA]
    filled = [
        pa.nulls(count, field.type) if array is None else array
        for array, field in zip(arrays, RECORD_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(filled, schema=RECORD_SCHEMA)


def _repeat(text: str | None, count: int) -> pa.Array:
    if text is None:
        return pa.nulls(count, pa.string())
    return pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array([text])).cast(pa.string())


def _segments(columns: Columns) -> pa.Array:
    """Key, value and headers of each record and what lies between them, as one binary array over the content.

    The places ascend, so their edges serve as Arrow's offsets without a copy, until `take` picks columns.
    """
    edges = np.empty((len(columns), 6), np.int32)
    for place in range(3):
        start, length = columns.places[:, 2 * place], columns.places[:, 2 * place + 1]
        edges[:, 2 * place] = start
        edges[:, 2 * place + 1] = start + np.maximum(length, 0)
    offsets = np.append(edges.reshape(-1), edges[-1, 5])
    return pa.Array.from_buffers(pa.binary(), edges.size, [None, pa.py_buffer(offsets), pa.py_buffer(columns.content)])


def _every_third(place: int, lengths: Any) -> pa.Array:
    return pa.array(np.arange(len(lengths), dtype=np.int64) * 6 + 2 * place, mask=lengths < 0)
