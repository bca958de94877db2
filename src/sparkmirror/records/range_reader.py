"""Reads one range of offsets in a Spark task: record batches as they are fetched, decoded to Arrow.

Called by `records.batch_reader` and `records.stream_reader`.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from sparkmirror.kafka.wire.lookup import look_up_span
from sparkmirror.pipeline.fetch.log_range import LogRange, RangeGone, read_parts
from sparkmirror.records.options import ReadOptions
from sparkmirror.records.ranges import OffsetRange
from sparkmirror.records.rows import arrow_batches
from sparkmirror.records.source_log import report_loss


class TaskRange(NamedTuple):
    """What one task reads. The last offsets of a `compacted` log may have no records."""

    wanted: OffsetRange
    compacted: bool


def read_range(options: ReadOptions, task: TaskRange) -> Iterator[pa.RecordBatch]:
    """The records of the range, in order. Raises DataLoss where the log no longer has its beginning and failOnDataLoss
    is set, ClusterError, ProtocolError for a damaged batch."""
    where, first, end = task.wanted
    while first < end:
        wanted = LogRange(where, first, end, options.read_committed, task.compacted)
        try:
            for part in read_parts(options.settings, wanted):
                yield from arrow_batches(part, where, first, min(end, part.next_offset))
                first = part.next_offset
        except RangeGone:
            first = _go_on(options, OffsetRange(where, first, end))


def _go_on(options: ReadOptions, left: OffsetRange) -> int:
    """Where the log goes on. Raises DataLoss."""
    span = look_up_span(options.settings, left.where)
    report_loss(
        f"{left.where} no longer holds offset {left.first}: its log goes from {span.start} to {span.end}.",
        is_fatal=options.fail_on_data_loss,
    )
    return min(span.start, left.end) if left.first < span.start else left.end
