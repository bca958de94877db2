"""The writer decides what comes next: duplicates, overlaps, gaps, releases and topics made again."""

import json
from collections import deque
from typing import Any
from uuid import UUID

import pytest
from tests.manual_clock import ManualClock

from sparkmirror.batch.records import decode_records, encode_batch
from sparkmirror.control.assignment import Append, Assigned
from sparkmirror.errors import SparkMirrorError
from sparkmirror.model import NO_EPOCH, Position, TopicPartition
from sparkmirror.pipeline.produce.aligned_buffer import AlignedBuffer
from sparkmirror.pipeline.produce.aligned_gate import AlignedGate
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.produce.direct_buffer import DirectBuffer
from sparkmirror.pipeline.produce.effects import Effects, Hold
from sparkmirror.pipeline.produce.gate import SequenceGate
from sparkmirror.pipeline.produce.limits import TargetLimits
from sparkmirror.pipeline.produce.packing import AS_THEY_ARE
from sparkmirror.pipeline.produce.partition_state import State
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingAddress
from sparkmirror.policy.fillers import Hole
from sparkmirror.policy.loss import ENDS_THE_MIRROR, LossPolicy
from sparkmirror.telemetry.filling import Filling

WHERE = TopicPartition("orders", 3)


LOG, NEW_LOG = UUID(int=6), UUID(int=7)


def gap_payload(cause: str, from_turns: int = 0, topic_id: UUID = NEW_LOG) -> bytes:
    told = {"cause": cause, "id": str(topic_id), "epochs": [], "from": from_turns}
    return json.dumps(told).encode()


class Peer:
    def __init__(self) -> None:
        self.given_back: list[int] = []
        self.orders: list[tuple[int, bool, int, int]] = []

    def give_back(self, lease: int) -> None:
        self.given_back.append(lease)

    def order(self, slot: int, *, paused: bool, offset: int, turns: int) -> None:
        self.orders.append((slot, paused, offset, turns))


class Gaps:
    def __init__(self) -> None:
        self.found: list[tuple[Any, ...]] = []

    def add(self, buffer: PartitionBuffer, *gap: Any) -> None:
        self.found.append((buffer.source, *gap))


class Ledger:
    def __init__(self) -> None:
        self.adopted: list[TopicPartition] = []
        self.released: list[TopicPartition] = []
        self.gaps = Gaps()
        self.moved: dict[TopicPartition, None] = {}

    def adopt(self, partition: TopicPartition, *_: Any) -> None:
        self.adopted.append(partition)

    def turn(self, partition: TopicPartition) -> None:
        """Offset maps are not this test's subject."""

    def release(self, partition: TopicPartition) -> None:
        self.released.append(partition)

    @property
    def lost(self) -> list[int]:
        """Offsets that each gap leaps over, of those that lead back less than none."""
        return [resumed - expected for _, _, expected, resumed, *_ in self.gaps.found]


