"""Joins lz4 batches of many records into one without compressing their records again.

Called by `batch.rewrite` where neighbours are merged. Each batch becomes a block of the new one, and only the bytes
that begin its records change (`batch.lz4_blocks`). A batch of 16 KB of records takes 28 µs so; to unpack and compress
it takes 51 µs (`python -m bench.kernels`).

Source: the LZ4 frame format 1.6.1, https://kafka.apache.org/documentation/#recordbatch.
"""

import threading
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparkmirror.batch.columns import PLACE_COLUMNS, check_sums
from sparkmirror.batch.encoding import find_spans
from sparkmirror.batch.header import HEADER_BYTES, Codec, write_header
from sparkmirror.batch.headers import BASE_OFFSET, BASE_TIMESTAMP, RECORDS, TOTAL_BYTES, Headers
from sparkmirror.batch.merging import MERGED_BYTES_MAX
from sparkmirror.batch.piece import Piece
from sparkmirror.batch.unpacking import Unpacking

_BLOCK_BYTES_MAX: Final = 128 << 10
_MEAN_BYTES_MIN: Final = 4 << 10
"""Smaller batches are better compressed together: their records have much in common that a block of each repeats."""
_MATCHES_MAX: Final = _BLOCK_BYTES_MAX // 4
_RECORDS_MAX: Final = _BLOCK_BYTES_MAX // 7

_FRAME_HEADERS: Final = (
    (64 << 10, bytes.fromhex("04224d18604082")),
    (256 << 10, bytes.fromhex("04224d186050fb")),
)
"""By the size of their largest block: independent blocks, no checksums, as Java's client begins its frames."""
_FRAME_END: Final = bytes(4)


class _Scratch(threading.local):
    """Pages that are there already, as in `batch.codecs`."""

    def __init__(self) -> None:
        self.plain = np.empty(_BLOCK_BYTES_MAX, np.uint8)
        self.fresh = np.empty(2 * _BLOCK_BYTES_MAX, np.uint8)
        self.matches = np.empty((_MATCHES_MAX, 3), np.int64)
        self.edges = np.empty((_RECORDS_MAX, 3), np.int64)
        self.place = np.empty((1, PLACE_COLUMNS), np.int32)
        self.room = np.empty(0, np.uint8)

    def room_for(self, limit_bytes: int) -> NDArray[np.uint8]:
        """So much, and a block that does not fit any more."""
        needed_bytes = limit_bytes + 2 * len(self.fresh)
        if len(self.room) < needed_bytes:
            self.room = np.empty(needed_bytes, np.uint8)
        return self.room


_scratch = _Scratch()


def splice(
    batches: memoryview,
    headers: Headers,
    first: int,
    max_batch_bytes: int,
    unpacking: Unpacking,
    clamp_to_ms: int | None = None,
) -> tuple[Piece, int] | None:
    """One batch of the lz4 batches from row `first` on, and the first row that is left. It has at most
    `max_batch_bytes`, and MERGED_BYTES_MAX.

    None where it would be one batch alone, or they are not what this can do: such as have holes or append time, are
    small, have records from later than `clamp_to_ms`, or have become another size than clients make blocks of. Raises
    ProtocolError for a batch that fails its checksum.
    """
    rows = _alike(headers, first, max_batch_bytes)
    if rows < 2 or unpacking.budget.merging_bound.free_bytes < _BLOCK_BYTES_MAX:
        return None
    from sparkmirror.batch import lz4_blocks

    taken = headers.rows(first, first + rows)
    frame_bytes = lz4_blocks.FRAME_HEADER_BYTES + lz4_blocks.FRAME_END_BYTES
    limit_bytes = min(max_batch_bytes, MERGED_BYTES_MAX) - HEADER_BYTES - frame_bytes
    room = _scratch.room_for(limit_bytes)
    buffer, scratch = np.frombuffer(batches, np.uint8), _scratch
    done, size, largest_bytes, content_bytes, latest_ms = lz4_blocks.splice(
        buffer, taken.table, limit_bytes, room,
        scratch.plain, scratch.fresh, scratch.matches, scratch.edges, scratch.place,
    )  # fmt: skip
    if done < 2 or (clamp_to_ms is not None and latest_ms > clamp_to_ms):
        return None
    taken = taken.rows(0, done)
    check_sums(batches, taken)
    table = taken.table
    unpacking.note(int(table[:, TOTAL_BYTES].sum()), content_bytes)
    frame_header = next(header for block_bytes, header in _FRAME_HEADERS if largest_bytes <= block_bytes)
    data = bytearray(HEADER_BYTES)
    data += frame_header
    data += room[:size].data
    data += _FRAME_END
    offsets = _offsets(taken)
    write_header(data, Codec.LZ4, len(offsets), int(table[0, BASE_TIMESTAMP]), latest_ms)
    return Piece(data, find_spans(offsets), len(offsets)), first + done


def _alike(headers: Headers, first: int, max_batch_bytes: int) -> int:
    """How many batches from row `first` on could pass as they are, and follow each other. None of batches that are
    small in the mean."""
    left = headers.rows(first, len(headers))
    others = np.concatenate((np.flatnonzero(~left.passable(max_batch_bytes)), left.going_back))
    rows = int(others.min()) if len(others) else len(left)
    return rows if rows and left.table[:rows, TOTAL_BYTES].sum() >= rows * _MEAN_BYTES_MIN else 0


def _offsets(headers: Headers) -> NDArray[np.int64]:
    """The source offset of each record of whole batches."""
    counts = headers.table[:, RECORDS]
    before = np.cumsum(counts) - counts
    offsets: NDArray[np.int64] = np.repeat(headers.table[:, BASE_OFFSET] - before, counts)
    offsets += np.arange(len(offsets))
    return offsets
