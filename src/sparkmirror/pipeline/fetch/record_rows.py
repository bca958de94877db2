"""Decodes fetched runs into record rows, for flows with transforms. Used by `spark.run_reader`.

Behind `pipeline.fetch.reader`: rows in, rows out, in the same order. A run's own row comes behind its records, also
where it has none. Small runs that come together are decoded together: each call of numpy and Arrow costs the same for
one record as for a hundred, and a mirror that has caught up reads a few at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparkmirror.batch.arrow_content import content_arrays, repeat
from sparkmirror.batch.columns import Columns, decode_some
from sparkmirror.batch.headers import NEXT_OFFSET, POSITION, RECORDS, Headers, read_headers
from sparkmirror.batch.unpacking import CONTENT_HINT, USUAL_BOUND, Bound
from sparkmirror.errors import ContentTooLarge, ProtocolError
from sparkmirror.pipeline.fetch.reader_options import AtLease
from sparkmirror.pipeline.relay.options import CARRIED_COLUMNS, CONTENT_COLUMNS
from sparkmirror.pipeline.relay.schema import (
    FLUSH,
    RECORD,
    REFUSED,
    ROW_SCHEMA,
    RUN,
    TRAIL,
    Row,
    padding,
    record_rows,
    record_schema,
    to_arrow,
    to_record_rows,
)

CHUNK_BYTES = 4 << 20
"""About so many bytes of decompressed records are held at once."""
_SMALL_BYTES = 64 << 10
"""Runs of up to so many bytes are decoded together."""
_NOTHING = memoryview(b"")
_PAYLOAD = ROW_SCHEMA.get_field_index("payload")


class _Together(NamedTuple):
    """The records of several runs, `of_run` says of which each is, and the codec of each run's last batch."""

    columns: Columns
    of_run: NDArray[np.int64]
    codecs: Sequence[int]


@dataclass(frozen=True)
class Decoding:
    """How a task's runs become records: the `carried` columns are there, `bound` is for each batch."""

    carried: frozenset[str] = CARRIED_COLUMNS
    bound: Bound = USUAL_BOUND

    @cached_property
    def schema(self) -> pa.Schema:
        return record_schema(self.carried)

    @cached_property
    def _padding(self) -> pa.RecordBatch:
        return padding(self.schema)

    def rows(self, batches: Iterator[pa.RecordBatch], at_lease: AtLease) -> Iterator[pa.RecordBatch]:
        """Rows of `pipeline.relay.schema` as rows of its `RECORD_SCHEMA`, and padding behind each batch of them;
        `at_lease` gives the bytes of a lease."""
        for batch in batches:
            yield from self._decode(batch, at_lease)
            yield self._padding

    def _decode(self, batch: pa.RecordBatch, at_lease: AtLease) -> Iterator[pa.RecordBatch]:
        shown = [row for row in _rows_of(batch) if row.kind not in (FLUSH, TRAIL)]  # which come last
        payloads: list[memoryview] = []
        first = gathered = 0
        for at, row in enumerate(shown):
            payload = _payload(row, batch, at, at_lease)
            if gathered + len(payload) > CHUNK_BYTES or len(payload) > _SMALL_BYTES:
                yield from self._gather(batch.slice(first, at - first), shown[first:at], payloads)
                first, gathered, payloads = at, 0, []
            if len(payload) > _SMALL_BYTES:
                yield from self.records(row, payload)
                first = at + 1
            else:
                payloads.append(payload)
                gathered += len(payload)
        yield from self._gather(batch.slice(first, len(shown) - first), shown[first:], payloads)

    def _gather(
        self, rows: pa.RecordBatch, shown: Sequence[Row], payloads: Sequence[memoryview]
    ) -> Iterator[pa.RecordBatch]:
        """The records of small runs, and their own rows: as one batch, or a few where they become large."""
        at = 0
        while at < len(shown):
            if not any(payloads[at:]):
                yield to_record_rows(rows.slice(at), schema=self.schema)
                return
            found = self._decode_together(shown[at:], payloads[at:])
            if found is not None:
                yield _close_together(rows.slice(at, len(found.codecs)), found, self.schema)
                at += len(found.codecs)
                continue
            if len(payloads[at]):
                yield from self.records(shown[at], payloads[at])
            else:
                yield to_record_rows(rows.slice(at, 1), schema=self.schema)
            at += 1

    def _decode_together(self, shown: Sequence[Row], payloads: Sequence[memoryview]) -> _Together | None:
        """As many of these runs as fit; None where none does, or something of them is to be refused: the first is then
        decoded by itself."""
        joined = memoryview(b"".join(payloads))
        try:
            headers = read_headers(joined, 0, len(joined))
            edges = _first_batches(headers, payloads)
            if edges is None:
                return None
            columns, stop = decode_some(
                joined, headers, 0, bound=self.bound, enough_bytes=CHUNK_BYTES, of_one_log=False
            )
            count = int(np.searchsorted(edges, stop, "right")) - 1
            codecs = [int(headers.codec_of(at - 1)) if at else 0 for at in edges[1 : count + 1].tolist()]
        except ProtocolError:
            return None
        if not count:
            return None
        counts = np.where(headers.are_control, 0, headers.table[:, RECORDS])[: edges[count]]
        before = np.append(0, np.cumsum(counts))
        of_run = np.repeat(np.arange(count), np.diff(before[edges[: count + 1]]))
        begins = np.array([row.first_offset or 0 for row in shown[:count]])
        wanted = np.flatnonzero(columns.offsets[: len(of_run)] >= begins[of_run])
        return _Together(columns.pick(wanted), of_run[wanted], codecs)

    def records(self, run: Row, payload: memoryview) -> Iterator[pa.RecordBatch]:
        """The records of a run from its `first_offset` on, and behind them the run's own row.

        If the bytes cannot be decoded from some batch on, a refused row stands for these.
        """
        if run.lease is None:
            run = run._replace(payload=bytes(payload))
        headers, row = None, 0
        try:
            headers = read_headers(payload, 0, len(payload))
            while row < len(headers):
                columns, stop = decode_some(payload, headers, row, bound=self.bound, enough_bytes=CHUNK_BYTES)
                kept = columns.rows(int(np.searchsorted(columns.offsets, run.first_offset or 0)), len(columns))
                if count := len(kept):
                    names = repeat(run.topic, count), repeat(run.proposed_topic, count)
                    partitions = pa.array(np.full(count, run.partition, np.int32))
                    yield _record_rows(kept, names[0], partitions, names[1], self.schema)
                row = stop
            yield _closing(run, headers, self.schema)
        except ProtocolError as problem:
            reason = f"{problem}; {CONTENT_HINT}" if isinstance(problem, ContentTooLarge) else str(problem)
            read = headers.rows(0, row) if headers and row else None
            yield from _refuse(run, payload, read, reason.encode(), self.schema)