class Desk:
    """A sequence gate with one partition, from `start` on, and everything around it in sight."""

    kind: type[SequenceGate] = SequenceGate

    def __init__(
        self, start: int = 100, restarted_from: Position | None = None, on_data_loss: str = "continue"
    ) -> None:
        self.peer = Peer()
        self.ledger = Ledger()
        self.effects: Effects = deque()
        self.clock = ManualClock()
        self.task_metrics = TaskMetrics(plan(), self.clock)
        limits = TargetLimits(None, None)  # type: ignore[arg-type]
        policy = LossPolicy(on_data_loss)
        self.gate = self.kind(self.peer, self.ledger, self.task_metrics, limits, AS_THEY_ARE, self.effects, policy)  # type: ignore[arg-type]
        self.assign(start, restarted_from)

    def assign(self, start: int, restarted_from: Position | None = None) -> None:
        self.gate.take_plan(plan(Assigned(WHERE, start, ((4, 0),), LOG, restarted_from=restarted_from)))

    @property
    def buffer(self) -> PartitionBuffer:
        return self.gate.buffers[WHERE]

    def run(
        self,
        first: int,
        following: int,
        batch_start: int | None = None,
        lease: int = 1,
        turns: int = 0,
        leader_epoch: int = NO_EPOCH,
    ) -> PartitionBuffer | None:
        start = first if batch_start is None else batch_start
        batch = bytearray(encode_batch([(None, b"%d" % at) for at in range(start, following)], base_offset=start))
        batch[12:16] = leader_epoch.to_bytes(4, "big", signed=True)
        run = delivery("run", first, following, bytes(batch), lease, turns)
        return self.gate.take_run(run._replace(leader_epoch=leader_epoch))

    def gap(self, first: int, following: int, cause: str = "retention", turns: int = 0) -> PartitionBuffer | None:
        """`turns` counts this one, where it turns the log."""
        before = turns if cause == "retention" else turns - 1
        return self.gate.take_gap(delivery("gap", first, following, gap_payload(cause, before), None, turns))

    def send_all(self) -> list[int]:
        """Everything that can be sent is, and acknowledged; returns the records' values."""
        values: list[int] = []
        while self.buffer.sendable:
            batch = self.buffer.next_batch(1, 0)
            assert batch is not None
            values += [int(record.value or b"") for record in decode_records(batch.data)]
            self.buffer.succeed(batch)
        return values


class AlignedDesk(Desk):
    """Of a flow that keeps offsets."""

    kind = AlignedGate

    def assign(self, start: int, restarted_from: Position | None = None) -> None:
        assert restarted_from is None, "a topic made again is held"
        self.gate.take_plan(plan(Assigned(WHERE, start, ((4, 0),), LOG, append=Append(1, start, "A.orders"))))


def plan(*assigned: Assigned) -> PlanRow:
    return PlanRow(0, "run", 1, 1, 1, 0, RingAddress(1, 2, 3, 4, 5), 25, tuple((item, 5) for item in assigned))


def delivery(kind: str, first: int, following: int, payload: bytes, lease: int | None, turns: int = 0) -> Delivery:
    return Delivery(
        kind=kind,
        partition=WHERE,
        target_topic="A.orders",
        first_offset=first,
        next_offset=following,
        records=following - first,
        high_watermark=following,
        max_timestamp=-1,
        payload=memoryview(bytearray(payload)),
        lease=lease,
        turns=turns,
    )


def test_runs_in_order_are_copied_and_their_memory_is_given_back() -> None:
    desk = Desk()
    assert desk.run(100, 103, lease=1) is desk.buffer
    assert desk.run(103, 105, lease=2) is desk.buffer
    assert desk.buffer.target == TopicPartition("A.orders", 3)
    assert desk.peer.given_back == []
    assert desk.send_all() == [100, 101, 102, 103, 104]
    assert desk.peer.given_back == [1, 2]
    assert desk.buffer.acknowledged == 105
    assert desk.peer.orders == []


def test_a_duplicate_is_dropped_and_counted_and_an_overlap_is_cut() -> None:
    desk = Desk()
    desk.run(100, 103, lease=1)
    assert desk.run(100, 103, lease=2) is None
    assert (desk.task_metrics.duplicates, desk.peer.given_back) == (3, [2])
    assert desk.run(101, 106, lease=3) is desk.buffer
    assert desk.send_all() == [100, 101, 102, 103, 104, 105]


def test_a_first_run_that_begins_before_the_position_is_cut_to_it() -> None:
    desk = Desk()
    desk.run(100, 104, batch_start=98)
    assert desk.send_all() == [100, 101, 102, 103]


