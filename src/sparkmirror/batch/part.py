"""Some batches of one partition as a fetch brought them, and their records as columns, also of old messages. Pure.

Made by `pipeline.fetch.log_range`; decoded by `verify.matching` and `records.rows`.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkmirror.batch.any_format import decode_alike
from sparkmirror.batch.columns import NOTHING, Columns
from sparkmirror.batch.headers import BASE_OFFSET, COLUMNS, NEXT_OFFSET, POSITION, TOTAL_BYTES, Headers
from sparkmirror.batch.unpacking import USUAL_BOUND, Bound

_CHUNK_BYTES: Final = 16 << 20


class Part(NamedTuple):
    """The result of one fetch: whole data batches in `buffer`, and the offset of the next fetch. `table` has the
    columns of `batch.headers`, without control batches and batches of aborted transactions. For a set of old
    messages, `BASE_OFFSET` is the first offset that may be in it."""

    buffer: memoryview
    table: NDArray[np.int64]
    next_offset: int


NO_PART = Part(memoryview(b""), np.empty((0, COLUMNS), np.int64), -1)


def overlapping(table: NDArray[np.int64], first: int, end: int) -> NDArray[np.int64]:
    """The batches that reach into the offsets `first` … `end - 1`."""
    low = int(np.searchsorted(table[:, NEXT_OFFSET], first, "right"))
    high = int(np.searchsorted(table[:, BASE_OFFSET], end))
    return table[low : max(low, high)]


def decode_part(
    part: Part, first: int, end: int, enough_bytes: int = _CHUNK_BYTES, bound: Bound = USUAL_BOUND
) -> tuple[Columns, int]:
    """Records of batches that overlap the offsets, at most as many as are decoded at once, and the offset that this
    reaches. Raises ProtocolError, for a batch beyond the `bound` ContentTooLarge."""
    rows = overlapping(part.table, first, end) if first < end else part.table[:0]
    if not len(rows):
        return NOTHING, end
    group = Headers(rows, int(rows[-1, POSITION] + rows[-1, TOTAL_BYTES]))
    columns, taken = decode_alike(part.buffer, group, 0, bound=bound, enough_bytes=enough_bytes)
    return columns, end if taken == len(rows) else int(rows[taken - 1, NEXT_OFFSET])
