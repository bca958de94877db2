"""Messages of magic 0 and 1, as clients before Kafka 0.11 wrote them and old segments still hold them, as columns.

Called by `batch.any_format`. Rarely run, so plain Python: some 200,000 messages a second.

Source: https://kafka.apache.org/documentation/#messageset, `org.apache.kafka.common.record.LegacyRecord`,
`AbstractLegacyRecordBatch`, `KafkaLZ4BlockInputStream` (KAFKA-3160: the wrong checksum of old lz4 frames).
"""

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sparkmirror.batch import codecs
from sparkmirror.batch.columns import Columns
from sparkmirror.batch.header import APPEND_TIME, CODEC_MASK, LOG_OVERHEAD_BYTES, Codec
from sparkmirror.batch.unpacking import UNPACKED_BYTES_MAX, Bound
from sparkmirror.errors import ContentTooLarge, ProtocolError

NO_TIMESTAMP = -1

_START = struct.Struct(">qiIbb")  # offset, size, crc, magic, attributes
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_MAGIC_AT = 16  # the checksum covers everything from here on

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_CONTENT_SIZE = 0x08
_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_WORD = 0xFFFFFFFF

MESSAGE_BYTES = 100
"""What a message takes in memory beside its key and value: null ones, of which 34 bytes pack to none, count too."""


class Message(NamedTuple):
    """One message as it stands; a wrapper's `value` is a compressed set of others, its offset that of its last one."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None


def decode_messages(
    buffer: memoryview, start: int, stop: int, *, first_offset: int = 0, max_bytes: int = UNPACKED_BYTES_MAX
) -> Columns:
    """The messages of the whole sets in `buffer[start:stop]` from `first_offset` on, wrappers unpacked, in their order.

    Those of magic 0 have no timestamp: theirs is -1, as consumers see it. There are no headers.

    Raises ProtocolError when a message is cut off or damaged, fails its checksum, is of another magic, or when more
    than `max_bytes` would stand in memory.
    """
    bound = Bound(max_bytes, max_bytes)
    columns, end = decode_some_messages(buffer[start:stop], bound, max_bytes, first_offset=first_offset)
    if end < stop - start:
        first = int(columns.offsets[0]) if len(columns) else first_offset
        raise ContentTooLarge(f"the messages from offset {first} on hold more than {max_bytes} bytes")
    return columns


def decode_some_messages(
    data: memoryview, bound: Bound, enough_bytes: int, *, first_offset: int = 0
) -> tuple[Columns, int]:
    """As `decode_messages`, as far as `enough_bytes` go, and where the first message that is left begins.

    At least one message or wrapper is taken, however much it holds within its `bound`.
    """
    found = _Messages()
    end = 0
    for outer, after in _read_set(data):
        bytes_max = bound.of(after - end)
        full_bytes = found.taken_bytes + bytes_max
        for message in _unwrapped(outer, bytes_max):
            if message.offset < first_offset:
                continue
            found.add(message)
            if found.taken_bytes > full_bytes:
                raise ContentTooLarge(f"the messages up to offset {message.offset} hold more than {bytes_max} bytes")
        end = after
        if found.taken_bytes >= enough_bytes:
            break
    return found.as_columns(), end


class _Messages:
    """Messages as they are found."""

    def __init__(self) -> None:
        self._content = bytearray()
        self._offsets: list[int] = []
        self._timestamps: list[int] = []
        self._places: list[tuple[int, int, int, int, int, int]] = []

    @property
    def taken_bytes(self) -> int:
        return len(self._content) + MESSAGE_BYTES * len(self._places)

    def add(self, message: Message) -> None:
        content, key, value = self._content, message.key, message.value
        key_at = len(content)
        content += key or b""
        value_at = len(content)
        content += value or b""
        self._offsets.append(message.offset)
        self._timestamps.append(message.timestamp)
        self._places.append((key_at, _length(key), value_at, _length(value), len(content), 0))

    def as_columns(self) -> Columns:
        return Columns(
            np.frombuffer(self._content, np.uint8),
            np.array(self._offsets, np.int64),
            np.array(self._timestamps, np.int64),
            np.array(self._places, np.int32).reshape(len(self._places), 6),
        )


def _length(data: memoryview | None) -> int:
    return -1 if data is None else len(data)


def _unwrapped(message: Message, max_bytes: int) -> Iterator[Message]:
    if message.attributes & CODEC_MASK:
        yield from _unwrap(message, max_bytes)
    else:
        yield message


def _read_set(data: memoryview) -> Iterator[tuple[Message, int]]:
    """Each message, and where it ends."""
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
        yield _read_message(data[at + _START.size : end], offset, magic, attributes), end
        at = end


def _last_offset(data: memoryview) -> int | None:
    """Of a set, by its lengths alone; None for an empty one, and for one that is cut off, as `_read_set` will find."""
    at = 0
    last: int | None = None
    while len(data) - at >= _START.size:
        last, size = _START.unpack_from(data, at)[:2]
        if size < _START.size - LOG_OVERHEAD_BYTES:
            return last
        at += LOG_OVERHEAD_BYTES + size
    return last


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
    inner = memoryview(codecs.decompress(Codec(number), packed, max_bytes))
    last_offset = _last_offset(inner)
    if last_offset is None:
        raise _damaged(wrapper.offset, "it is compressed and holds no message")
    base_offset = _base_offset(wrapper, last_offset)
    stamped = wrapper.magic == 1 and wrapper.attributes & APPEND_TIME
    for message, _ in _read_set(inner):
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
