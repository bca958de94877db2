"""Loops that number the records inside of lz4 blocks again without compressing these again, compiled by numba.

Imported by `batch.splicing` when it is first used. What a compressor finds out, which bytes come again and from how far
back, stays true when the few bytes that begin each record are replaced: so a block is read, its records get other
beginnings, and it is written again with the matches that it had, cut where they touch a beginning. That takes half of
what unpacking and compressing take, and the block stays about as large as it was. Each match is compared with the
bytes that it is to become, so that a mistake here could make a block larger, never other records.

Every read is guarded: what is damaged, or is not what clients mostly write, is left to `batch.rewrite`, which names it.

Source: the LZ4 block format and frame format 1.6.1, `org.apache.kafka.common.compress.Lz4BlockOutputStream`.
"""

import numpy as np

from sparkmirror.batch.compiled_numbers import put_little_endian, varint_bytes, write_varint
from sparkmirror.batch.content_size import LZ4_MAGIC, LZ4_RAW
from sparkmirror.batch.header import HEADER_BYTES
from sparkmirror.batch.headers import BASE_TIMESTAMP, POSITION, RECORDS, TOTAL_BYTES
from sparkmirror.batch.kernels import FINE, WRONG_END, copy_bytes, read_body, read_start
from sparkmirror.batch.machine_code import (
    BYTES,
    INTEGER,
    PLACES,
    ROOM,
    STEP_BYTES,
    TABLE,
    Bytes,
    Instructions,
    Int64,
    Integers,
    Places,
    kernel,
    part,
)

FRAME_HEADER_BYTES = 7
FRAME_END_BYTES = 4

_INDEPENDENT = 0x60  # version 1, and no block refers to another
_BLOCK_CHECKSUM, _HAS_SIZE, _HAS_CHECKSUM = 0x10, 0x08, 0x04
_RAW = np.int64(LZ4_RAW)
_MATCH_BYTES_MIN = 4
_LAST_LITERALS = 5
_LAST_MATCH_BEFORE = 12
_OFFSET_MAX = 65535
_STEPS_BACK = 8
_WORD_BYTES = 8

# Columns of the table of a block's matches, and of that of its records.
_AT, _BACK, _BYTES = range(3)
_START, _BODY, _SHIFT = range(3)


_copy_step = Instructions("copy_step")
_word = Instructions("read_word")


@part
def _copy(room: Bytes, at: Int64, content: Bytes, start: Int64, size: Int64) -> Int64:
    """As `copy_bytes`, by steps that go beyond the end where there is room for it. What overlaps is at least a step
    apart."""
    end, over = at + size, size + STEP_BYTES
    if at + over > room.shape[0] or start + over > content.shape[0]:
        return copy_bytes(room, at, content, start, size)
    while at < end:
        _copy_step(room, at, content, start)
        at += STEP_BYTES
        start += STEP_BYTES
    return end


@part
def _u32(buffer: Bytes, at: Int64) -> Int64:
    low = np.int64(buffer[at]) | np.int64(buffer[at + 1]) << 8
    return low | np.int64(buffer[at + 2]) << 16 | np.int64(buffer[at + 3]) << 24


@part
def _find_block(buffer: Bytes, at: Int64, stop: Int64) -> tuple[Int64, Int64]:
    """Where the one block of the frame in `buffer[at:stop]` begins, and its size word; (-1, 0) of other frames."""
    nothing = np.int64(-1), np.int64(0)
    if stop - at < FRAME_HEADER_BYTES + 4 + FRAME_END_BYTES or _u32(buffer, at) != LZ4_MAGIC:
        return nothing
    flags = np.int64(buffer[at + 4])
    if flags & ~(_BLOCK_CHECKSUM | _HAS_SIZE | _HAS_CHECKSUM) != _INDEPENDENT:
        return nothing
    at += FRAME_HEADER_BYTES + (8 if flags & _HAS_SIZE else 0)
    stop -= FRAME_END_BYTES + (4 if flags & _HAS_CHECKSUM else 0)  # where the frame's end begins
    if stop - at < 4 or _u32(buffer, stop) != 0:
        return nothing
    word = _u32(buffer, at)
    if word == 0 or at + 4 + (word & ~_RAW) + (4 if flags & _BLOCK_CHECKSUM else 0) != stop:
        return nothing
    return at + 4, word


@part
def _read_length(buffer: Bytes, at: Int64, stop: Int64, length: Int64) -> tuple[Int64, Int64]:
    """A length of 15 or more goes on in bytes; where it ends, -1 where it does not."""
    if length != 15:
        return length, at
    while at < stop:
        byte = np.int64(buffer[at])
        length += byte
        at += 1
        if byte != 255:
            return length, at
    return length, np.int64(-1)


