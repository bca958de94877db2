"""The rewrite path: batches that cannot pass through, or are better merged, rebuilt from their records; pure.

Called by `pipeline.produce.buffer`: where a batch straddles the position to resume at, has holes (compaction), append
time or a delete horizon, is of magic 0 or 1, is larger than the target topic takes, is to have another codec, and where
several small batches are to become one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from sparkmirror.batch.any_format import decode_old, read_whole
from sparkmirror.batch.columns import Columns, decode_some
from sparkmirror.batch.content_size import read_claim
from sparkmirror.batch.encoding import encode, range_sizes
from sparkmirror.batch.header import HEADER_BYTES, MAGIC, Codec
from sparkmirror.batch.headers import (
    BASE_OFFSET,
    MAGIC_NUMBER,
    NEXT_OFFSET,
    POSITION,
    RECORDS,
    TOTAL_BYTES,
    Headers,
)
from sparkmirror.batch.legacy import MESSAGE_BYTES
from sparkmirror.batch.piece import Piece
from sparkmirror.batch.splicing import splice
from sparkmirror.batch.unpacking import Bound, Unpacking

_UNTOLD_SHARE = 10
"""What a compressed byte is taken to become where a batch does not tell."""
_CHUNK_BATCHES = 4
_CHUNK_BYTES_MAX = 16 * 1024 * 1024
"""How much of many batches is unpacked at a time: some batches of the target's size, and no more than this."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the target topic takes: batches of at most `max_batch_bytes` (its `max.message.bytes`), and of at most
    `max_records`, if that is not None.

    `codec` None leaves each batch its own. Records from later than `clamp_to_ms` (ms since 1970) get that time instead;
    None leaves all as they are. With `keeps_offsets` the records of a batch have consecutive source offsets.
    """

    max_batch_bytes: int
    codec: Codec | None = None
    clamp_to_ms: int | None = None
    keeps_offsets: bool = False
    max_records: int | None = None


def rewrite(
    batches: memoryview,
    first_offset: int,
    limits: Limits,
    unpacking: Unpacking | None = None,
    bound: Bound | None = None,
) -> Iterator[Piece]:
    """The records of whole consecutive batches of any magic, from source offset `first_offset` on, in new batches.

    Holes are closed, append time and delete horizons become each record's own time, neighbours of one codec are merged,
    and nothing is larger than the limits. Control batches are left out. No piece at all means that no record is left.
    Keys, values and headers stay bit for bit, and timestamps but for `clamp_to_ms` (invariant 5), in order (invariant
    2). `batches` is read while pieces are taken, never written.

    `unpacking` is the partition's, and says what a batch may take unless there is a `bound`; what is unpacked counts in
    its budget until its pieces are taken.

    Raises ProtocolError for a damaged batch, ContentTooLarge for one that becomes more than it may, RecordTooLarge for
    a record that does not fit; the pieces of all records before it were given by then. Raises UnpackingBusy where the
    budget is used up: begun again with the offset behind the last piece, it goes on.
    """
    unpacking = Unpacking() if unpacking is None else unpacking
    for group in _groups(_wanted(batches, first_offset)):
        yield from _rewrite_group(batches, group, first_offset, limits, unpacking, bound or unpacking.budget.bound)


def _wanted(batches: memoryview, first_offset: int) -> Headers:
    headers = read_whole(batches)
    table = headers.table
    wanted = (table[:, NEXT_OFFSET] > first_offset) & (table[:, RECORDS] != 0) & ~headers.are_control
    return Headers(table[wanted], headers.stop)


def _groups(headers: Headers) -> Iterator[Headers]:
    """Neighbours that are read and written alike: of one format and one codec."""
    kinds = headers.codecs + 8 * (headers.table[:, MAGIC_NUMBER] == MAGIC)
    edges = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(headers)]
    for first, stop in pairwise(edges):
        if first < stop:
            yield headers.rows(first, stop)


def _rewrite_group(
    batches: memoryview, group: Headers, first_offset: int, limits: Limits, unpacking: Unpacking, bound: Bound
) -> Iterator[Piece]:
    chunk_bytes = min(_CHUNK_BATCHES * limits.max_batch_bytes, _CHUNK_BYTES_MAX)
    is_old = group.table[0, MAGIC_NUMBER] != MAGIC
    codec = group.codec_of(0) if limits.codec is None else limits.codec
    decode = decode_old if is_old else _decode
    may_splice = (
        not is_old and codec == group.codecs[0] == Codec.LZ4 and not (limits.keeps_offsets or limits.max_records)
    )
    row = 0
    while row < len(group):
        if may_splice and group.table[row, BASE_OFFSET] >= first_offset:
            spliced = splice(batches, group, row, limits.max_batch_bytes, unpacking, limits.clamp_to_ms)
            if spliced is not None:
                piece, row = spliced
                yield piece
                continue
        with unpacking.holding(_room_bytes(batches, group, row, chunk_bytes, bound)) as held:
            columns, after = decode(batches, group, row, bound, chunk_bytes)
            packed_bytes = int(group.table[row:after, TOTAL_BYTES].sum())
            if group.codecs[row]:
                unpacking.note(packed_bytes, len(columns.content))
            held.resize(_copied_bytes(columns, is_old=bool(is_old), is_packed=bool(group.codecs[row])))
            is_repacked = codec is not Codec.NONE and codec == group.codecs[row] and not is_old
            share = packed_bytes / len(columns.content) if is_repacked else 1.0
            wanted = columns.rows(int(np.searchsorted(columns.offsets, first_offset)), len(columns))
            for part in _parts(wanted, limits):
                yield from encode(clamp(part, limits.clamp_to_ms), codec, limits.max_batch_bytes, share)
        row = after


def _parts(columns: Columns, limits: Limits) -> Iterator[Columns]:
    """The records that one batch may have, whatever its size."""
    for part in dense_parts(columns) if limits.keeps_offsets else (columns,):
        most = max(limits.max_records or len(part), 1)
        for first in range(0, len(part), most):
            yield part.rows(first, min(first + most, len(part)))


def dense_parts(columns: Columns) -> Iterator[Columns]:
    """The records up to each hole of their offsets."""
    first = 0
    for records in range_sizes(columns.offsets) if len(columns) else ():
        yield columns.rows(first, first + records)
        first += records


def _room_bytes(batches: memoryview, group: Headers, row: int, chunk_bytes: int, bound: Bound) -> int:
    """What a chunk from this row on may take: many batches no more than a chunk, a large one what it says it holds."""
    is_old = group.table[row, MAGIC_NUMBER] != MAGIC
    if not group.codecs[row] and not is_old:
        return 0
    at, size = group.table[row, POSITION : TOTAL_BYTES + 1].tolist()
    claim = None if is_old else read_claim(group.codec_of(row), batches[at + HEADER_BYTES : at + size])
    return max(chunk_bytes, min(size * _UNTOLD_SHARE if claim is None else claim.content_bytes, bound.of(size)))


def _copied_bytes(columns: Columns, *, is_old: bool, is_packed: bool) -> int:
    """What the records of a chunk take beside the run that they came in."""
    if is_old:
        return len(columns.content) + MESSAGE_BYTES * len(columns)
    return len(columns.content) if is_packed else 0


def _decode(batches: memoryview, group: Headers, row: int, bound: Bound, chunk_bytes: int) -> tuple[Columns, int]:
    return decode_some(batches, group, row, bound=bound, enough_bytes=chunk_bytes)


def clamp(columns: Columns, clamp_to_ms: int | None) -> Columns:
    """The records, those from later than `clamp_to_ms` with that time."""
    if clamp_to_ms is None or not len(columns) or int(columns.timestamps.max()) <= clamp_to_ms:
        return columns
    return replace(columns, timestamps=np.minimum(columns.timestamps, clamp_to_ms))
