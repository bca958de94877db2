"""The 61-byte header of a v2 record batch: read it, judge it, and patch it in place so that a target broker takes it.

Called for every batch of every flow, by the fetching end (positions, limits) and the producing end (`stamp`): this is
the hot path, at up to 50,000 batches a second. Nothing here reads a record.

Source: https://kafka.apache.org/documentation/#recordbatch, `org.apache.kafka.common.record.DefaultRecordBatch`.
"""

import struct
from collections.abc import Iterator
from contextlib import suppress
from enum import IntEnum
from typing import NamedTuple

from sparkmirror.batch import crc as crc32c
from sparkmirror.errors import ProtocolError

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
LOG_OVERHEAD_BYTES = 12
"""Base offset and length: what `batch_length` does not count."""
MAGIC = 2
AHEAD_MAX = 1 << 31
"""The most offsets that one batch can span."""
ATTRIBUTES_AT = 21
"""The checksum covers everything from here on."""
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1

CODEC_MASK = 0x07
APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

LATEST_AT = 35
PRODUCER_AT = 43
_LENGTH_BYTES_MIN = HEADER_BYTES - LOG_OVERHEAD_BYTES
_JUDGED = APPEND_TIME | DELETE_HORIZON | CODEC_MASK
_PASSABLE = frozenset(range(5))  # neither of both bits, and one of the five codecs

# Messages before v2: offset, size, crc, magic, attributes. The smallest is a v0 message with neither key nor value.
_OLD_HEADER = struct.Struct(">qiIbb")
_OLD_LENGTH_BYTES_MIN = 14
_MAGIC_AT = 16

# `stamp` changes the attributes and the 14 bytes of producer id, epoch and sequence; their xor, then the tail's length.
_CHANGES = struct.Struct(">h20xqhi")
_CHANGES_ZERO_CRC = crc32c.value(bytes(_CHANGES.size))
_UNCHANGED_HEAD_BYTES = ATTRIBUTES_AT + _CHANGES.size
_HEAD = struct.Struct(">qiibIh")
_PRODUCER = struct.Struct(">qhi")
_LATEST = struct.Struct(">q")

_unpack_header = HEADER.unpack_from
_pack_changes = _CHANGES.pack
_pack_head_into = _HEAD.pack_into
_pack_producer_into = _PRODUCER.pack_into
_new_tuple = tuple.__new__


