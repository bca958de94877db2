"""A streaming read by its checkpoint alone: what a batch has is settled before it begins. The cluster is a fake."""

import json
import logging
import pickle
from collections.abc import Collection
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from tests.manual_clock import ManualClock

from sparkmirror.errors import ClusterUnreachable, ProtocolError
from sparkmirror.kafka.answers import EARLIEST
from sparkmirror.kafka.wire.lookup import ClusterView
from sparkmirror.model import NO_TOPIC_ID, TopicPartition
from sparkmirror.records.offset_limits import OffsetLimit
from sparkmirror.records.options import read_options
from sparkmirror.records.range_reader import TaskRange
from sparkmirror.records.ranges import OffsetRange
from sparkmirror.records.source_log import DataLoss, SourceLog
from sparkmirror.records.stream_reader import RecordsStreamReader

A, B, C = (TopicPartition("t", number) for number in range(3))
ALL = ReadAllAvailable()
FIRST_ID, SECOND_ID = UUID(int=1), UUID(int=2)


class FakeLog(SourceLog):
    """Logs as dictionaries."""

    def __init__(self, ends: dict[TopicPartition, int]) -> None:
        self.ends = ends
        self.starts = dict.fromkeys(ends, 0)
        self.topic_ids = {"t": FIRST_ID}
        self.cluster = "first"
        self.others: list[tuple[int, UUID]] = []
        """What further brokers show of the topic: its partitions, and its id."""
        self._admin = None
        self._clock = ManualClock()
        self._options = read_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t"}, is_stream=True)
        self.open = 0
        """Offsets behind the first open transaction."""

    def cluster_id(self) -> str:
        return self.cluster

    def _views(self, topics: Collection[str]) -> list[ClusterView]:
        own = (len(self.ends), self.topic_ids.get("t", NO_TOPIC_ID))
        return [
            ClusterView({}, {}, {"t": topic_id}, sizes={"t": partitions})
            for partitions, topic_id in (own, *self.others)
        ]

    def partitions(self, expected: Collection[TopicPartition] = ()) -> set[TopicPartition]:
        return set(self.ends)

    def all_partitions(self) -> set[TopicPartition]:
        return set(self.ends)

    def _newest(self, partitions: Collection[TopicPartition], at: int) -> dict[TopicPartition, int]:
        return self.earliest(partitions) if at == EARLIEST else self.latest(partitions)

    def gone(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        return set(partitions) - self.ends.keys()

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {where: self.starts.get(where, 0) for where in partitions}

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {where: self.ends[where] for where in partitions}

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {where: self.ends[where] + self.open for where in partitions}

    def resolve(
        self, limit: OffsetLimit, earliest: dict[TopicPartition, int], latest: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        return super().resolve(limit, earliest, latest)

    def compacted(self, topics: Any) -> frozenset[str]:
        return frozenset()


def reader(log: FakeLog, **options: str) -> RecordsStreamReader:
    given = {"kafka.bootstrap.servers": "b:1", "subscribe": "t", "startingoffsets": "earliest", **options}
    made = RecordsStreamReader(read_options(given, is_stream=True))
    made._log = log
    return made


def through_the_checkpoint(offset: dict[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(json.dumps(offset))
    return read


def ranges(of: RecordsStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[Any, ...]]:
    found = [one.value for one in of.partitions(through_the_checkpoint(start), through_the_checkpoint(end))]
    assert all(isinstance(one, TaskRange) for one in found)
    return [tuple(one.wanted) for one in found]


def test_batches_follow_each_other_without_a_hole() -> None:
    log = FakeLog({A: 5, B: 0})
    stream = reader(log)
    start = stream.initialOffset()
    first = stream.latestOffset(start, ALL)
    assert ranges(stream, start, first) == [(A, 0, 5)]
    assert stream.latestOffset(first, ALL) == first, "nothing is new"
    log.ends = {A: 7, B: 1}
    second = stream.latestOffset(first, ALL)
    assert ranges(stream, first, second) == [(A, 5, 7), (B, 0, 1)]
    assert second == {"offsets": {"t": {"0": 7, "1": 1}}, "topics": {"t": str(FIRST_ID)}, "cluster": "first"}


def test_the_first_batch_settles_where_the_query_begins_also_without_records() -> None:
    """It was killed in this batch, and begins again with other options when there are records."""
    log = FakeLog({A: 5, B: 0})
    stream = reader(log, startingoffsets="latest")
    start = stream.initialOffset()
    first = stream.latestOffset(start, ALL)
    assert ranges(stream, start, first) == []
    assert stream.latestOffset(first, ALL) is first, "one such batch is enough"
    log.ends = {A: 9, B: 1}
    again = reader(log, startingoffsets="earliest")
    assert ranges(again, again.initialOffset(), first) == []
    assert ranges(again, first, again.latestOffset(first, ALL)) == [(A, 5, 9), (B, 0, 1)]


def test_a_topic_that_was_made_again_before_the_first_record_is_read_from_its_beginning() -> None:
    log = FakeLog({A: 5})
    stream = reader(log, startingoffsets="latest", failondataloss="false")
    start = stream.initialOffset()
    log.topic_ids = {"t": SECOND_ID}
    assert ranges(stream, start, stream.latestOffset(start, ALL)) == [(A, 0, 5)], "as long as the former one"


def test_a_pattern_that_matches_nothing_yet_waits_for_topics() -> None:
    log = FakeLog({})
    stream = reader(log, startingoffsets="latest")
    start = stream.initialOffset()
    assert stream.latestOffset(start, ALL) is start
    log.ends = {A: 3}
    assert ranges(stream, start, stream.latestOffset(start, ALL)) == [(A, 0, 3)], "all of a topic that is new"


def test_a_first_batch_that_is_repeated_by_another_process_reads_what_it_read() -> None:
    """A query from the latest offsets was killed in its first batch; by then the end has moved."""
    log = FakeLog({A: 5})
    stream = reader(log, startingoffsets="latest")
    start = stream.initialOffset()
    log.ends = {A: 8}
    first = stream.latestOffset(start, ALL)
    log.ends = {A: 20}
    again = reader(log, startingoffsets="latest")
    assert again.initialOffset()["offsets"] == {"t": {"0": 20}}
    assert ranges(again, again.initialOffset(), first) == [(A, 5, 8)]
    assert ranges(again, first, again.latestOffset(first, ALL)) == [(A, 8, 20)]


def test_the_initial_offset_stays_though_spark_asks_twice() -> None:
    log = FakeLog({A: 5})
    stream = reader(log, startingoffsets="latest")
    before = stream.initialOffset()
    log.ends = {A: 8}
    assert stream.initialOffset() == before


class Remaking(FakeLog):
    """Its topic is made again, so often, behind the question where logs end."""

    def __init__(self, times: int) -> None:
        super().__init__({A: 500})
        self.times = times

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        found = super().latest(partitions)
        if self.times:
            self.times -= 1
            self.topic_ids, self.ends = {"t": UUID(int=100 + self.times)}, {A: self.times}
        return found


def test_a_first_position_is_of_one_and_the_same_topic() -> None:
    """Else the end of a former topic would be a place in the new one."""
    log = Remaking(1)
    first = reader(log, startingoffsets="latest").initialOffset()
    assert (first["offsets"], first["topics"]) == ({"t": {"0": 0}}, {"t": str(UUID(int=100))})
    with pytest.raises(ClusterUnreachable, match="are made again each time that it is asked where t-0 begin"):
        reader(Remaking(9), startingoffsets="latest").initialOffset()


def test_a_limit_is_shared_by_what_each_partition_has() -> None:
    log = FakeLog({A: 90, B: 10, C: 0})
    stream = reader(log, maxoffsetspertrigger="10")
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMaxRows(10)
    start = stream.initialOffset()
    first = stream.latestOffset(start, limit)
    assert ranges(stream, start, first) == [(A, 0, 9), (B, 0, 1)]
    assert ranges(stream, first, stream.latestOffset(first, ALL)) == [(A, 9, 90), (B, 1, 10)]


def test_a_bounded_query_ends_where_the_logs_ended_when_it_began() -> None:
    log = FakeLog({A: 6})
    stream = reader(log)
    stream.prepareForTriggerAvailableNow()
    start = stream.initialOffset()
    log.ends = {A: 9, B: 4}
    first = stream.latestOffset(start, ReadMaxRows(4))
    last = stream.latestOffset(first, ReadMaxRows(4))
    assert [ranges(stream, start, first), ranges(stream, first, last)] == [[(A, 0, 4)], [(A, 4, 6)]]
    assert stream.latestOffset(last, ReadMaxRows(4)) == last


def test_a_partition_that_is_new_is_read_from_its_first_record_also_when_the_batch_is_repeated() -> None:
    log = FakeLog({A: 6})
    stream = reader(log)
    start = stream.initialOffset()
    first = stream.latestOffset(start, ALL)
    log.ends = {A: 6, B: 3}
    second = stream.latestOffset(first, ALL)
    assert ranges(stream, first, second) == [(B, 0, 3)]
    assert ranges(reader(log), first, second) == [(B, 0, 3)]


def test_what_is_lost_ends_the_query() -> None:
    log = FakeLog({A: 6, B: 2})
    stream = reader(log)
    first = stream.latestOffset(stream.initialOffset(), ALL)
    log.ends = {A: 6}
    with pytest.raises(DataLoss, match=r"t-1 is no longer in the cluster, or not among what is read\. The read ends"):
        stream.latestOffset(first, ALL)
    log.ends = {A: 4, B: 2}
    with pytest.raises(
        DataLoss, match=r"t-0 was read to offset 6, and its log now ends at 4: it was cut\. It is read from"
    ):
        stream.latestOffset(first, ALL)
    log.ends, log.starts = {A: 6, B: 2, C: 9}, {A: 0, B: 0, C: 5}
    with pytest.raises(DataLoss, match="t-2 is new, and its log begins at offset 5"):
        stream.latestOffset(first, ALL)


def test_a_topic_that_was_made_again_is_another_one_also_when_it_is_longer() -> None:
    log = FakeLog({A: 6})
    stream = reader(log)
    first = stream.latestOffset(stream.initialOffset(), ALL)
    log.ends, log.topic_ids = {A: 9}, {"t": SECOND_ID}
    with pytest.raises(DataLoss, match="The topic t was deleted and made again"):
        stream.latestOffset(first, ALL)
    going_on = reader(log, failondataloss="false")
    second = going_on.latestOffset(first, ALL)
    assert ranges(going_on, first, second) == [(A, 0, 9)]
    assert going_on.latestOffset(second, ALL) == second


@pytest.mark.parametrize("is_fatal", ["true", "false"])
def test_a_broker_that_shows_a_former_topic_is_not_believed_alone(is_fatal: str) -> None:
    """It has just woken up. The former topic had fewer partitions, and its log ends elsewhere."""
    log = FakeLog({A: 6, B: 4})
    stream = reader(log, failondataloss=is_fatal)
    first = stream.latestOffset(stream.initialOffset(), ALL)
    log.ends, log.topic_ids, log.others = {A: 90}, {"t": SECOND_ID}, [(2, FIRST_ID), (2, FIRST_ID)]
    assert stream.latestOffset(first, ALL) == first
    log.topic_ids = {"t": FIRST_ID}
    second = stream.latestOffset(first, ALL)
    assert ranges(stream, first, second) == [(A, 6, 90)], "t-1 is not seen, and keeps its place"
    log.ends = {A: 90, B: 5}
    assert ranges(stream, second, stream.latestOffset(second, ALL)) == [(B, 4, 5)]


def test_a_topic_is_another_one_by_the_id_that_most_brokers_show() -> None:
    log = FakeLog({A: 6})
    stream = reader(log, failondataloss="false")
    first = stream.latestOffset(stream.initialOffset(), ALL)
    third_id = UUID(int=3)
    log.topic_ids, log.others = {"t": SECOND_ID}, [(1, third_id), (1, third_id)]
    second = stream.latestOffset(first, ALL)
    assert (ranges(stream, first, second), second["topics"]) == ([(A, 0, 6)], {"t": str(third_id)})
    log.topic_ids = {"t": third_id}
    assert stream.latestOffset(second, ALL) == second, "it is made again once"


def test_a_query_that_may_lose_records_says_so_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    log = FakeLog({A: 6, B: 2})
    stream = reader(log, failondataloss="false")
    first = stream.latestOffset(stream.initialOffset(), ALL)
    log.ends = {A: 4}
    with caplog.at_level(logging.WARNING):
        second = stream.latestOffset(first, ALL)
        assert stream.latestOffset(second, ALL) == second
    assert ranges(stream, first, second) == [], "nothing that was read comes again"
    assert sum("Records may be lost to a read of Kafka" in line for line in caplog.messages) == 2
    log.ends = {A: 7, B: 5}
    third = stream.latestOffset(second, ALL)
    assert ranges(stream, second, third) == [(A, 4, 7), (B, 2, 5)], "what was not seen for a while keeps its place"


def test_where_topics_have_no_ids_a_log_that_is_shorter_is_read_from_its_beginning() -> None:
    log = FakeLog({A: 6})
    log.topic_ids = {}
    stream = reader(log, failondataloss="false")
    first = stream.latestOffset(stream.initialOffset(), ALL)
    log.ends = {A: 4}
    assert ranges(stream, first, stream.latestOffset(first, ALL)) == [(A, 0, 4)], "perhaps it was made again"


def test_an_open_transaction_behind_which_was_read_is_waited_for() -> None:
    """The query had read what was not committed, and began again with read_committed."""
    log = FakeLog({A: 8})
    stream = reader(log, **{"kafka.isolation.level": "read_committed"})
    first = stream.latestOffset(stream.initialOffset(), ALL)
    log.ends, log.open = {A: 5}, 3
    assert stream.latestOffset(first, ALL) == first
    log.ends, log.open = {A: 9}, 0
    assert ranges(stream, first, stream.latestOffset(first, ALL)) == [(A, 8, 9)]


def test_a_partition_that_is_away_is_read_on_unless_its_topic_is_another_one(caplog: pytest.LogCaptureFixture) -> None:
    log = FakeLog({A: 6, B: 3})
    stream = reader(log, failondataloss="false")
    first = stream.latestOffset(stream.initialOffset(), ALL)
    log.ends, log.topic_ids = {}, {}
    assert stream.latestOffset(first, ALL) == first
    log.ends, log.topic_ids = {A: 7, B: 3}, {"t": FIRST_ID}
    second = stream.latestOffset(first, ALL)
    assert ranges(stream, first, second) == [(A, 6, 7)]
    log.ends, log.topic_ids = {A: 2}, {"t": SECOND_ID}
    third = stream.latestOffset(second, ALL)
    assert ranges(stream, second, third) == [(A, 0, 2)]
    log.ends = {A: 2, B: 4}
    assert ranges(stream, third, stream.latestOffset(third, ALL)) == [(B, 0, 4)], "the former offset does not count"
    assert sum("no longer in the cluster" in line for line in caplog.messages) == 2, "each time"


def test_a_task_reads_the_topic_alone_that_its_batch_was_planned_of() -> None:
    log = FakeLog({A: 6})
    stream = reader(log)
    start = stream.initialOffset()
    first = stream.latestOffset(start, ALL)
    log.topic_ids = {"t": SECOND_ID}
    (task,) = reader(log).partitions(start, through_the_checkpoint(first))
    assert task.value.topic_id == FIRST_ID


def test_the_end_that_the_query_s_progress_shows_is_that_of_the_logs() -> None:
    log = FakeLog({A: 60})
    stream = reader(log)
    assert stream.reportLatestOffset() is None
    stream.latestOffset(stream.initialOffset(), ReadMaxRows(5))
    assert stream.reportLatestOffset() == {"offsets": {"t": {"0": 60}}}


def test_a_checkpoint_of_another_source_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"cannot read the position.*\n  hint: .*one of its own"):
        reader(FakeLog({A: 1})).latestOffset({"t": {"0": 5}}, ALL)


def test_copies_for_tasks_carry_no_connection() -> None:
    stream = reader(FakeLog({A: 1}))
    assert pickle.loads(pickle.dumps(stream))._log is None


def test_tasks_are_as_many_as_are_asked_for() -> None:
    log = FakeLog({A: 6, B: 2})
    stream = reader(log, minpartitions="4")
    start = stream.initialOffset()
    parts = stream.partitions(start, stream.latestOffset(start, ALL))
    assert sorted(one.value.wanted for one in parts) == [
        OffsetRange(A, 0, 2), OffsetRange(A, 2, 4), OffsetRange(A, 4, 6), OffsetRange(B, 0, 2)
    ]  # fmt: skip


def test_where_offsets_are_identical_a_checkpoint_moves_to_another_cluster_and_its_batch_in_doubt_too() -> None:
    here, there = FakeLog({A: 5}), FakeLog({A: 8})
    there.topic_ids, there.cluster = {"t": SECOND_ID}, "second"
    stream = reader(here, identicaloffsets="true")
    start = stream.initialOffset()
    first = stream.latestOffset(start, ALL)

    moved = reader(there, identicaloffsets="true")
    (task,) = (one.value for one in moved.partitions(through_the_checkpoint(start), through_the_checkpoint(first)))
    assert (tuple(task.wanted), task.topic_id) == ((A, 0, 5), SECOND_ID)
    second = moved.latestOffset(through_the_checkpoint(first), ALL)
    assert ranges(moved, first, second) == [(A, 5, 8)]
    assert (second["cluster"], second["topics"]) == ("second", {"t": str(SECOND_ID)})
    there.topic_ids = {"t": UUID(int=3)}
    with pytest.raises(DataLoss, match="was deleted and made again"):
        moved.latestOffset(second, ALL)


def test_a_checkpoint_of_another_cluster_is_refused_by_name() -> None:
    stream = reader(FakeLog({A: 5}))
    first = stream.latestOffset(stream.initialOffset(), ALL)
    there = FakeLog({A: 8})
    there.topic_ids, there.cluster = {"t": SECOND_ID}, "second"
    with pytest.raises(DataLoss, match=r"is of the cluster first, and these brokers are of second.*identicalOffsets"):
        reader(there).latestOffset(first, ALL)


def test_a_cluster_that_has_less_than_was_read_elsewhere_is_a_loss_and_goes_on_at_its_end() -> None:
    stream = reader(FakeLog({A: 5}), identicaloffsets="true")
    first = stream.latestOffset(stream.initialOffset(), ALL)
    behind = FakeLog({A: 3})
    behind.topic_ids, behind.cluster = {"t": SECOND_ID}, "second"
    with pytest.raises(DataLoss, match="was read to offset 5, and its log now ends at 3"):
        reader(behind, identicaloffsets="true").latestOffset(first, ALL)
    careless = reader(behind, identicaloffsets="true", failondataloss="false")
    second = careless.latestOffset(first, ALL)
    assert second["offsets"] == {"t": {"0": 3}}
