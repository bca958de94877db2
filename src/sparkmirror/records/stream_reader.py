"""`kafka-records` as a streaming source: Spark's checkpoint is the position, each micro-batch is a set of ranges.

One reader lives in Spark's planning process as long as the query; copies of it read in the tasks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from sparkmirror.model import NO_TOPIC_ID, is_another_topic
from sparkmirror.records.options import ReadOptions
from sparkmirror.records.stream_offsets import StreamOffset

if TYPE_CHECKING:
    from uuid import UUID

    from sparkmirror.model import TopicPartition
    from sparkmirror.records.source_log import SourceLog


class RecordsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads each record once per query: what a batch has is settled before it begins, and repeated if it fails."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._log: SourceLog | None = None
        self._initial: StreamOffset | None = None
        self._bounds: dict[TopicPartition, int] | None = None
        self._latest: dict[TopicPartition, int] = {}
        self._reported: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_log": None}

    @property
    def log(self) -> "SourceLog":
        from sparkmirror.records.source_log import SourceLog

        if self._log is None:
            self._log = SourceLog(self._options)
        return self._log

    def prepareForTriggerAvailableNow(self) -> None:
        self._bounds = self.log.latest(self.log.all_partitions())

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.offsets_max
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins. Spark asks more than once, and the answer must stay."""
        from sparkmirror.records.batch_reader import check_held

        if self._initial is None:
            partitions = self.log.all_partitions()
            earliest, latest = self.log.earliest(partitions), self.log.latest(partitions)
            first = self.log.resolve(self._options.starting, earliest, latest)
            check_held(first, earliest, latest, is_fatal=self._options.fail_on_data_loss)
            self._initial = StreamOffset(first, {}, self._ids_of(first), is_initial=True)
        return self._initial.as_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; `start` itself where there is nothing new."""
        from sparkmirror.records.ranges import limit_offsets

        before = StreamOffset.from_json(start)
        found = self.log.partitions(expected=before.offsets)
        self._report_deleted(before.offsets.keys() - found)
        first, begin = self._firsts(before, found)
        self._latest = self._ends(first)
        for where in [one for one, end in self._latest.items() if end < first[one]]:
            first[where] = begin[where] = self._restart(where, first[where])
        ends = dict(self._latest)
        if isinstance(limit, ReadMaxRows):
            ends = limit_offsets(first, ends, limit.max_rows)
        if ends == before.offsets and (before.is_initial or not begin):
            return start
        return StreamOffset(ends, begin, self._ids_of(ends)).as_json()

    def _ids_of(self, offsets: "Mapping[TopicPartition, int]") -> "dict[str, UUID]":
        """Of the topics of which the cluster tells an id."""
        names = {where.topic for where in offsets}
        return {name: found for name, found in self.log.topic_ids.items() if name in names and found != NO_TOPIC_ID}

    def _firsts(
        self, before: StreamOffset, found: "set[TopicPartition]"
    ) -> "tuple[dict[TopicPartition, int], dict[TopicPartition, int]]":
        """Where the batch begins in each partition, and in those that the position before does not settle."""
        wanted = found if self._bounds is None else found & (self._bounds.keys() | before.offsets.keys())
        known = {where: offset for where, offset in before.offsets.items() if where in wanted}
        for name in sorted({where.topic for where in known}):
            if is_another_topic(before.topics.get(name, NO_TOPIC_ID), self.log.topic_ids.get(name, NO_TOPIC_ID)):
                self._report(f"The topic {name} was deleted and made again.")
                known = {where: offset for where, offset in known.items() if where.topic != name}
        fresh = self.log.earliest(wanted - known.keys()) if wanted - known.keys() else {}
        for where, offset in sorted(fresh.items()):
            if offset:
                self._report(f"{where} is new, and its log begins at offset {offset}, not at 0.")
        return known | fresh, {**(known if before.is_initial else {}), **fresh}

    def _ends(self, first: "Mapping[TopicPartition, int]") -> "dict[TopicPartition, int]":
        """Where the logs end now; with the trigger AvailableNow where they ended when the query started."""
        latest = self.log.latest(first.keys())
        if self._bounds is None:
            return latest
        return {where: min(end, max(self._bounds.get(where, 0), first[where])) for where, end in latest.items()}

    def _restart(self, where: "TopicPartition", read_to: int) -> int:
        earliest = self.log.earliest([where])[where]
        self._report(
            f"{where} was read to offset {read_to}, and its log now ends at {self._latest[where]}: it was cut, or the "
            f"topic was made again. Its log begins at offset {earliest}."
        )
        return earliest

    def _report_deleted(self, gone: "set[TopicPartition]") -> None:
        from sparkmirror.records.source_log import name_some

        if gone:
            self._report(f"{name_some(gone)} is no longer in the cluster.")

    def _report(self, what: str) -> None:
        """Once, where the query goes on."""
        from sparkmirror.records.source_log import report_loss

        if what not in self._reported:
            self._reported.add(what)
            report_loss(what, is_fatal=self._options.fail_on_data_loss)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return StreamOffset(self._latest, {}, {}).as_json() if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        from sparkmirror.records.range_reader import TaskRange
        from sparkmirror.records.ranges import OffsetRange, split_ranges

        options, after = self._options, StreamOffset.from_json(end)
        first = StreamOffset.from_json(start).offsets | after.begin
        ranges = [OffsetRange(where, first[where], after.offsets[where]) for where in sorted(after.offsets)]
        compacted = self.log.compacted({one.where.topic for one in ranges if one.size > 0})
        parts = split_ranges(ranges, options.partitions_min, options.records_max)
        return [InputPartition(TaskRange(one, one.where.topic in compacted)) for one in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from sparkmirror.records.range_reader import read_range

        return read_range(self._options, partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: the checkpoint is the position."""

    def stop(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None
