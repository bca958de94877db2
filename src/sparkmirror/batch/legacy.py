"""Messages of magic 0 and 1, as clients before Kafka 0.11 wrote them and old segments still hold them, as columns.

Called by `batch.deep`. Rarely run, so plain Python: some 200,000 messages a second.

Source: https://kafka.apache.org/documentation/#messageset, `org.apache.kafka.common.record.LegacyRecord`,
`AbstractLegacyRecordBatch`, `KafkaLZ4BlockInputStream` (KAFKA-3160: the wrong checksum of old lz4 frames).
"""

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sparkmirror.batch import codecs
from sparkmirror.batch.columns import CONTENT_BYTES_MAX, Columns
from sparkmirror.batch.header import APPEND_TIME, CODEC_MASK, LOG_OVERHEAD_BYTES, Codec
from sparkmirror.errors import ProtocolError

NO_TIMESTAMP = -1

_START = struct.Struct(">qiIbb")  # offset, size, crc, magic, attributes
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_MAGIC_AT = 16  # the checksum covers everything from here on

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_CONTENT_SIZE = 0x08
_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_WORD = 0xFFFFFFFF


class Message(NamedTuple):
    """One message as it stands; a wrapper's `value` is a compressed set of others, its offset that of its last one."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None


def decode_messages(
    buffer: memoryview, start: int, stop: int, *, first_offset: int = 0, max_bytes: int = CONTENT_BYTES_MAX
) -> Columns:
    """The messages of the whole sets in `buffer[start:stop]` from `first_offset` on, wrappers unpacked, in their order.

    Those of magic 0 have no timestamp: theirs is -1, as consumers see it. There are no headers.

    Raises ProtocolError when a message is cut off or damaged, fails its checksum, is of another magic, or when more
    than `max_bytes` would stand in memory.
    """
    content, offsets, timestamps = bytearray(), list[int](), list[int]()
    places: list[tuple[int, int, int, int, int, int]] = []
    for message in _unwrapped(buffer[start:stop], max_bytes):
        if message.offset < first_offset:
            continue
        key, value = message.key, message.value
        key_at = len(content)
        content += key or b""
        value_at = len(content)
        content += value or b""
        if len(content) > max_bytes:
            raise ProtocolError(f"the messages up to offset {message.offset} hold more than {max_bytes} bytes")
        offsets.append(message.offset)
        timestamps.append(message.timestamp)
        places.append((key_at, _length(key), value_at, _length(value), len(content), 0))
    return Columns(
        np.frombuffer(content, np.uint8),
        np.array(offsets, np.int64),
        np.array(timestamps, np.int64),
        np.array(places, np.int32).reshape(len(places), 6),
    )


def _length(data: memoryview | None) -> int:
    return -1 if data is None else len(data)


def _unwrapped(data: memoryview, max_bytes: int) -> Iterator[Message]:
    for message in _read_set(data):
        if message.attributes & CODEC_MASK:
            yield from _unwrap(message, max_bytes)
        else:
            yield message


def _read_set(data: memoryview) -> Iterator[Message]:
    at = 0
    while at < len(data):
        if len(data) - at < _START.size:
            raise ProtocolError(f"a message set of an old format ends inside the header of the message at byte {at}")
        offset, size, crc, magic, attributes = _START.unpack_from(data, at)
        end = at + LOG_OVERHEAD_BYTES + size
        if size < _START.size - LOG_OVERHEAD_BYTES or end > len(data):
            raise _damaged(offset, f"it claims {size} bytes, {len(data) - at - LOG_OVERHEAD_BYTES} are there")
        if zlib.crc32(data[at + _MAGIC_AT : end]) != crc:
            raise _damaged(offset, "its checksum is wrong")
        if magic not in (0, 1):
            raise _damaged(offset, f"its magic is {magic}, among messages of magic 0 and 1")
        yield _read_message(data[at + _START.size : end], offset, magic, attributes)
        at = end


def _read_message(body: memoryview, offset: int, magic: int, attributes: int) -> Message:
    at = 0
    timestamp = NO_TIMESTAMP
    try:
        if magic == 1:
            timestamp = _TIMESTAMP.unpack_from(body)[0]
            at = _TIMESTAMP.size
        key, at = _read_part(body, at, offset)
        value, at = _read_part(body, at, offset)
    except struct.error:
        raise _damaged(offset, "it ends inside a length") from None
    if at != len(body):
        raise _damaged(offset, f"{len(body) - at} bytes follow its value")
    return Message(offset, magic, attributes, timestamp, key, value)


def _read_part(body: memoryview, at: int, offset: int) -> tuple[memoryview | None, int]:
    length = _LENGTH.unpack_from(body, at)[0]
    start = at + _LENGTH.size
    if length < 0:
        return None, start
    if length > len(body) - start:
        raise _damaged(offset, f"{length} bytes are claimed at byte {start}, {len(body) - start} are left")
    return body[start : start + length], start + length


def _unwrap(wrapper: Message, max_bytes: int) -> Iterator[Message]:
    """The messages inside, with their own offsets, and the wrapper's time where a broker stamped it."""
    number = wrapper.attributes & CODEC_MASK
    if number >= Codec.ZSTD:  # it came with batches of magic 2
        raise _damaged(wrapper.offset, f"it names a codec that messages of its magic do not have, number {number}")
    if wrapper.value is None:
        raise _damaged(wrapper.offset, "it is compressed and has no value")
    packed = wrapper.value
    if number == Codec.LZ4 and wrapper.magic == 0:
        packed = _mend_lz4_checksum(packed)
    inner = list(_read_set(memoryview(codecs.decompress(Codec(number), packed, max_bytes))))
    if not inner:
        raise _damaged(wrapper.offset, "it is compressed and holds no message")
    base_offset = _base_offset(wrapper, inner[-1].offset)
    stamped = wrapper.magic == 1 and wrapper.attributes & APPEND_TIME
    for message in inner:
        if message.magic != wrapper.magic or message.attributes & CODEC_MASK:
            raise _damaged(wrapper.offset, "a message in it is of another magic, or compressed again")
        timestamp = wrapper.timestamp if stamped else message.timestamp
        yield message._replace(offset=base_offset + message.offset, timestamp=timestamp)