def test_an_unexplained_gap_is_refused_and_the_reader_sent_back() -> None:
    desk = Desk()
    desk.run(100, 102)
    assert desk.run(105, 107, lease=2) is None
    assert desk.task_metrics.refused_gaps == 1
    assert desk.peer.orders == [(5, False, 102, 0)]
    assert desk.run(107, 109, lease=3) is None, "stale: read before the order came"
    assert desk.peer.orders == [(5, False, 102, 0)], "one order is enough"
    assert desk.run(102, 107, lease=4) is desk.buffer
    assert desk.send_all() == list(range(100, 107))
    assert sorted(desk.peer.given_back) == [1, 2, 3, 4]


def test_a_gap_that_retention_made_moves_the_position_after_what_came_before() -> None:
    desk = Desk()
    desk.run(100, 102)
    desk.gap(102, 150)
    assert desk.buffer.acknowledged == 100
    desk.run(150, 152)
    assert desk.send_all() == [100, 101, 150, 151]
    assert desk.buffer.acknowledged == 152
    assert desk.ledger.lost == [48]


def test_a_gap_found_while_coming_back_is_taken_and_the_partition_flows_on() -> None:
    """The target refused a batch; by the time of the retry the source holds it no more."""
    desk = Desk()
    desk.buffer.refuse_row()
    assert desk.gap(100, 150) is desk.buffer
    assert desk.buffer.state is State.FLOWING
    desk.run(150, 152)
    assert desk.send_all() == [150, 151]
    assert desk.ledger.lost == [50]


def test_a_truncated_log_is_copied_again_from_where_it_was_rewritten() -> None:
    desk = Desk()
    desk.run(100, 105)
    desk.gap(105, 102, "truncated", turns=1)
    desk.run(102, 104, turns=1)
    assert desk.send_all() == [100, 101, 102, 103, 104, 102, 103]
    assert desk.buffer.acknowledged == 104
    assert desk.ledger.lost == [-3]


def test_a_truncation_found_below_the_position_leads_back_too() -> None:
    """A reader that reads again what this end has already: what it finds rewritten are no duplicates."""
    desk = Desk()
    desk.run(100, 110)
    desk.send_all()
    assert desk.gap(107, 104, "truncated", turns=1) is desk.buffer
    desk.run(104, 106, turns=1)
    assert desk.send_all() == [104, 105]


def test_a_gap_that_does_not_lead_on_from_here_is_left_alone() -> None:
    desk = Desk()
    assert desk.gap(90, 150) is None
    assert desk.gap(120, 150) is None
    assert (desk.buffer.position, desk.ledger.gaps.found) == (100, [])


def test_after_a_gap_the_old_logs_epoch_is_forgotten() -> None:
    """Fetching the new log with the old one's epoch would look like a truncation, or like an offset out of range."""
    desk = Desk()
    assert desk.buffer.place.position == Position(100, ((4, 0),), LOG)
    desk.gap(100, 0, "recreated", turns=1)
    assert desk.buffer.place.position == Position(0, (), NEW_LOG)


def test_a_gap_that_leads_back_begins_where_this_end_stands_not_where_its_reader_stood() -> None:
    """A reader that lost patience with a writer that slept reads again from before, and finds the new log there."""
    desk = Desk()
    desk.run(100, 140)
    assert desk.send_all() == list(range(100, 140))
    assert desk.gap(120, 0, "recreated", turns=1) is desk.buffer
    assert [gap[1:4] for gap in desk.ledger.gaps.found] == [("recreated", 140, 0)]


def test_a_topic_created_again_starts_where_the_old_one_stood_until_its_gap_row_comes() -> None:
    before = Position(500, ((4, 0),), UUID(int=5))
    desk = Desk(start=0, restarted_from=before)
    assert desk.buffer.place.position == before
    assert desk.gap(500, 0, "recreated", turns=1) is desk.buffer
    assert desk.ledger.lost == [-500]
    desk.run(0, 2, turns=1)
    assert desk.send_all() == [0, 1]


