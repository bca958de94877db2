"""The row that passes through Spark: the one contract between the reading and the writing end.

One row per *run*: the contiguous record batches of one topic-partition in one fetch response. Columns, in order:

    kind            plan | run | extent | gap | fault | order | release | flush | trail
    topic           source topic; null on plan, flush and trail rows
    partition       partition number, the same on both sides
    first_offset    source offset from which the row accounts for everything …
    next_offset     … up to here, exclusive; a gap row says that nothing more will come for this range
    batches         record batches in the run, control batches included
    records         records in the run, control records excluded
    bytes           length of the run
    max_timestamp   largest record timestamp, ms since the epoch; -1 when unknown
    high_watermark  of the source partition when it was fetched
    fetched_at      wall clock of the fetch, ms since the epoch
    leader_epoch    of all batches in the run; -1 where none tells
    turns           how often the source's log was found rewritten before this was read, see `ledger.lineage`
    payload         the run itself when inline; JSON on plan and gap rows; a sentence on fault rows, empty when
                    nothing keeps the partition, and its high watermark counts; on order rows one word: pause, resume
                    or retry
    lease           position of the run in the reader's ring when leased, else null; see `pipeline.relay.ring`
    proposed_topic  the target topic as classes of the user's say, null when they leave the topic out or there are none
    target_topic    added by the flow's plan; null on all rows but runs
    padding         added by the flow's plan; null on all rows but flush

A *run* row opens its partition's *extent*: answers that continue it are announced to the writer in the control page
(`pipeline.relay.board`), and an *extent* row accounts for those since the last batch of rows, in 5 s or after 64 MiB.
Its `max_timestamp` and `fetched_at` are of the announced run that was oldest when it was fetched.

A *plan* row opens each task's stream and comes again whenever partitions are added; a *release* row says that no row of
this partition follows; *fault* explains why a partition does not move, *order* is what the operator ordered of it.

*Flush* and *trail* rows end each batch of the reader's, so that Spark holds nothing back. Spark gathers rows for the
writer until they are BATCH_BYTES large, which the padding of a flush row makes them, and lets them go when it sees a
row behind the last, which is the trail row. The padding, in the last column, is also larger than Spark's stream
buffers: no end of a batch waits in them. A flush row's `first_offset` counts the announcements that were made before
the batch's rows.

The row of flows with transforms: one per record, and one per range of records that closes it.

All columns stand in each row, also in those of records, which are nearly all: so there are few, and those of a record
that no step reads, or, behind the plan, sets, are not there at all. Of those above `kind`, `topic`, `partition`,
`payload` and `proposed_topic` are there and mean the same, behind the plan `kind` and `payload` alone; the *run* row
comes behind the *record* rows of the run it accounts for. The run's batches pass with it, or stay where its lease says:
the writer takes from them what no step of the flow reads or changes, which a record row does not have
(`spark.record_plan`). Then:

    fields            null on record and flush rows; else a JSON array: all columns above but `payload`, and on run rows
                      the codec of the run's last batch
    offset            source offset of the record; on refused rows with a lease, of the first record that is refused
    timestamp         of the record, ms since the epoch, if a step reads it
    payload           empty on record rows that say that no step has changed key, value, headers or timestamp: then the
                      first three are null, unless steps set all of them, and the writer has them from the batches
    key, value        as they are, if a step reads them; null is absent
    headers           likewise, in their order, repeated names too; a name's bytes pass unchecked
    target_topic      added by the flow's plan, if a step sets it: where the record goes
    target_partition  likewise; null leaves it to `pipeline.produce.routing`

Kinds beside those of `pipeline.relay.schema`: *record*; *dead*, a record that goes to the dead-letter topic; *misfit*,
a record for which a step cannot be done, and *refused*, a run that could not be read from some offset on: `payload`
says why.

Rows go on in Arrow batches of ROWS_PER_BATCH. Nothing ends such a batch early: `padding` pushes what is there out, once
for each Python stage of the flow's plan: of *flush* rows first, and of *trail* rows for each further stage
(`pipeline.fetch.flushes`).
"""

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from sparkmirror.batch.record_headers import HEADER_TYPE
from sparkmirror.pipeline.relay.options import CARRIED_COLUMNS, CONTENT_COLUMNS, RETURNED_COLUMNS

ROW_DDL: Final = (
    "kind string, topic string, partition int, first_offset bigint, next_offset bigint, batches int, records bigint, "
    "bytes bigint, max_timestamp bigint, high_watermark bigint, fetched_at bigint, leader_epoch int, "
    "turns int, payload binary, lease bigint, proposed_topic string"
)

PLAN: Final = "plan"
RUN: Final = "run"
EXTENT: Final = "extent"
GAP: Final = "gap"
FAULT: Final = "fault"
ORDER: Final = "order"
RELEASE: Final = "release"
FLUSH: Final = "flush"
TRAIL: Final = "trail"

BATCH_BYTES: Final = 8192
"""Of the rows that Spark hands to the writer at once; the padding of a flush row takes as many."""

ORDERED_PAUSE: Final = b"pause"
ORDERED_RESUME: Final = b"resume"
ORDERED_RETRY: Final = b"retry"

_ARROW_TYPES = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "binary": pa.binary()}
ROW_SCHEMA: Final = pa.schema(
    [pa.field(name, _ARROW_TYPES[kind]) for name, kind in (column.split() for column in ROW_DDL.split(", "))]
)
_ROW_TYPE = pa.struct(list(ROW_SCHEMA))


class Row(NamedTuple):
    """One row as Python sees it; the field order is the schema's."""

    kind: str
    topic: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    next_offset: int | None = None
    batches: int = 0
    records: int = 0
    bytes: int = 0
    max_timestamp: int = -1
    high_watermark: int = -1
    fetched_at: int = 0
    leader_epoch: int = -1
    turns: int = 0
    payload: builtins.bytes | None = None
    lease: int | None = None
    proposed_topic: str | None = None


