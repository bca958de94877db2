"""The loops over bytes that Python is too slow for, compiled by numba: header walk, checksums, records in and out.

Imported by `batch.headers` and `batch.columns` when they are first used, never at the start of a program: linking them
takes 0.06 s of CPU, and compiling them, once on a machine, seconds (`batch.machine_code`).

Every read is guarded: whatever the bytes, a kernel returns a code and a place. Its callers make sentences of them.
All kernels run without the interpreter's lock.

Source: https://kafka.apache.org/documentation/#record, `org.apache.kafka.common.record.DefaultRecord`, `ByteUtils`.
"""

import numpy as np
from numpy.typing import NDArray

from sparkmirror.batch.columns import HEADERS_BYTES, HEADERS_START, KEY_BYTES, KEY_START, VALUE_BYTES, VALUE_START
from sparkmirror.batch.compiled_numbers import big_endian, read_varint, varint_bytes, write_varint
from sparkmirror.batch.crc import POLYNOMIAL
from sparkmirror.batch.header import APPEND_TIME, ATTRIBUTES_AT, HEADER_BYTES, LOG_OVERHEAD_BYTES
from sparkmirror.batch.headers import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    CRC,
    LEADER_EPOCH,
    MAGIC_NUMBER,
    MAX_TIMESTAMP,
    NEXT_OFFSET,
    POSITION,
    PRODUCER_ID,
    RECORDS,
    TOTAL_BYTES,
)
from sparkmirror.batch.machine_code import (
    BYTES,
    INTEGER,
    INTEGERS,
    PLACE,
    PLACES,
    ROOM,
    TABLE,
    Bytes,
    Int64,
    Integers,
    Places,
    kernel,
    part,
)

# What `read_records` found wrong.
FINE, ENDLESS_NUMBER, OVERRUN, WRONG_END, STRANGE_OFFSET, ABSURD_HEADERS, TRAILING_BYTES = range(7)

_OLD_HEADER_BYTES = 18
_OLD_LENGTH_BYTES_MIN = 14


