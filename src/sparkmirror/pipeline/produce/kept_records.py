"""Joins the rows of a run's records with what of these records did not pass Spark. Pure; called by
`pipeline.produce.record_pieces`."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from sparkmirror.batch.header import MAGIC, iterate_headers, parse_header
from sparkmirror.batch.joining import JOINED_BYTES_MAX, leading_batches
from sparkmirror.batch.joining import join as join_batches
from sparkmirror.batch.piece import Piece, Span
from sparkmirror.batch.unpacking import USUAL_BOUND, Bound, Unpacking
from sparkmirror.errors import ProtocolError
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.relay.options import CARRIED_COLUMNS, CONTENT_COLUMNS, RETURNED_COLUMNS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sparkmirror.batch.columns import Columns
    from sparkmirror.batch.header import Codec
    from sparkmirror.batch.headers import Headers
    from sparkmirror.batch.rewrite import Limits

_WHOLE_BYTES_MIN: Final = 8 << 10
"""Smaller batches are gathered into larger ones, as each would be a request's only one of its partition."""
_CHUNK_BYTES: Final = 1 << 20
_FULL: Final = 0.9
"""Of a batch that is to be filled with records of others, by what is expected of them."""
_FEW: Final = 64
"""Up to so many offsets a call of numpy costs more than a loop."""
_NOTHING: Final = memoryview(b"")


@dataclass(frozen=True, slots=True)
class Kept:
    """The batches of a run as they came, and the columns that are taken from its rows instead (`returned`), but of rows
    that say that their record is as it came. `unpacking` is the partition's."""

    payload: memoryview
    returned: frozenset[str] = RETURNED_COLUMNS
    bound: Bound = USUAL_BOUND
    unpacking: Unpacking = field(default_factory=Unpacking)

    @property
    def has_all(self) -> bool:
        """Whether the rows have all of a record, also where nothing of it was changed."""
        return self.returned >= CONTENT_COLUMNS


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows, in order, and their records: as `columns`, as the `batch` that came where all its records are there
    as they came, or as a `piece` where they also stay where they belong."""

    rows: pa.RecordBatch
    columns: "Columns | None" = None
    batch: memoryview = _NOTHING
    piece: Piece | None = None


def join(
    rows: pa.RecordBatch, kept: Kept, home: TopicPartition, codec: "Codec", limits: "Limits", batch_bytes_max: int
) -> Iterator[Part]:
    """All of the rows (columns of `pipeline.relay.schema`, written form), which are of one run; several may be of one
    record. Those that are as they came and stay at `home` come as batches of at most `batch_bytes_max`, packed with the
    `codec` that they came with, or as the `limits` of the mirrored topic ask.

    Raises ProtocolError for rows that are not of the run, and what `batch.columns.decode_some` raises.
    """
    are_same = _are_same(rows, kept.returned)
    if kept.has_all and not are_same.any():
        yield Part(rows, columns_of(rows))
        return
    codec = codec if limits.codec is None else limits.codec
    bytes_max = min(batch_bytes_max, limits.max_batch_bytes)
    run = _Run.of(rows, kept, home, limits, are_same)
    done = row = 0
    while row < len(run.headers):
        if run.first[row] == run.stop[row]:
            row += 1
            continue
        if run.whole[row]:
            part, reached = run.as_it_came(row), row + 1
        elif kept.has_all:
            part, reached = run.as_rows_say(row)
        else:
            found = run.pick(row, codec, bytes_max)
            part, reached = run.restore(row) if found is None else found
        yield part
        done, row = done + part.rows.num_rows, reached
    if done != rows.num_rows:
        raise ProtocolError(f"{rows.num_rows - done} rows are of no record in their run's batches")


def _are_same(rows: pa.RecordBatch, returned: Collection[str]) -> "NDArray[np.bool_]":
    """Whether each row's record is as it came, wherever it goes."""
    import numpy as np

    if CARRIED_COLUMNS.isdisjoint(returned):
        return np.ones(rows.num_rows, np.bool_)
    at = rows.schema.get_field_index("payload")
    if at < 0 or rows.column(at).null_count == rows.num_rows:
        return np.zeros(rows.num_rows, np.bool_)
    found: NDArray[np.bool_] = rows.column(at).is_valid().to_numpy(zero_copy_only=False)
    return found


def are_at_home(rows: pa.RecordBatch, returned: Collection[str], home: TopicPartition) -> "NDArray[np.bool_]":
    """Whether each row's record goes where it goes by itself."""
    import numpy as np
    import pyarrow.compute as pc

    found = np.ones(rows.num_rows, np.bool_)
    for name, there in (("target_topic", home.topic), ("target_partition", home.partition)):
        if name in returned:  # a null is somewhere else
            found &= pc.equal(rows.column(name), there).fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _are_plain(rows: Sequence[pa.RecordBatch], returned: Collection[str], home: TopicPartition) -> bool:
    """Whether all records are as they came, and go where they go by themselves."""
    return not returned or all(
        _are_same(batch, returned).all() and are_at_home(batch, returned, home).all() for batch in rows
    )


