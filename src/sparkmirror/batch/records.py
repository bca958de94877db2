"""Records in and out of v2 batches, one by one: for our own small topics, and where kernels are not worth loading.

Called by the ledger, by commands and by tests. Rarely run, so written to be read; `batch.columns` is the fast one.

Source: https://kafka.apache.org/documentation/#record, `org.apache.kafka.common.record.DefaultRecord`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from sparkmirror.batch import codecs, crc
from sparkmirror.batch.header import (
    ATTRIBUTES_AT,
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    Codec,
    parse_header,
    write_header,
)
from sparkmirror.batch.unpacking import UNPACKED_BYTES_MAX
from sparkmirror.errors import ProtocolError

Pair: TypeAlias = tuple[bytes | None, bytes | None]
RecordHeader: TypeAlias = tuple[bytes, bytes | None]

NO_TIMESTAMP = -1
_RECORD_BYTES_MIN = 7  # a length, attributes, two deltas, two absent lengths and the count of headers
_INT64_SPAN = 1 << 64


@dataclass(frozen=True, slots=True)
class Record:
    """One record, bit for bit: a `None` key or value is absent, which is not the same as empty.

    `timestamp` is in milliseconds since 1970. Header keys are bytes: a broker does not check that they are UTF-8.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = ()

    @property
    def content(self) -> tuple[object, ...]:
        """All but its place and its time, which a broker may give it."""
        return self.key, self.value, self.headers


def decode_records(batch: bytes | bytearray | memoryview, max_bytes: int = UNPACKED_BYTES_MAX) -> list[Record]:
    """The records of one whole v2 batch, control records too, in their order.

    Where the broker stamped append time, each record has the batch's time, as a consumer sees it.

    Raises ProtocolError when the batch is not of magic 2, fails its checksum, is damaged inside, or holds more than
    `max_bytes` decompressed.
    """
    header = _checked_header(batch)
    content = codecs.decompress(header.codec, memoryview(batch)[HEADER_BYTES : header.total_bytes], max_bytes)
    if not 0 <= header.records_count <= len(content) // _RECORD_BYTES_MIN:
        raise _damaged(header, f"it claims {header.records_count} records in {len(content)} bytes")
    cursor = _Cursor(content, header)
    records = [_read_record(cursor, header) for _ in range(header.records_count)]
    if cursor.position != len(content):
        raise _damaged(header, f"{len(content) - cursor.position} bytes follow its last record")
    return records


def encode_batch(
    records: Iterable[Record | Pair],
    codec: Codec = Codec.NONE,
    base_offset: int = 0,
    timestamp: int = NO_TIMESTAMP,
) -> bytes:
    """One v2 batch of these records, in this order, without producer id; `stamp` gives it one.

    A record may be a plain `(key, value)`: it gets `timestamp` and no headers. Offsets are dense from `base_offset` on,
    whatever the records' own were: brokers take nothing else.

    Raises ValueError when there is no record: brokers refuse empty batches.
    """
    whole = [_as_record(record, timestamp) for record in records]
    if not whole:
        raise ValueError("a record batch needs at least one record")
    base_timestamp = whole[0].timestamp
    content = bytearray()
    for delta, record in enumerate(whole):
        _write_record(content, record, delta, base_timestamp)
    batch = bytearray(HEADER_BYTES) + codecs.compress(codec, bytes(content))
    latest = max(record.timestamp for record in whole)
    write_header(batch, codec, len(whole), base_timestamp, latest, base_offset)
    return bytes(batch)


def _as_record(record: Record | Pair, timestamp: int) -> Record:
    if isinstance(record, Record):
        return record
    key, value = record
    return Record(0, timestamp, key, value)


def _checked_header(batch: bytes | bytearray | memoryview) -> BatchHeader:
    header = parse_header(batch, 0)
    if header.magic != MAGIC:
        raise ProtocolError(
            f"{_name(header)} is a message set of magic {header.magic}, older than Kafka 0.11 and is not read",
            hint="rewrite the topic with a client of Kafka 0.11 or later, or leave it out of the flow",
        )
    if header.total_bytes > len(batch):
        raise _damaged(header, f"it claims {header.total_bytes} bytes and has {len(batch)}")
    if crc.value(bytes(batch[ATTRIBUTES_AT : header.total_bytes])) != header.crc:
        raise _damaged(header, "its checksum is wrong")
    return header


