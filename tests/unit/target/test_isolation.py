"""One partition in trouble does not become everybody's trouble."""

import time

import pytest

from sparkmirror.batch.records import encode_batch
from sparkmirror.errors import SparkMirrorError
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Connector, TopicPartition
from sparkmirror.relay.lease import RingAddress
from sparkmirror.target.intake import Intake
from sparkmirror.target.isolation import Isolation
from sparkmirror.target.limits import TargetLimits
from sparkmirror.target.outbox import Outbox
from sparkmirror.target.packing import AS_THEY_ARE
from sparkmirror.target.parcel import Parcel
from sparkmirror.target.plan_row import PlanRow
from sparkmirror.target.progress import Progress, ProgressOptions
from sparkmirror.target.standing import State
from sparkmirror.target.tally import Tally


class Reader:
    """Stands for the reader's control page."""

    reader_waits = True

    def __init__(self) -> None:
        self.orders: list[tuple[int, bool, int]] = []

    def order(self, slot: int, *, paused: bool, offset: int, turns: int) -> None:
        self.orders.append((slot, paused, offset))


class Ward:
    def __init__(self, *, shared_memory: bool = True) -> None:
        self.reader = Reader()
        peer = self.reader if shared_memory else None
        plan = PlanRow(0, "run", 1, 1, 7, 0, RingAddress(0, 0, 0, 0), 25, ())
        self.tally = Tally(plan)
        progress = Progress(ProgressOptions(Connector.of_dedicated_mode("A"), ledger_topics("A"), 1.0), 0, 25)
        self.intake = Intake(peer, progress, self.tally, TargetLimits(None, None), AS_THEY_ARE)  # type: ignore[arg-type]
        self.flushed: list[Outbox] = []
        self.isolation = Isolation(peer, self.intake, self.tally, self.flushed.append, lambda _: True)  # type: ignore[arg-type]

    def outbox(self, number: int, *, busy: bool = True) -> Outbox:
        where = TopicPartition("orders", number)
        outbox = self.intake.outboxes[where] = Outbox(where, where, 0, number)
        if busy:
            data = memoryview(bytearray(encode_batch([(None, b"v")])))
            outbox.accept(Parcel(data, 0, 1, lambda: None))
            outbox.next_batch(7, 0)
        return outbox


def test_a_failed_partition_is_paused_told_of_and_comes_back_in_time() -> None:
    ward = Ward()
    outbox = ward.outbox(3)
    ward.isolation.fail(outbox, "too large")
    assert ward.tally.failed == {outbox.source: "too large"}
    assert not outbox.retry_at, "its answer is still to come"
    assert outbox.head is not None
    outbox.head.waiting = False
    ward.isolation.settle(outbox)
    retry_at = ward.isolation.wake_at
    assert ward.isolation.due(retry_at - 0.1) == []
    assert ward.isolation.due(retry_at) == [outbox]
    ward.isolation.wake_up(outbox, retry_at - 0.1)
    assert outbox.state is State.FAILED
    ward.isolation.wake_up(outbox, retry_at)
    assert ward.reader.orders == [(3, True, 0), (3, False, 0)]
    assert ward.tally.failed == {}


def test_a_retry_by_order_comes_before_its_time_and_begins_the_pauses_anew() -> None:
    ward = Ward()
    outbox = ward.outbox(3)
    outbox.failures = 4
    ward.isolation.fail(outbox, "too large")
    assert outbox.head is not None
    outbox.head.waiting = False
    ward.isolation.settle(outbox)
    told = ward.tally.status("")
    assert told["retry_at_ms"].keys() == told["failed"].keys() == {"orders-3"}
    now = time.monotonic()
    assert ward.isolation.wake_at > now + 50
    ward.isolation.force(outbox, now)
    assert ward.isolation.due(now) == [outbox]
    ward.isolation.wake_up(outbox, now)
    assert outbox.failures == 0
    assert ward.reader.orders[-1] == (3, False, 0)
    assert ward.tally.status("")["retry_at_ms"] == {}


def test_a_retry_by_order_leaves_alone_what_only_another_run_may_go_on_with() -> None:
    ward = Ward()
    outbox = ward.outbox(3, busy=False)
    ward.isolation.hold(outbox, "the source's log has changed")
    ward.isolation.force(outbox, time.monotonic())
    ward.isolation.wake_up(outbox, time.monotonic())
    assert outbox.state is State.FAILED
    assert ward.tally.status("")["retry_at_ms"] == {}


def test_what_the_target_may_have_goes_out_again_as_it_was_before_the_reader_comes_again() -> None:
    ward = Ward()
    outbox = ward.outbox(3)
    head = outbox.head
    assert head is not None
    before = bytes(head.data)
    head.waiting, head.in_doubt = False, True
    ward.isolation.fail(outbox, "forbidden")
    assert outbox.head is head, "its sequences stand for its records"
    ward.isolation.wake_up(outbox, outbox.retry_at)
    assert ward.reader.orders == [(3, True, 0)], "nothing else is read yet"
    again = outbox.next_batch(7, 0)
    assert again is head and bytes(again.data) == before
    outbox.succeed(again)
    ward.isolation.after_progress(outbox)
    assert ward.reader.orders == [(3, True, 0), (3, False, 1)]


def test_without_a_control_page_the_task_is_begun_anew_when_the_retry_is_due() -> None:
    ward = Ward(shared_memory=False)
    outbox = ward.outbox(3)
    ward.isolation.fail(outbox, "too large")
    assert outbox.head is not None
    outbox.head.waiting = False
    ward.isolation.settle(outbox)
    retry_at = outbox.retry_at
    with pytest.raises(SparkMirrorError, match="too large"):
        ward.isolation.wake_up(outbox, retry_at)


def test_a_stuck_partition_gives_its_memory_back_only_where_that_helps_another() -> None:
    ward = Ward()
    stuck = ward.outbox(0)
    later = stuck.progressed_at + 60
    ward.isolation.evict_stuck([stuck], later)
    assert ward.flushed == [], "alone on a slow link it keeps what it has"
    idle = ward.outbox(1, busy=False)
    ward.isolation.evict_stuck([stuck, idle], later)
    assert ward.flushed == [stuck]
    assert ward.reader.orders == [(0, True, 0)]
    ward.reader.reader_waits = False
    other = ward.outbox(2)
    ward.isolation.evict_stuck([other, idle], other.progressed_at + 60)
    assert ward.flushed == [stuck]


def test_a_partition_that_is_held_is_not_tried_again_and_a_bounded_read_of_it_is_over() -> None:
    ward = Ward()
    outbox = ward.outbox(3, busy=False)
    ward.isolation.hold(outbox, "records are gone")
    assert outbox.retry_at == float("inf")
    assert ward.tally.failed == {outbox.source: "records are gone"}
    ((slot, paused, offset),) = ward.reader.orders
    assert (slot, paused) == (3, True)
    assert offset > 1 << 60
