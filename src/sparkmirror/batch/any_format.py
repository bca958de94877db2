"""Batches of any magic as a log has them, also in turn: their records as columns, some at a time. Pure.

Called by `batch.rewrite` and `batch.part`, and for flows whose records are decoded at both ends by
`pipeline.fetch.record_rows`, `pipeline.produce.kept_records` and `pipeline.produce.repartition`.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sparkmirror.batch.columns import Columns, decode_some
from sparkmirror.batch.header import MAGIC
from sparkmirror.batch.headers import (
    BASE_OFFSET,
    MAGIC_NUMBER,
    NEXT_OFFSET,
    POSITION,
    TOTAL_BYTES,
    Headers,
    read_headers,
)
from sparkmirror.batch.legacy import MESSAGE_BYTES, decode_some_messages
from sparkmirror.batch.unpacking import USUAL_BOUND, Bound
from sparkmirror.errors import ContentTooLarge, ProtocolError


def are_old(headers: Headers) -> NDArray[np.bool_]:
    """Which of them are messages of magic 0 or 1."""
    old: NDArray[np.bool_] = headers.table[:, MAGIC_NUMBER] != MAGIC
    return old


def first_offsets(headers: Headers) -> NDArray[np.int64]:
    """The first offset that may be in each: a compressed message of magic 0 or 1 has the offset of its last record,
    and its first one's may be as low as the one behind the batch before."""
    table = headers.table
    behind = np.append(0, table[:-1, NEXT_OFFSET])
    return np.where(are_old(headers), np.minimum(behind, table[:, BASE_OFFSET]), table[:, BASE_OFFSET])


def decode_alike(
    buffer: memoryview,
    headers: Headers,
    first: int,
    *,
    bound: Bound = USUAL_BOUND,
    enough_bytes: int,
    are_checked: bool = False,
) -> tuple[Columns, int]:
    """As `batch.columns.decode_some`, up to the first batch of another format: of magic 2, or of messages."""
    old = are_old(headers)[first:]
    alike = headers.rows(0, first + (int(np.argmax(old != old[0])) or len(old)))
    if old[0]:
        return decode_old(buffer, alike, first, bound, enough_bytes)
    return decode_some(buffer, alike, first, bound=bound, enough_bytes=enough_bytes, are_checked=are_checked)


def decode_old(
    buffer: memoryview, headers: Headers, first: int, bound: Bound, enough_bytes: int
) -> tuple[Columns, int]:
    """As `batch.columns.decode_some`, of messages of magic 0 and 1."""
    after = np.cumsum(headers.table[first:, TOTAL_BYTES])
    stop = first + max(int(np.searchsorted(after, enough_bytes, "right")), 1)
    ranges = headers.table[first:stop, POSITION : TOTAL_BYTES + 1].tolist()
    messages = b"".join(buffer[position : position + size] for position, size in ranges)
    columns, end = decode_some_messages(memoryview(messages), bound, enough_bytes)
    back = np.flatnonzero(np.diff(columns.offsets) <= 0)
    if len(back):
        offset = columns.offsets[back[0] + 1]
        raise ProtocolError(f"the message of an old format at offset {offset} does not follow the one before it")
    return columns, first + int(np.searchsorted(after, end)) + 1


def decode_each(buffer: memoryview, *, max_bytes: int, bound: Bound) -> Iterator[Columns]:
    """All records of whole batches, those of batches of one format at a time. Raises as `batch.columns.decode`."""
    headers = read_whole(buffer)
    old = are_old(headers)
    row, left_bytes = 0, max_bytes
    while row < len(headers):
        message_bytes = MESSAGE_BYTES if old[row] else 0
        columns, row = decode_alike(buffer, headers, row, bound=bound, enough_bytes=max(left_bytes, 1))
        left_bytes -= len(columns.content) + message_bytes * len(columns)
        if left_bytes < 0:
            first = headers.table[0, BASE_OFFSET]
            raise ContentTooLarge(f"the batches from offset {first} on hold more than {max_bytes} bytes decompressed")
        yield columns


def read_whole(buffer: memoryview) -> Headers:
    """The headers of batches of which none may be cut off. Raises ProtocolError."""
    headers = read_headers(buffer, 0, len(buffer))
    if headers.stop != len(buffer):
        left = len(buffer) - headers.stop
        offset = int.from_bytes(buffer[headers.stop : headers.stop + 8], "big", signed=True)
        raise ProtocolError(f"record batch at offset {offset} is damaged: it is cut off after {left} bytes")
    return headers
