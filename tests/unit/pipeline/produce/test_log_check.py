"""Mirrored records that are gone from the target: seen by where acknowledged batches lie, told, and recorded."""

from uuid import UUID

import pytest
from tests.unit.pipeline.produce.test_progress import acknowledge, hand_out, records_of

from sparkmirror.control.assignment import Assigned
from sparkmirror.ledger.gaps import decode
from sparkmirror.ledger.lineage import TARGET_DELETED, TARGET_TRUNCATED, Extent, Lineage
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import NO_TOPIC_ID, Connector, TopicPartition
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.limits import TopicLimits
from sparkmirror.pipeline.produce.log_check import TargetLogCheck
from sparkmirror.pipeline.produce.progress import Progress, ProgressOptions
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingAddress
from sparkmirror.policy.loss import ENDS_THE_MIRROR, LossPolicy

ORDERS = TopicPartition("orders", 0)
REMOTE = "A.orders"
ONE, OTHER = UUID(int=1), UUID(int=2)


class Desk:
    """One partition, its landing, and the topic that the target has under the name now."""

    def __init__(self, action: str = "continue") -> None:
        self.topic_id = ONE
        self.asked_at = 0.0
        self.task_metrics = TaskMetrics(PlanRow(0, "run", 1, 1, 7, 3, RingAddress(0, 0, 0, 0, 0), 25, ()))
        options = ProgressOptions(Connector.of_dedicated_mode("A"), ledger_topics("A"), 1.0)
        self.progress = Progress(options, 0, 25, lost=self.task_metrics.lost)
        self.buffer = PartitionBuffer(ORDERS, None, 0, -1)
        self.buffer.aim(REMOTE, TopicLimits())
        self.log_check = TargetLogCheck(
            self.progress, LossPolicy(action), lambda _: self.topic_id, lambda _: self.asked_at
        )

    def must_ask(self, batch: Batch, base_offset: int, now: float) -> bool:
        return self.log_check.must_ask(self.buffer, batch, base_offset, REMOTE, now)

    def land(self, base_offset: int, records: int = 10) -> str:
        batch = sent(0.0, records)
        batch.base_offset = base_offset
        return self.log_check.add(self.buffer, [batch], REMOTE)

    def gaps(self) -> list[tuple[str, int, int, int, str]]:
        sent = hand_out(self.progress.compose([], 1, []))
        acknowledge(sent)
        found = [decode("A", record.key, record.value) for records in records_of(sent).values() for record in records]
        return [(gap.cause, gap.expected, gap.resumed, gap.lost_records, gap.action) for gap in found if gap]


def sent(at: float, records: int = 10) -> Batch:
    """A batch that was sent at a time, in seconds."""
    data = memoryview(b"")
    return Batch(data, 0, (), records, 0, Lineage(), QueuedRecords(data, 0, 0, lambda: None), at)


def test_a_first_place_is_believed_if_the_topic_was_asked_about_shortly_before() -> None:
    desk = Desk()
    assert not desk.must_ask(sent(at=0.9), 0, now=5)
    late = sent(at=1.1)
    assert desk.must_ask(late, 0, now=5)
    desk.asked_at = 5.1
    late.sent_at = 7
    assert not desk.must_ask(late, 0, now=8), "asked since the first answer"


def test_a_place_before_others_is_believed_once_the_topic_was_asked_about_since() -> None:
    desk = Desk()
    desk.land(100)
    assert not desk.must_ask(sent(at=9), 110, now=10)
    assert not desk.must_ask(sent(at=9), -1, now=10), "a place that the broker does not name"
    back = sent(at=9)
    assert desk.must_ask(back, 0, now=10)
    desk.asked_at = 9.9
    assert desk.must_ask(back, 0, now=11), "a look-up that was under way already"
    desk.asked_at = 10.1
    assert not desk.must_ask(back, 0, now=12)


def test_an_extent_grows_with_what_is_acknowledged_over_markers_and_unknown_places() -> None:
    desk = Desk()
    assert [desk.land(base) for base in (100, 110, -1, 121)] == [""] * 4
    assert desk.buffer.extent == Extent(REMOTE, ONE, 131)
    assert desk.gaps() == []


