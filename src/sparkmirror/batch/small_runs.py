"""Makes each of a few small runs one batch that may go out: passed as it is, or several joined, and stamped; compiled.

What `pipeline.produce.direct_buffer` does with a run where kernels are not loaded, for all runs of a turn in one call:
a mirror that is caught up has some hundred turns a second, and in Python each run took 30 µs, each joined one 80. The
kernel takes what is usual: anything else is refused, left as it is, and goes the way of Python. Imported by
`batch.loading`; called by `pipeline.produce.direct_path`.

Source: https://kafka.apache.org/documentation/#recordbatch; zlib's `crc32_combine` for moving a checksum's change.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparkmirror.batch.append_time import CRC_AT, SETTLED_BYTES_MAX, SETTLED_RECORDS_MAX
from sparkmirror.batch.compiled_numbers import big_endian, put_big_endian, read_varint, varint_bytes, write_varint
from sparkmirror.batch.crc import POLYNOMIAL
from sparkmirror.batch.header import (
    APPEND_TIME,
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LATEST_AT,
    LOG_OVERHEAD_BYTES,
    PRODUCER_AT,
    TRANSACTIONAL,
)
from sparkmirror.batch.joining import BATCH_BYTES_MAX, JOINED_RECORDS_MAX
from sparkmirror.batch.kernels import copy_bytes, crc32c
from sparkmirror.batch.machine_code import INTEGER, ROOM, TABLE, Bytes, Int64, Integers, kernel, part
from sparkmirror.batch.ready_rows import (
    AT,
    BASE_OFFSET,
    BYTES,
    BYTES_MAX,
    CODEC,
    FIRST_OFFSET,
    JOINED,
    JOINED_BYTES_MAX,
    LEADER_EPOCH,
    LEASE,
    OUTCOME,
    PASSES,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORDS,
    REFUSED,
    SEQUENCE,
    SIZE,
)  # fmt: skip

_CODECS: Final = 5
_OTHERWISE: Final = CONTROL | DELETE_HORIZON | CODEC_MASK
_STAMPED_BYTES: Final = 57
"""What changes by a stamp ends there."""
_DELTA_AT: Final = 23
_BASE_TIME_AT: Final = 27
_COUNT_AT: Final = 57
_TIME_BOUND: Final = 1 << 61
_GROWTH_BYTES: Final = 32
"""The most that a record grows by when it is moved, its length and both deltas together."""


@part
def _times(one: np.uint32, other: np.uint32) -> np.uint32:
    product, bit = np.uint32(0), np.uint32(1 << 31)
    while bit:
        if one & bit:
            product ^= other
        bit >>= np.uint32(1)
        other = np.uint32(other >> np.uint32(1)) ^ (np.uint32(POLYNOMIAL) if other & np.uint32(1) else np.uint32(0))
    return product


def _powers() -> NDArray[np.uint32]:
    """x to the power of 2, 4, 8 …, modulo the polynomial of CRC-32C, bits reversed; from x to the power of 8 on, which
    is one zero byte."""
    power = np.uint32(1 << 30)
    for _ in range(3):
        power = _times(power, power)
    powers = [power]
    for _ in range(27):
        powers.append(_times(powers[-1], powers[-1]))
    return np.array(powers, np.uint32)


_ZERO_BYTES: Final = _powers()


_TOTAL_BYTES_MAX: Final = (1 << len(_ZERO_BYTES)) - 1
"""Of a batch: beyond, `_behind_zeros` has no power."""


@part
def _behind_zeros(change: np.uint32, zeros: Int64) -> np.uint32:
    """What a checksum's change becomes where so many bytes that are the same follow."""
    place = 0
    while zeros > 0:
        if zeros & 1:
            change = _times(_ZERO_BYTES[place], change)
        zeros >>= 1
        place += 1
    return change


@part
def _find_time(batch: Bytes, at: Int64, stop: Int64) -> tuple[Int64, Int64]:
    """Where the record at `at` has its distance from the base timestamp, and where it ends; -1 if it is damaged or the
    distance is longer than a byte."""
    nothing = np.int64(-1)
    size, start = read_varint(batch, at, stop, 5)
    if start < 0 or size < 2 or start + size > stop or batch[start + 1] >= 0x80:
        return nothing, nothing
    return start + 1, start + size


@part
def _settle(batch: Bytes, at: Int64, total: Int64) -> Int64:
    """Make append time each record's own. 1 where records have changed, so that the checksum is to be computed, 0 where
    the header alone has, -1 where nothing was changed, because it cannot be done here."""
    count, stop, time = big_endian(batch, at + _COUNT_AT, 4), at + total, big_endian(batch, at + LATEST_AT, 8)
    if count > SETTLED_RECORDS_MAX or total > SETTLED_BYTES_MAX or time < 0:
        return np.int64(-1)
    moved, place = np.int64(0), at + HEADER_BYTES
    for _ in range(count):
        found, place = _find_time(batch, place, stop)
        if found < 0:
            return np.int64(-1)
        if batch[found]:
            moved = np.int64(1)
    if place != stop:
        return np.int64(-1)
    if moved:
        claimed = big_endian(batch, at + CRC_AT, 4) & 0xFFFFFFFF
        if np.int64(crc32c(batch, at + ATTRIBUTES_AT, stop)) != claimed:
            return np.int64(-1)
        place = at + HEADER_BYTES
        for _ in range(count):
            found, place = _find_time(batch, place, stop)
            batch[found] = 0
    put_big_endian(batch, at + _BASE_TIME_AT, time, 8)
    batch[at + ATTRIBUTES_AT + 1] &= np.uint8(0xFF ^ APPEND_TIME)
    return moved


