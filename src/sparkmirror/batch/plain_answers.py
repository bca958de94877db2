"""Reads a fetch answer that has nothing unusual, announces what it brings, and encodes what to ask next; compiled.

What `pipeline.fetch.responses` does with answers that bring data and nothing else, for all partitions of an answer
in one call. The kernel takes an answer whole or leaves everything as it is, for Python. Called by
`pipeline.fetch.plain_answers`.

Source: https://kafka.apache.org/protocol, FetchRequest and FetchResponse v15 to v18.
"""

from typing import Final

import numpy as np

from sparkmirror.batch.compiled_numbers import big_endian, put_big_endian, put_little_endian, write_uvarint
from sparkmirror.batch.header import AHEAD_MAX, CONTROL, HEADER_BYTES, LOG_OVERHEAD_BYTES
from sparkmirror.batch.kernels import copy_bytes
from sparkmirror.batch.machine_code import BYTES, INTEGER, INTEGERS, ROOM, TABLE, Bytes, Int64, Integers, kernel, part
from sparkmirror.batch.session_rows import (
    ASKED,
    BATCHES,
    BYTES_MAX,
    CURRENT_EPOCH,
    EPOCH,
    FETCHED_MS,
    HIGH_WATERMARK,
    ID_HIGH,
    ID_LOW,
    OFFSET,
    OLDEST_MS,
    PARTITION,
    READABLE,
    RECORDS,
    SIZE,
    SLOT,
)  # fmt: skip

UNUSUAL: Final = -1

_ROW, _START, _STOP, _NEXT, _BATCHES, _RECORDS, _LATEST, _END = range(8)
_ENTRY_BYTES: Final = 64
_ENTRY_RECORDS_MAX: Final = (1 << 32) - 1
"""Damaged headers may claim more."""
_COUNT_BYTES_MAX: Final = 2
"""Of the number of topics."""
_CORRELATION_AT: Final = 8
_EPOCH_BEFORE: Final = 4
_BYTES_MAX_BEFORE: Final = 13
"""Where the session's epoch and the most bytes of an answer stand, before the number of topics."""
_PARTITION_BYTES: Final = 30
"""Of an answer's partition up to its aborted transactions."""


@part
def _uvarint(buffer: Bytes, at: Int64, stop: Int64) -> tuple[Int64, Int64]:
    """A number and where it ends; -1 where it does not within five bytes."""
    number = np.int64(0)
    for index in range(min(np.int64(5), stop - at)):
        byte = np.int64(buffer[at + index])
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return number, at + index + 1
    return number, np.int64(-1)


@part
def _find(table: Integers, high: Int64, low: Int64, partition: Int64, hint: Int64) -> Int64:
    """The partition's row, looked for from `hint` on: answers have partitions in nearly the same order."""
    rows = table.shape[0]
    for step in range(rows):
        row = (hint + step) % rows
        if table[row, ID_LOW] == low and table[row, ID_HIGH] == high and table[row, PARTITION] == partition:
            return np.int64(row)
    return np.int64(UNUSUAL)


@part
def _walk(buffer: Bytes, at: Int64, stop: Int64, row: Integers, found: Integers) -> bool:
    """As `pipeline.fetch.runs.summarize_plain`."""
    found[_START], following = at, row[OFFSET]
    found[_BATCHES], found[_RECORDS], found[_LATEST] = 0, 0, -1
    while stop - at >= HEADER_BYTES:
        length, delta = big_endian(buffer, at + 8, 4), big_endian(buffer, at + 23, 4)
        count, base = big_endian(buffer, at + 57, 4), big_endian(buffer, at, 8)
        end = at + length + LOG_OVERHEAD_BYTES
        if end > stop:
            break
        if length < HEADER_BYTES - LOG_OVERHEAD_BYTES or buffer[at + 16] != 2 or buffer[at + 22] & CONTROL:
            return False
        if not 0 < count <= delta + 1 or base < following or big_endian(buffer, at + 12, 4) != row[EPOCH]:
            return False
        at, following = end, base + delta + 1
        found[_BATCHES] += 1
        found[_RECORDS] += count
        found[_LATEST] = max(found[_LATEST], big_endian(buffer, at - length - LOG_OVERHEAD_BYTES + 35, 8))
    found[_STOP], found[_NEXT] = at, following
    if found[_RECORDS] > _ENTRY_RECORDS_MAX:
        return False
    return bool(found[_BATCHES] > 0 and following <= found[_END] + AHEAD_MAX)


