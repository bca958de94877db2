"""Decodes small runs into rows of records, one record after the other and without kernels; pure.

A flow with transforms that has caught up gets a few records with each answer. There a call of numpy or Arrow costs what
several records cost here. Whatever is unusual is left to `pipeline.fetch.record_rows`, which says what is wrong with
it, and alone calls this.

Source: https://kafka.apache.org/documentation/#record, `org.apache.kafka.common.record.DefaultRecord`.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import pyarrow as pa

from sparkmirror.batch import codecs, crc
from sparkmirror.batch.header import ATTRIBUTES_AT, HEADER_BYTES, MAGIC, BatchHeader, Codec, parse_header
from sparkmirror.batch.records import wrap_int64
from sparkmirror.batch.unpacking import Bound
from sparkmirror.errors import ContentTooLarge, ProtocolError
from sparkmirror.pipeline.relay.schema import RECORD, Row, format_fields

RECORDS_MAX: Final = 64
"""Of all runs that come together: of more the kernels make less work."""
_CONTENT_BYTES_MAX: Final = 1 << 20
_VARINT_BYTES_MAX, _LONG_VARINT_BYTES_MAX = 5, 10
_AT_OFFSET: Final = 6
"""The columns before it are of rows that are no records, but for the first three and the fifth."""


class _Unusual(Exception):
    """The kernels are to look at it."""


def few_rows(
    rows: Sequence[Row], payloads: Sequence[memoryview], schema: pa.Schema, bound: Bound
) -> pa.RecordBatch | None:
    """Each run's records, in columns of the `schema`, and its own row behind them; all other rows as they are. None for
    more than RECORDS_MAX records, and for what the kernels are to look at."""
    carried = _content_of(schema)
    nothing = (None,) * (len(carried) + 1)
    found: list[tuple[Any, ...]] = []
    try:
        for row, payload in zip(rows, payloads, strict=True):
            codec = _read_run(found, row, payload, bound, carried) if len(payload) else None
            if len(found) > RECORDS_MAX:
                return None
            fields = format_fields(row, codec)
            found.append((row.kind, row.topic, row.partition, row.payload, row.proposed_topic, fields, *nothing))
    except (_Unusual, IndexError, UnicodeDecodeError, ProtocolError, ContentTooLarge):
        return None
    return pa.RecordBatch.from_struct_array(pa.array(found, _row_type(schema)))


@cache
def _row_type(schema: pa.Schema) -> pa.StructType:
    return pa.struct(list(schema))


@cache
def _content_of(schema: pa.Schema) -> tuple[str, ...]:
    """Those of `timestamp`, `key`, `value` and `headers` that are carried, in this order."""
    assert schema.names[_AT_OFFSET] == "offset"
    return tuple(schema.names[_AT_OFFSET + 1 :])


def _read_run(
    found: list[tuple[Any, ...]], run: Row, payload: memoryview, bound: Bound, carried: tuple[str, ...]
) -> Codec:
    """Append the records of a run from its `first_offset` on. Returns the codec of its last batch."""
    head = (RECORD, run.topic, run.partition, None, run.proposed_topic, None)
    begins = run.first_offset or 0
    at, following, size = 0, -1, len(payload)
    codec = Codec.NONE
    while at < size:
        header = parse_header(payload, at)
        end = at + header.total_bytes
        if header.magic != MAGIC or end > size or header.base_offset < following:
            raise _Unusual
        codec = header.codec
        if not header.is_control:
            content = _unpack(payload[at:end], header, codec, bound)
            _read_records(found, head, content, header, begins, carried)
        at, following = end, header.next_offset
    return codec


def _unpack(batch: memoryview, header: BatchHeader, codec: Codec, bound: Bound) -> bytes:
    if not 0 <= header.records_count <= RECORDS_MAX or crc.value(bytes(batch[ATTRIBUTES_AT:])) != header.crc:
        raise _Unusual
    return codecs.decompress(codec, batch[HEADER_BYTES:], min(bound.of(len(batch)), _CONTENT_BYTES_MAX))


def _read_records(
    found: list[tuple[Any, ...]],
    head: tuple[Any, ...],
    content: bytes,
    header: BatchHeader,
    begins: int,
    carried: tuple[str, ...],
) -> None:
    wants_key, wants_value, wants_headers = "key" in carried, "value" in carried, "headers" in carried
    at, before = 0, -1
    for _ in range(header.records_count):
        length, at = _varint(content, at)
        end = at + length
        later_ms, at = _varint(content, at + 1, _LONG_VARINT_BYTES_MAX)
        delta, at = _varint(content, at)
        row = [*head, header.base_offset + delta]
        if "timestamp" in carried:
            row.append(_timestamp(header, later_ms))
        size, at = _varint(content, at)
        if wants_key:
            row.append(content[at : at + size] if size >= 0 else None)
        at += max(size, 0)
        size, at = _varint(content, at)
        if wants_value:
            row.append(content[at : at + size] if size >= 0 else None)
        at += max(size, 0)
        headers, at = _read_headers(content, at)
        if wants_headers:
            row.append(headers)
        if at != end or not before < delta <= header.last_offset_delta:
            raise _Unusual
        before = delta
        if header.base_offset + delta >= begins:
            found.append(tuple(row))
    if at != len(content):
        raise _Unusual


def _timestamp(header: BatchHeader, later_ms: int) -> int:
    """In ms since 1970."""
    return header.max_timestamp if header.has_append_time else wrap_int64(header.base_timestamp + later_ms)


def _read_headers(content: bytes, at: int) -> tuple[list[tuple[str, bytes | None]], int]:
    """A record's headers, and where they end. Raises UnicodeDecodeError for names that are no text."""
    count, at = _varint(content, at)
    if count < 0:
        raise _Unusual
    found: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, at = _varint(content, at)
        if size < 0:
            raise _Unusual
        name, at = content[at : at + size].decode(), at + size
        size, at = _varint(content, at)
        found.append((name, content[at : at + size] if size >= 0 else None))
        at += max(size, 0)
    return found, at


def _varint(data: bytes, at: int, bytes_max: int = _VARINT_BYTES_MAX) -> tuple[int, int]:
    """A zigzag number, and where it ends. Raises IndexError at the end of the data."""
    byte = data[at]
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), at + 1
    number = byte & 0x7F
    for further in range(1, bytes_max):
        byte = data[at + further]
        number |= (byte & 0x7F) << 7 * further
        if byte < 0x80:
            return number >> 1 ^ -(number & 1), at + further + 1
    raise _Unusual
