"""From columns to batches of at most so many bytes, ready to be produced. Called by `batch.rewrite` and by transforms.

Source: https://kafka.apache.org/documentation/#recordbatch, `org.apache.kafka.common.record.MemoryRecordsBuilder`.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sparkmirror.batch import codecs
from sparkmirror.batch.columns import Columns
from sparkmirror.batch.header import HEADER_BYTES, Codec, write_header
from sparkmirror.batch.offset_bits import BITS_MAX, RANGE_BITS
from sparkmirror.batch.piece import Piece, Span
from sparkmirror.errors import RecordTooLarge

_CONTENT_BYTES_MAX = 256 << 20
_ROOM_LEFT = 0.95
"""How full a compressed batch is aimed to be: its size is only known once it is made."""


def encode(
    columns: Columns, codec: Codec, max_batch_bytes: int, packed_share: float = 1.0, before: int = -1
) -> Iterator[Piece]:
    """The records as batches of at most `max_batch_bytes` each (all of the batch counts), as full as they go.

    Without a record there is no batch. `packed_share` is what the codec is expected to leave of these records' bytes,
    1.0 if unknown; a wrong guess costs time or fullness, not rightness. `before` is the source offset of what stands
    before them, if that may be theirs too.

    Raises RecordTooLarge for a record that does not fit alone, after the pieces of the records before it were given.
    """
    first = 0
    while first < len(columns):
        piece, share = _encode_one(columns, codec, first, max_batch_bytes, packed_share, before)
        packed_share = share if codec is not Codec.NONE else 1.0
        first += piece.records
        before = int(columns.offsets[first - 1])
        yield piece


def _encode_one(
    columns: Columns, codec: Codec, first: int, max_batch_bytes: int, share: float, before: int
) -> tuple[Piece, float]:
    """The fullest batch from record `first` on that fits, and the share that its codec left."""
    from sparkmirror.batch import kernels

    body_bytes_max = max_batch_bytes - HEADER_BYTES
    limit_bytes = body_bytes_max if codec is Codec.NONE else int(body_bytes_max / share * _ROOM_LEFT)
    while True:
        wanted_bytes = min(max(limit_bytes, 0), _CONTENT_BYTES_MAX)
        stop, content_bytes = kernels.measure_records(columns.timestamps, columns.places, first, wanted_bytes)
        if stop == first:  # not even one record: it may still fit, compressed
            stop, content_bytes = kernels.measure_records(
                columns.timestamps[: first + 1], columns.places[: first + 1], first, 2**62
            )
        data = _write(columns, codec, first, stop, content_bytes)
        if len(data) <= max_batch_bytes:
            spans = find_spans(columns.offsets[first:stop], before)
            return Piece(data, spans, stop - first), len(data) / content_bytes
        if stop == first + 1:
            raise _too_large(int(columns.offsets[first]), len(data), max_batch_bytes)
        limit_bytes = min(content_bytes - 1, int(content_bytes * body_bytes_max / len(data) * _ROOM_LEFT))


def _write(columns: Columns, codec: Codec, first: int, stop: int, content_bytes: int) -> bytearray:
    from sparkmirror.batch import kernels

    data = bytearray(HEADER_BYTES + (content_bytes if codec is Codec.NONE else 0))
    if codec is Codec.NONE:
        room = np.frombuffer(data, np.uint8)[HEADER_BYTES:]
        kernels.write_records(columns.content, columns.timestamps, columns.places, first, stop, room)
    else:
        room = np.empty(content_bytes, np.uint8)
        kernels.write_records(columns.content, columns.timestamps, columns.places, first, stop, room)
        data += codecs.compress(codec, room.data)
    timestamps = columns.timestamps[first:stop]
    write_header(data, codec, len(timestamps), int(timestamps[0]), int(timestamps.max()))
    return data


def find_spans(offsets: NDArray[np.int64], before: int = -1) -> tuple[Span, ...]:
    """Where records with these source offsets, in order, come from, behind a record of the offset `before`."""
    steps = np.diff(offsets, prepend=before)
    starts = _range_starts(steps[1:])
    if steps.all():  # no offset comes twice
        if len(starts) == 1:
            return (Span(int(offsets[0]), len(offsets)),)
        far = np.flatnonzero(steps[1:] > BITS_MAX) + 1
        return tuple(span for part in np.split(offsets, far) for span in _distinct_spans(part))
    spans: list[Span] = []
    edges = np.append(starts, len(offsets))
    for start, stop in pairwise(edges.tolist()):
        first, again = int(offsets[start]), int(not steps[start])
        if again:
            last = spans.pop() if spans else Span(first + 1, 0)
            spans.append(last._replace(more=last.more + 1))
        if stop - start > again:
            spans.append(Span(first + again, stop - start - again))
    return tuple(spans)


def range_sizes(offsets: NDArray[np.int64]) -> list[int]:
    """The numbers of records of the maximal ranges of consecutive offsets, in order; all are distinct."""
    sizes: list[int] = np.diff(_range_starts(np.diff(offsets)), append=len(offsets)).tolist()
    return sizes


def _range_starts(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where ranges begin, by the steps from each offset to the next."""
    return np.append(0, np.flatnonzero(steps != 1) + 1)


def _distinct_spans(offsets: NDArray[np.int64]) -> Iterator[Span]:
    """By ranges, or by bits where these take less."""
    starts = _range_starts(np.diff(offsets))
    saved_bits = RANGE_BITS * len(starts) - int(offsets[-1] - offsets[0])
    if saved_bits > 0 and len(starts) > 1:
        return _as_bits(offsets)
    return map(Span, offsets[starts].tolist(), np.diff(starts, append=len(offsets)).tolist())


def _as_bits(offsets: NDArray[np.int64]) -> Iterator[Span]:
    """Spans of at most BITS_MAX offsets."""
    at = 0
    while at < len(offsets):
        first = int(offsets[at])
        stop = int(np.searchsorted(offsets, first + BITS_MAX))
        steps = offsets[at:stop] - first
        has_record = np.zeros(int(steps[-1]) + 1, np.uint8)
        has_record[steps] = 1
        packed = np.packbits(has_record, bitorder="little").tobytes()
        is_dense = len(steps) == len(has_record)
        yield Span(first, stop - at, 0, 0 if is_dense else int.from_bytes(packed, "little"))
        at = stop


def _too_large(offset: int, size_bytes: int, limit_bytes: int) -> RecordTooLarge:
    return RecordTooLarge(
        f"the record at source offset {offset} is {size_bytes} bytes in a batch of its own, "
        f"the target topic's max.message.bytes is {limit_bytes}",
        hint="raise max.message.bytes of the target topic, or leave the topic out of the flow",
        offset=offset,
        size_bytes=size_bytes,
        limit_bytes=limit_bytes,
    )