@part
def _is_batch(memory: Bytes, at: Int64, stop: Int64, row: Integers) -> bool:
    """Whether a whole batch of magic 2 begins there, of the leader epoch, with a record at each of its offsets."""
    if stop - at < HEADER_BYTES or memory[at + 16] != 2:
        return False
    length, delta = big_endian(memory, at + 8, 4), big_endian(memory, at + _DELTA_AT, 4)
    if length < HEADER_BYTES - LOG_OVERHEAD_BYTES or length + LOG_OVERHEAD_BYTES > stop - at or delta < 0:
        return False
    if big_endian(memory, at + 12, 4) != row[LEADER_EPOCH] or big_endian(memory, at + _COUNT_AT, 4) != delta + 1:
        return False
    return bool(memory[at + ATTRIBUTES_AT + 1] & CONTROL == 0)


@part
def _stamp(batch: Bytes, at: Int64, row: Integers) -> None:
    put_big_endian(batch, at, np.int64(0), 8)
    put_big_endian(batch, at + 12, np.int64(-1), 4)
    batch[at + ATTRIBUTES_AT + 1] &= np.uint8(0xFF ^ TRANSACTIONAL)
    put_big_endian(batch, at + PRODUCER_AT, row[PRODUCER_ID], 8)
    put_big_endian(batch, at + PRODUCER_AT + 8, row[PRODUCER_EPOCH], 2)
    put_big_endian(batch, at + PRODUCER_AT + 10, row[SEQUENCE], 4)


@part
def _pass(memory: Bytes, at: Int64, row: Integers) -> Int64:
    """The run is one batch: as `DirectBuffer.hand_on` and `batch.header.stamp`."""
    total = row[SIZE]
    attributes = np.int64(memory[at + ATTRIBUTES_AT + 1])
    if (
        total > min(row[BYTES_MAX], _TOTAL_BYTES_MAX)
        or attributes & DELETE_HORIZON
        or attributes & CODEC_MASK >= _CODECS
    ):
        return np.int64(REFUSED)
    base, codec = big_endian(memory, at, 8), attributes & CODEC_MASK
    if base < row[FIRST_OFFSET]:
        return np.int64(REFUSED)
    crc = np.uint32(big_endian(memory, at + CRC_AT, 4) & 0xFFFFFFFF)
    before = crc32c(memory, at + ATTRIBUTES_AT, at + _STAMPED_BYTES)
    moved = np.int64(0)
    if attributes & APPEND_TIME:
        moved = np.int64(-1) if codec else _settle(memory, at, total)
        if moved < 0:
            return np.int64(REFUSED)
    _stamp(memory, at, row)
    if moved:
        crc = crc32c(memory, at + ATTRIBUTES_AT, at + total)
    else:
        change = before ^ crc32c(memory, at + ATTRIBUTES_AT, at + _STAMPED_BYTES)
        crc ^= _behind_zeros(change, total - _STAMPED_BYTES)
    put_big_endian(memory, at + CRC_AT, np.int64(crc), 4)
    row[AT], row[BYTES], row[BASE_OFFSET], row[CODEC] = at, total, base, codec
    row[RECORDS] = big_endian(memory, at + _COUNT_AT, 4)
    return np.int64(PASSES)


@part
def _may_join(memory: Bytes, at: Int64) -> bool:
    """As `batch.joining.may_join`, uncompressed, and as its checksum says."""
    length = big_endian(memory, at + 8, 4)
    if length >= BATCH_BYTES_MAX or big_endian(memory, at + _COUNT_AT, 4) > JOINED_RECORDS_MAX:
        return False
    if memory[at + ATTRIBUTES_AT + 1] & _OTHERWISE:
        return False
    claimed = big_endian(memory, at + CRC_AT, 4) & 0xFFFFFFFF
    return bool(np.int64(crc32c(memory, at + ATTRIBUTES_AT, at + length + LOG_OVERHEAD_BYTES)) == claimed)


