"""A number for the rows of a task, by which it knows that a repeated attempt has the same; pure.

It says the same of the same rows however Spark cuts them into Arrow batches, and in whatever order they come: behind a
shuffle that differs from attempt to attempt. Used by `records.task_transaction`.
"""

import zlib
from typing import Any, Final

import msgspec
import pyarrow as pa

_COUNTED: Final = ("key", "partition", "payload", "timestamp", "topic", "value")
"""Columns that count; headers do not, nor do columns that a write leaves out."""
_MODULUS: Final = 1 << 63


class Fingerprint:
    """Of the rows that were added: how many, and the sum of a checksum of each."""

    def __init__(self) -> None:
        self.rows = 0
        self.checksum = 0
        self._encode = msgspec.msgpack.Encoder().encode

    def add(self, rows: pa.RecordBatch) -> None:
        self.rows += rows.num_rows
        columns = [_values(rows.column(name)) for name in _COUNTED if name in rows.schema.names]
        checksums = map(zlib.crc32, map(self._encode, zip(*columns, strict=True)))
        self.checksum = (self.checksum + sum(checksums)) % _MODULUS


def _values(column: pa.Array) -> list[Any]:
    """Times as numbers."""
    values: list[Any] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values
