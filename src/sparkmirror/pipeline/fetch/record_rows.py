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

from sparkmirror.batch.any_format import decode_alike
from sparkmirror.batch.arrow_content import content_arrays, repeat
from sparkmirror.batch.columns import Columns, decode_some
from sparkmirror.batch.headers import NEXT_OFFSET, POSITION, RECORDS, Headers, read_headers
from sparkmirror.batch.unpacking import CONTENT_HINT, USUAL_BOUND, Bound
from sparkmirror.errors import ContentTooLarge, ProtocolError
from sparkmirror.pipeline.fetch.few_records import few_rows
from sparkmirror.pipeline.fetch.reader_options import AtLease
from sparkmirror.pipeline.relay.options import CARRIED_COLUMNS, CONTENT_COLUMNS
from sparkmirror.pipeline.relay.schema import (
    FLUSH,
    RECORD,
    REFUSED,
    RUN,
    TRAIL,
    Row,
    padding,
    record_rows,
    record_schema,
    to_record_rows,
)

CHUNK_BYTES = 4 << 20
"""About so many bytes of decompressed records are held at once."""
_SMALL_BYTES = 64 << 10
"""Runs of up to so many bytes are decoded together."""
_FEW_BYTES = 128 << 10
"""Of an answer whose records are decoded one by one, if they are few."""
_NOTHING = memoryview(b"")


class _Together(NamedTuple):
    """The records of several runs, `of_run` says of which each is, and the codec of each run's last batch."""

    columns: Columns
    of_run: NDArray[np.int64]
    codecs: Sequence[int]