def test_a_batch_that_lands_below_shows_that_the_target_was_truncated() -> None:
    desk = Desk()
    desk.land(100)
    assert desk.land(60) == ""
    assert desk.buffer.extent == Extent(REMOTE, ONE, 70)
    assert desk.gaps() == [(TARGET_TRUNCATED, 110, 60, 50, "went on")]
    assert (desk.task_metrics.gaps, desk.task_metrics.lost_records) == (1, 50)


def test_records_that_land_where_the_marker_of_the_last_commit_must_be_show_that_the_log_was_cut_before_it() -> None:
    """The marker took the offset of a record that is gone, so the log is as long as without the loss."""
    desk = Desk()
    desk.land(100)
    desk.buffer.commit_sent(is_marked=True)
    assert desk.land(110) == ""
    assert desk.buffer.extent == Extent(REMOTE, ONE, 120)
    assert desk.gaps() == [(TARGET_TRUNCATED, 111, 110, 1, "went on")]


def test_where_no_marker_is_due_they_land_behind_what_was_there() -> None:
    desk = Desk()
    desk.land(100)
    desk.land(110)
    desk.buffer.commit_sent(is_marked=False)
    desk.land(120)
    desk.buffer.commit_sent(is_marked=True)
    assert desk.land(131) == ""
    assert desk.gaps() == []


def test_or_deleted_if_the_topic_is_another_one() -> None:
    desk = Desk()
    desk.land(100)
    desk.topic_id = OTHER
    assert desk.land(0) == ""
    assert desk.buffer.extent == Extent(REMOTE, OTHER, 10)
    assert desk.gaps() == [(TARGET_DELETED, 110, 0, 110, "went on")]


def test_an_empty_log_that_is_made_again_is_known_by_its_new_id() -> None:
    """Twice before any record came: nothing is lost the second time, and what lands is of the last one."""
    desk = Desk()
    desk.buffer.extend(Extent(REMOTE, ONE, 0))
    desk.topic_id = OTHER
    assert desk.land(0) == ""
    assert desk.buffer.extent == Extent(REMOTE, OTHER, 10)


@pytest.mark.parametrize(("action", "done"), [("pause", "partition paused"), ("fail", "mirror ended")])
def test_what_the_file_says_holds_the_partition_and_the_next_start_finds_the_same(action: str, done: str) -> None:
    desk = Desk(action)
    desk.land(100)
    reason = desk.land(60)
    assert "the log of A.orders reached to offset 110 and goes on at 60, 50 are gone" in reason
    assert (ENDS_THE_MIRROR in reason) == (action == "fail")
    desk.buffer.hold(reason)
    assert desk.land(70) == "", "what was on its way is not told again"
    assert desk.buffer.extent == Extent(REMOTE, ONE, 110), "so it is stored, and found again"
    assert desk.progress.lacks_map([desk.buffer]), "no position goes beyond what has landed before the map has the cut"
    assert desk.gaps() == [(TARGET_TRUNCATED, 110, 60, 50, done)]


def test_the_planner_gives_the_start_and_a_deleted_topic_counts_whole() -> None:
    desk = Desk()
    found = Extent(REMOTE, NO_TOPIC_ID, 0)
    assert desk.log_check.expect(desk.buffer, Assigned(ORDERS, 500, extent=Extent(REMOTE, ONE, 510), found=found)) == ""
    assert desk.buffer.extent == found
    assert desk.gaps() == [(TARGET_DELETED, 510, 0, 510, "went on")]
    desk.topic_id = OTHER
    assert desk.land(0) == ""
    assert desk.gaps() == []


def test_a_start_at_a_whole_target_says_nothing() -> None:
    desk = Desk("fail")
    extent = Extent(REMOTE, ONE, 510)
    assert desk.log_check.expect(desk.buffer, Assigned(ORDERS, 500, extent=extent)) == ""
    assert desk.land(600) == ""
    assert desk.gaps() == []