def _rows_of(batch: pa.RecordBatch) -> list[Row]:
    """The rows of a batch, without their payloads."""
    columns = [column.to_pylist() if at != _PAYLOAD else [None] * len(batch) for at, column in enumerate(batch.columns)]
    return [Row(*values) for values in zip(*columns, strict=True)]


def _payload(row: Row, batch: pa.RecordBatch, at: int, at_lease: AtLease) -> memoryview:
    """The batches of a run; nothing of other rows."""
    if row.kind != RUN:
        return _NOTHING
    if row.lease is not None:
        return at_lease(row.lease, row.bytes)
    inline = batch.column(_PAYLOAD)[at].as_buffer()
    return _NOTHING if inline is None else memoryview(inline).cast("B")


def _first_batches(headers: Headers, payloads: Sequence[memoryview]) -> NDArray[np.int64] | None:
    """Which batch is the first of each run, and how many there are; None where a run ends within a batch, or goes
    back."""
    begins = np.fromiter(accumulate(map(len, payloads), initial=0), np.int64, len(payloads) + 1)
    positions = np.append(headers.table[:, POSITION], headers.stop)
    edges = np.searchsorted(positions, begins)
    is_whole = headers.stop == begins[-1] and (positions[edges] == begins).all()
    return edges if is_whole and np.isin(headers.going_back, edges).all() else None


def _close_together(rows: pa.RecordBatch, found: _Together, schema: pa.Schema) -> pa.RecordBatch:
    """Each run's records, and its own row behind them."""
    columns, of_run, codecs = found
    closing = to_record_rows(rows, codecs, schema=schema)
    if not len(columns):
        return closing
    spread = pa.array(of_run)
    names, partitions, proposed = (rows.column(name).take(spread) for name in ("topic", "partition", "proposed_topic"))
    both = pa.concat_batches([_record_rows(columns, names, partitions, proposed, schema), closing])
    own = len(columns) + np.arange(len(rows))
    behind = np.searchsorted(of_run, np.arange(len(rows)), "right")
    return both.take(pa.array(np.insert(np.arange(len(columns)), behind, own)))


def _closing(run: Row, headers: Headers, schema: pa.Schema) -> pa.RecordBatch:
    codec = int(headers.codec_of(len(headers) - 1)) if len(headers) else 0
    return to_record_rows(to_arrow([run]), [codec], schema=schema)


def _refuse(
    run: Row, payload: memoryview, read: Headers | None, reason: bytes, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Rows for a run of which only the batches `read` could be decoded. Memory that was lent goes back at once, so one
    row says where they end; a payload of its own is cut in two."""
    at = run.first_offset or 0
    if read is not None:
        at = max(at, int(read.table[-1, NEXT_OFFSET]))
    if run.lease is None and read is not None:
        yield _closing(run._replace(next_offset=at, bytes=read.stop, payload=bytes(payload[: read.stop])), read, schema)
        run = run._replace(first_offset=at, bytes=run.bytes - read.stop)
    yield to_record_rows(to_arrow([run._replace(kind=REFUSED, payload=reason)]), offset=at, schema=schema)


def _record_rows(
    columns: Columns, topics: pa.Array, partitions: pa.Array, proposed: pa.Array, schema: pa.Schema
) -> pa.RecordBatch:
    values: dict[str, Any] = {
        "kind": repeat(RECORD, len(columns)),
        "topic": topics,
        "partition": partitions,
        "proposed_topic": proposed,
        "offset": pa.array(columns.offsets),
        "timestamp": pa.array(columns.timestamps),
    }
    values |= content_arrays(columns, CONTENT_COLUMNS.intersection(schema.names))
    return record_rows(values, len(columns), schema)
