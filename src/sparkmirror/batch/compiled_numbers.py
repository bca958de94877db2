"""Numbers in bytes, as compiled loops read and write them: of a fixed size, and of varying length.

Parts of the kernels of `batch.kernels` and its neighbours. Readers look where the bytes end; writers have room.

Source: https://protobuf.dev/programming-guides/encoding (varints, zigzag), `org.apache.kafka.common.utils.ByteUtils`.
"""

import numpy as np

from sparkmirror.batch.machine_code import Bytes, Int64, part


@part
def big_endian(buffer: Bytes, at: Int64, size: Int64) -> Int64:
    number = np.int64(np.int8(buffer[at]))
    for index in range(1, size):
        number = number << 8 | buffer[at + index]
    return number


@part
def put_big_endian(room: Bytes, at: Int64, number: Int64, size: Int64) -> None:
    for index in range(size):
        room[at + index] = np.uint8(number >> 8 * (size - 1 - index) & 0xFF)


@part
def put_little_endian(room: Bytes, at: Int64, number: Int64, size: Int64) -> None:
    for index in range(size):
        room[at + index] = np.uint8(number >> 8 * index & 0xFF)


@part
def read_varint(content: Bytes, at: Int64, stop: Int64, bytes_max: Int64) -> tuple[Int64, Int64]:
    """A zigzag number and where it ends; the end is -1 where it has none within `bytes_max` bytes and `stop`."""
    if at < stop and content[at] < 0x80:
        return np.int64(content[at] >> 1) ^ -np.int64(content[at] & 1), at + 1
    number = np.uint64(0)
    for index in range(min(bytes_max, stop - at)):
        byte = np.uint64(content[at + index])
        number |= (byte & np.uint64(0x7F)) << np.uint64(7 * index)
        if byte < np.uint64(0x80):
            return np.int64(number >> np.uint64(1)) ^ -np.int64(number & np.uint64(1)), at + index + 1
    return np.int64(0), -1


@part
def varint_bytes(number: Int64) -> Int64:
    rest = np.uint64(number << 1 ^ number >> 63)
    size = 1
    while rest > np.uint64(0x7F):
        rest >>= np.uint64(7)
        size += 1
    return size


@part
def write_uvarint(room: Bytes, at: Int64, rest: np.uint64) -> Int64:
    while rest > np.uint64(0x7F):
        room[at] = np.uint8(rest & np.uint64(0x7F) | np.uint64(0x80))
        rest >>= np.uint64(7)
        at += 1
    room[at] = np.uint8(rest)
    return at + 1


@part
def write_varint(room: Bytes, at: Int64, number: Int64) -> Int64:
    return write_uvarint(room, at, np.uint64(number << 1 ^ number >> 63))