@part
def _move(
    memory: Bytes, at: Int64, stop: Int64, room: Bytes, place: Int64, moved: Int64, later_ms: Int64, is_stamped: bool
) -> Int64:
    """Append a batch's records to those `moved` before, `later_ms` after the base timestamp. Returns where they end in
    the room, -1 where they are not what they mostly are."""
    count, number = big_endian(memory, at + _COUNT_AT, 4), np.int64(0)
    at += HEADER_BYTES
    while number < count:
        size, start = read_varint(memory, at, stop, 5)
        if start < 0 or size < 3 or size > stop - start:
            return np.int64(-1)
        end = start + size
        later, behind_time = read_varint(memory, start + 1, end, 10)
        if behind_time < 0 or later < -_TIME_BOUND or later > _TIME_BOUND:
            return np.int64(-1)
        delta, body = read_varint(memory, behind_time, end, 5)
        if body < 0 or delta != number:
            return np.int64(-1)
        time = later_ms if is_stamped else later_ms + later
        length = 1 + varint_bytes(time) + varint_bytes(moved + number) + end - body
        place = write_varint(room, place, length)
        room[place] = memory[start]
        place = write_varint(room, place + 1, time)
        place = write_varint(room, place, moved + number)
        place = copy_bytes(room, place, memory, body, end - body)
        at = end
        number += 1
    return place if at == stop else np.int64(-1)


@part
def _join(memory: Bytes, at: Int64, row: Integers, room: Bytes, begin: Int64) -> Int64:
    """The run is several small batches: as `batch.joining.join`, stamped."""
    stop, following, place = at + row[SIZE], np.int64(-1), begin + HEADER_BYTES
    records, latest, base_time, first = np.int64(0), np.int64(-1), np.int64(0), big_endian(memory, at, 8)
    if first < row[FIRST_OFFSET] or row[SIZE] > row[JOINED_BYTES_MAX]:
        return np.int64(REFUSED)
    while at < stop:
        if not _is_batch(memory, at, stop, row) or not _may_join(memory, at):
            return np.int64(REFUSED)
        base, count = big_endian(memory, at, 8), big_endian(memory, at + _COUNT_AT, 4)
        if records and base != following:
            return np.int64(REFUSED)
        following = base + count
        end = at + big_endian(memory, at + 8, 4) + LOG_OVERHEAD_BYTES
        is_stamped = memory[at + ATTRIBUTES_AT + 1] & APPEND_TIME != 0
        newest = big_endian(memory, at + LATEST_AT, 8)
        begins = newest if is_stamped else big_endian(memory, at + _BASE_TIME_AT, 8)
        if begins < -_TIME_BOUND or begins > _TIME_BOUND or end - at + count * _GROWTH_BYTES > room.shape[0] - place:
            return np.int64(REFUSED)
        if not records:
            base_time = begins
        if records or is_stamped:
            place = _move(memory, at, end, room, place, records, begins - base_time, is_stamped)
        else:
            place = copy_bytes(room, place, memory, at + HEADER_BYTES, end - at - HEADER_BYTES)
        if place < 0:
            return np.int64(REFUSED)
        records += count
        latest = max(latest, newest)
        at = end
    if place - begin > row[BYTES_MAX]:
        return np.int64(REFUSED)
    room[begin + 16] = 2
    put_big_endian(room, begin + 8, place - begin - LOG_OVERHEAD_BYTES, 4)
    put_big_endian(room, begin + ATTRIBUTES_AT, np.int64(0), 2)
    put_big_endian(room, begin + _DELTA_AT, records - 1, 4)
    put_big_endian(room, begin + _BASE_TIME_AT, base_time, 8)
    put_big_endian(room, begin + LATEST_AT, latest, 8)
    put_big_endian(room, begin + _COUNT_AT, records, 4)
    _stamp(room, begin, row)
    put_big_endian(room, begin + CRC_AT, np.int64(crc32c(room, begin + ATTRIBUTES_AT, place)), 4)
    row[AT], row[BYTES], row[BASE_OFFSET], row[RECORDS], row[CODEC] = begin, place - begin, first, records, 0
    return np.int64(JOINED)


@part
def make_one(memory: Bytes, row: Integers, room: Bytes, begin: Int64) -> Int64:
    """Fill in the answer of a row. What is joined is put into the room from `begin` on. Returns where it ends."""
    at, size, outcome = row[LEASE], row[SIZE], np.int64(REFUSED)
    is_there = 0 <= at <= memory.shape[0] and HEADER_BYTES <= size <= memory.shape[0] - at
    if is_there and _is_batch(memory, at, at + size, row):
        if big_endian(memory, at + 8, 4) + LOG_OVERHEAD_BYTES == size:
            outcome = _pass(memory, at, row)
        elif room.shape[0] - begin > HEADER_BYTES:
            outcome = _join(memory, at, row, room, begin)
    row[OUTCOME] = outcome
    return begin + row[BYTES] if outcome == JOINED else begin


@kernel(ROOM, TABLE, ROOM, INTEGER, INTEGER)
def make_ready(memory: Bytes, runs: Integers, room: Bytes, count: int, begin: int) -> int:
    """Fill in the answers of the first `count` rows of `runs`, which lie in `memory`. What is joined is put into the
    room from `begin` on, one behind the other. Returns where it ends."""
    used = np.int64(begin)
    for index in range(count):
        used = make_one(memory, runs[index], room, used)
    return used  # type: ignore[return-value]
