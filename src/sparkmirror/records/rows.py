"""The rows of `kafka-records`: columns as in Spark's Kafka connector, made of decoded batches. Pure.

Called by `records.range_reader`, in Spark's workers.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparkmirror.batch.arrow_content import CONTENT, content_arrays, repeat
from sparkmirror.batch.columns import Columns
from sparkmirror.batch.header import APPEND_TIME, MAGIC
from sparkmirror.batch.headers import ATTRIBUTES, MAGIC_NUMBER, NEXT_OFFSET, POSITION
from sparkmirror.batch.part import Part, decode_part
from sparkmirror.batch.record_headers import HEADER_TYPE
from sparkmirror.batch.unpacking import USUAL_BOUND, Bound
from sparkmirror.errors import ContentTooLarge
from sparkmirror.model import TopicPartition

DDL: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", pa.list_(HEADER_TYPE)),
    ]
)
CHUNK_BYTES: Final = 2 << 20
"""About so many bytes of records are one Arrow batch: Spark passes batches of 1 to 4 MB on fastest."""

CREATE_TIME, LOG_APPEND_TIME, NO_TIME = 0, 1, -1
"""Of the column `timestampType`, as `org.apache.kafka.common.record.TimestampType` has them."""
_MAGIC_WITHOUT_TIME: Final = 0
_OLD_ATTRIBUTES_AT: Final = 17
_MICROS: Final = 1000
_TIMESTAMP_MS_MAX: Final = (1 << 63) // _MICROS - 1
"""Beyond it Spark's timestamps, in microseconds, do not reach; such a time is null."""


def arrow_batches(
    part: Part, where: TopicPartition, first: int, end: int, bound: Bound = USUAL_BOUND
) -> Iterator[pa.RecordBatch]:
    """The records of a part at offsets `first` … `end - 1`, in order. Raises ProtocolError, for a batch beyond the
    `bound` ContentTooLarge, which names the option."""
    while first < end:
        try:
            columns, reached = decode_part(part, first, end, CHUNK_BYTES, bound)
        except ContentTooLarge as large:
            raise too_large(where, large) from None
        low, high = (int(found) for found in np.searchsorted(columns.offsets, (first, end)))
        if low < high:
            yield _record_batch(columns.rows(low, high), part, where)
        first = reached


def too_large(where: TopicPartition, large: ContentTooLarge) -> ContentTooLarge:
    """The problem, for a reader of the partition."""
    hint = "Raise the option maxUnpackedBytes if the topic's producers write such batches."
    return ContentTooLarge(f"{where}: {large.args[0]}", hint)


def _record_batch(columns: Columns, part: Part, where: TopicPartition) -> pa.RecordBatch:
    count = len(columns)
    values = {
        **content_arrays(columns, CONTENT),
        "topic": repeat(where.topic, count),
        "partition": pa.array(np.full(count, where.partition, np.int32)),
        "offset": pa.array(columns.offsets),
        "timestamp": _timestamps(columns.timestamps),
        "timestampType": pa.array(_timestamp_types(part, columns.offsets)),
    }
    return pa.RecordBatch.from_arrays([values[field.name] for field in SCHEMA], schema=SCHEMA)


def _timestamps(milliseconds: NDArray[np.int64]) -> pa.Array:
    beyond = (milliseconds > _TIMESTAMP_MS_MAX) | (milliseconds < -_TIMESTAMP_MS_MAX)
    micros = np.where(beyond, 0, milliseconds) * _MICROS
    return pa.array(micros, pa.int64(), mask=beyond if beyond.any() else None).cast(SCHEMA.field("timestamp").type)


def _timestamp_types(part: Part, offsets: NDArray[np.int64]) -> NDArray[np.int32]:
    table = part.table
    appended = table[:, ATTRIBUTES] & APPEND_TIME != 0
    kinds = np.where(appended, LOG_APPEND_TIME, CREATE_TIME).astype(np.int32)
    for row in np.flatnonzero(table[:, MAGIC_NUMBER] != MAGIC).tolist():
        kinds[row] = _old_type(part.buffer, int(table[row, POSITION]), int(table[row, MAGIC_NUMBER]))
    found: NDArray[np.int32] = kinds[np.searchsorted(table[:, NEXT_OFFSET], offsets, "right")]
    return found


def _old_type(buffer: memoryview, at: int, magic: int) -> int:
    if magic == _MAGIC_WITHOUT_TIME:
        return NO_TIME
    return LOG_APPEND_TIME if buffer[at + _OLD_ATTRIBUTES_AT] & APPEND_TIME else CREATE_TIME