def _offsets_of(rows: Sequence[pa.RecordBatch]) -> list[int]:
    return [offset for batch in rows for offset in batch.column("offset").to_pylist()]


def _are_rising(offsets: Sequence[int]) -> bool:
    """Whether no two of them are of the same record."""
    return all(earlier < later for earlier, later in pairwise(offsets))


def _have_all(flags: "NDArray[np.bool_]", first: "NDArray[np.int64]", stop: "NDArray[np.int64]") -> "NDArray[np.bool_]":
    """Whether all flags between these places are true."""
    import numpy as np

    before = np.append(0, np.cumsum(flags))
    found: NDArray[np.bool_] = before[stop] - before[first] == stop - first
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """A run's batches, and its rows: those of the batch `i` are `first[i]` … `stop[i] - 1`. It goes on as it came where
    it is `whole`; of a `plain` one no record was changed or sent elsewhere. `are_same` says which rows say so of
    theirs."""

    rows: pa.RecordBatch
    are_same: "NDArray[np.bool_]"
    kept: Kept
    headers: "Headers"
    offsets: "NDArray[np.int64]"
    first: "NDArray[np.int64]"
    stop: "NDArray[np.int64]"
    whole: "NDArray[np.bool_]"
    plain: "NDArray[np.bool_]"
    are_distinct: bool
    are_timely: bool

    @classmethod
    def of(
        cls,
        rows: pa.RecordBatch,
        kept: Kept,
        home: TopicPartition,
        limits: "Limits",
        are_same: "NDArray[np.bool_]",
    ) -> Self:
        import numpy as np

        from sparkmirror.batch.any_format import first_offsets
        from sparkmirror.batch.headers import MAX_TIMESTAMP, NEXT_OFFSET, RECORDS, TOTAL_BYTES, read_headers

        offsets = rows.column("offset").to_numpy()
        headers = read_headers(kept.payload, 0, len(kept.payload))
        table = headers.table
        first = np.searchsorted(offsets, first_offsets(headers))
        stop = np.searchsorted(offsets, table[:, NEXT_OFFSET])
        are_new = np.diff(offsets, prepend=-1) != 0
        whole = headers.passable(len(kept.payload)) & (stop - first == table[:, RECORDS]) & ~headers.are_control
        whole &= (table[:, TOTAL_BYTES] >= _WHOLE_BYTES_MIN) & _have_all(are_new & are_same, first, stop)
        plain = _have_all(are_same & are_at_home(rows, kept.returned, home), first, stop)
        whole &= table[:, TOTAL_BYTES] <= limits.max_batch_bytes
        if limits.codec is not None:
            whole &= headers.codecs == limits.codec
        timely = np.True_ if limits.clamp_to_ms is None else table[:, MAX_TIMESTAMP] <= limits.clamp_to_ms
        whole &= timely
        parts = rows, are_same, kept, headers, offsets, first, stop, whole, plain
        return cls(*parts, bool(are_new.all()), bool(timely.all()))

    def as_it_came(self, row: int) -> Part:
        from sparkmirror.batch.headers import POSITION, TOTAL_BYTES

        at, size = self.headers.table[row, POSITION : TOTAL_BYTES + 1].tolist()
        return Part(self._rows(row, row + 1), batch=self.kept.payload[at : at + size])

    def pick(self, row: int, codec: "Codec", batch_bytes_max: int) -> tuple[Part, int] | None:
        """The records from this batch on as one batch; None where they are to be decoded."""
        import numpy as np

        from sparkmirror.batch.any_format import are_old
        from sparkmirror.batch.headers import RECORDS, TOTAL_BYTES
        from sparkmirror.batch.picking import pick

        if not (self.plain[row] and self.are_distinct and self.are_timely):
            return None
        mixed = self._until(row, self.whole | ~self.plain)
        if are_old(mixed)[row:].any():
            return None
        table = mixed.table[row:]
        taken = (self.stop - self.first)[row : len(mixed)] / np.maximum(table[:, RECORDS], 1)
        expected = np.cumsum(np.minimum(taken, 1.0) * table[:, TOTAL_BYTES])
        if expected[0] > batch_bytes_max:
            return None
        enough = max(int(np.searchsorted(expected, batch_bytes_max * _FULL, "right")), 1)
        wanted = self.offsets[self.first[row] : self.stop[row + enough - 1]]
        some = mixed.rows(0, row + enough)
        piece, reached = pick(self.kept.payload, some, row, wanted, codec, self.kept.bound, _CHUNK_BYTES)
        if len(piece.data) > batch_bytes_max:
            return None
        return Part(self._rows(row, reached), piece=piece), reached

    def as_rows_say(self, row: int) -> tuple[Part, int]:
        """The records from this batch on, where rows have all of them."""
        reached = len(self._until(row, self.whole))
        own = self._rows(row, reached)
        return Part(own, columns_of(own)), reached

    def restore(self, row: int) -> tuple[Part, int]:
        """The records from this batch on, with what was set in place of what they had."""
        from sparkmirror.batch.any_format import decode_alike

        kept, mixed = self.kept, self._until(row, self.whole)
        columns, reached = decode_alike(
            kept.payload, mixed, row, bound=kept.bound, enough_bytes=_CHUNK_BYTES, are_checked=True
        )
        own = self._rows(row, reached)
        are_same = self.are_same[self.first[row] : self.stop[reached - 1]]
        return Part(own, _restore(own, columns, kept.returned, are_same)), reached

    def _until(self, row: int, ends: "NDArray[np.bool_]") -> "Headers":
        """The batches up to the next one of these."""
        behind = ends[row:].nonzero()[0]
        return self.headers.rows(0, row + int(behind[0])) if len(behind) else self.headers

    def _rows(self, row: int, reached: int) -> pa.RecordBatch:
        return self.rows.slice(self.first[row], self.stop[reached - 1] - self.first[row])


