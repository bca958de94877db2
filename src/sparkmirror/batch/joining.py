"""Joins small batches that wait together into one, record by record and without kernels; pure.

A produce request takes one batch of a partition. A busy partition that is caught up has a few batches of a record or
two at a time: each for itself they would cost the target a request after another, and this process 100 µs and more
each. To move a record into the batch before costs some 3 µs. Batches of many records are better merged by
`batch.rewrite`, whose loops are compiled. Called by `pipeline.produce.packing` and `pipeline.produce.direct_buffer`.

Source: https://kafka.apache.org/documentation/#recordbatch.
"""

import struct
from collections.abc import Container, Sequence
from typing import Final

from sparkmirror.batch import codecs, crc
from sparkmirror.batch.header import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    Codec,
    parse_header,
    write_header,
)
from sparkmirror.batch.unpacking import Unpacking
from sparkmirror.errors import ContentTooLarge, ProtocolError

JOINED_BYTES_MAX: Final = 64 << 10
"""Of the batches that become one."""
BATCH_BYTES_MAX: Final = 16 << 10
JOINED_RECORDS_MAX: Final = 16
"""Of one batch: to move more takes longer than a batch of their own."""
_CONTENT_BYTES_MAX: Final = 256 << 10
_CODECS: Final = frozenset({Codec.NONE, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD})
"""To pack gzip once more takes longer than what is spared."""
_OTHERWISE: Final = CONTROL | DELETE_HORIZON
_EPOCH: Final = struct.Struct(">i")
_EPOCH_AT: Final = 12
_TIME_BOUND: Final = 1 << 62
_NO_TIME: Final = -1


class _Unusual(Exception):
    """The records are not what they mostly are: their batches pass as they came."""


Batch = tuple[memoryview, BatchHeader]


def may_join(header: BatchHeader) -> bool:
    """Whether such a batch is small enough to be moved into another one, or to take others in."""
    return (
        header.magic == MAGIC
        and header.records_count <= JOINED_RECORDS_MAX
        and header.batch_length < BATCH_BYTES_MAX
        and not header.attributes & _OTHERWISE
        and header.attributes & CODEC_MASK in _CODECS
    )


def leading_batches(run: memoryview, bytes_max: int = JOINED_BYTES_MAX) -> list[Batch]:
    """The first batches of the run that can be one: small, of one codec and one leader epoch, without a hole between
    or in them, of at most so many bytes together."""
    found: list[Batch] = []
    at, room_bytes, size = 0, bytes_max, len(run)
    kind = epoch = following = -1
    try:
        while size - at >= HEADER_BYTES:
            header = parse_header(run, at)
            room_bytes -= header.total_bytes
            end = at + header.total_bytes
            if room_bytes < 0 or end > size or not may_join(header):
                break
            if header.records_count != header.last_offset_delta + 1:
                break
            if found and (header.base_offset, header.attributes & CODEC_MASK, header[2]) != (following, kind, epoch):
                break
            found.append((run[at:end], header))
            following, kind, epoch = header.next_offset, header.attributes & CODEC_MASK, header[2]
            at = end
    except ProtocolError:
        pass  # It is met again when it is the next to go out, and named then.
    return found


def join(batches: Sequence[Batch], unpacking: Unpacking, wanted: Container[int] | None = None) -> bytearray | None:
    """One batch of `leading_batches`, with the first one's base offset and their leader epoch, and without a producer;
    of the records at the `wanted` offsets alone, if these are given, one of which is there. Append time becomes each
    record's own. None for batches that have to pass as they came: such as are damaged, or become too much unpacked, or
    whose records are numbered otherwise. `unpacking` is the partition's, and learns what they become.
    """
    first = batches[0][1]
    base_ms = first.max_timestamp if first.has_append_time else first.base_timestamp
    latest_ms = _NO_TIME
    content = bytearray(HEADER_BYTES)
    records = packed_bytes = 0
    codec = Codec(first.attributes & CODEC_MASK)
    try:
        for data, header in batches:
            if len(content) > _CONTENT_BYTES_MAX:
                raise _Unusual
            packed_bytes += len(data)
            added, added_ms = _add(content, data, header, records, base_ms, wanted)
            records += added
            latest_ms = max(latest_ms, added_ms) if added else latest_ms
    except (_Unusual, IndexError, ProtocolError, ContentTooLarge):
        content_bytes, content = len(content), bytearray()
    else:
        content_bytes = len(content)
    if codec is not Codec.NONE:
        unpacking.note(packed_bytes, content_bytes)
    if not content or unpacking.is_poor:
        return None
    if codec is not Codec.NONE:
        content[HEADER_BYTES:] = codecs.compress(codec, memoryview(content)[HEADER_BYTES:])
    write_header(content, codec, records, base_ms, latest_ms, first.base_offset)
    _EPOCH.pack_into(content, _EPOCH_AT, first.partition_leader_epoch)
    return content


