"""The row of flows with transforms: one per record, and one per range of records that closes it.

The columns of `pipeline.relay.schema` stand first and mean the same; its *run* row comes behind the *record* rows of
the range it accounts for, without payload: `bytes` is what the range took on the source. Then:

    codec             on run rows: of the range's last batch
    offset            source offset of the record
    timestamp         of the record, ms since the epoch
    key, value        as they are; null is absent
    headers           in their order, repeated names too; a name's bytes pass unchecked
    target_topic      added by the flow's plan: where the record goes
    target_partition  added by the flow's plan: null leaves it to `pipeline.produce.routing`

Kinds beside those of `pipeline.relay.schema`: *record*; *dead*, a record that goes to the dead-letter topic; *refused*,
a range that could not be read, `payload` says why.

Rows go on in Arrow batches of ROWS_PER_BATCH. Nothing ends such a batch early: PADDING pushes what is there out.
"""

from typing import Final

import pyarrow as pa

from sparkmirror.batch.record_headers import HEADER_TYPE
from sparkmirror.pipeline.relay.schema import FLUSH, ROW_DDL, ROW_SCHEMA

RECORD: Final = "record"
DEAD: Final = "dead"
REFUSED: Final = "refused"

ROWS_PER_BATCH: Final = 1000
HEADERS_DDL: Final = "array<struct<key:string,value:binary>>"
RECORD_DDL: Final = (
    ROW_DDL + f", codec int, offset bigint, timestamp bigint, key binary, value binary, headers {HEADERS_DDL}"
)
WRITTEN_DDL: Final = RECORD_DDL + ", target_topic string, target_partition int"

HEADERS_TYPE: Final = pa.list_(HEADER_TYPE)
RECORD_SCHEMA: Final = pa.schema(
    [
        *ROW_SCHEMA,
        pa.field("codec", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.int64()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
    ]
)
RECORD_COLUMNS: Final = tuple(RECORD_SCHEMA.names[len(ROW_SCHEMA) :])
WRITTEN_COLUMNS: Final = (*RECORD_SCHEMA.names, "target_topic", "target_partition")


def widen(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of `pipeline.relay.schema` as rows of this one, their other columns null."""
    empty = [pa.nulls(rows.num_rows, field.type) for field in RECORD_SCHEMA][len(ROW_SCHEMA) :]
    return pa.RecordBatch.from_arrays([*rows.columns, *empty], schema=RECORD_SCHEMA)


def _padding() -> pa.RecordBatch:
    kinds = pa.array([FLUSH] * ROWS_PER_BATCH)
    nulls = [pa.nulls(ROWS_PER_BATCH, field.type) for field in RECORD_SCHEMA][1:]
    return pa.RecordBatch.from_arrays([kinds, *nulls], schema=RECORD_SCHEMA)


PADDING: Final = _padding()
