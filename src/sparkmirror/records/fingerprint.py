"""A number for the rows of a task, by which it knows that a repeated attempt has the same; pure.

It says the same of the same rows however Spark cuts them into Arrow batches, and in whatever order they come: behind a
shuffle that differs from attempt to attempt. Of runs it counts the record batches, since which of them share a row is
up to the brokers' answers. Used by `records.task_transaction`.
"""

import zlib
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

from sparkmirror.batch.any_format import read_whole
from sparkmirror.batch.headers import POSITION, RECORDS, TOTAL_BYTES

_COUNTED: Final = ("key", "partition", "timestamp", "topic", "value")
"""Columns that count; headers do not, nor do columns that a write leaves out."""
_MODULUS: Final = 1 << 63
_LEADER_EPOCH_AT: Final = 12
_AFTER_LEADER_EPOCH: Final = 16


class Fingerprint:
    """Of the rows that were added: how many records they are, and the sum of a checksum of each, or of each batch."""

    def __init__(self) -> None:
        self.rows = 0
        self.checksum = 0
        self._encode = msgspec.msgpack.Encoder().encode

    def add(self, rows: pa.RecordBatch) -> None:
        """Raises ProtocolError for a payload that is no record batches."""
        if "payload" in rows.schema.names:
            for partition, payload in zip(rows.column("partition").to_pylist(), rows.column("payload"), strict=True):
                for records, checksum in _batches(memoryview(payload.as_buffer())):
                    self._add(records, zlib.crc32(b"%d" % partition, checksum))
            return
        columns = [_values(rows.column(name)) for name in _COUNTED if name in rows.schema.names]
        self._add(rows.num_rows, sum(map(zlib.crc32, map(self._encode, zip(*columns, strict=True)))))

    def _add(self, records: int, checksum: int) -> None:
        self.rows += records
        self.checksum = (self.checksum + checksum) % _MODULUS


def _batches(payload: memoryview) -> Iterator[tuple[int, int]]:
    """Records and checksum of each: of all but the leader's epoch."""
    for at, size, records in read_whole(payload).table[:, [POSITION, TOTAL_BYTES, RECORDS]].tolist():
        head, rest = payload[at : at + _LEADER_EPOCH_AT], payload[at + _AFTER_LEADER_EPOCH : at + size]
        yield records, zlib.crc32(rest, zlib.crc32(head))


def _values(column: pa.Array) -> list[Any]:
    """Times as numbers, and text as bytes: Spark makes text of any bytes."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    values: list[Any] = column.to_pylist()
    return values