@part
def _unpack(buffer: Bytes, at: Int64, stop: Int64, plain: Bytes, matches: Integers) -> tuple[Int64, Int64]:
    """The content of the block in `buffer[at:stop]` into `plain`, and a row of `matches` for each of its matches.

    Returns the bytes and the matches; -1 bytes where it is damaged, or larger than there is room.
    """
    damaged = np.int64(-1), np.int64(0)
    written, found = np.int64(0), np.int64(0)
    room_bytes, rows = plain.shape[0], matches.shape[0]
    while at < stop:
        token = np.int64(buffer[at])
        literals, at = _read_length(buffer, at + 1, stop, token >> 4)
        if at < 0 or literals > stop - at or literals > room_bytes - written:
            return damaged
        written = _copy(plain, written, buffer, at, literals)
        at += literals
        if at == stop:
            return written, found
        if stop - at < 2:
            return damaged
        back = np.int64(buffer[at]) | np.int64(buffer[at + 1]) << 8
        length, at = _read_length(buffer, at + 2, stop, token & 15)
        length += _MATCH_BYTES_MIN
        if at < 0 or back == 0 or back > written or length > room_bytes - written or found == rows:
            return damaged
        matches[found, _AT], matches[found, _BACK], matches[found, _BYTES] = written, back, length
        found += 1
        if back >= STEP_BYTES:
            written = _copy(plain, written, plain, written - back, length)
        else:
            written = copy_bytes(plain, written, plain, written - back, length)
    return damaged


@part
def _number(
    plain: Bytes,
    size: Int64,
    records: Int64,
    first: Int64,
    later_ms: Int64,
    fresh: Bytes,
    edges: Integers,
    place: Places,
) -> tuple[Int64, Int64]:
    """The `records` of `plain[:size]` into `fresh`, as number `first` and following of a batch that begins `later_ms`
    earlier; and a row of `edges` for each of them, and one behind them.

    Returns the bytes and the latest time by that batch; -1 bytes where they are not what the batch says.
    """
    damaged = np.int64(-1), np.int64(0)
    at, written, latest_ms = np.int64(0), np.int64(0), np.int64(-(2**62))
    if records < 1 or records + 1 > edges.shape[0]:
        return damaged
    for index in range(records):
        delta_ms, offset_delta, body, end, code = read_start(plain, at, size)
        if code == FINE:
            behind, code = read_body(plain, body, end, place, 0)
            if behind != end or offset_delta != index:
                code = WRONG_END
        if code != FINE:
            return damaged
        delta_ms += later_ms
        number = first + index
        length = 1 + varint_bytes(delta_ms) + varint_bytes(number) + end - body
        edges[index, _START], edges[index, _BODY] = at, body
        if written + length + 5 > fresh.shape[0]:
            return damaged
        written = write_varint(fresh, written, length)
        fresh[written] = 0
        written = write_varint(fresh, written + 1, delta_ms)
        written = write_varint(fresh, written, number)
        edges[index, _SHIFT] = written - body
        written = copy_bytes(fresh, written, plain, body, end - body)
        latest_ms = max(latest_ms, delta_ms)
        at = end
    if at != size:
        return damaged
    edges[records, _START] = edges[records, _BODY] = size
    return written, latest_ms


@part
def _write_length(room: Bytes, at: Int64, length: Int64) -> Int64:
    length -= 15
    while length >= 255:
        room[at] = 255
        length -= 255
        at += 1
    room[at] = np.uint8(length)
    return at + 1


@part
def _write_literals(room: Bytes, at: Int64, fresh: Bytes, start: Int64, size: Int64, matched: Int64) -> Int64:
    """A token with `matched` in its lower half, and the literals."""
    room[at] = np.uint8(min(size, 15) << 4 | matched)
    at += 1
    if size >= 15:
        at = _write_length(room, at, size)
    return _copy(room, at, fresh, start, size)


@part
def _write_match(room: Bytes, at: Int64, fresh: Bytes, anchor: Int64, start: Int64, back: Int64, size: Int64) -> Int64:
    """The literals `fresh[anchor:start]`, and behind them `size` bytes from `back` bytes before."""
    rest = size - _MATCH_BYTES_MIN
    at = _write_literals(room, at, fresh, anchor, start - anchor, min(rest, 15))
    room[at], room[at + 1] = np.uint8(back & 0xFF), np.uint8(back >> 8)
    at += 2
    return _write_length(room, at, rest) if rest >= 15 else at


@part
def _record_at(edges: Integers, record: Int64, place: Int64) -> Int64:
    """The record that the byte at `place` belongs to, `record` or one before it: mostly the last ones are meant."""
    high = max(record - _STEPS_BACK, 0)
    if edges[high, _START] <= place:
        while edges[record, _START] > place:
            record -= 1
        return record
    low = np.int64(0)
    while high - low > 1:
        middle = (low + high) >> 1
        if edges[middle, _START] <= place:
            low = middle
        else:
            high = middle
    return low