def _crc_tables() -> NDArray[np.uint32]:
    """CRC-32C eight bytes at a time: the remainder of each byte at each of eight places."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        remainder = byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (POLYNOMIAL if remainder & 1 else 0)
        tables[0, byte] = remainder
    for place in range(1, 8):
        tables[place] = tables[place - 1] >> 8 ^ tables[0, tables[place - 1] & 0xFF]
    return tables


_CRC = _crc_tables()


@part
def crc32c(buffer: Bytes, at: Int64, stop: Int64) -> np.uint32:
    crc = np.uint32(0xFFFFFFFF)
    while stop - at >= 8:
        crc = (
            _CRC[7, (crc ^ buffer[at]) & 0xFF]
            ^ _CRC[6, (crc >> 8 ^ buffer[at + 1]) & 0xFF]
            ^ _CRC[5, (crc >> 16 ^ buffer[at + 2]) & 0xFF]
            ^ _CRC[4, (crc >> 24 ^ buffer[at + 3]) & 0xFF]
            ^ _CRC[3, buffer[at + 4]]
            ^ _CRC[2, buffer[at + 5]]
            ^ _CRC[1, buffer[at + 6]]
            ^ _CRC[0, buffer[at + 7]]
        )
        at += 8
    while at < stop:
        crc = np.uint32(crc >> 8) ^ _CRC[0, (crc ^ buffer[at]) & 0xFF]
        at += 1
    return crc ^ np.uint32(0xFFFFFFFF)


@part
def _batch_bytes(buffer: Bytes, at: Int64, stop: Int64) -> Int64:
    """The size of the batch or old message at `at`; 0 where the bytes end before it does, -1 where none can be."""
    left = stop - at
    if left < _OLD_HEADER_BYTES:
        return np.int64(0)
    magic = buffer[at + 16]
    if magic > 1 and left < HEADER_BYTES:
        return np.int64(0)
    length = big_endian(buffer, at + 8, 4)
    if magic > 2 or length < (_OLD_LENGTH_BYTES_MIN if magic < 2 else HEADER_BYTES - LOG_OVERHEAD_BYTES):
        return np.int64(-1)
    if magic == 2 and buffer[at + 23] > 127:  # a negative last offset delta
        return np.int64(-1)
    return length + LOG_OVERHEAD_BYTES if length + LOG_OVERHEAD_BYTES <= left else np.int64(0)


@part
def _read_header(buffer: Bytes, at: Int64, row: Integers) -> None:
    row[POSITION] = at
    row[TOTAL_BYTES] = big_endian(buffer, at + 8, 4) + LOG_OVERHEAD_BYTES
    row[BASE_OFFSET] = big_endian(buffer, at, 8)
    row[MAGIC_NUMBER] = buffer[at + 16]
    if row[MAGIC_NUMBER] < 2:
        row[NEXT_OFFSET] = row[BASE_OFFSET] + 1
        row[LEADER_EPOCH] = row[BASE_TIMESTAMP] = row[MAX_TIMESTAMP] = row[PRODUCER_ID] = -1
        row[CRC] = big_endian(buffer, at + 12, 4) & 0xFFFFFFFF
        row[ATTRIBUTES] = buffer[at + 17] & 0x07
        row[RECORDS] = 1
        return
    row[NEXT_OFFSET] = row[BASE_OFFSET] + big_endian(buffer, at + 23, 4) + 1
    row[LEADER_EPOCH] = big_endian(buffer, at + 12, 4)
    row[CRC] = big_endian(buffer, at + 17, 4) & 0xFFFFFFFF
    row[ATTRIBUTES] = big_endian(buffer, at + 21, 2)
    row[BASE_TIMESTAMP] = big_endian(buffer, at + 27, 8)
    row[MAX_TIMESTAMP] = big_endian(buffer, at + 35, 8)
    row[PRODUCER_ID] = big_endian(buffer, at + 43, 8)
    row[RECORDS] = big_endian(buffer, at + 57, 4)


@kernel(BYTES, INTEGER, INTEGER, results=2)
def count_batches(buffer: Bytes, start: int, stop: int) -> tuple[int, int]:
    """How many complete batches stand in `buffer[start:stop]`, and where they end; (-1, place) where none can be."""
    batches = 0
    at = start
    while True:
        size = _batch_bytes(buffer, at, stop)
        if size <= 0:
            return (batches, at) if size == 0 else (-1, at)
        batches += 1
        at += size


@kernel(BYTES, INTEGER, TABLE, results=0)
def read_headers(buffer: Bytes, start: int, table: Integers) -> None:
    """Fill `table`, a row each, with the headers that `count_batches` found from `start` on."""
    at = start
    for index in range(table.shape[0]):
        _read_header(buffer, at, table[index])
        at += table[index, TOTAL_BYTES]


@kernel(BYTES, TABLE, INTEGER)
def find_wrong_checksum(buffer: Bytes, table: Integers, max_bytes: int) -> int:
    """The first row whose batch, of at most `max_bytes`, does not have the checksum it claims; -1 if there is none."""
    for index in range(table.shape[0]):
        at, size = table[index, POSITION], table[index, TOTAL_BYTES]
        if size <= max_bytes and crc32c(buffer, at + ATTRIBUTES_AT, at + size) != table[index, CRC]:
            return index
    return -1


@part
def _skip_sized(content: Bytes, at: Int64, stop: Int64, nullable: bool) -> tuple[Int64, Int64, Int64]:
    """A length and the bytes it counts: (length or -1, where they end, code)."""
    length, start = read_varint(content, at, stop, 5)
    if start < 0:
        return length, at, ENDLESS_NUMBER
    if length < 0:
        return np.int64(-1), start, FINE if nullable else OVERRUN
    if length > stop - start:
        return length, start, OVERRUN
    return length, start + length, FINE


@part
def _skip_headers(content: Bytes, at: Int64, stop: Int64) -> tuple[Int64, Int64]:
    """Where a record's headers end, and a code."""
    count, after = read_varint(content, at, stop, 5)
    if after < 0:
        return at, ENDLESS_NUMBER
    # Two bytes are the least that a header takes: an absurd count ends here, not in an endless loop.
    if count < 0 or count > (stop - after) // 2:
        return at, ABSURD_HEADERS
    at = after
    for _ in range(count):
        _, at, code = _skip_sized(content, at, stop, False)
        if code == FINE:
            _, at, code = _skip_sized(content, at, stop, True)
        if code != FINE:
            return at, code
    return at, FINE


