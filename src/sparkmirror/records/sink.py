"""Topics as a sink, for batch and streaming writes: each task appends its rows, and returns where they lie.

At least once: a task or a micro-batch that is repeated writes again what it has written, unless the write is
transactional (`records.task_transaction`). Within a task an idempotent producer writes each record once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from sparkmirror.records.options import RECORDS, WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from sparkmirror.batch.piece import Piece
    from sparkmirror.model import TopicPartition
    from sparkmirror.records.batch_producer import Appended, BatchProducer

    _Lanes = dict[TopicPartition, Iterator[Piece]]

_CHUNK_BYTES = 8 << 20
"""So many bytes of rows are gathered before batches are made of them: many partitions would have small ones."""


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What one task has appended. Of a transactional write it says the name, and whether the micro-batch may be the
    first since a start of the query, as far as the task's process knows."""

    appended: "dict[TopicPartition, Appended]"
    write: str = ""
    is_first: bool = False


class RecordsWriter(DataSourceArrowWriter):
    """A batch write."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._name = uuid4().hex
        """A repeated task of the write knows itself by it."""

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        return write_rows(self._options, iterator, self._name)

    def commit(self, messages: Sequence[Any]) -> None:
        _note(self._options, messages)


class RecordsStreamWriter(DataSourceStreamArrowWriter):
    """A streaming write, made again for each micro-batch."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        return write_rows(self._options, iterator)

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        """The records are there already; a micro-batch that is repeated is noted again. Raises ClusterError where it is
        split otherwise than before."""
        known = [one for one in messages if one is not None and one.write]
        if known and all(one.is_first for one in known):
            from sparkmirror.records.task_transaction import check_others

            check_others(self._options, known[0].write, batchId, len(messages))
        _note(self._options, messages, batchId)

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """Does nothing: what was written stays, and the micro-batch is repeated."""


def _note(options: WriteOptions, messages: Sequence[Any], batch_id: int | None = None) -> None:
    from sparkmirror.records.offsets_file import note_offsets

    if options.offsets_file:
        note_offsets(options.offsets_file, [one.appended for one in messages if one is not None], batch_id)


def write_rows(options: WriteOptions, batches: "Iterator[pa.RecordBatch]", name: str = "") -> Written:
    """Appends all rows of a task, acknowledged by all replicas in sync. `name` is that of a batch write, for a
    transactional one. Raises ClusterError, RecordTooLarge."""
    rows = _gathered(batches)
    first = next(rows, None)
    rows = rows if first is None else chain((first,), rows)
    if options.transactional_id:
        return _write_once(options, rows, name, is_empty=first is None)
    if first is None:  # a task without rows asks no broker
        return Written({})
    from sparkmirror.records.batch_producer import BatchProducer

    producer = BatchProducer(options.settings, options.delivery_seconds)
    try:
        _append(options, producer, rows)
        producer.flush()
        return Written(producer.appended)
    finally:
        producer.close()


def _write_once(options: WriteOptions, rows: "Iterator[pa.RecordBatch]", name: str, *, is_empty: bool) -> Written:
    from pyspark import TaskContext

    from sparkmirror.records.task_transaction import TaskOfWrite, begins_run, check_empty, task_of_stream, write_once

    context = TaskContext.get()
    assert context is not None, "a task of Spark writes"
    task = context.partitionId()
    mine = TaskOfWrite(name, 0, task) if name else task_of_stream(task, context.getLocalProperty)
    is_first = not name and begins_run(mine)
    if is_empty and is_first:
        check_empty(options, mine)
    appended = {} if is_empty else write_once(options, mine, rows, partial(_append, options))
    return Written(appended, mine.write, is_first)


def _append(options: WriteOptions, producer: "BatchProducer", rows: "Iterable[pa.RecordBatch]") -> None:
    """Sends the rows; the last batches may still be under way."""
    lanes_of = _lanes_of(options, producer.size_of)
    for some in rows:
        _send(producer, lanes_of(some))


def _lanes_of(options: WriteOptions, size_of: Callable[[str], int]) -> "Callable[[pa.RecordBatch], _Lanes]":
    """What makes batches of rows, for each partition."""
    if options.source == RECORDS:
        return _lanes_of_records(options, size_of)
    from sparkmirror.records.run_columns import run_lanes

    return lambda rows: run_lanes(rows, options.topic, size_of)


def _lanes_of_records(options: WriteOptions, size_of: Callable[[str], int]) -> "Callable[[pa.RecordBatch], _Lanes]":
    import secrets
    import time

    from sparkmirror.pipeline.produce.record_pieces import encode_batches
    from sparkmirror.records.sink_columns import Placement, records_of

    placement = Placement(options.topic, size_of, secrets.randbits(16))

    def lanes_of(rows: "pa.RecordBatch") -> "_Lanes":
        records = records_of(rows, time.time_ns() // 1_000_000)
        return {where: encode_batches(lane, options.codec) for where, lane in placement.lanes(rows, records)}

    return lanes_of


def _send(producer: "BatchProducer", lanes: "_Lanes") -> None:
    """A batch of each partition at a time; they are made while those before are under way."""
    while lanes:
        made = {where: piece for where, pieces in lanes.items() if (piece := next(pieces, None)) is not None}
        if made:
            producer.send(made)
        lanes = {where: lanes[where] for where in made}


def _gathered(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    some: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            some.append(batch)
            size += batch.nbytes
        if size >= _CHUNK_BYTES:
            yield from pa.Table.from_batches(some).combine_chunks().to_batches()
            some, size = [], 0
    if some:
        yield from pa.Table.from_batches(some).combine_chunks().to_batches()