def _base_offset(wrapper: Message, last_inner_offset: int) -> int:
    """What inner offsets count from: since magic 1 they are relative, and the wrapper has the offset of its last."""
    if wrapper.magic == 0 or wrapper.offset == 0:  # 0: a broker that did not number the wrapper did not the inner ones
        return 0
    if wrapper.offset < last_inner_offset:
        raise _damaged(wrapper.offset, f"its last message claims offset {last_inner_offset} in it")
    return wrapper.offset - last_inner_offset


def _mend_lz4_checksum(frame: memoryview) -> memoryview:
    """Clients that wrote magic 0 took the frame's magic number into its header's checksum, against the format."""
    if bytes(frame[:4]) != _LZ4_MAGIC or len(frame) < 7:
        return frame  # the decompressor says what is wrong
    checksum_at = 6 + (8 if frame[4] & _LZ4_CONTENT_SIZE else 0)
    if checksum_at >= len(frame):
        return frame
    mended = bytearray(frame)
    mended[checksum_at] = _xxh32_short(bytes(frame[4:checksum_at])) >> 8 & 0xFF
    return memoryview(mended)


def _xxh32_short(data: bytes) -> int:
    """XXH32 with seed 0 of less than 16 bytes. Source: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md"""
    first, second, third, fourth, fifth = _PRIMES
    state = fifth + len(data) & _WORD
    lanes = len(data) // 4 * 4
    for at in range(0, lanes, 4):
        state = _rotate(state + int.from_bytes(data[at : at + 4], "little") * third, 17) * fourth & _WORD
    for byte in data[lanes:]:
        state = _rotate(state + byte * fifth, 11) * first & _WORD
    state = (state ^ state >> 15) * second & _WORD
    state = (state ^ state >> 13) * third & _WORD
    return state ^ state >> 16


def _rotate(word: int, bits: int) -> int:
    word &= _WORD
    return (word << bits | word >> 32 - bits) & _WORD


def _damaged(offset: int, what: str) -> ProtocolError:
    return ProtocolError(f"message of an old format at offset {offset} is damaged: {what}")
