"""Records as columns: batches decoded to numpy arrays over their bytes, and encoded again, all fields, by kernels.

Called by `batch.rewrite` for every batch that cannot pass through, and by flows with transforms. For a few records (the
ledger's own) `batch.records` does without kernels.

Source: https://kafka.apache.org/documentation/#record, `org.apache.kafka.common.record.DefaultRecordBatch`.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkmirror.batch import codecs
from sparkmirror.batch import crc as crc32c
from sparkmirror.batch.header import ATTRIBUTES_AT, HEADER_BYTES, MAGIC, parse_header
from sparkmirror.batch.headers import (
    BASE_OFFSET,
    CRC,
    MAGIC_NUMBER,
    POSITION,
    RECORDS,
    TOTAL_BYTES,
    Headers,
    read_headers,
)
from sparkmirror.batch.unpacking import UNPACKED_BYTES_MAX, USUAL_BOUND, Bound
from sparkmirror.errors import ContentTooLarge, ProtocolError

# Columns of the table of places, one row a record.
KEY_START, KEY_BYTES, VALUE_START, VALUE_BYTES, HEADERS_START, HEADERS_BYTES = range(6)
PLACE_COLUMNS = 6

_RECORD_BYTES_MIN = 7  # a length, attributes, two deltas, two absent lengths and the count of headers
_TINY_BYTES = 2048  # up to here a checksum in the kernel costs less than a call of the library
_PLACE_MAX = 2**31 - 1
_WRONG = (
    "",
    "a number does not end",
    "a length reaches beyond the bytes there are",
    "a record does not end where its length says",
    "an offset is not between its neighbours",
    "a record claims more headers than there are bytes",
    "bytes follow its last record",
)


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Records in their order, one row each: `offsets` and `timestamps` (ms since 1970) int64, `places` int32.

    `places` says in six columns where key, value and headers stand in `content` (uint8), as start and length in bytes;
    a length of -1 is null. The headers are the record's own bytes: a varint count, then for each a varint length and
    the name, and a varint length (-1: null) and the value; no bytes at all mean none, too.

    `content` may be the very buffer that was decoded: what holds that must stay until the columns are encoded.
    """

    content: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    places: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def key_starts(self) -> NDArray[np.int32]:
        return self.places[:, KEY_START]

    @property
    def key_lengths(self) -> NDArray[np.int32]:
        return self.places[:, KEY_BYTES]

    @property
    def value_lengths(self) -> NDArray[np.int32]:
        return self.places[:, VALUE_BYTES]

    @property
    def headers_lengths(self) -> NDArray[np.int32]:
        return self.places[:, HEADERS_BYTES]

    def rows(self, first: int, stop: int) -> "Columns":
        """The records `first` … `stop - 1`, without a copy."""
        span = slice(first, stop)
        return replace(self, offsets=self.offsets[span], timestamps=self.timestamps[span], places=self.places[span])

    def pick(self, rows: NDArray[np.int64]) -> "Columns":
        """The records at `rows`, which ascend, over the same bytes; one may be there several times."""
        if len(rows) == len(self) and bool((np.diff(rows) == 1).all()):
            return self
        return replace(self, offsets=self.offsets[rows], timestamps=self.timestamps[rows], places=self.places[rows])


NOTHING = Columns(
    np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, PLACE_COLUMNS), np.int32)
)