def test_a_partition_is_released_once_all_of_it_is_acknowledged() -> None:
    desk = Desk()
    desk.run(100, 102)
    desk.gate.take_release(delivery("release", 102, 102, b"", None))
    assert desk.ledger.released == []
    desk.send_all()
    desk.gate.release_if_idle(desk.buffer)
    desk.gate.release_if_idle(desk.buffer)
    assert desk.ledger.released == [WHERE]


def test_a_partition_that_comes_back_before_it_left_is_not_released() -> None:
    desk = Desk()
    desk.run(100, 102)
    desk.gate.take_release(delivery("release", 102, 102, b"", None))
    desk.assign(100)
    assert desk.run(100, 104, lease=2) is desk.buffer, "read again from the ledger's position; the known part is cut"
    assert desk.send_all() == [100, 101, 102, 103]
    desk.gate.release_if_idle(desk.buffer)
    assert desk.ledger.released == []


def test_a_failed_partition_that_is_assigned_again_starts_without_its_past() -> None:
    desk = Desk()
    desk.buffer.fail("too large")
    desk.buffer.settle(1e12)
    desk.task_metrics.failed[WHERE] = "too large"
    desk.assign(100)
    assert desk.buffer.state is State.FLOWING
    assert (desk.buffer.retry_at, desk.buffer.failures, desk.task_metrics.failed) == (0.0, 0, {})


def test_rows_of_a_failed_or_unknown_partition_only_give_their_memory_back() -> None:
    desk = Desk()
    desk.buffer.fail("too large")
    assert desk.run(100, 102, lease=7) is None
    assert desk.gap(100, 150) is None
    del desk.gate.buffers[WHERE]
    assert desk.run(100, 102, lease=8) is None
    assert desk.peer.given_back == [7, 8]


def test_inline_payload_is_counted_until_it_is_acknowledged() -> None:
    task_metrics = TaskMetrics(plan())
    gate = SequenceGate(None, Ledger(), task_metrics, TargetLimits(None, None), AS_THEY_ARE, deque())  # type: ignore[arg-type]
    gate.take_plan(plan(Assigned(WHERE, 0)))
    batch = encode_batch([(None, b"1")])
    buffer = gate.take_run(delivery("run", 0, 1, batch, None))
    assert buffer is not None
    assert gate.inline_bytes == len(batch)
    handed_out = buffer.next_batch(1, 0)
    assert handed_out is not None
    buffer.succeed(handed_out)
    assert gate.inline_bytes == 0


def test_a_row_without_a_target_topic_is_an_error_that_gives_its_memory_back() -> None:
    desk = Desk()
    with pytest.raises(SparkMirrorError, match="no target topic"):
        desk.gate.take_run(delivery("run", 100, 101, b"", 9)._replace(target_topic=None))
    assert desk.peer.given_back == [9]


def test_a_fault_is_remembered_until_the_partition_moves() -> None:
    desk = Desk()
    desk.gate.take_fault(delivery("fault", 0, 0, b"no leader", None))
    assert desk.task_metrics.status("").faults == {"orders-3": "no leader"}
    desk.run(100, 101)
    status = desk.task_metrics.status("")
    assert (status.faults, status.lag_records) == ({}, 1)


def test_where_a_partition_ends_is_unknown_until_the_source_has_answered() -> None:
    desk = Desk()
    where = next(iter(desk.gate.buffers))
    desk.task_metrics.assigned(where)
    assert desk.task_metrics.status("").unknown_ends == 1
    desk.gate.take_fault(delivery("fault", 0, 0, b"no leader", None))
    assert desk.task_metrics.status("").unknown_ends == 0, "it is among the faults"
    desk.gate.take_fault(delivery("fault", 0, 0, b"", None)._replace(high_watermark=100))
    assert (desk.task_metrics.status("").unknown_ends, desk.task_metrics.meters[where].end) == (0, 100)