def _add(
    content: bytearray, data: memoryview, header: BatchHeader, moved: int, base_ms: int, wanted: Container[int] | None
) -> tuple[int, int]:
    """Append a batch's records to `content`, in which `moved` come before them. Returns how many, and their latest
    time in ms."""
    if crc.value(bytes(data[ATTRIBUTES_AT:])) != header.crc:
        raise _Unusual
    number = header.attributes & CODEC_MASK
    packed = data[HEADER_BYTES:]
    records = codecs.decompress(Codec(number), packed, _CONTENT_BYTES_MAX) if number else bytes(packed)
    is_stamped, count = header.has_append_time, header.records_count
    if wanted is None and not (moved or is_stamped):
        content += records
        return count, header.max_timestamp
    picked = None if wanted is None else [header.base_offset + at in wanted for at in range(count)]
    begins_ms = header.max_timestamp if is_stamped else header.base_timestamp
    added, latest_ms = _move(content, records, count, moved, begins_ms - base_ms, picked, keeps_times=not is_stamped)
    return added, header.max_timestamp if is_stamped or picked is None else base_ms + latest_ms


def _move(
    content: bytearray,
    records: bytes,
    count: int,
    moved: int,
    later_ms: int,
    picked: Sequence[bool] | None,
    *,
    keeps_times: bool,
) -> tuple[int, int]:
    """Append the records to `content`, in which `moved` come before them, `later_ms` after the base timestamp, or those
    that are `picked`. Returns how many, and the latest of the picked ones' times, in ms after the base timestamp."""
    at, added, latest_ms = 0, 0, -_TIME_BOUND
    same_time = _varint(later_ms)
    for number in range(count):
        byte = records[at]
        if byte < 0x80:
            size, at = byte >> 1 ^ -(byte & 1), at + 1
        elif (high := records[at + 1]) < 0x80:
            size, at = (byte & 0x7F | high << 7) >> 1 ^ -(byte & 1), at + 2
        else:
            size, at = _read_varint(records, at)
        end = at + size
        byte = records[at + 1]
        later, behind_time = (byte >> 1 ^ -(byte & 1), at + 2) if byte < 0x80 else _read_varint(records, at + 1)
        byte = records[behind_time]
        if byte < 0x80:
            delta, behind_delta = byte >> 1 ^ -(byte & 1), behind_time + 1
        else:
            delta, behind_delta = _read_varint(records, behind_time)
        if size < 0 or end > len(records) or delta != number:
            raise _Unusual
        if picked is not None:
            if not picked[number]:
                at = end
                continue
            latest_ms = max(latest_ms, later_ms + later)
        time = _varint(later_ms + later) if keeps_times and later else same_time
        place = moved + added << 1
        head = (
            b"%c%b%c" % (records[at], time, place)
            if place < 0x80
            else b"%c%b%b" % (records[at], time, _varint(moved + added))
        )
        length = len(head) + end - behind_delta << 1
        content += b"%c%c" % (length & 0x7F | 0x80, length >> 7) if 0x80 <= length < 0x4000 else _varint(length >> 1)
        content += head
        content += records[behind_delta:end]
        at = end
        added += 1
    if at != len(records):
        raise _Unusual
    return added, latest_ms


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number, and where it ends. Raises IndexError at the end of the data."""
    byte = data[at]
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), at + 1
    number, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number >> 1 ^ -(number & 1), at + 1
        shift += 7


def _varint(number: int) -> bytes:
    rest = number << 1 if number >= 0 else ~(number << 1)
    if rest < 0x80:
        return bytes((rest,))
    if rest >= _TIME_BOUND:
        raise _Unusual
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
