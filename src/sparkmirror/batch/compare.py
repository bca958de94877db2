"""Whether two stretches of a log hold the same records: bytes where batches are alike, records where they are not.

Called by `verify.matching` with batches of a source and a target whose offsets differ by a constant. Importing it links
the kernels.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparkmirror.batch.columns import (
    HEADERS_BYTES,
    HEADERS_START,
    KEY_BYTES,
    KEY_START,
    VALUE_BYTES,
    VALUE_START,
    Columns,
)
from sparkmirror.batch.header import HEADER_BYTES, MAGIC, TRANSACTIONAL
from sparkmirror.batch.headers import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    MAGIC_NUMBER,
    MAX_TIMESTAMP,
    NEXT_OFFSET,
    POSITION,
    RECORDS,
    TOTAL_BYTES,
)
from sparkmirror.batch.machine_code import (
    BYTES,
    INTEGER,
    INTEGERS,
    PLACES,
    TABLE,
    Bytes,
    Int64,
    Integers,
    Places,
    kernel,
    part,
)

# What `_compare_records` counts, and where it found the first of each kind; -1 where there is none.
_EQUAL, _DIFFERENT, _ONLY_SOURCE, _ONLY_TARGET, _CLAMPED, _FIRST_SOURCE, _FIRST_TARGET = range(7)
_LONE_SOURCE, _LONE_SOURCE_NEXT, _LONE_TARGET, _LONE_TARGET_NEXT = range(7, 11)
_FIGURES = 11

_ALIKE = (TOTAL_BYTES, BASE_TIMESTAMP, MAX_TIMESTAMP, RECORDS)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many records are `equal`, and how many are not: with other content, or on one side only.

    `clamped` ones are equal but for a timestamp that the target has lower, where that was allowed. The pairs are rows
    of both sides' columns: of the first that differ, and where a record is missing in one side, that record's row and
    the other side's next one (which may be one behind its last).
    """

    equal: int
    different: int
    only_source: int
    only_target: int
    clamped: int
    first_different: tuple[int, int] | None
    first_only_source: tuple[int, int] | None
    first_only_target: tuple[int, int] | None


def compare_records(
    source: Columns, target: Columns, delta: int, *, with_times: bool = True, may_clamp: bool = False
) -> Comparison:
    """Each record of `source` with the one of `target` that lies `delta` offsets further; both are in their order."""
    figures = np.zeros(_FIGURES, np.int64)
    figures[_FIRST_SOURCE:] = -1
    _compare_records(
        source.content, source.offsets, source.timestamps, source.places,
        target.content, target.offsets, target.timestamps, target.places,
        delta, with_times, may_clamp, figures,
    )  # fmt: skip
    equal, different, only_source, only_target, clamped, *firsts = figures.tolist()
    pairs = [(one, other) if one >= 0 else None for one, other in zip(firsts[::2], firsts[1::2], strict=True)]
    lone_target = None if pairs[2] is None else (pairs[2][1], pairs[2][0])
    return Comparison(equal, different, only_source, only_target, clamped, pairs[0], pairs[1], lone_target)


def identical_batches(
    source: memoryview,
    source_table: NDArray[np.int64],
    target: memoryview,
    target_table: NDArray[np.int64],
    delta: int,
) -> NDArray[np.int64]:
    """Rows of `source_table` whose batch the target has byte for byte, `delta` offsets further.

    Tables are those of `batch.headers`, in the order of offsets. Base offset, leader epoch, checksum, the transactional
    bit and the producer may be others; the checksum is not computed: the bytes that it covers are compared themselves.
    """
    if not len(source_table) or not len(target_table):
        return np.empty(0, np.int64)
    rows = np.searchsorted(target_table[:, BASE_OFFSET], source_table[:, BASE_OFFSET] + delta)
    rows = np.minimum(rows, len(target_table) - 1)
    there = target_table[rows]
    alike = (source_table[:, MAGIC_NUMBER] == MAGIC) & (there[:, MAGIC_NUMBER] == MAGIC)
    for column in (BASE_OFFSET, NEXT_OFFSET):
        alike &= source_table[:, column] + delta == there[:, column]
    for column in _ALIKE:
        alike &= source_table[:, column] == there[:, column]
    alike &= (source_table[:, ATTRIBUTES] ^ there[:, ATTRIBUTES]) & ~TRANSACTIONAL == 0
    found = np.flatnonzero(alike)
    pairs = np.stack((source_table[found, POSITION], there[found, POSITION], source_table[found, TOTAL_BYTES]), axis=1)
    same = np.zeros(len(found), np.int64)
    _compare_bodies(np.frombuffer(source, np.uint8), np.frombuffer(target, np.uint8), pairs, same)
    identical: NDArray[np.int64] = found[same.astype(bool)]
    return identical


