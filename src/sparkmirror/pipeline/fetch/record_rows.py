"""Decodes fetched runs into record rows, for flows with transforms. Used by `spark.run_reader`.

Behind `pipeline.fetch.reader`: rows in, rows out, in the same order. A run's own row comes behind its records, also
where it has none.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sparkmirror.batch.arrow_content import content_arrays, repeat
from sparkmirror.batch.columns import Columns, decode_some
from sparkmirror.batch.headers import NEXT_OFFSET, Headers, read_headers
from sparkmirror.batch.unpacking import CONTENT_HINT, USUAL_BOUND, Bound
from sparkmirror.errors import ContentTooLarge, ProtocolError
from sparkmirror.pipeline.fetch.reader_options import AtLease
from sparkmirror.pipeline.relay.options import CARRIED_COLUMNS
from sparkmirror.pipeline.relay.schema import (
    FLUSH,
    PADDING,
    RECORD,
    REFUSED,
    RUN,
    TRAIL,
    Row,
    record_rows,
    to_arrow,
    to_record_rows,
)

CHUNK_BYTES = 1 << 20
"""About so many bytes of decompressed records are held at once."""
_PADDING_SECONDS = 0.1
"""How often rows are flushed while data arrives. After the last ones `pipeline.fetch.reader` does, each second."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """How a task's runs become records: the `carried` columns are filled, `bound` is for each batch."""

    carried: frozenset[str] = CARRIED_COLUMNS
    bound: Bound = USUAL_BOUND

    def rows(self, batches: Iterator[pa.RecordBatch], at_lease: AtLease) -> Iterator[pa.RecordBatch]:
        """Rows of `pipeline.relay.schema` as rows of its `RECORD_SCHEMA`; `at_lease` gives the bytes of a lease."""
        pushed_at = 0.0
        for batch in batches:
            for at, kind in enumerate(batch.column(0).to_pylist()):
                if kind not in (FLUSH, TRAIL):
                    yield from self._decode_row(batch.slice(at, 1), at_lease)
                elif kind == TRAIL or time.monotonic() - pushed_at >= _PADDING_SECONDS:
                    pushed_at = time.monotonic()
                    yield PADDING

    def _decode_row(self, row: pa.RecordBatch, at_lease: AtLease) -> Iterator[pa.RecordBatch]:
        run = Row(*(column[0].as_py() for column in row.columns)) if row.column(0)[0].as_py() == RUN else None
        if run is None or (run.lease is None and not run.payload):
            yield to_record_rows(row)
            return
        payload = memoryview(run.payload or b"") if run.lease is None else at_lease(run.lease, run.bytes)
        yield from self.records(run, payload)

    def records(self, run: Row, payload: memoryview) -> Iterator[pa.RecordBatch]:
        """The records of a run from its `first_offset` on, and behind them the run's own row.

        If the bytes cannot be decoded from some batch on, a refused row stands for these.
        """
        headers, row = None, 0
        try:
            headers = read_headers(payload, 0, len(payload))
            while row < len(headers):
                columns, stop = decode_some(payload, headers, row, bound=self.bound, enough_bytes=CHUNK_BYTES)
                kept = columns.rows(int(np.searchsorted(columns.offsets, run.first_offset or 0)), len(columns))
                if len(kept):
                    yield _record_rows(kept, run, self.carried)
                row = stop
            yield _closing(run, headers)
        except ProtocolError as problem:
            reason = f"{problem}; {CONTENT_HINT}" if isinstance(problem, ContentTooLarge) else str(problem)
            yield from _refuse(run, payload, headers.rows(0, row) if headers and row else None, reason.encode())


def _closing(run: Row, headers: Headers) -> pa.RecordBatch:
    codec = int(headers.codec_of(len(headers) - 1)) if len(headers) else 0
    return to_record_rows(to_arrow([run]), codec)


def _refuse(run: Row, payload: memoryview, read: Headers | None, reason: bytes) -> Iterator[pa.RecordBatch]:
    """Rows for a run of which only the batches `read` could be decoded. Memory that was lent goes back at once, so one
    row says where they end; a payload of its own is cut in two."""
    at = run.first_offset or 0
    if read is not None:
        at = max(at, int(read.table[-1, NEXT_OFFSET]))
    if run.lease is None and read is not None:
        yield _closing(run._replace(next_offset=at, bytes=read.stop, payload=bytes(payload[: read.stop])), read)
        run = run._replace(first_offset=at, bytes=run.bytes - read.stop)
    yield to_record_rows(to_arrow([run._replace(kind=REFUSED, payload=reason)]), offset=at)


def _record_rows(columns: Columns, run: Row, carried: frozenset[str]) -> pa.RecordBatch:
    count = len(columns)
    values: dict[str, Any] = {
        "kind": repeat(RECORD, count),
        "topic": repeat(run.topic, count),
        "partition": pa.array(np.full(count, run.partition, np.int32)),
        "proposed_topic": repeat(run.proposed_topic, count),
        "offset": pa.array(columns.offsets),
        "timestamp": pa.array(columns.timestamps),
    }
    values |= content_arrays(columns, carried)
    return record_rows(values, count)
