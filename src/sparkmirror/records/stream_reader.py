"""Topics as a streaming source: Spark's checkpoint is the position, each micro-batch is a set of ranges.

One reader lives in Spark's planning process as long as the query; copies of it read in the tasks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from sparkmirror.model import NO_TOPIC_ID, is_another_topic
from sparkmirror.records.options import ReadOptions
from sparkmirror.records.stream_offsets import StreamOffset

if TYPE_CHECKING:
    from uuid import UUID

    from sparkmirror.model import TopicPartition
    from sparkmirror.records.ranges import OffsetRange
    from sparkmirror.records.source_log import SourceLog

_LOOKS: Final = 3
"""At topics of which one was deleted between two questions."""


class RecordsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads each record once per query: what a batch has is settled before it begins, and repeated if it fails."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._log: SourceLog | None = None
        self._initial: StreamOffset | None = None
        self._bounds: dict[TopicPartition, int] | None = None
        self._latest: dict[TopicPartition, int] = {}
        self._reported: set[str] = set()
        self._gone: set[TopicPartition] = set()
        self._planned: dict[TopicPartition, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_log": None}

    @property
    def log(self) -> "SourceLog":
        from sparkmirror.records.source_log import SourceLog

        if self._log is None:
            self._log = SourceLog(self._options)
        return self._log

    def prepareForTriggerAvailableNow(self) -> None:
        self._bounds = self.log.latest(self.log.partitions())

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.offsets_max
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins. Spark asks more than once, and the answer must stay."""
        from sparkmirror.records.batch_reader import check_held

        if self._initial is None:
            first, edges = self.log.at_once(lambda edges: self.log.resolve(self._options.starting, *edges))
            check_held(first, *edges, self._options)
            self._initial = StreamOffset(first, {}, self._ids_of(first), True, self.log.cluster_id())
        return self._initial.as_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; `start` itself where there is nothing new. The first batch settles where the query
        begins, also without records. A partition that is not seen keeps its place: when its topic is there again, the
        offset counts, unless it is another topic; and so does one of a topic of which brokers say different things."""
        from sparkmirror.records.source_log import PartitionsGone

        for _ in range(_LOOKS - 1):
            try:
                return self._plan(start, limit)
            except PartitionsGone:  # since the look at the topics: the next one does not see them
                continue
        return self._plan(start, limit)

    def _plan(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """As `latestOffset`. Raises PartitionsGone where a topic is deleted meanwhile."""
        from sparkmirror.records.ranges import limit_offsets

        before = StreamOffset.from_json(start)
        found = self.log.partitions(expected=before.offsets.keys() - self._gone)
        before = self._moved_here(before)
        doubted = self.log.doubted(before.topics)
        found = {one for one in found if one.topic not in doubted}
        self._report_absent({one for one in before.offsets if one not in found and one.topic not in doubted})
        remade = self._remade(before)
        absent = {one: at for one, at in before.offsets.items() if one not in found and one.topic not in remade}
        first, begin = self._firsts(before, found, remade)
        if before.is_initial:
            begin |= absent
        self._latest = self._ends(first)
        self._heed_cut_logs(before, first, begin)
        ends = dict(self._latest)
        if isinstance(limit, ReadMaxRows):
            ends = limit_offsets(first, ends, limit.max_rows)
        ends |= absent
        if ends == before.offsets and not begin:
            return start
        self._planned = ends
        return StreamOffset(ends, begin, self._ids_of(ends, before), cluster=self.log.cluster_id()).as_json()

    def _moved_here(self, position: StreamOffset) -> StreamOffset:
        """Topics of another cluster have other ids. Where their offsets are identical the position holds here too."""
        if position.cluster in ("", self.log.cluster_id()):
            return position
        if self._options.are_identical:
            return position._replace(topics=self._ids_of(position.offsets))
        self._report(
            f"The checkpoint is of the cluster {position.cluster}, and these brokers are of {self.log.cluster_id()}. "
            "Where a mirror has kept the offsets, set the option identicalOffsets to true."
        )
        return position

    def _ids_of(self, offsets: "Mapping[TopicPartition, int]", before: StreamOffset | None = None) -> "dict[str, UUID]":
        """Of the topics of which the cluster tells an id, or of which the position `before` has one."""
        names = {where.topic for where in offsets}
        known = {name: found for name, found in self.log.topic_ids.items() if found != NO_TOPIC_ID}
        if before is not None:
            known = {**before.topics, **known}
        return {name: found for name, found in known.items() if name in names}

    def _firsts(
        self, before: StreamOffset, found: "set[TopicPartition]", remade: "set[str]"
    ) -> "tuple[dict[TopicPartition, int], dict[TopicPartition, int]]":
        """Where the batch begins in each partition, and in those that the position before does not settle."""
        wanted = found if self._bounds is None else found & (self._bounds.keys() | before.offsets.keys())
        known = {one: at for one, at in before.offsets.items() if one in wanted and one.topic not in remade}
        fresh = self.log.earliest(wanted - known.keys()) if wanted - known.keys() else {}
        for where, offset in sorted(fresh.items()):
            if offset:
                self._report(f"{where} is new, and its log begins at offset {offset}, not at 0.")
        return known | fresh, {**(known if before.is_initial else {}), **fresh}

    def _remade(self, before: StreamOffset) -> "set[str]":
        """The topics that are others than those of that name whose offsets are known."""
        found = {name for name, known in before.topics.items() if is_another_topic(known, self._id_of(name))}
        for name in sorted(found):
            self._report(f"The topic {name} was deleted and made again.")
        return found

    def _id_of(self, topic: str) -> "UUID":
        return self.log.topic_ids.get(topic, NO_TOPIC_ID)

    def _ends(self, first: "Mapping[TopicPartition, int]") -> "dict[TopicPartition, int]":
        """Where the logs end now; with the trigger AvailableNow where they ended when the query started."""
        latest = self.log.latest(first.keys())
        if self._bounds is None:
            return latest
        return {where: min(end, max(self._bounds.get(where, 0), first[where])) for where, end in latest.items()}

    def _heed_cut_logs(
        self, before: StreamOffset, first: "dict[TopicPartition, int]", begin: "dict[TopicPartition, int]"
    ) -> None:
        """Where logs end before what was read: behind an open transaction there is nothing to do but to wait; a log
        that was cut goes on at its end; one that may be of another topic is read from its beginning."""
        short = [one for one, end in self._latest.items() if end < first[one]]
        ends = self.log.high_watermarks(short) if short else {}
        for where in short:
            if ends[where] >= first[where]:
                self._latest[where] = first[where]
                continue
            is_same = before.topics.get(where.topic) == self._id_of(where.topic)
            goes_on = self._latest[where] if is_same else self.log.earliest([where])[where]
            why = "it was cut" if is_same else "it was cut, or the topic was made again"
            self._report(
                f"{where} was read to offset {first[where]}, and its log now ends at {ends[where]}: {why}. It is read "
                f"from offset {goes_on} on."
            )
            first[where] = begin[where] = goes_on

    def _report_absent(self, absent: "set[TopicPartition]") -> None:
        """Each time that a partition goes. One that another broker shows than the one that was asked has not."""
        from sparkmirror.records.source_log import name_some, report_loss

        fresh = absent - self._gone
        if gone := fresh - self.log.shown(fresh):
            what = f"{name_some(gone)} is no longer in the cluster, or not among what is read."
            report_loss(what, is_fatal=self._options.fail_on_data_loss)
        self._gone = absent & self._gone | gone

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
        if after.offsets != self._planned:
            ranges = self._without_gone(ranges)
        compacted = self.log.compacted({one.where.topic for one in ranges if one.size > 0})
        parts = split_ranges(ranges, options.partitions_min, options.records_max)
        ids = self._moved_here(after).topics
        return [
            InputPartition(TaskRange(one, one.where.topic in compacted, ids.get(one.where.topic, NO_TOPIC_ID)))
            for one in parts
        ]

    def _without_gone(self, ranges: "list[OffsetRange]") -> "list[OffsetRange]":
        """Of a batch that was planned before this query started, which Spark repeats as it was planned."""
        from sparkmirror.records.source_log import name_some

        if gone := self.log.gone({one.where for one in ranges if one.size > 0}):
            self._report(f"{name_some(gone)} was deleted before the batch that was planned had read it.")
        return [one for one in ranges if one.where not in gone]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from sparkmirror.records.range_reader import read_range

        return read_range(self._options, partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: the checkpoint is the position."""

    def stop(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None
