"""What the planner reports of partitions that no task has yet, and when."""

from collections.abc import Sequence

import pytest
from tests.flows import flow_of
from tests.manual_clock import ManualClock

from sparkmirror.errors import ClusterError
from sparkmirror.model import NO_TOPIC_ID, Topic, TopicPartition
from sparkmirror.planning import status_records
from sparkmirror.planning.start_fills import StartFill
from sparkmirror.planning.status_records import StatusRecords
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.facts import failed_partitions
from sparkmirror.telemetry.filling import Filling
from sparkmirror.telemetry.records import NO_TASK, PartitionRecord, PartitionState, encode_record

WHERE, OTHER = TopicPartition("late", 0), TopicPartition("late", 1)


class Reported:
    """A flow's status topic, and the planner's part of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = ManualClock()
        self.board = StatusBoard("A", "run")
        self.count = 0
        self.problem: ClusterError | None = None
        self.records = StatusRecords(flow_of(), "run", self.clock)
        monkeypatch.setattr(status_records, "publish", self._publish)

    def _publish(self, _: object, __: str, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        self.count += 1
        if self.problem is not None:
            raise self.problem
        for key, value in records:
            self.board.take(key, value, self.clock.now_ms)

    def reach(self, seconds: float, *reached: tuple[TopicPartition, int]) -> None:
        self.clock.now += seconds
        self.records.note_fills(
            [
                StartFill(where, TopicPartition("A.late", where.partition), 0, at, 10_000, 10_500)
                for where, at in reached
            ]
        )

    def filling(self, where: TopicPartition = WHERE) -> Filling | None:
        return self.board.partitions[where].filling


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Reported:
    return Reported(monkeypatch)


def test_a_start_that_takes_longer_is_reported_every_two_seconds_and_at_its_end(reported: Reported) -> None:
    for at in range(11):
        reported.reach(0.5, (WHERE, 1000 * at))
    assert reported.count == 3, "after two seconds, after four, at the end"
    record = reported.board.partitions[WHERE]
    assert record.filling == Filling(True, 0, 10_000, 10_000, 2000.0)
    assert (record.offset, record.end, record.target_topic) == (10_000, 10_500, "A.late")


def test_a_start_that_takes_a_moment_is_not_reported(reported: Reported) -> None:
    for at in range(0, 10_001, 5000):
        reported.reach(0.5, (WHERE, at))
    assert reported.count == 0


def test_of_one_that_waits_for_others_the_rate_is_unknown_and_so_is_what_is_left(reported: Reported) -> None:
    reported.reach(0.0, (WHERE, 0), (OTHER, 4000))
    reported.reach(20.0, (WHERE, 5000), (OTHER, 4000))
    assert reported.filling() == Filling(True, 0, 10_000, 5000, 250.0)
    other = reported.filling(OTHER)
    assert other == Filling(True, 0, 10_000, 4000, None)
    assert (other.share, other.left, other.seconds_left) == (0.4, 6000, None)
    assert reported.count == 1, "all at once"


def test_a_target_that_takes_no_report_does_not_make_each_part_wait(reported: Reported) -> None:
    reported.problem = ClusterError("B does not answer")
    for at in range(20):
        reported.reach(2.0, (WHERE, 10 * at))
    assert reported.count == 2, "in forty seconds"
    reported.problem = None
    reported.reach(30.0, (WHERE, 500))
    assert reported.filling() is not None


def test_the_record_of_a_topic_that_is_gone_is_deleted_a_round_later(reported: Reported) -> None:
    reported.reach(0.0, (WHERE, 0))
    reported.reach(3.0, (WHERE, 10))
    assert WHERE in reported.board.filling
    there = {"late": Topic("late", NO_TOPIC_ID, 1, 1)}
    reported.records.forget_gone([], [], there)
    assert not reported.records.gone, "its start was put off, or another process has it now"
    reported.records.forget_gone([], [], {})
    assert reported.records.gone == {WHERE}
    reported.records.forget_gone([], [], {})
    assert WHERE not in reported.board.partitions | dict.fromkeys(reported.board.filling)


def test_what_an_earlier_run_has_said_of_topics_that_are_gone_or_left_out_is_deleted_once(reported: Reported) -> None:
    """A partition that failed would be FAILED for ever: nothing moves it any more, and no command does."""
    reported.board = StatusBoard("A")
    for topic, number in (("orders", 0), ("orders", 1), ("left-out", 0)):
        failed = PartitionRecord(topic, number, "an earlier run", 0, 1, state=PartitionState.FAILED, reason="too large")
        reported.board.take(*encode_record("A", failed), 1)
    assert len(failed_partitions(reported.board)) == 3
    known = [TopicPartition("orders", number) for number in range(2)] + [TopicPartition("left-out", 0)]
    topics = {"orders": Topic("orders", NO_TOPIC_ID, 1, 1)}
    reported.problem = ClusterError("B does not answer")
    reported.records.begin_epoch([], known, topics)
    reported.problem = None
    for _ in range(2):
        reported.records.begin_epoch([], known, topics)
    assert failed_partitions(reported.board) == {TopicPartition("orders", 0)}
    assert reported.count == 2, "once, when the target took it"


def test_a_partition_that_waits_for_what_lies_open_is_failed_with_the_reason_and_has_no_task(
    reported: Reported,
) -> None:
    reported.records.note_waiting({WHERE: "no leader has said"})
    record = reported.board.partitions[WHERE]
    assert (record.state, record.reason, record.task) == (PartitionState.FAILED, "no leader has said", NO_TASK)
    assert record.target_topic == "A.late"
    reported.problem = ClusterError("no answer")
    reported.records.note_waiting({OTHER: "no leader has said"})
    assert OTHER not in reported.board.partitions, "what is not reported holds nothing up"