def decode(
    buffer: memoryview, start: int, stop: int, *, max_bytes: int = UNPACKED_BYTES_MAX, bound: Bound | None = None
) -> Columns:
    """The records of the whole v2 batches in `buffer[start:stop]`, in order, those of control batches left out.

    Where the broker stamped append time, each record has its batch's time, as a consumer sees it. Uncompressed batches
    are not copied.

    Raises ProtocolError when a batch is cut off, not of magic 2, fails its checksum, is damaged inside, or when more
    than `max_bytes` would stand in memory decompressed, or one batch beyond its `bound`.
    """
    headers = read_headers(buffer, start, stop)
    if headers.stop != stop:
        name = f"record batch at offset {parse_header(buffer, headers.stop).base_offset}"
        raise ProtocolError(f"{name} is damaged: it claims more than the {stop - headers.stop} bytes it has")
    if not len(headers):
        return NOTHING
    bound = Bound(max_bytes, max_bytes) if bound is None else bound
    columns, rows = decode_some(buffer, headers, 0, bound=bound, enough_bytes=max_bytes)
    if rows < len(headers) or len(columns.content) > max_bytes:
        raise ContentTooLarge(f"{_name(headers, 0)} and those behind it hold more than {max_bytes} bytes decompressed")
    return columns


def decode_some(
    buffer: memoryview,
    headers: Headers,
    first: int,
    *,
    bound: Bound = USUAL_BOUND,
    enough_bytes: int,
    of_one_log: bool = True,
    are_checked: bool = False,
) -> tuple[Columns, int]:
    """As `decode` from row `first` of `headers` on, as far as `enough_bytes` decompressed go.

    Returns the records and the first row that is left. At least one batch is taken, however much it holds within its
    `bound`; beyond that it raises ContentTooLarge. Batches `of_one_log` must follow each other. Checksums that
    `are_checked` are not checked once more.
    """
    from sparkmirror.batch import kernels

    opened = open_batches(buffer, headers, first, bound, enough_bytes, are_checked=are_checked)
    content, ranges, table = opened.content, opened.ranges, opened.table
    stop = first + len(ranges)
    records = int(table[:, RECORDS].sum())
    offsets, timestamps = np.empty(records, np.int64), np.empty(records, np.int64)
    places = np.empty((records, PLACE_COLUMNS), np.int32)
    code, row, at = kernels.read_records(content, ranges, table, offsets, timestamps, places)
    if code != kernels.FINE:
        raise damaged_records(headers, first + row, code, at)
    if of_one_log:
        _check_order(headers.rows(first, stop))
    return Columns(content, offsets, timestamps, places), stop


class OpenedBatches(NamedTuple):
    """Some batches, uncompressed: the records of each are `content[ranges[i, 0] : ranges[i, 1]]`. `table` has their
    headers (`batch.headers`), control batches without records."""

    content: NDArray[np.uint8]
    ranges: NDArray[np.int64]
    table: NDArray[np.int64]


def open_batches(
    buffer: memoryview, headers: Headers, first: int, bound: Bound, enough_bytes: int, *, are_checked: bool
) -> OpenedBatches:
    """The batches that `decode_some` decodes. Raises as that does."""
    taken = _candidates(headers, first, enough_bytes)
    if not are_checked:
        check_sums(buffer, taken)
    content, ranges = _unpack(buffer, taken, bound, enough_bytes)
    stop = first + len(ranges)
    table = headers.table[first:stop].copy()
    table[headers.are_control[first:stop], RECORDS] = 0
    _check_counts(headers, first, table[:, RECORDS], ranges[:, 1] - ranges[:, 0])
    return OpenedBatches(content, ranges, table)


def damaged_records(headers: Headers, row: int, code: int, at: int) -> ProtocolError:
    """What a kernel found wrong in the records of a batch, at a byte of them."""
    return _damaged(headers, row, f"{_WRONG[code]}, at byte {at} of its records")


def _check_order(headers: Headers) -> None:
    from sparkmirror.batch import kernels

    if len(back := headers.going_back):
        raise _damaged(headers, int(back[0]), _WRONG[kernels.STRANGE_OFFSET])


def _candidates(headers: Headers, first: int, enough_bytes: int) -> Headers:
    """The batches that may be taken, by the bytes they have now; they are known to this program."""
    after = np.cumsum(headers.table[first:, TOTAL_BYTES])
    taken = headers.rows(first, first + max(int(np.searchsorted(after, enough_bytes, "right")), 1))
    old = np.flatnonzero(taken.table[:, MAGIC_NUMBER] != MAGIC)
    if len(old):
        raise _damaged(taken, int(old[0]), "its magic is not 2")
    return taken