def test_a_task_stands_still_while_it_could_read_and_does_not_move() -> None:
    desk = Desk()
    began, began_ms = desk.clock.now, desk.clock.now_ms
    where = next(iter(desk.gate.buffers))

    def stalled_since(seconds: int) -> int | None:
        desk.clock.now = began + seconds
        found: int | None = desk.task_metrics.status("").stalled_since_ms
        return found if found is None else (found - began_ms) // 1000

    assert stalled_since(0) is None, "nothing is behind"
    desk.run(100, 101)
    assert [stalled_since(second) for second in (1, 2, 9)] == [1] * 3
    desk.task_metrics.throttled_ms += 5
    assert [stalled_since(second) for second in (10, 11)] == [None, 11], "a quota held it back"
    desk.task_metrics.paused.add(where)
    assert stalled_since(12) is None, "a person holds it"
    desk.task_metrics.paused.clear()
    assert stalled_since(13) == 13
    desk.task_metrics.records += 1
    assert stalled_since(14) is None
    assert stalled_since(15) == 15
    for second in (16, 17):
        desk.task_metrics.assigned(where)
        desk.task_metrics.fills(where, Filling(False, 0, 1000, 10 * second))
        assert stalled_since(second) is None, "a hole is filled on"
    assert stalled_since(18) == 18, "and now it is not"


def test_a_fault_is_over_when_its_reader_says_so() -> None:
    desk = Desk()
    desk.gate.take_fault(delivery("fault", 0, 0, b"no leader", None))
    desk.gate.take_fault(delivery("fault", 0, 0, b"", None))
    assert desk.task_metrics.status("").faults == {}


def test_a_gap_is_recorded_with_what_was_done() -> None:
    desk = Desk(start=100)
    desk.gap(100, 130)
    assert desk.ledger.gaps.found == [(WHERE, "retention", 100, 130, "went on", NEW_LOG, (0, 130))]


@pytest.mark.parametrize(
    ("policy", "done", "words"),
    [
        ("pause", "partition paused", "set on.data.loss=continue and start again"),
        ("fail", "mirror ended", ENDS_THE_MIRROR),
    ],
)
def test_a_partition_that_may_lose_nothing_stays_where_it_stood(policy: str, done: str, words: str) -> None:
    desk = Desk(start=100, on_data_loss=policy)
    assert desk.gap(100, 130) is desk.buffer
    (held,) = desk.effects
    assert isinstance(held, Hold) and held.buffer is desk.buffer
    assert words in held.reason
    assert desk.ledger.gaps.found == [(WHERE, "retention", 100, 130, done, NEW_LOG, None)]
    assert desk.buffer.position == 100


def test_records_of_a_log_that_this_end_has_not_turned_to_are_refused() -> None:
    """The gap before them was dropped: they would continue the old log at its own offset."""
    desk = Desk()
    desk.buffer.fail("too large")
    assert desk.gap(100, 0, "recreated", turns=1) is None
    desk.buffer.settle(0.0)
    desk.buffer.resume()
    assert desk.run(100, 102, turns=1) is None, "of the new log, where the old one stood"
    assert desk.buffer.state is State.REWINDING
    assert desk.gap(100, 0, "recreated", turns=1) is desk.buffer, "told again"
    assert desk.run(0, 2, turns=1) is desk.buffer
    assert desk.send_all() == [0, 1]


def test_a_flowing_partition_sends_the_reader_back_for_the_gap_it_never_saw() -> None:
    desk = Desk()
    assert desk.run(100, 102, turns=1) is None
    assert desk.peer.orders == [(5, False, 100, 0)]


def test_a_gap_that_was_taken_is_not_taken_twice() -> None:
    desk = Desk()
    desk.gap(100, 50, "truncated", turns=1)
    desk.run(50, 52, turns=1)
    assert desk.gap(100, 50, "truncated", turns=1) is None
    assert desk.run(50, 54, lease=2, turns=1) is desk.buffer
    assert (desk.send_all(), desk.ledger.lost) == ([50, 51, 52, 53], [-50])


