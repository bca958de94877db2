"""Joins the rows of a run's records with what of these records did not pass Spark. Pure; called by
`pipeline.produce.record_pieces`."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from sparkmirror.batch.joining import JOINED_BYTES_MAX, leading_batches
from sparkmirror.batch.joining import join as join_batches
from sparkmirror.batch.piece import Piece, Span
from sparkmirror.batch.unpacking import USUAL_BOUND, Bound, Unpacking
from sparkmirror.errors import ProtocolError
from sparkmirror.pipeline.relay.options import CARRIED_COLUMNS, RETURNED_COLUMNS

if TYPE_CHECKING:
    from sparkmirror.batch.columns import Columns

_BYTES: Final = CARRIED_COLUMNS | {"timestamp"}
_WHOLE_BYTES_MIN: Final = 8 << 10
"""Smaller batches are gathered into larger ones, as each would be a request's only one of its partition."""
_CHUNK_BYTES: Final = 1 << 20
_NOTHING: Final = memoryview(b"")


@dataclass(frozen=True, slots=True)
class Kept:
    """The batches of a run as they came, and the columns that are taken from its rows instead (`returned`). `unpacking`
    is the partition's."""

    payload: memoryview
    returned: frozenset[str] = RETURNED_COLUMNS
    bound: Bound = USUAL_BOUND
    unpacking: Unpacking = field(default_factory=Unpacking)


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows, in order, and their records: as `columns`, or as the `batch` that came where all its records are
    there, and nothing of them was set."""

    rows: pa.RecordBatch
    columns: "Columns | None" = None
    batch: memoryview = _NOTHING


def join(rows: pa.RecordBatch, kept: Kept) -> Iterator[Part]:
    """All of the rows (columns of `pipeline.relay.schema`, written form), which are of one run; several may be of one
    record.

    Raises ProtocolError for rows that are not of the run, and what `batch.columns.decode_some` raises.
    """
    from sparkmirror.batch.arrow_content import CONTENT

    if kept.returned.issuperset(CONTENT):
        yield Part(rows, columns_of(rows))
        return
    import numpy as np

    from sparkmirror.batch.columns import decode_some
    from sparkmirror.batch.headers import BASE_OFFSET, NEXT_OFFSET, POSITION, RECORDS, TOTAL_BYTES, read_headers

    offsets = rows.column("offset").to_numpy()
    headers = read_headers(kept.payload, 0, len(kept.payload))
    table = headers.table
    first = np.searchsorted(offsets, table[:, BASE_OFFSET])
    stop = np.searchsorted(offsets, table[:, NEXT_OFFSET])
    distinct = np.append(0, np.cumsum(np.diff(offsets, prepend=-1) != 0))
    whole = headers.passable(len(kept.payload)) & (stop - first == table[:, RECORDS]) & ~headers.are_control
    whole &= distinct[stop] - distinct[first] == table[:, RECORDS]
    whole &= (table[:, TOTAL_BYTES] >= _WHOLE_BYTES_MIN) & kept.returned.isdisjoint(_BYTES)
    done = row = 0
    while row < len(headers):
        if first[row] == stop[row]:
            row += 1
            continue
        if whole[row]:
            reached, at = row + 1, int(table[row, POSITION])
            part = Part(
                rows.slice(first[row], stop[row] - first[row]), batch=kept.payload[at:][: table[row, TOTAL_BYTES]]
            )
        else:
            behind = np.flatnonzero(whole[row:])
            mixed = headers.rows(0, row + int(behind[0])) if len(behind) else headers
            columns, reached = decode_some(kept.payload, mixed, row, bound=kept.bound, enough_bytes=_CHUNK_BYTES)
            own = rows.slice(first[row], stop[reached - 1] - first[row])
            part = Part(own, _restore(own, columns, kept.returned))
        yield part
        done, row = done + part.rows.num_rows, reached
    if done != rows.num_rows:
        raise ProtocolError(f"{rows.num_rows - done} rows are of no record in their run's batches")


def join_few(rows: Sequence[pa.RecordBatch], kept: Kept) -> Piece | None:
    """The records of all rows as one batch, without kernels, where their run is a few small batches. Of a flow that
    sets nothing. A mirror that has caught up has a record or two at a time. None where that is not so."""
    import numpy as np

    from sparkmirror.batch.encoding import find_spans

    if not kept.payload or len(kept.payload) > JOINED_BYTES_MAX:
        return None
    batches = leading_batches(kept.payload)
    if sum([len(data) for data, _ in batches]) != len(kept.payload):
        return None
    offsets = [offset for batch in rows for offset in batch.column("offset").to_pylist()]
    if any(later <= earlier for earlier, later in pairwise(offsets)):
        return None  # several records were made of one
    first, stop = batches[0][1].base_offset, batches[-1][1].next_offset
    if not (first <= offsets[0] and offsets[-1] < stop):
        raise ProtocolError(f"a row between the offsets {offsets[0]} and {offsets[-1]} is of no record of its run")
    if len(offsets) < stop - first:
        data, spans = join_batches(batches, kept.unpacking, frozenset(offsets)), find_spans(np.array(offsets))
    else:
        is_lone = len(batches) == 1 and not batches[0][1].has_append_time
        data = bytearray(kept.payload) if is_lone else join_batches(batches, kept.unpacking)
        spans = (Span(first, len(offsets)),)
    return None if data is None else as_piece(data, spans, len(offsets))


def as_piece(data: bytearray, spans: tuple[Span, ...], records: int) -> Piece:
    """A batch of these bytes, which become the piece's."""
    data[:8] = bytes(8)  # the base offset, which no checksum covers
    return Piece(data, spans, records)


def decode_batch(batch: memoryview, bound: Bound) -> "Columns":
    """The records of one batch."""
    from sparkmirror.batch.columns import decode

    return decode(batch, 0, len(batch), bound=bound)


def _restore(rows: pa.RecordBatch, columns: "Columns", returned: Collection[str]) -> "Columns":
    """The records that the rows stand for, with what was set in place of what they had."""
    import numpy as np

    from sparkmirror.batch.arrow_content import CONTENT, put_content

    offsets = rows.column("offset").to_numpy()
    at = np.searchsorted(columns.offsets, offsets)
    if len(at) and (at[-1] >= len(columns) or (columns.offsets[at] != offsets).any()):
        raise ProtocolError(f"a row between the offsets {offsets[0]} and {offsets[-1]} is of no record of its run")
    picked = columns.pick(at)
    content, places = [picked.content], picked.places.copy()
    put_content({name: rows.column(name) for name in CONTENT if name in returned}, content, places)
    timestamps = np.array(rows.column("timestamp").fill_null(-1).to_numpy())
    joined = content[0] if len(content) == 1 else np.concatenate(content)
    return replace(picked, content=joined, timestamps=timestamps, places=places)


def columns_of(rows: pa.RecordBatch) -> "Columns":
    """The records as the rows alone have them."""
    import numpy as np

    from sparkmirror.batch.arrow_content import CONTENT, put_content
    from sparkmirror.batch.columns import Columns

    content: list[Any] = []
    places = np.empty((rows.num_rows, 6), np.int32)
    put_content({name: rows.column(name) for name in CONTENT}, content, places)
    offsets = rows.column("offset").to_numpy()
    timestamps = rows.column("timestamp").fill_null(-1).to_numpy()
    return Columns(np.concatenate(content), np.array(offsets), np.array(timestamps), places)