@dataclass(frozen=True)
class Decoding:
    """How a task's runs become records: the `carried` columns are there, `bound` is for each batch. Of values that are
    JSON objects the `members` may be there alone, if there are any."""

    carried: frozenset[str] = CARRIED_COLUMNS
    bound: Bound = USUAL_BOUND
    members: frozenset[str] = frozenset()

    @cached_property
    def schema(self) -> pa.Schema:
        return record_schema(self.carried)

    @cached_property
    def _padding(self) -> pa.RecordBatch:
        return padding(self.schema)

    @cached_property
    def _further_padding(self) -> pa.RecordBatch:
        return padding(self.schema, TRAIL)

    def rows(self, batches: Iterator[Sequence[Row]], at_lease: AtLease) -> Iterator[pa.RecordBatch]:
        """Rows of `pipeline.relay.schema` as rows of its `RECORD_SCHEMA`, and padding behind each batch of them,
        as much as it has trail rows; `at_lease` gives the bytes of a lease."""
        for batch in batches:
            shown = [row for row in batch if row.kind not in (FLUSH, TRAIL)]
            yield from self._decode(shown, [_payload(row, at_lease) for row in shown])
            yield self._padding
            yield from [self._further_padding] * (sum(row.kind == TRAIL for row in batch) - 1)

    def _decode(self, rows: Sequence[Row], payloads: Sequence[memoryview]) -> Iterator[pa.RecordBatch]:
        if rows and sum(map(len, payloads)) <= _FEW_BYTES:
            few = few_rows(rows, payloads, self.schema, self.bound)
            if few is not None:
                yield few
                return
        first = gathered = 0
        for at, (row, payload) in enumerate(zip(rows, payloads, strict=True)):
            if gathered + len(payload) > CHUNK_BYTES or len(payload) > _SMALL_BYTES:
                yield from self._gather(rows[first:at], payloads[first:at])
                first, gathered = at, 0
            if len(payload) > _SMALL_BYTES:
                yield from self.records(row, payload)
                first = at + 1
            else:
                gathered += len(payload)
        yield from self._gather(rows[first:], payloads[first:])

    def _gather(self, rows: Sequence[Row], payloads: Sequence[memoryview]) -> Iterator[pa.RecordBatch]:
        """The records of small runs, and their own rows: as one batch, or a few where they become large."""
        at = 0
        while at < len(rows):
            if not any(payloads[at:]):
                yield to_record_rows(rows[at:], schema=self.schema)
                return
            found = self._decode_together(rows[at:], payloads[at:])
            if found is not None:
                yield self._close_together(rows[at : at + len(found.codecs)], found)
                at += len(found.codecs)
                continue
            if len(payloads[at]):
                yield from self.records(rows[at], payloads[at])
            else:
                yield to_record_rows(rows[at : at + 1], schema=self.schema)
            at += 1

    def _decode_together(self, rows: Sequence[Row], payloads: Sequence[memoryview]) -> _Together | None:
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
        begins = np.array([row.first_offset or 0 for row in rows[:count]])
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
                columns, stop = decode_alike(payload, headers, row, bound=self.bound, enough_bytes=CHUNK_BYTES)
                kept = columns.rows(int(np.searchsorted(columns.offsets, run.first_offset or 0)), len(columns))
                if count := len(kept):
                    names = repeat(run.topic, count), repeat(run.proposed_topic, count)
                    partitions = pa.array(np.full(count, run.partition, np.int32))
                    yield self._record_rows(kept, names[0], partitions, names[1])
                row = stop
            yield _closing(run, headers, self.schema)
        except ProtocolError as problem:
            reason = f"{problem}; {CONTENT_HINT}" if isinstance(problem, ContentTooLarge) else str(problem)
            read = headers.rows(0, row) if headers and row else None
            yield from _refuse(run, payload, read, reason.encode(), self.schema)

    def _close_together(self, rows: Sequence[Row], found: _Together) -> pa.RecordBatch:
        """Each run's records, and its own row behind them."""
        columns, of_run, codecs = found
        closing = to_record_rows(rows, codecs, schema=self.schema)
        if not len(columns):
            return closing
        spread = pa.array(of_run)
        names, partitions, proposed = (
            closing.column(name).take(spread) for name in ("topic", "partition", "proposed_topic")
        )
        both = pa.concat_batches([self._record_rows(columns, names, partitions, proposed), closing])
        own = len(columns) + np.arange(len(rows))
        behind = np.searchsorted(of_run, np.arange(len(rows)), "right")
        return both.take(pa.array(np.insert(np.arange(len(columns)), behind, own)))

    def _record_rows(
        self, columns: Columns, topics: pa.Array, partitions: pa.Array, proposed: pa.Array
    ) -> pa.RecordBatch:
        values: dict[str, Any] = {
            "kind": repeat(RECORD, len(columns)),
            "topic": topics,
            "partition": partitions,
            "proposed_topic": proposed,
            "offset": pa.array(columns.offsets),
            "timestamp": pa.array(columns.timestamps),
        }
        values |= content_arrays(columns, CONTENT_COLUMNS.intersection(self.schema.names), self.members)
        return record_rows(values, len(columns), self.schema)


def _payload(row: Row, at_lease: AtLease) -> memoryview:
    """The batches of a run; nothing of other rows."""
    if row.kind != RUN:
        return _NOTHING
    if row.lease is not None:
        return at_lease(row.lease, row.bytes)
    return _NOTHING if row.payload is None else memoryview(row.payload)


def _first_batches(headers: Headers, payloads: Sequence[memoryview]) -> NDArray[np.int64] | None:
    """Which batch is the first of each run, and how many there are; None where a run ends within a batch, or goes
    back."""
    begins = np.fromiter(accumulate(map(len, payloads), initial=0), np.int64, len(payloads) + 1)
    positions = np.append(headers.table[:, POSITION], headers.stop)
    edges = np.searchsorted(positions, begins)
    is_whole = headers.stop == begins[-1] and (positions[edges] == begins).all()
    return edges if is_whole and np.isin(headers.going_back, edges).all() else None


def _closing(run: Row, headers: Headers, schema: pa.Schema) -> pa.RecordBatch:
    codec = int(headers.codec_of(len(headers) - 1)) if len(headers) else 0
    return to_record_rows([run], [codec], schema=schema)


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
    yield to_record_rows([run._replace(kind=REFUSED, payload=reason)], offset=at, schema=schema)