@part
def _read_partition(
    buffer: Bytes, at: Int64, stop: Int64, high: Int64, low: Int64, table: Integers, found: Integers, hint: Int64
) -> Int64:
    """One partition of the answer, into a row of what was found. Where it ends, or UNUSUAL."""
    unusual = np.int64(UNUSUAL)
    if stop - at < _PARTITION_BYTES + 6:
        return unusual
    found[_ROW] = _find(table, high, low, big_endian(buffer, at, 4), hint)
    end, readable = big_endian(buffer, at + 6, 8), big_endian(buffer, at + 14, 8)
    if found[_ROW] < 0 or big_endian(buffer, at + 4, 2) != 0 or end < 0 or 0 <= readable < end:
        return unusual
    at += _PARTITION_BYTES
    if buffer[at] > 1 or big_endian(buffer, at + 1, 4) >= 0:  # aborted transactions, and a replica that is nearer
        return unusual
    size, at = _uvarint(buffer, at + 5, stop)
    behind = at + max(size - 1, np.int64(0))
    if at < 0 or behind >= stop or buffer[behind]:  # tagged fields
        return unusual
    found[_END] = end
    found[_START] = found[_STOP] = at
    found[_BATCHES] = 0
    row = table[found[_ROW]]
    if size > 1 and (row[ASKED] != row[OFFSET] or not _walk(buffer, at, behind, row, found)):
        return unusual
    return behind + 1


@part
def _read(buffer: Bytes, at: Int64, stop: Int64, session: Int64, table: Integers, found: Integers) -> Int64:
    """The whole answer, into `found`. How many partitions it has, or UNUSUAL."""
    unusual, partitions, hint = np.int64(UNUSUAL), np.int64(0), np.int64(0)
    if stop - at < 17 or buffer[at + 4]:
        return unusual
    at += 5
    if big_endian(buffer, at, 4) > 0 or big_endian(buffer, at + 4, 2) != 0 or big_endian(buffer, at + 6, 4) != session:
        return unusual
    topics, at = _uvarint(buffer, at + 10, stop)
    for _ in range(topics - 1):
        if at < 0 or stop - at < 17:
            return unusual
        high, low = big_endian(buffer, at, 8), big_endian(buffer, at + 8, 8)
        count, at = _uvarint(buffer, at + 16, stop)
        if at < 0 or count - 1 > found.shape[0] - partitions:
            return unusual
        for _ in range(count - 1):
            at = _read_partition(buffer, at, stop, high, low, table, found[partitions], hint)
            if at < 0:
                return unusual
            for before in range(partitions):
                if found[before, _ROW] == found[partitions, _ROW]:
                    return unusual
            hint = found[partitions, _ROW] + 1
            partitions += 1
        if at >= stop or buffer[at]:
            return unusual
        at += 1
    return partitions if at == stop - 1 and buffer[at] == 0 else unusual


@part
def _announce(
    room: Bytes, at: Int64, row: Integers, found: Integers, row_batches: Int64, lease: Int64, now: Int64
) -> None:
    """An entry of the board, as `pipeline.relay.board` reads it."""
    put_little_endian(room, at, row[SLOT], 4)
    put_little_endian(room, at + 4, found[_RECORDS], 4)
    put_little_endian(room, at + 8, found[_STOP] - found[_START], 4)
    put_little_endian(room, at + 12, row_batches, 4)
    put_little_endian(room, at + 16, row[OFFSET], 8)
    put_little_endian(room, at + 24, found[_NEXT], 8)
    put_little_endian(room, at + 32, lease, 8)
    put_little_endian(room, at + 40, found[_LATEST], 8)
    put_little_endian(room, at + 48, found[_END], 8)
    put_little_endian(room, at + 56, now, 8)


@part
def _count(row: Integers, found: Integers, now: Int64) -> None:
    row[OFFSET], row[READABLE], row[HIGH_WATERMARK] = found[_NEXT], found[_END], found[_END]
    latest = found[_LATEST]
    if not row[BATCHES] or row[OLDEST_MS] < 0 or (latest >= 0 and row[FETCHED_MS] - row[OLDEST_MS] < now - latest):
        row[OLDEST_MS], row[FETCHED_MS] = latest, now
    row[BATCHES] += found[_BATCHES]
    row[RECORDS] += found[_RECORDS]
    row[SIZE] += found[_STOP] - found[_START]


