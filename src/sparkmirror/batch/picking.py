"""Picks some records of batches into one batch: what a filter left of them, of which nothing was set.

Only the beginning of each record is read, and of those that stay the rest is copied as it is. Called by
`pipeline.produce.kept_records` with batches that its reader has decoded already. Importing it links the
kernels.

Source: https://kafka.apache.org/documentation/#record.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkmirror.batch import codecs
from sparkmirror.batch.columns import OpenedBatches, damaged_records, open_batches
from sparkmirror.batch.compiled_numbers import varint_bytes, write_varint
from sparkmirror.batch.encoding import find_spans
from sparkmirror.batch.header import APPEND_TIME, HEADER_BYTES, Codec, write_header
from sparkmirror.batch.headers import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    MAX_TIMESTAMP,
    NEXT_OFFSET,
    RECORDS,
    Headers,
)
from sparkmirror.batch.kernels import FINE, TRAILING_BYTES, copy_bytes, read_start
from sparkmirror.batch.machine_code import BYTES, OFFSETS, ROOM, TABLE, Bytes, Integers, kernel
from sparkmirror.batch.piece import Piece
from sparkmirror.batch.unpacking import Bound
from sparkmirror.errors import ProtocolError

_GROWTH_BYTES = 16
"""By so much a record may grow: other deltas of offset and time, and a length that counts them."""


class Picked(NamedTuple):
    """A batch, and the first of the batches that have not been read for it."""

    piece: Piece
    reached: int


def pick(
    buffer: memoryview,
    headers: Headers,
    first: int,
    wanted: NDArray[np.int64],
    codec: Codec,
    bound: Bound,
    enough_bytes: int,
) -> Picked:
    """The records at the `wanted` source offsets, which ascend, of the batches from row `first` on, as far as
    `enough_bytes` decompressed go; of those at least one. Their checksums were checked when they came.

    Raises ProtocolError where a wanted record is not there, and as `batch.columns.decode_some`.
    """
    opened = open_batches(buffer, headers, first, bound, enough_bytes, are_checked=True)
    reached = first + len(opened.ranges)
    there = wanted[: int(np.searchsorted(wanted, opened.table[-1, NEXT_OFFSET]))]
    if not len(there):
        raise ProtocolError(f"a row of the offset {wanted[0]} is of no record of the batches that it came with")
    data = bytearray(HEADER_BYTES + int(np.diff(opened.ranges).sum()) + _GROWTH_BYTES * len(there))
    size, first_ms, latest_ms = _fill(data, opened, there, headers, first)
    if codec is Codec.NONE:
        del data[HEADER_BYTES + size :]
    else:
        data[HEADER_BYTES:] = codecs.compress(codec, memoryview(data)[HEADER_BYTES : HEADER_BYTES + size])
    write_header(data, codec, len(there), first_ms, latest_ms)
    return Picked(Piece(data, find_spans(there), len(there)), reached)


def _fill(
    data: bytearray, opened: OpenedBatches, wanted: NDArray[np.int64], headers: Headers, first: int
) -> tuple[int, int, int]:
    room = np.frombuffer(data, np.uint8)[HEADER_BYTES:]
    code, row, at, taken, size, first_ms, latest_ms = _pick_records(*opened, wanted, room)
    if code != FINE:
        raise damaged_records(headers, first + row, code, at)
    if taken < len(wanted):
        raise ProtocolError(f"a row of the offset {wanted[taken]} is of no record of its run")
    return size, first_ms, latest_ms


@kernel(BYTES, TABLE, TABLE, OFFSETS, ROOM, results=7)
def _pick_records(
    content: Bytes, ranges: Integers, table: Integers, wanted: Integers, room: Bytes
) -> tuple[int, int, int, int, int, int, int]:
    """Write the wanted records into `room`. Returns what is wrong, in which batch and where (`read_records`), how many
    records were found, their bytes, the time of the first one, and the latest."""
    size = taken = first_ms = 0
    latest_ms = -(2**63)
    for index in range(table.shape[0]):
        at, stop = ranges[index, 0], ranges[index, 1]
        base_offset, base_ms = table[index, BASE_OFFSET], table[index, BASE_TIMESTAMP]
        max_ms, has_append_time = table[index, MAX_TIMESTAMP], table[index, ATTRIBUTES] & APPEND_TIME != 0
        for _ in range(table[index, RECORDS]):
            delta_ms, offset_delta, body, end, code = read_start(content, at, stop)
            if code != FINE:
                return code, index, body - ranges[index, 0], taken, size, first_ms, latest_ms
            if taken < wanted.shape[0] and base_offset + offset_delta == wanted[taken]:
                time_ms = max_ms if has_append_time else base_ms + delta_ms
                if taken == 0:
                    first_ms = time_ms
                latest_ms = max(latest_ms, time_ms)
                time_ms -= first_ms
                body_bytes = 1 + varint_bytes(time_ms) + varint_bytes(np.int64(taken)) + end - body
                size = write_varint(room, size, np.int64(body_bytes))
                room[size] = 0
                size = write_varint(room, size + 1, time_ms)
                size = write_varint(room, size, np.int64(taken))
                size = copy_bytes(room, size, content, body, end - body)
                taken += 1
            at = end
        if at != stop:
            return TRAILING_BYTES, index, at - ranges[index, 0], taken, size, first_ms, latest_ms
    return FINE, 0, 0, taken, size, first_ms, latest_ms