def test_a_log_that_was_cut_behind_this_end_goes_on_without_a_loss() -> None:
    desk = Desk()
    desk.buffer.refuse_row()
    assert desk.gap(100, 100, "", turns=2) is None, "told of a turn that this end has not taken"
    told = gap_payload("")
    assert desk.gate.take_gap(delivery("gap", 100, 100, told, None, turns=2)) is desk.buffer
    assert (desk.buffer.state, desk.buffer.turns, desk.ledger.gaps.found) == (State.FLOWING, 2, [])


def test_a_refused_run_of_a_partition_without_a_slot_begins_the_task_again() -> None:
    """Nobody could order it back: it would wait for the epoch's end."""
    desk = Desk()
    desk.buffer.use_slot(-1)
    with pytest.raises(SparkMirrorError, match="new attempt"):
        desk.run(105, 107)


def test_what_an_extent_row_accounts_for_has_come_or_is_read_again() -> None:
    desk = Desk()
    desk.run(100, 103)
    desk.gate.take_extent(delivery("extent", 100, 103, b"", None))
    assert desk.peer.orders == [], "it has"
    desk.gate.take_extent(delivery("extent", 100, 105, b"", None))
    assert desk.peer.orders == [(5, False, 103, 0)]
    assert desk.buffer.state is State.REWINDING
    desk.gate.take_extent(delivery("extent", 100, 109, b"", None))
    assert desk.task_metrics.refused_gaps == 1, "what is read again anyway is not ordered twice"
    assert desk.run(103, 105) is desk.buffer


def test_an_extent_row_of_another_log_or_of_a_partition_that_left_says_nothing() -> None:
    desk = Desk()
    desk.gate.take_extent(delivery("extent", 100, 105, b"", None, turns=1))
    desk.gate.take_extent(delivery("extent", 100, 105, b"", None)._replace(partition=TopicPartition("orders", 9)))
    assert desk.peer.orders == []
    assert desk.buffer.state is State.FLOWING


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("following", [103, 110])
def test_records_of_a_later_epoch_below_what_was_taken_end_the_attempt(following: int, *, sent: bool) -> None:
    """The reader was ordered back to 100 while rows from there were under way; the log was cut before it read again."""
    desk = Desk(100)
    desk.run(100, 105, leader_epoch=4)
    if sent:
        desk.send_all()
    assert desk.run(101, 103, leader_epoch=4) is None, "the same again"
    assert desk.task_metrics.duplicates == 2
    with pytest.raises(SparkMirrorError, match=r"orders-3 is read again .*: its log was rewritten below offset 105"):
        desk.run(101, following, leader_epoch=5)
    assert desk.buffer.position == 105


def test_where_no_epoch_is_known_what_comes_again_is_dropped() -> None:
    desk = Desk(100)
    desk.run(100, 105)
    assert desk.run(101, 103, leader_epoch=5) is None
    assert desk.run(103, 107, leader_epoch=5) is desk.buffer, "what is new of it is taken"


def test_a_run_of_a_later_epoch_whose_first_record_is_due_may_begin_earlier() -> None:
    """Of 103 and 104 nothing is left: they were compacted, or belong to an aborted transaction."""
    desk = Desk(100)
    desk.run(100, 105, leader_epoch=4)
    assert desk.run(103, 107, batch_start=105, leader_epoch=5) is desk.buffer
    assert desk.send_all() == [100, 101, 102, 103, 104, 105, 106]


def test_offsets_that_the_target_has_are_not_kept_by_a_source_that_goes_back_below_them() -> None:
    """Also where the reader has gone back further: a hole was filled meanwhile."""
    desk, hole = AlignedDesk(), Hole(100, 110)
    buffer = desk.buffer
    assert isinstance(buffer, AlignedBuffer)
    desk.gate.take_run(delivery("run", 100, 110, b"", 1))
    assert (buffer.next_batch(1, 0), buffer.hole) == (None, hole)
    buffer.rewind()
    buffer.take_filled(hole, 110)
    assert (buffer.position, buffer.acknowledged) == (100, 110)
    desk.gate.take_gap(delivery("gap", 100, 105, gap_payload("truncation", topic_id=LOG), None, 1))
    (hold,) = desk.effects
    assert isinstance(hold, Hold)
    assert "goes on at offset 105, and the target has up to offset 110" in hold.reason