@part
def read_body(content: Bytes, at: Int64, stop: Int64, places: Places, record: Int64) -> tuple[Int64, Int64]:
    """Key, value and headers of a record: fills its row of `places`; where they end, and a code."""
    for column in (KEY_START, VALUE_START):
        length, after, code = _skip_sized(content, at, stop, True)
        if code != FINE:
            return at, code
        places[record, column] = after - max(length, 0)
        places[record, column + 1] = length
        at = after
    after, code = _skip_headers(content, at, stop)
    if code != FINE:
        return after, code
    places[record, HEADERS_START] = at
    places[record, HEADERS_BYTES] = after - at
    return after, FINE


@part
def read_start(content: Bytes, at: Int64, stop: Int64) -> tuple[Int64, Int64, Int64, Int64, Int64]:
    """How a record begins: (timestamp delta, offset delta, where its key is, where it ends, code)."""
    nothing = np.int64(0)
    length, start = read_varint(content, at, stop, 5)
    if start < 0:
        return nothing, nothing, at, at, ENDLESS_NUMBER
    if length < 1 or length > stop - start:
        return nothing, nothing, start, start, OVERRUN
    end = start + length
    timestamp_delta, after = read_varint(content, start + 1, end, 10)  # behind attributes, of which none is defined
    if after < 0:
        return nothing, nothing, start, end, ENDLESS_NUMBER
    offset_delta, body = read_varint(content, after, end, 5)
    return timestamp_delta, offset_delta, max(body, after), end, FINE if body >= 0 else ENDLESS_NUMBER


@kernel(BYTES, TABLE, TABLE, INTEGERS, INTEGERS, PLACES, results=3)
def read_records(
    content: Bytes, ranges: Integers, table: Integers, offsets: Integers, timestamps: Integers, places: Places
) -> tuple[int, int, int]:
    """The records of the batches of `table`, whose (decompressed) records are `content[ranges[i, 0] : ranges[i, 1]]`.

    Fills one row of `offsets`, `timestamps` and `places` a record. Returns (code, row of the batch, place in it).
    Offsets must grow from record to record of a batch.
    """
    record = 0
    for index in range(table.shape[0]):
        last_offset = np.int64(-(2**63))
        at, stop = ranges[index, 0], ranges[index, 1]
        base_offset, next_offset = table[index, BASE_OFFSET], table[index, NEXT_OFFSET]
        base_timestamp, max_timestamp = table[index, BASE_TIMESTAMP], table[index, MAX_TIMESTAMP]
        has_append_time = table[index, ATTRIBUTES] & APPEND_TIME != 0
        for _ in range(table[index, RECORDS]):
            timestamp_delta, offset_delta, body, end, code = read_start(content, at, stop)
            offset = base_offset + offset_delta
            if code == FINE and (offset_delta < 0 or offset >= next_offset or offset <= last_offset):
                code = STRANGE_OFFSET
            if code == FINE:
                body, code = read_body(content, body, end, places, record)
            if code == FINE and body != end:
                code = WRONG_END
            if code != FINE:
                return code, index, body - ranges[index, 0]
            offsets[record] = last_offset = offset
            timestamps[record] = max_timestamp if has_append_time else base_timestamp + timestamp_delta
            at = end
            record += 1
        if at != stop:
            return TRAILING_BYTES, index, at - ranges[index, 0]
    return FINE, 0, 0