def to_arrow(rows: Sequence[Row]) -> pa.RecordBatch:
    """Columns from rows, in the schema's order."""
    return pa.RecordBatch.from_struct_array(pa.array(rows, _ROW_TYPE))


def propose_targets(rows: Sequence[Row], propose: Callable[[str], str | None]) -> list[Row]:
    """The rows, runs with what `propose` says of their topic."""
    return [
        row._replace(proposed_topic=propose(row.topic)) if row.kind == RUN and row.topic is not None else row
        for row in rows
    ]


def end_batch(rows: Iterable[Row] = (), announced: int = 0, stages: int = 1) -> list[Row]:
    """The rows, and those by which Spark passes them on at once, through so many stages; `announced` counts the
    announcements made before them."""
    return [*rows, Row(FLUSH, first_offset=announced), *[Row(TRAIL)] * stages]


def close(rows: Iterable[Row] = (), announced: int = 0) -> pa.RecordBatch:
    """As `end_batch`, for Spark."""
    return to_arrow(end_batch(rows, announced))


RECORD: Final = "record"
DEAD: Final = "dead"
MISFIT: Final = "misfit"
REFUSED: Final = "refused"

ROWS_PER_BATCH: Final = 1000
HEADERS_DDL: Final = "array<struct<key:string,value:binary>>"
RECORD_DDL: Final = (
    "kind string, topic string, partition int, payload binary, proposed_topic string, fields string, offset bigint, "
    f"timestamp bigint, key binary, value binary, headers {HEADERS_DDL}"
)
RECORD_KINDS: Final = dict(column.split(" ", 1) for column in RECORD_DDL.split(", "))
"""Spark's type of each column."""

HEADERS_TYPE: Final = pa.list_(HEADER_TYPE)
RECORD_SCHEMA: Final = pa.schema(
    [
        *map(ROW_SCHEMA.field, ("kind", "topic", "partition", "payload", "proposed_topic")),
        pa.field("fields", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.int64()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
    ]
)
_OF_RUNS: Final = ("topic", "partition", "proposed_topic")
"""What the steps see of each record, and the writer has from the row of its run."""
WRITTEN_COLUMNS: Final = (
    *(name for name in RECORD_SCHEMA.names if name not in _OF_RUNS), "target_topic", "target_partition",
)  # fmt: skip
"""All that the writer knows, in their order."""
_PAYLOAD: Final = Row._fields.index("payload")
_FEW: Final = 16
"""So few values are cheaper taken one by one: on cold caches, a third of what Arrow's `take` costs for all."""


def record_schema(carried: frozenset[str]) -> pa.Schema:
    """RECORD_SCHEMA without the columns of a record that are not carried."""
    return pa.schema([field for field in RECORD_SCHEMA if field.name in carried or field.name not in CARRIED_COLUMNS])


def record_ddl(carried: frozenset[str]) -> str:
    """`record_schema` in Spark's words."""
    return ", ".join(f"{name} {RECORD_KINDS[name]}" for name in record_schema(carried).names)


def written_columns(returned: frozenset[str]) -> tuple[str, ...]:
    """The columns that the writer gets of a flow whose steps set the `returned` ones. Where they set all content, their
    timestamps come with it."""
    wanted = returned | {"timestamp"} if returned >= CONTENT_COLUMNS else returned
    return tuple(name for name in WRITTEN_COLUMNS if name in wanted or name not in RETURNED_COLUMNS)


def to_record_rows(
    rows: Sequence[Row],
    codecs: Sequence[int | None] = (),
    offset: int | None = None,
    schema: pa.Schema = RECORD_SCHEMA,
) -> pa.RecordBatch:
    """Rows of `pipeline.relay.schema` that are no records as rows of this one; `codecs` has one for each, or none at
    all, `offset` is of each."""
    made = {
        name: pa.array([getattr(row, name) for row in rows], RECORD_SCHEMA.field(name).type)
        for name in ("kind", "payload", *_OF_RUNS)
    }
    fields = map(format_fields, rows, codecs or repeat(None, len(rows)))
    made["fields"] = pa.array(fields, pa.string())
    made["offset"] = pa.array([offset] * len(rows), pa.int64())
    return record_rows(made, len(rows), schema)


def format_fields(row: Row, codec: int | None = None) -> str:
    """The column `fields` of a row that is no record."""
    return msgspec.json.encode((*row[:_PAYLOAD], *row[_PAYLOAD + 1 :], codec)).decode()


def record_rows(columns: Mapping[str, pa.Array], count: int, schema: pa.Schema = RECORD_SCHEMA) -> pa.RecordBatch:
    """`count` rows of the schema with these columns; the others are null."""
    arrays = [columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def rows_at(rows: pa.RecordBatch, places: Sequence[int]) -> list[tuple[Row, int | None]]:
    """The rows that `to_record_rows` was given, without their payloads, and their codecs. `rows` are in the written
    form."""
    column = rows.column("fields")
    if len(places) <= _FEW:
        texts = [column[at].as_py() for at in places]
    else:
        texts = column.take(pa.array(places, pa.int64())).to_pylist()
    found = []
    for text in texts:
        *fields, codec = msgspec.json.decode(text)
        found.append((Row._make((*fields[:_PAYLOAD], None, *fields[_PAYLOAD:])), codec))
    return found


def padding(schema: pa.Schema, kind: str = FLUSH) -> pa.RecordBatch:
    """Rows that push out what is there."""
    return record_rows({"kind": pa.array([kind] * ROWS_PER_BATCH)}, ROWS_PER_BATCH, schema)