@pytest.mark.parametrize("at", [100, 103])
def test_a_source_that_was_cut_in_what_the_target_may_not_have_is_read_again(at: int) -> None:
    """The log that is kept decides, by what it has: it need not be rebuilt for records that were never sent."""
    desk = AlignedDesk()
    desk.run(100, 105)
    assert (desk.buffer.position, desk.buffer.acknowledged) == (105, 100)
    with pytest.raises(SparkMirrorError, match=f"was cut at offset {at}, after it was read up to 105"):
        desk.gate.take_gap(delivery("gap", 105, at, gap_payload("truncation", topic_id=LOG), None, 1))
    assert not desk.effects


def test_a_gap_before_the_first_record_is_a_hole_of_the_target_that_the_plan_names() -> None:
    """As where retention has removed what came next while no mirror ran."""
    desk = AlignedDesk()
    buffer = desk.buffer
    assert isinstance(buffer, AlignedBuffer)
    gap = delivery("gap", 100, 120, gap_payload("retention", topic_id=LOG), None)
    assert desk.gate.take_gap(gap) is buffer
    assert (buffer.next_batch(1, 0), buffer.hole) == (None, Hole(100, 120))
    assert buffer.target == TopicPartition("A.orders", 3)


def test_a_partition_whose_target_was_not_looked_at_does_not_keep_its_offsets_beside_one_that_does() -> None:
    """Of a flow with `preserve.offsets.topics`: it goes the direct path, and follows its source's log back."""
    desk, other = AlignedDesk(), TopicPartition("others", 3)
    desk.gate.take_plan(plan(Assigned(other, 100, ((4, 0),), LOG)))
    buffers = desk.gate.buffers
    assert isinstance(buffers[other], DirectBuffer)
    assert [buffers[where].keeps_offsets for where in (WHERE, other)] == [True, False]
    run = delivery("run", 100, 110, b"", 1)._replace(partition=other)
    desk.gate.take_run(run)
    gap = delivery("gap", 110, 105, gap_payload("truncation", topic_id=LOG), None, 1)._replace(partition=other)
    assert desk.gate.take_gap(gap) is buffers[other]
    assert (buffers[other].position, list(desk.effects)) == (105, [])


def test_where_a_partition_ends_that_the_source_does_not_give_is_unknown() -> None:
    desk = Desk()
    where = next(iter(desk.gate.buffers))
    desk.run(100, 101)
    desk.gate.take_fault(delivery("fault", 0, 0, b"it has no leader", None)._replace(high_watermark=-1))
    desk.task_metrics.settle()
    assert desk.task_metrics.meters[where].end is None
    desk.gate.take_fault(delivery("fault", 0, 0, b"", None)._replace(high_watermark=300))
    status = desk.task_metrics.status("")
    assert (status.faults, status.lag_records, desk.task_metrics.meters[where].end) == ({}, 200, 300)


def test_an_open_transaction_is_a_reason_and_hides_no_end() -> None:
    desk = Desk()
    desk.gate.take_fault(delivery("fault", 0, 0, b"an open transaction", None)._replace(high_watermark=300))
    status = desk.task_metrics.status("")
    assert list(status.faults.values()) == ["an open transaction"]
    where = next(iter(desk.gate.buffers))
    desk.task_metrics.assigned(where)
    desk.gate.take_fault(delivery("fault", 0, 0, b"an open transaction", None)._replace(high_watermark=300))
    assert (desk.task_metrics.status("").lag_records, desk.task_metrics.meters[where].end) == (200, 300)