@kernel(BYTES, PLACES)
def count_headers(content: Bytes, places: Places) -> int:
    """How many headers these records have together, as `read_records` found them."""
    headers = 0
    for record in range(places.shape[0]):
        at, size = np.int64(places[record, HEADERS_START]), np.int64(places[record, HEADERS_BYTES])
        if size > 0:
            count, _ = read_varint(content, at, at + size, 5)
            headers += count
    return headers


@kernel(BYTES, PLACES, PLACE, PLACES, ROOM, results=0)
def read_record_headers(content: Bytes, places: Places, first: Places, edges: Places, are_null: Bytes) -> None:
    """Fill `first` with the number of each record's first header, and of all at its end; a row of `edges` with where
    key and value of each header begin and end."""
    header = 0
    for record in range(places.shape[0]):
        first[record] = header
        at, size = np.int64(places[record, HEADERS_START]), np.int64(places[record, HEADERS_BYTES])
        if size <= 0:
            continue
        stop = at + size
        count, at = read_varint(content, at, stop, 5)
        for _ in range(count):
            length, at = read_varint(content, at, stop, 5)
            edges[header, 0], edges[header, 1] = at, at + length
            length, at = read_varint(content, at + length, stop, 5)
            are_null[header] = length < 0
            edges[header, 2] = at
            at += max(length, 0)
            edges[header, 3] = at
            header += 1
    first[places.shape[0]] = header


@part
def _body_bytes(timestamp_delta: Int64, offset_delta: Int64, places: Places, record: Int64) -> Int64:
    """The size of a record without its own length."""
    size = 1 + varint_bytes(timestamp_delta) + varint_bytes(np.int64(offset_delta))
    for column in (KEY_BYTES, VALUE_BYTES):
        length = np.int64(places[record, column])
        size += varint_bytes(length) + max(length, 0)
    return size + max(places[record, HEADERS_BYTES], 1)


@kernel(INTEGERS, PLACES, INTEGER, INTEGER, results=2)
def measure_records(timestamps: Integers, places: Places, first: int, limit_bytes: int) -> tuple[int, int]:
    """How far the records from `first` on fit into one batch: (the first one that does not, bytes of those before)."""
    content_bytes = 0
    for index in range(first, timestamps.shape[0]):
        body_bytes = _body_bytes(timestamps[index] - timestamps[first], index - first, places, index)
        size = varint_bytes(np.int64(body_bytes)) + body_bytes
        if content_bytes + size > limit_bytes:
            return index, content_bytes
        content_bytes += size
    return timestamps.shape[0], content_bytes


@part
def copy_bytes(room: Bytes, at: Int64, content: Bytes, start: Int64, size: Int64) -> Int64:
    # Unsigned, or numba looks out for indices that count from the end, one byte at a time.
    target, source = np.uint64(at), np.uint64(start)
    for index in range(np.uint64(max(size, 0))):
        room[target + index] = content[source + index]
    return at + max(size, 0)


@kernel(BYTES, INTEGERS, PLACES, INTEGER, INTEGER, ROOM)
def write_records(content: Bytes, timestamps: Integers, places: Places, first: int, stop: int, room: Bytes) -> int:
    """Records `first` … `stop - 1` as the records of one batch; `room` has at least the bytes `measure_records` said.

    Returns the bytes written.
    """
    at = 0
    for index in range(first, stop):
        timestamp_delta = timestamps[index] - timestamps[first]
        at = write_varint(room, at, np.int64(_body_bytes(timestamp_delta, index - first, places, index)))
        room[at] = 0
        at = write_varint(room, at + 1, timestamp_delta)
        at = write_varint(room, at, np.int64(index - first))
        for column in (KEY_START, VALUE_START):
            at = write_varint(room, at, np.int64(places[index, column + 1]))
            at = copy_bytes(room, at, content, places[index, column], places[index, column + 1])
        if places[index, HEADERS_BYTES] > 0:
            at = copy_bytes(room, at, content, places[index, HEADERS_START], places[index, HEADERS_BYTES])
        else:
            room[at] = 0
            at += 1
    return at