def are_whole_run(
    rows: Sequence[pa.RecordBatch], run: Delivery, returned: Collection[str], home: TopicPartition
) -> bool:
    """Whether the rows are all records of the run, each as it came and where it belongs: the run then goes on as it
    came, and nothing of it is copied."""
    import numpy as np

    count = sum([batch.num_rows for batch in rows])
    if not count or count != run.records or count != _count_records(run):
        return False
    if not _are_plain(rows, returned, home):
        return False
    if count <= _FEW:
        return count == 1 or _are_rising(_offsets_of(rows))
    offsets = np.concatenate([batch.column("offset").to_numpy() for batch in rows])
    return bool((offsets[:-1] < offsets[1:]).all())


def _count_records(run: Delivery) -> int | None:
    """In the run's batches; None where these are not all of the present format, or have records that are no part of the
    run. Each batch was decoded, so that it has as many as its header says."""
    if len(run.payload) > JOINED_BYTES_MAX:
        return _count_in_table(run)
    count = 0
    for _, header in iterate_headers(run.payload, 0, len(run.payload)):
        if header.magic != MAGIC or header.base_offset < run.first_offset:
            return None
        if not header.is_control:
            count += header.records_count
    return count


def _count_in_table(run: Delivery) -> int | None:
    from sparkmirror.batch.any_format import are_old
    from sparkmirror.batch.headers import BASE_OFFSET, RECORDS, read_headers

    headers = read_headers(run.payload, 0, len(run.payload))
    table = headers.table
    if headers.stop != len(run.payload) or are_old(headers).any():
        return None
    if not len(table) or table[0, BASE_OFFSET] < run.first_offset:
        return None
    return int(table[~headers.are_control, RECORDS].sum())


def join_few(rows: Sequence[pa.RecordBatch], kept: Kept, home: TopicPartition, limits: "Limits") -> Piece | None:
    """The records of all rows as one batch, without kernels, where their run is a few small batches, and all are as
    they came and stay at `home`. A mirror that has caught up has a record or two at a time. None where that is not
    so."""
    import numpy as np

    from sparkmirror.batch.encoding import find_spans

    if not kept.payload or len(kept.payload) > JOINED_BYTES_MAX:
        return None
    if not _are_plain(rows, kept.returned, home):
        return None
    batches = leading_batches(kept.payload)
    if sum([len(data) for data, _ in batches]) != len(kept.payload):
        return None
    offsets = _offsets_of(rows)
    if not _are_rising(offsets):
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
    if data is None or not _is_asked(data, limits):
        return None
    return as_piece(data, spans, len(offsets))


def _is_asked(batch: bytearray, limits: "Limits") -> bool:
    header = parse_header(memoryview(batch), 0)
    has_codec = limits.codec is None or header.codec is limits.codec
    is_timely = limits.clamp_to_ms is None or header.max_timestamp <= limits.clamp_to_ms
    return has_codec and is_timely and len(batch) <= limits.max_batch_bytes


def as_piece(data: bytearray, spans: tuple[Span, ...], records: int) -> Piece:
    """A batch of these bytes, which become the piece's."""
    data[:8] = bytes(8)  # the base offset, which no checksum covers
    return Piece(data, spans, records)


def decode_batch(batch: memoryview, bound: Bound) -> "Columns":
    """The records of one batch."""
    from sparkmirror.batch.columns import decode

    return decode(batch, 0, len(batch), max_bytes=bound.bytes_max, bound=bound)


def _restore(
    rows: pa.RecordBatch, columns: "Columns", returned: Collection[str], are_same: "NDArray[np.bool_]"
) -> "Columns":
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
    timestamps = picked.timestamps
    if "timestamp" in returned:
        timestamps = np.array(rows.column("timestamp").fill_null(-1).to_numpy())
    if are_same.any():
        places[are_same] = picked.places[are_same]
        timestamps = np.where(are_same, picked.timestamps, timestamps)
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
