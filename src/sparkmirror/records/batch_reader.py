"""Topics as a batch source: what is to be read is planned once, and a Spark task reads each range."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from sparkmirror.model import NO_TOPIC_ID
from sparkmirror.records.options import ReadOptions

if TYPE_CHECKING:
    from sparkmirror.model import TopicPartition
    from sparkmirror.records.ranges import OffsetRange
    from sparkmirror.records.source_log import SourceLog


class RecordsReader(DataSourceReader):
    """Reads from the starting to the ending offsets."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        from sparkmirror.records.range_reader import TaskRange
        from sparkmirror.records.ranges import split_ranges
        from sparkmirror.records.source_log import SourceLog

        options = self._options
        with closing(SourceLog(options)) as log:
            ranges = plan_batch(log, options)
            compacted, ids = log.compacted({one.where.topic for one in ranges}), log.topic_ids
        parts = split_ranges(ranges, options.partitions_min, options.records_max)
        return [
            InputPartition(TaskRange(one, one.where.topic in compacted, ids.get(one.where.topic, NO_TOPIC_ID)))
            for one in parts
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """One range. Spark asks for the partition None where there is none."""
        from sparkmirror.records.range_reader import read_range

        return iter(()) if partition.value is None else read_range(self._options, partition.value)


def plan_batch(log: "SourceLog", options: ReadOptions) -> "list[OffsetRange]":
    """A range for each partition that has something between the two limits. Raises ConfigError, ClusterError, and
    DataLoss for offsets that the logs do not have."""
    from sparkmirror.records.ranges import OffsetRange

    limits = options.starting, options.ending
    (first, end), edges = log.at_once(lambda edges: tuple(log.resolve(limit, *edges) for limit in limits))
    for offsets in (first, end):
        check_held(offsets, *edges, options)
    return [OffsetRange(where, first[where], end[where]) for where in sorted(first) if first[where] < end[where]]


def check_held(
    offsets: "dict[TopicPartition, int]",
    earliest: "dict[TopicPartition, int]",
    latest: "dict[TopicPartition, int]",
    options: ReadOptions,
) -> None:
    """Moves offsets that the logs do not have into them. Raises DataLoss, unless the options say to go on."""
    from sparkmirror.records.source_log import report_loss

    for where, offset in sorted(offsets.items()):
        if not earliest[where] <= offset <= latest[where]:
            last = "its first open transaction" if options.read_committed and offset > latest[where] else "its end"
            report_loss(
                f"{where} does not hold offset {offset}: it is read from {earliest[where]} to {last}, {latest[where]}.",
                is_fatal=options.fail_on_data_loss,
            )
            offsets[where] = min(max(offset, earliest[where]), latest[where])