@part
def _same_bytes(one: Bytes, at: Int64, other: Bytes, there: Int64, size: Int64) -> bool:
    # Without a way out in between, sixteen and more bytes are compared at once.
    first, second = np.uint64(at), np.uint64(there)
    difference = np.uint8(0)
    for index in range(np.uint64(max(size, 0))):
        difference |= one[first + index] ^ other[second + index]
    return bool(difference == 0)


@kernel(BYTES, BYTES, TABLE, INTEGERS, results=0)
def _compare_bodies(source: Bytes, target: Bytes, pairs: Integers, same: Integers) -> None:
    for row in range(pairs.shape[0]):
        at, there, size = pairs[row, 0], pairs[row, 1], pairs[row, 2]
        same[row] = _same_bytes(source, at + HEADER_BYTES, target, there + HEADER_BYTES, size - HEADER_BYTES)


@part
def _same_part(
    one: Bytes, places: Places, row: Int64, other: Bytes, others: Places, there: Int64, start: Int64, size: Int64
) -> bool:
    length = np.int64(places[row, size])
    if length != others[there, size]:
        return False
    return _same_bytes(one, np.int64(places[row, start]), other, np.int64(others[there, start]), length)


@part
def _has_no_headers(content: Bytes, places: Places, row: Int64) -> bool:
    """No bytes at all, or a count of zero."""
    size = places[row, HEADERS_BYTES]
    return bool(size <= 0 or (size == 1 and content[places[row, HEADERS_START]] == 0))


@part
def _same_content(one: Bytes, places: Places, row: Int64, other: Bytes, others: Places, there: Int64) -> bool:
    if not _same_part(one, places, row, other, others, there, KEY_START, KEY_BYTES):
        return False
    if not _same_part(one, places, row, other, others, there, VALUE_START, VALUE_BYTES):
        return False
    if _has_no_headers(one, places, row):
        return _has_no_headers(other, others, there)
    return _same_part(one, places, row, other, others, there, HEADERS_START, HEADERS_BYTES)


@part
def _note_first(figures: Integers, figure: Int64, row: Int64, there: Int64) -> None:
    if figures[figure] < 0:
        figures[figure] = row
        figures[figure + 1] = there


_SIDE = (BYTES, INTEGERS, INTEGERS, PLACES)


@kernel(*_SIDE, *_SIDE, INTEGER, INTEGER, INTEGER, INTEGERS, results=0)
def _compare_records(
    content: Bytes,
    offsets: Integers,
    times: Integers,
    places: Places,
    other: Bytes,
    others_offsets: Integers,
    others_times: Integers,
    others_places: Places,
    delta: int,
    with_times: bool,
    may_clamp: bool,
    figures: Integers,
) -> None:
    """Walks both in the order of offsets."""
    row = there = 0
    while row < offsets.shape[0] or there < others_offsets.shape[0]:
        if there == others_offsets.shape[0] or (
            row < offsets.shape[0] and offsets[row] + delta < others_offsets[there]
        ):
            figures[_ONLY_SOURCE] += 1
            _note_first(figures, _LONE_SOURCE, row, there)
            row += 1
            continue
        if row == offsets.shape[0] or offsets[row] + delta > others_offsets[there]:
            figures[_ONLY_TARGET] += 1
            _note_first(figures, _LONE_TARGET, there, row)
            there += 1
            continue
        is_same = _same_content(content, places, row, other, others_places, there)
        is_clamped = with_times and times[row] != others_times[there]
        if is_same and (not is_clamped or (may_clamp and others_times[there] < times[row])):
            figures[_EQUAL] += 1
            figures[_CLAMPED] += is_clamped
        else:
            figures[_DIFFERENT] += 1
            _note_first(figures, _FIRST_SOURCE, row, there)
        row += 1
        there += 1