class Codec(IntEnum):
    """The compression of a batch, as its attributes number it."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchHeader(NamedTuple):
    """One header, field by field in wire order. For messages before v2 see `parse_header`."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def total_bytes(self) -> int:
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def codec(self) -> Codec:
        """The codec. Raises ProtocolError for the three numbers that Kafka has not given out."""
        number = self.attributes & CODEC_MASK
        if number > Codec.ZSTD:
            raise unknown_codec(self.base_offset, number)
        return Codec(number)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def has_append_time(self) -> bool:
        """Whether the broker stamped the batch: then each record's time is `max_timestamp`."""
        return bool(self.attributes & APPEND_TIME)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is a time to delete tombstones at instead (KIP-534), set by log compaction."""
        return bool(self.attributes & DELETE_HORIZON)


def unknown_codec(base_offset: int, number: int) -> ProtocolError:
    """Nobody can read such a batch, and a broker that does not know its codec does not take it."""
    return ProtocolError(f"record batch at offset {base_offset} names an unknown codec, number {number}")


def parse_header(buffer: memoryview | bytes | bytearray, position: int) -> BatchHeader:
    """The header of the batch that begins at `position`.

    A message of magic 0 or 1 yields a header with its offset, length, magic, crc and codec, a count of one and absent
    values for the rest: enough to step over it and to refuse it. Its `next_offset` is right: a compressed wrapper
    carries its last record's offset.

    Raises ProtocolError when these bytes cannot be a batch.
    """
    try:
        header = _new_tuple(BatchHeader, _unpack_header(buffer, position))
    except struct.error:
        return _parse_old_header(buffer, position)
    if header[3] == MAGIC and header[1] >= _LENGTH_BYTES_MIN and header[6] >= 0:
        return header
    return _parse_old_header(buffer, position)


def latest_ms(batch: memoryview) -> int:
    """The `max_timestamp` of one batch of magic 2."""
    moment: int = _LATEST.unpack_from(batch, LATEST_AT)[0]
    return moment


def _parse_old_header(buffer: memoryview | bytes | bytearray, position: int) -> BatchHeader:
    if position < 0 or len(buffer) - position < _OLD_HEADER.size:
        raise ProtocolError(f"the answer ends inside the header of the record batch at byte {position}")
    base_offset, length, crc, magic, attributes = _OLD_HEADER.unpack_from(buffer, position)
    if magic not in (0, 1, MAGIC):
        raise ProtocolError(f"record batch at byte {position} has magic {magic}; this program knows 0, 1 and 2")
    if magic == MAGIC:
        raise ProtocolError(_describe_bad_header(buffer, position, base_offset, length))
    if length < _OLD_LENGTH_BYTES_MIN:
        raise ProtocolError(f"message at offset {base_offset} (byte {position}) claims an absurd length, {length}")
    return BatchHeader(base_offset, length, -1, magic, crc, attributes & CODEC_MASK, 0, -1, -1, -1, -1, -1, 1)


def _describe_bad_header(buffer: memoryview | bytes | bytearray, position: int, base_offset: int, length: int) -> str:
    where = f"record batch at offset {base_offset} (byte {position})"
    if length < _LENGTH_BYTES_MIN:
        return f"{where} claims an absurd length, {length}"
    if len(buffer) - position < HEADER_BYTES:
        return f"the answer ends inside the header of the {where}"
    return f"{where} claims to end before it begins"


def iterate_headers(buffer: memoryview | bytes, start: int, stop: int) -> Iterator[tuple[int, BatchHeader]]:
    """Each complete batch in `buffer[start:stop]`, as (position of its first byte, header).

    Ends silently at a batch that is cut off: brokers fill a fetch answer to its byte limit.
    Raises ProtocolError at bytes that cannot be a batch.
    """
    position = start
    while stop - position >= HEADER_BYTES or _begins_short_message(buffer, position, stop):
        header = parse_header(buffer, position)
        end = position + header.batch_length + LOG_OVERHEAD_BYTES
        if end > stop:
            return
        yield position, header
        position = end


def whole_batches(buffer: memoryview | bytes, start: int, stop: int, end_offset: int) -> int:
    """How many bytes from `start` on are whole batches, up to the first that is cut off or cannot be one.

    One that claims to reach beyond `end_offset` cannot; -1 is no bound.
    """
    end = start
    with suppress(ProtocolError):
        for position, header in iterate_headers(buffer, start, stop):
            if header.next_offset > end_offset >= 0:
                break
            end = position + header.total_bytes
    return end - start


def _begins_short_message(buffer: memoryview | bytes, position: int, stop: int) -> bool:
    """Whether a message before v2 may fit where a v2 header does not."""
    return stop - position >= _OLD_HEADER.size and buffer[position + _MAGIC_AT] in (0, 1)


def refusal(header: BatchHeader, max_message_bytes: int) -> str | None:
    """Why the batch cannot pass through untouched; None when it can. Control batches are not judged here.

    `max_message_bytes` is the target topic's `max.message.bytes`; a broker compares it with the whole batch.
    """
    if (
        header.magic == MAGIC
        and header.attributes & _JUDGED in _PASSABLE
        and header.records_count == header.last_offset_delta + 1
        and header.batch_length + LOG_OVERHEAD_BYTES <= max_message_bytes
    ):
        return None
    return _describe_refusal(header, max_message_bytes)


def _describe_refusal(header: BatchHeader, max_message_bytes: int) -> str:
    if header.magic != MAGIC:
        return "magic 0/1 message set"
    if header.records_count != header.last_offset_delta + 1:
        return f"has holes (compacted): {header.records_count} records over {header.last_offset_delta + 1} offsets"
    if header.has_append_time:
        return "has append time: the broker's clock stands in its header, not in its records"
    if header.has_delete_horizon:
        return "has a delete horizon: its base timestamp is not a record's"
    if header.attributes & CODEC_MASK > Codec.ZSTD:
        return f"names an unknown codec, number {header.attributes & CODEC_MASK}"
    return f"is {header.total_bytes} bytes, the target topic's max.message.bytes is {max_message_bytes}"


def stamp(
    buffer: memoryview,
    position: int,
    header: BatchHeader,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    transactional: bool = False,
) -> None:
    """Patch the batch at `position` for producing: base offset 0, leader epoch -1, producer, transactional bit, CRC.

    `header` must be what `parse_header` reads there now: the new checksum is computed from its old one and the change,
    so a corrupt batch stays recognisably corrupt. All other bytes stay. Magic 2 only (see `refusal`).
    """
    old_attributes = header[5]
    attributes = old_attributes | TRANSACTIONAL if transactional else old_attributes & ~TRANSACTIONAL
    batch_length = header[1]
    changes = _pack_changes(
        old_attributes ^ attributes, header[9] ^ producer_id, header[10] ^ producer_epoch, header[11] ^ base_sequence
    )
    unchanged_bytes = batch_length + LOG_OVERHEAD_BYTES - _UNCHANGED_HEAD_BYTES
    crc = header[4] ^ crc32c.advance(crc32c.value(changes) ^ _CHANGES_ZERO_CRC, unchanged_bytes)
    _pack_head_into(buffer, position, 0, batch_length, -1, MAGIC, crc, attributes)
    _pack_producer_into(buffer, position + PRODUCER_AT, producer_id, producer_epoch, base_sequence)


def write_header(
    batch: bytearray, attributes: int, records: int, base_timestamp: int, max_timestamp: int, base_offset: int = 0
) -> None:
    """Write the header of a new batch without producer, its CRC included, before the records that lie in `batch` behind
    `HEADER_BYTES`; `stamp` gives it a producer. Times are in ms."""
    length, last = len(batch) - LOG_OVERHEAD_BYTES, records - 1
    fields = BatchHeader(
        base_offset, length, -1, MAGIC, 0, attributes, last, base_timestamp, max_timestamp, NO_PRODUCER_ID, -1,
        NO_SEQUENCE, records,
    )  # fmt: skip
    HEADER.pack_into(batch, 0, *fields)
    checksum = crc32c.value(bytes(memoryview(batch)[ATTRIBUTES_AT:]))
    HEADER.pack_into(batch, 0, *fields._replace(crc=checksum))
