"""Reads one range of offsets in a Spark task: record batches as they are fetched, as rows of records or of runs.

Called by `records.batch_reader` and `records.stream_reader`.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple
from uuid import UUID

import pyarrow as pa

from sparkmirror.batch.part import Part
from sparkmirror.batch.unpacking import Bound
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.leader_search import LeaderSearch
from sparkmirror.kafka.wire.lookup import Span
from sparkmirror.model import NO_TOPIC_ID, TopicPartition
from sparkmirror.pipeline.fetch.log_range import AnotherTopic, LogRange, RangeGone, read_parts
from sparkmirror.records.options import RECORDS, RUNS, ReadOptions
from sparkmirror.records.ranges import OffsetRange
from sparkmirror.records.rows import arrow_batches
from sparkmirror.records.run_rows import run_batches
from sparkmirror.records.source_log import gone_partitions, report_loss

_PAUSE_SECONDS: Final = 0.2
_WRONG_ANSWERS_MAX: Final = 10
_ROWS: Final[Mapping[str, Callable[[Part, TopicPartition, int, int, Bound], Iterator[pa.RecordBatch]]]] = {
    RECORDS: arrow_batches,
    RUNS: run_batches,
}
"""What each source makes of a part."""


class TaskRange(NamedTuple):
    """What one task reads. The last offsets of a `compacted` log may have no records. Offsets of the topic with
    `topic_id` say nothing about another one of its name."""

    wanted: OffsetRange
    compacted: bool
    topic_id: UUID = NO_TOPIC_ID


def read_range(options: ReadOptions, task: TaskRange) -> Iterator[pa.RecordBatch]:
    """The records of the range, in order. Raises DataLoss where the log no longer has a part of it and failOnDataLoss
    is set, ClusterError, ProtocolError for a damaged batch."""
    where, first, end = task.wanted
    as_rows = _ROWS[options.source]
    wrong_answers = 0
    while first < end:
        wanted = LogRange(where, first, end, options.read_committed, task.compacted, task.topic_id)
        try:
            for part in read_parts(options.settings, wanted):
                yield from as_rows(part, where, first, min(end, part.next_offset), options.bound)
                first, wrong_answers = part.next_offset, 0
        except AnotherTopic:
            what = f"The topic {where.topic} was deleted and made again before offsets {first} to {end - 1} were read."
            report_loss(what, is_fatal=options.fail_on_data_loss)
            return
        except RangeGone as gone:
            span = _newest_span(options.settings, where)
            if not span.start <= first <= span.end:
                first = _go_on(options, OffsetRange(where, first, end), span)
            elif (wrong_answers := wrong_answers + 1) > _WRONG_ANSWERS_MAX:
                raise ClusterUnreachable(f"{gone.args[0]} Its leader says that the log holds it.") from None
            else:  # by a broker that no longer led the partition, or did not yet
                time.sleep(_PAUSE_SECONDS)
        except ClusterUnreachable:
            if gone_partitions(options.settings, [where]):
                what = f"{where} was deleted before its offsets {first} to {end - 1} were read."
                report_loss(what, is_fatal=options.fail_on_data_loss)
                return
            if (log_end := _newest_span(options.settings, where).end) >= end:
                raise
            what = f"{where} was to be read to offset {end}, and its log ends at {log_end}: it was cut."
            report_loss(what, is_fatal=options.fail_on_data_loss)
            return


def _newest_span(settings: ClientSettings, where: TopicPartition) -> Span:
    """By what every server knows: the log of a broker that was cut off from the others ends early."""
    return LeaderSearch(settings).span(where)


def _go_on(options: ReadOptions, left: OffsetRange, span: Span) -> int:
    """Where the log goes on. Raises DataLoss."""
    report_loss(
        f"{left.where} no longer holds offset {left.first}: its log goes from {span.start} to {span.end}.",
        is_fatal=options.fail_on_data_loss,
    )
    return min(span.start, left.end) if left.first < span.start else left.end