@part
def take_one(
    memory: Bytes, table: Integers, found: Integers, board: Bytes, leases: Integers, start: Int64, size: Int64,
    lease: Int64, session: Int64, number: Int64, free: Int64, row_batches: Int64, now: Int64,
) -> Int64:  # fmt: skip
    """As the kernel."""
    if start < 0 or size < 0 or start + size > memory.shape[0]:
        return UNUSUAL
    partitions, announced = _read(memory, start, start + size, session, table, found), 0
    for index in range(partitions):
        announced += found[index, _BATCHES] > 0
    if partitions < 0 or announced > free or announced > leases.shape[0]:
        return UNUSUAL
    announced = 0
    for index in range(partitions):
        row = table[found[index, _ROW]]
        if not found[index, _BATCHES]:
            row[READABLE] = row[HIGH_WATERMARK] = found[index, _END]
            continue
        place = (number + announced) % (board.shape[0] // _ENTRY_BYTES) * _ENTRY_BYTES
        leases[announced] = lease + found[index, _START] - start
        _announce(board, place, row, found[index], row_batches, leases[announced], now)
        _count(row, found[index], now)
        announced += 1
    return announced


@kernel(BYTES, TABLE, TABLE, ROOM, INTEGERS, INTEGER, INTEGER, INTEGER, INTEGER, INTEGER, INTEGER, INTEGER, INTEGER)
def take_answer(
    memory: Bytes,
    table: Integers,
    found: Integers,
    board: Bytes,
    leases: Integers,
    start: int,
    size: int,
    lease: int,
    session: int,
    number: int,
    free: int,
    row_batches: int,
    now: int,
) -> int:
    """Take the answer `memory[start : start + size]` of that fetch session, whose first byte is at `lease` of the ring:
    write entries of the board from the one `number` on, of which so many are `free`, and their leases. `now` is in ms
    since 1970. Returns how many entries there are, or UNUSUAL where nothing was done."""
    return take_one(memory, table, found, board, leases, start, size, lease, session, number, free, row_batches, now)  # type: ignore[no-any-return]


@part
def _encode_topics(table: Integers, room: Bytes, at: Int64) -> tuple[Int64, Int64]:
    """The partitions whose offset is another one than was asked for last, by topic; it then is. How many topics, and
    where they end."""
    rows, topics, row = table.shape[0], np.int64(0), 0
    while row < rows:
        high, low, behind, count = table[row, ID_HIGH], table[row, ID_LOW], row, np.int64(0)
        while behind < rows and table[behind, ID_LOW] == low and table[behind, ID_HIGH] == high:
            count += table[behind, ASKED] != table[behind, OFFSET]
            behind += 1
        if count:
            topics += 1
            put_big_endian(room, at, high, 8)
            put_big_endian(room, at + 8, low, 8)
            at = write_uvarint(room, at + 16, np.uint64(count + 1))
        for index in range(row, behind):
            if table[index, ASKED] == table[index, OFFSET]:
                continue
            table[index, ASKED] = table[index, OFFSET]
            put_big_endian(room, at, table[index, PARTITION], 4)
            put_big_endian(room, at + 4, table[index, CURRENT_EPOCH], 4)
            put_big_endian(room, at + 8, table[index, OFFSET], 8)
            put_big_endian(room, at + 16, table[index, EPOCH], 4)
            put_big_endian(room, at + 20, np.int64(-1), 8)
            put_big_endian(room, at + 28, table[index, BYTES_MAX], 4)
            room[at + 32] = 0
            at += 33
        if count:
            room[at] = 0
            at += 1
        row = behind
    return topics, at


@part
def encode_one(
    table: Integers, frame: Bytes, room: Bytes, topics_at: Int64, correlation: Int64, epoch: Int64, bytes_max: Int64
) -> Int64:
    """As the kernel."""
    topics, at = _encode_topics(table, room, np.int64(topics_at) + _COUNT_BYTES_MAX)
    start = np.int64(topics_at) + _COUNT_BYTES_MAX
    count_bytes = np.int64(1) if topics < 0x7F else np.int64(2)
    shift = _COUNT_BYTES_MAX - count_bytes
    copy_bytes(room, shift, frame, 0, topics_at)
    write_uvarint(room, start - count_bytes, np.uint64(topics + 1))
    behind = topics_at + 1
    at = copy_bytes(room, at, frame, behind, frame.shape[0] - behind)
    put_big_endian(room, shift, at - shift - 4, 4)
    put_big_endian(room, shift + _CORRELATION_AT, correlation, 4)
    put_big_endian(room, shift + topics_at - _EPOCH_BEFORE, epoch, 4)
    put_big_endian(room, shift + topics_at - _BYTES_MAX_BEFORE, bytes_max, 4)
    return (shift << 32) | at


@kernel(TABLE, BYTES, ROOM, INTEGER, INTEGER, INTEGER, INTEGER)
def encode_request(
    table: Integers, frame: Bytes, room: Bytes, topics_at: int, correlation: int, epoch: int, bytes_max: int
) -> int:
    """A fetch request, its length before it, that names the partitions whose offset is another one than was asked for
    last. `frame` is the request without any, whose number of topics is at `topics_at`. The room takes 64 bytes a row
    more than that. Returns where the request begins there, times 2 to the 32nd, and where it ends."""
    return encode_one(table, frame, room, topics_at, correlation, epoch, bytes_max)  # type: ignore[no-any-return]