@part
def _is_same(content: Bytes, at: Int64, other: Int64, size: Int64) -> bool:
    """Whether the bytes that a match would copy are those that it is to become."""
    if size < _WORD_BYTES:
        for index in range(np.uint64(size)):
            if content[np.uint64(at) + index] != content[np.uint64(other) + index]:
                return False
        return True
    last = at + size - _WORD_BYTES
    while at < last:
        if _word(content, at) != _word(content, other):
            return False
        at += _WORD_BYTES
        other += _WORD_BYTES
    is_same: bool = _word(content, last) == _word(content, other - (at - last))
    return is_same


@part
def _pack(fresh: Bytes, size: Int64, matches: Integers, found: Int64, edges: Integers, room: Bytes, at: Int64) -> Int64:
    """`fresh[:size]` as a block, with what is left of the matches. Returns where it ends in `room`."""
    anchor, record = np.int64(0), np.int64(0)
    for index in range(found):
        place, back = matches[index, _AT], matches[index, _BACK]
        stop = place + matches[index, _BYTES]
        while place < stop:
            while edges[record + 1, _START] <= place:
                record += 1
            source = place - back
            other = _record_at(edges, record, source)
            skipped = max(edges[record, _BODY] - place, edges[other, _BODY] - source)
            if skipped > 0:
                place += skipped
                continue
            end = min(stop, edges[record + 1, _START], edges[other + 1, _START] + back)
            start = place + edges[record, _SHIFT]
            length, far = end - place, back + edges[record, _SHIFT] - edges[other, _SHIFT]
            is_far_from_end = start + max(length + _LAST_LITERALS, _LAST_MATCH_BEFORE) <= size
            is_match = is_far_from_end and length >= _MATCH_BYTES_MIN and far <= _OFFSET_MAX
            if is_match and _is_same(fresh, start, start - far, length):
                at = _write_match(room, at, fresh, anchor, start, far, length)
                anchor = start + length
            place = end
    return _write_literals(room, at, fresh, anchor, size - anchor, 0)


@kernel(BYTES, TABLE, INTEGER, ROOM, ROOM, ROOM, TABLE, TABLE, PLACES, results=5)
def splice(
    buffer: Bytes,
    table: Integers,
    limit_bytes: int,
    room: Bytes,
    plain: Bytes,
    fresh: Bytes,
    matches: Integers,
    edges: Integers,
    place: Places,
) -> tuple[int, int, int, int, int]:
    """The blocks of the first batches of `table`, their records numbered as those of one batch, into `room`.

    As many batches as fit into `limit_bytes`, up to the first that is not one block of `plain`'s size. `room` takes
    `limit_bytes` and a block more. Returns (batches, bytes, bytes of the largest block unpacked, bytes of all of them,
    latest time in ms).
    """
    zero: Int64 = np.int64(0)
    at = number = largest = content_bytes = zero
    base_ms = table[0, BASE_TIMESTAMP]
    latest_ms: Int64 = np.int64(-(2**63))
    for row in range(table.shape[0]):
        start, later_ms, records = table[row, POSITION], table[row, BASE_TIMESTAMP] - base_ms, table[row, RECORDS]
        block, word = _find_block(buffer, start + HEADER_BYTES, start + table[row, TOTAL_BYTES])
        if block < 0:
            return row, at, largest, content_bytes, latest_ms
        packed, found = word & ~_RAW, np.int64(0)
        if word & _RAW:
            size = packed if packed <= plain.shape[0] else np.int64(-1)
            copy_bytes(plain, 0, buffer, block, size)
        else:
            size, found = _unpack(buffer, block, block + packed, plain, matches)
        written, latest_delta_ms = np.int64(-1), np.int64(0)
        if size >= 0:
            written, latest_delta_ms = _number(plain, size, records, number, later_ms, fresh, edges, place)
        if written < 0 or at + written + written // 255 + 32 > room.shape[0]:
            return row, at, largest, content_bytes, latest_ms
        end = at + 4
        if found:
            end = _pack(fresh, written, matches, found, edges, room, end)
        if not found or end - at - 4 >= written:
            end = copy_bytes(room, at + 4, fresh, 0, written)
            put_little_endian(room, at, written | _RAW, 4)
        else:
            put_little_endian(room, at, end - at - 4, 4)
        if end > limit_bytes:
            return row, at, largest, content_bytes, latest_ms
        at = end
        number += records
        content_bytes += written
        largest = max(largest, written)
        latest_ms = max(latest_ms, base_ms + latest_delta_ms)
    return table.shape[0], at, largest, content_bytes, latest_ms
