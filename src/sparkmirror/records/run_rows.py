"""The rows of `kafka-runs` without a mirror: record batches as a fetch brought them, cut to a range's records. Pure.

Called by `records.range_reader`, in Spark's workers. Columns mean what they mean in a mirror's rows
(`pipeline.relay.schema`).
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparkmirror.batch.any_format import decode_alike
from sparkmirror.batch.columns import Columns, check_sums
from sparkmirror.batch.encoding import encode
from sparkmirror.batch.header import MAGIC, Codec
from sparkmirror.batch.headers import (
    BASE_OFFSET,
    MAGIC_NUMBER,
    MAX_TIMESTAMP,
    NEXT_OFFSET,
    POSITION,
    RECORDS,
    TOTAL_BYTES,
    Headers,
)
from sparkmirror.batch.part import Part, overlapping
from sparkmirror.batch.rewrite import dense_parts
from sparkmirror.batch.unpacking import USUAL_BOUND, Bound
from sparkmirror.errors import ContentTooLarge, ProtocolError
from sparkmirror.model import TopicPartition
from sparkmirror.records.rows import too_large

DDL: Final = (
    "topic string, partition int, first_offset bigint, next_offset bigint, batches int, records bigint, bytes bigint, "
    "max_timestamp bigint, payload binary"
)
_ARROW: Final = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "binary": pa.binary()}
TYPES: Final[Mapping[str, str]] = dict(column.split(" ", 1) for column in DDL.split(", "))
"""Spark's type of each column."""
SCHEMA: Final = pa.schema([pa.field(name, _ARROW[kind]) for name, kind in TYPES.items()])
RUN_BYTES: Final = 1 << 20
"""A row has no more batches than these bytes, but at least one."""
_ANY_SIZE: Final = 1 << 30


class _Run(NamedTuple):
    """Whole batches, and what a row says of them."""

    payload: bytes
    first_offset: int
    next_offset: int
    batches: int
    records: int
    max_timestamp: int


def run_batches(
    part: Part, where: TopicPartition, first: int, end: int, bound: Bound = USUAL_BOUND
) -> Iterator[pa.RecordBatch]:
    """The batches of a part with the records at offsets `first` … `end - 1`, in order, a row at a time. A batch that
    has others too is made new, of its codec. Raises ProtocolError, ContentTooLarge for one beyond the `bound`."""
    try:
        table = overlapping(part.table, first, end) if first < end else part.table[:0]
        for run in _runs(part.buffer, table[table[:, RECORDS] != 0], first, end, bound):
            yield _row(run, where)
    except ContentTooLarge as large:
        raise too_large(where, large) from None
    except ProtocolError as problem:
        raise ProtocolError(f"{where}: {problem.args[0]}") from None


def _runs(buffer: memoryview, table: NDArray[np.int64], first: int, end: int, bound: Bound) -> Iterator[_Run]:
    if not len(table):
        return
    old = table[:, MAGIC_NUMBER] != MAGIC
    if not old.all():
        check_sums(buffer, Headers(table[~old], 0))
    # A compressed message of an old format does not say where it begins, but that it is read from `first` on.
    may_begin_before = (table[:, BASE_OFFSET] < first) | (old & (table[:, BASE_OFFSET] == first))
    is_edge = may_begin_before | (table[:, NEXT_OFFSET] > end)
    for start, stop in pairwise(_edges(table, is_edge)):
        group = table[start:stop]
        if is_edge[start]:
            yield from _cut(buffer, group, first, end, bound)
        else:
            yield _whole(buffer, group)


def _edges(table: NDArray[np.int64], is_alone: NDArray[np.bool_]) -> list[int]:
    """Where each row begins, and the end: of batches up to RUN_BYTES, or of one that is alone."""
    edges, size = [0], 0
    for row, (batch_bytes, alone) in enumerate(zip(table[:, TOTAL_BYTES].tolist(), is_alone.tolist(), strict=True)):
        is_first = row == edges[-1]
        if not is_first and (alone or is_alone[row - 1] or size + batch_bytes > RUN_BYTES):
            edges.append(row)
            size = 0
        size += batch_bytes
    return [*edges, len(table)]


def _whole(buffer: memoryview, group: NDArray[np.int64]) -> _Run:
    ends = group[:, POSITION] + group[:, TOTAL_BYTES]
    breaks = [0, *(np.flatnonzero(group[1:, POSITION] != ends[:-1]) + 1).tolist(), len(group)]
    payload = b"".join(buffer[group[low, POSITION] : ends[high - 1]] for low, high in pairwise(breaks))
    first, end = int(group[0, BASE_OFFSET]), int(group[-1, NEXT_OFFSET])
    return _Run(payload, first, end, len(group), int(group[:, RECORDS].sum()), int(group[:, MAX_TIMESTAMP].max()))


def _cut(buffer: memoryview, batch: NDArray[np.int64], first: int, end: int, bound: Bound) -> Iterator[_Run]:
    """One batch, as it is where none of its records is outside of the range."""
    headers = Headers(batch, int(batch[0, POSITION] + batch[0, TOTAL_BYTES]))
    columns, _ = decode_alike(buffer, headers, 0, bound=bound, enough_bytes=1)
    low, high = (int(found) for found in np.searchsorted(columns.offsets, (first, end)))
    if low < high:
        wanted = columns.rows(low, high)
        if len(wanted) == len(columns):
            parts = [bytes(buffer[batch[0, POSITION] : headers.stop])]
        else:
            parts = _encoded(wanted, headers.codec_of(0))
        offsets, latest_ms = wanted.offsets, int(wanted.timestamps.max())
        yield _Run(b"".join(parts), int(offsets[0]), int(offsets[-1]) + 1, len(parts), len(wanted), latest_ms)


def _encoded(columns: Columns, codec: Codec) -> list[bytes]:
    """With their offsets: a batch for each range without holes."""
    return [
        piece.spans[0].first_offset.to_bytes(8, "big") + bytes(piece.data[8:])
        for part in dense_parts(columns)
        for piece in encode(part, codec, _ANY_SIZE)
    ]


def _row(run: _Run, where: TopicPartition) -> pa.RecordBatch:
    values = {**run._asdict(), "topic": where.topic, "partition": where.partition, "bytes": len(run.payload)}
    return pa.RecordBatch.from_arrays([pa.array([values[one.name]], one.type) for one in SCHEMA], schema=SCHEMA)