class _Cursor:
    """Reads a batch's content from front to back; never past its end."""

    def __init__(self, content: bytes, header: BatchHeader) -> None:
        self.content = content
        self.header = header
        self.position = 0

    def varint(self, bytes_max: int = 5) -> int:
        """A zigzag number: 5 bytes at most for 32 bits, 10 for 64."""
        if self.position < len(self.content) and (byte := self.content[self.position]) < 0x80:
            self.position += 1
            return byte >> 1 ^ -(byte & 1)
        number = 0
        for index in range(bytes_max):
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return number >> 1 ^ -(number & 1)
        raise _damaged(self.header, f"a number at byte {self.position} of its records does not end")

    def take(self, count: int) -> bytes:
        end = self.position + count
        if count < 0 or end > len(self.content):
            left = len(self.content) - self.position
            raise _damaged(
                self.header, f"{count} bytes are claimed at byte {self.position} of its records, {left} are left"
            )
        taken = self.content[self.position : end]
        self.position = end
        return taken

    def nullable(self) -> bytes | None:
        length = self.varint()
        return None if length < 0 else self.take(length)


def _read_record(cursor: _Cursor, header: BatchHeader) -> Record:
    length = cursor.varint()
    end = cursor.position + length
    cursor.take(1)  # attributes: none is defined
    timestamp_delta = cursor.varint(bytes_max=10)
    offset_delta = cursor.varint()
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise _damaged(header, f"a record stands {offset_delta} offsets after its first")
    record = Record(
        offset=header.base_offset + offset_delta,
        timestamp=wrap_int64(header.base_timestamp + timestamp_delta),
        key=cursor.nullable(),
        value=cursor.nullable(),
        headers=tuple(_read_record_headers(cursor)),
    )
    if cursor.position != end:
        raise _damaged(header, f"the record at offset {record.offset} does not end where its length of {length} says")
    return replace(record, timestamp=header.max_timestamp) if header.has_append_time else record


def _read_record_headers(cursor: _Cursor) -> Iterator[RecordHeader]:
    count = cursor.varint()
    # Two bytes are the least that a header takes: an absurd count ends at the content's end, not in memory.
    if not 0 <= count <= (len(cursor.content) - cursor.position) // 2:
        raise _damaged(cursor.header, f"a record claims {count} headers")
    for _ in range(count):
        yield cursor.take(cursor.varint()), cursor.nullable()


def _write_record(content: bytearray, record: Record, offset_delta: int, base_timestamp: int) -> None:
    body = bytearray(b"\0")
    _write_varint(body, wrap_int64(record.timestamp - base_timestamp))
    _write_varint(body, offset_delta)
    _write_nullable(body, record.key)
    _write_nullable(body, record.value)
    _write_varint(body, len(record.headers))
    for key, value in record.headers:
        _write_nullable(body, key)
        _write_nullable(body, value)
    _write_varint(content, len(body))
    content += body


def _write_nullable(body: bytearray, data: bytes | None) -> None:
    _write_varint(body, -1 if data is None else len(data))
    body += data or b""


def _write_varint(body: bytearray, number: int) -> None:
    rest = number << 1 if number >= 0 else ~(number << 1)
    while rest > 0x7F:
        body.append(rest & 0x7F | 0x80)
        rest >>= 7
    body.append(rest)


def wrap_int64(number: int) -> int:
    """Wraps as Java's `long` does, so that every timestamp survives its delta."""
    return (number + (_INT64_SPAN >> 1)) % _INT64_SPAN - (_INT64_SPAN >> 1)


def _name(header: BatchHeader) -> str:
    return f"record batch at offset {header.base_offset}"


def _damaged(header: BatchHeader, what: str) -> ProtocolError:
    return ProtocolError(f"{_name(header)} is damaged: {what}")
