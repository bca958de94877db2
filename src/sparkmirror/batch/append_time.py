"""Gives the few records of a small batch the append time that a broker stamped on it, in place; pure.

A producer may not send append time, so such a batch is rebuilt from its records (`batch.rewrite`). Where the records
are few and not compressed, as producers without linger write them, three changes do the same: the time becomes the base
timestamp, each record's distance from it becomes 0, and the bit is cleared. Called by `pipeline.produce.packing`.

Source: https://kafka.apache.org/documentation/#recordbatch.
"""

import struct
from typing import Final

from sparkmirror.batch import crc as crc32c
from sparkmirror.batch.header import (
    APPEND_TIME,
    ATTRIBUTES_AT,
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_BYTES,
    BatchHeader,
)

SETTLED_RECORDS_MAX: Final = 16
SETTLED_BYTES_MAX: Final = 64 << 10
"""More is better rebuilt by kernels, together with what waits behind it."""
_OTHERWISE: Final = CODEC_MASK | DELETE_HORIZON
_CHANGED: Final = struct.Struct(">hiq")
"""From the attributes to the base timestamp, with the last offset's delta between them."""
_UNCHANGED: Final = crc32c.value(bytes(_CHANGED.size))
_CRC: Final = struct.Struct(">I")
CRC_AT: Final = ATTRIBUTES_AT - _CRC.size
_LENGTH_BYTES_MAX: Final = 5
_new_tuple = tuple.__new__


def settle_append_time(batch: memoryview, header: BatchHeader) -> BatchHeader | None:
    """Change the batch, of magic 2, whose header is `header`. Returns its new header; None, and nothing is changed, for
    a batch that has to be rebuilt: also one whose checksum is wrong, where that has to be computed again."""
    if header.records_count > SETTLED_RECORDS_MAX or len(batch) > SETTLED_BYTES_MAX or header.max_timestamp < 0:
        return None
    times = None if header.attributes & _OTHERWISE else _find_times(batch, header.records_count)
    if times is None:
        return None
    moved: list[int] = []
    for at in times:
        if batch[at]:
            moved.append(at)
    if moved and crc32c.value(bytes(batch[ATTRIBUTES_AT:])) != header.crc:
        return None
    attributes, time_ms = header.attributes & ~APPEND_TIME, header.max_timestamp
    _CHANGED.pack_into(batch, ATTRIBUTES_AT, attributes, header.last_offset_delta, time_ms)
    for at in moved:
        batch[at] = 0
    if moved:
        checksum = crc32c.value(bytes(batch[ATTRIBUTES_AT:]))
    else:  # as `batch.header.stamp`: what is damaged stays so
        change = _CHANGED.pack(header.attributes ^ attributes, 0, header.base_timestamp ^ time_ms)
        tail_bytes = len(batch) - ATTRIBUTES_AT - len(change)
        checksum = header.crc ^ crc32c.advance(crc32c.value(change) ^ _UNCHANGED, tail_bytes)
    _CRC.pack_into(batch, CRC_AT, checksum)
    offset, length, epoch, magic, _, _, last, _, latest_ms, *rest = header
    return _new_tuple(
        BatchHeader, (offset, length, epoch, magic, checksum, attributes, last, time_ms, latest_ms, *rest)
    )


def _find_times(batch: memoryview, records: int) -> list[int] | None:
    """Where each record has its distance from the base timestamp. None if one is longer than a byte, or if the records
    do not fill the batch."""
    at, end = HEADER_BYTES, len(batch)
    found: list[int] = []
    for _ in range(records):
        length = shift = 0
        for _ in range(_LENGTH_BYTES_MAX):
            if at >= end:
                return None
            byte = batch[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        size = length >> 1
        if length & 1 or size < 2 or at + size > end or batch[at + 1] >= 0x80:
            return None
        found.append(at + 1)
        at += size
    return found if at == end else None