def check_sums(buffer: memoryview, headers: Headers) -> None:
    """Of batches of magic 2. Raises ProtocolError for the first that is damaged."""
    from sparkmirror.batch import kernels

    table = headers.table
    wrong = kernels.find_wrong_checksum(np.frombuffer(buffer, np.uint8), table, _TINY_BYTES)
    if wrong >= 0:
        raise _damaged(headers, wrong, "its checksum is wrong")
    for row in np.flatnonzero(table[:, TOTAL_BYTES] > _TINY_BYTES).tolist():
        at, size = int(table[row, POSITION]), int(table[row, TOTAL_BYTES])
        if crc32c.value(bytes(buffer[at + ATTRIBUTES_AT : at + size])) != table[row, CRC]:
            raise _damaged(headers, row, "its checksum is wrong")


def _unpack(
    buffer: memoryview, headers: Headers, bound: Bound, enough_bytes: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes in which the records stand uncompressed, and from where to where for each batch that is taken."""
    table = headers.table
    empty = (table[:, RECORDS] == 0) | headers.are_control
    if headers.codecs.any():
        return _decompress(buffer, headers, empty, bound, enough_bytes)
    start = int(table[0, POSITION])
    ends = table[:, POSITION] - start + table[:, TOTAL_BYTES]
    starts = np.where(empty, ends, table[:, POSITION] - start + HEADER_BYTES)
    if ends[-1] > _PLACE_MAX:
        raise ContentTooLarge(f"{_name(headers, 0)} has more than {_PLACE_MAX} bytes")
    return np.frombuffer(buffer[start : headers.stop], np.uint8), np.stack((starts, ends), axis=1)


def _decompress(
    buffer: memoryview, headers: Headers, empty: NDArray[np.bool_], bound: Bound, enough_bytes: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    parts: list[bytes] = []
    ends: list[int] = [0]
    for row, is_empty in enumerate(empty.tolist()):
        try:
            part = b"" if is_empty else _decompress_one(buffer, headers, row, bound)
        except ContentTooLarge:
            if parts:
                break  # it is met again, as the first
            raise
        if parts and ends[-1] + len(part) > enough_bytes:
            break
        parts.append(part)
        ends.append(ends[-1] + len(part))
    content = parts[0] if len(parts) == 1 else b"".join(parts)
    return np.frombuffer(content, np.uint8), np.array((ends[:-1], ends[1:]), np.int64).T.copy()


def _decompress_one(buffer: memoryview, headers: Headers, row: int, bound: Bound) -> bytes:
    at, size = int(headers.table[row, POSITION]), int(headers.table[row, TOTAL_BYTES])
    codec = parse_header(buffer, at).codec
    try:
        return codecs.decompress(codec, buffer[at + HEADER_BYTES : at + size], bound.of(size))
    except ContentTooLarge as problem:
        raise ContentTooLarge(f"{_name(headers, row)}, of {size} bytes: {problem}") from None


def _check_counts(headers: Headers, first: int, counts: NDArray[np.int64], content_bytes: NDArray[np.int64]) -> None:
    """Before room is made for them."""
    absurd = np.flatnonzero((counts < 0) | (counts > content_bytes // _RECORD_BYTES_MIN))
    if len(absurd):
        row = int(absurd[0])
        raise _damaged(headers, first + row, f"it claims {counts[row]} records in {content_bytes[row]} bytes")


def _name(headers: Headers, row: int) -> str:
    return f"record batch at offset {headers.table[row, BASE_OFFSET]}"


def _damaged(headers: Headers, row: int, what: str) -> ProtocolError:
    return ProtocolError(f"{_name(headers, row)} is damaged: {what}")
