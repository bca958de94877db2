"""One partition in trouble does not become everybody's trouble."""

import time
from collections import deque
from dataclasses import replace

import pytest
from tests.unit.pipeline.produce.applied_effects import AtOnce

from sparkmirror.batch.header import Codec
from sparkmirror.batch.records import encode_batch
from sparkmirror.batch.unpacking import Unpacking, UnpackingBudget, UnpackingBusy
from sparkmirror.control.assignment import Assigned
from sparkmirror.errors import SparkMirrorError
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Connector, TopicPartition
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.produce.effects import Effect, Evict, InDoubt
from sparkmirror.pipeline.produce.gate import SequenceGate
from sparkmirror.pipeline.produce.isolation import Isolation
from sparkmirror.pipeline.produce.limits import TargetLimits
from sparkmirror.pipeline.produce.packing import AS_THEY_ARE, Packing
from sparkmirror.pipeline.produce.partition_state import State
from sparkmirror.pipeline.produce.progress import Progress, ProgressOptions
from sparkmirror.pipeline.produce.queued_records import QueuedRecords
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingAddress

PLAN = PlanRow(0, "run", 1, 1, 7, 0, RingAddress(0, 0, 0, 0, 0), 25, ())


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
        self.task_metrics = TaskMetrics(PLAN)
        progress = Progress(ProgressOptions(Connector.of_dedicated_mode("A"), ledger_topics("A"), 1.0), 0, 25)
        self.gate = SequenceGate(peer, progress, self.task_metrics, TargetLimits(None, None), AS_THEY_ARE, deque())  # type: ignore[arg-type]
        self.flushed: list[PartitionBuffer] = []
        self.doubted: list[PartitionBuffer] = []
        effects = AtOnce(self)
        self.isolation = Isolation(peer, self.gate, self.task_metrics, effects, keeps_doubtful=True)  # type: ignore[arg-type]

    def apply(self, effect: Effect) -> None:
        match effect:
            case Evict(buffer):
                self.flushed.append(buffer)
                self.isolation.evict(buffer)
            case InDoubt(buffer):
                self.doubted.append(buffer)
            case _:
                raise AssertionError(effect)

    def buffer(self, number: int, *, busy: bool = True) -> PartitionBuffer:
        where = TopicPartition("orders", number)
        buffer = self.gate.buffers[where] = PartitionBuffer(where, where, 0, number)
        if busy:
            data = memoryview(bytearray(encode_batch([(None, b"v")])))
            buffer.accept(QueuedRecords(data, 0, 1, lambda: None))
            buffer.next_batch(7, 0)
        return buffer


def test_a_failed_partition_is_paused_reported_and_comes_back_in_time() -> None:
    ward = Ward()
    buffer = ward.buffer(3)
    ward.isolation.fail(buffer, "too large")
    assert ward.task_metrics.failed == {buffer.source: "too large"}
    assert not buffer.retry_at, "its answer is still to come"
    assert buffer.head is not None
    buffer.refuse(buffer.head, in_doubt=False)
    ward.isolation.settle(buffer)
    retry_at = ward.isolation.wake_at
    assert ward.isolation.due(retry_at - 0.1) == []
    assert ward.isolation.due(retry_at) == [buffer]
    ward.isolation.wake_up(buffer, retry_at - 0.1)
    assert buffer.state is State.FAILED
    ward.isolation.wake_up(buffer, retry_at)
    assert ward.reader.orders == [(3, True, 0), (3, False, 0)]
    assert ward.task_metrics.failed == {}


def test_the_retry_of_a_partition_that_was_released_does_not_hide_why_it_cannot_begin_again() -> None:
    """Its topic was deleted, and made again: offsets that are kept cannot go on there."""
    ward = Ward()
    buffer = ward.buffer(3)
    ward.isolation.fail(buffer, "the leader broke off the connection")
    assert buffer.head is not None
    buffer.refuse(buffer.head, in_doubt=False)
    ward.isolation.settle(buffer)
    assert buffer.state is State.FAILED and buffer.idle
    ward.gate.take_release(Delivery("release", buffer.source, None, 0, 0, 0, -1, -1, memoryview(b""), None, 0))
    assert ward.task_metrics.failed == {}
    ward.isolation.wake_up(buffer, buffer.retry_at)
    assert ward.reader.orders == [(3, True, 0)], "its slot may be another's"
    held = Assigned(buffer.source, 0, unknown="the source's topic was made again")
    ward.gate.take_plan(replace(PLAN, partitions=((held, -1),)))
    ward.isolation.wake_up(buffer, buffer.retry_at)
    assert ward.task_metrics.failed == {buffer.source: "the source's topic was made again"}
    assert ward.reader.orders == [(3, True, 0)]
    assert ward.task_metrics.retry_at_ms == {}


def test_a_partition_that_has_left_cannot_fail_any_more() -> None:
    """A transaction that fails, fails all partitions of the task: also those that wait for nothing."""
    ward = Ward()
    buffer = ward.buffer(3, busy=False)
    ward.gate.take_release(Delivery("release", buffer.source, None, 0, 0, 0, -1, -1, memoryview(b""), None, 0))
    ward.isolation.fail(buffer, "the target does not take the marker")
    ward.isolation.hold(buffer, "nothing goes on")
    assert (ward.task_metrics.failed, ward.reader.orders) == ({}, [])


def test_a_partition_that_leaves_while_it_fails_has_no_time_of_a_retry() -> None:
    ward = Ward()
    buffer = ward.buffer(3)
    ward.isolation.fail(buffer, "too large")
    ward.gate.take_release(Delivery("release", buffer.source, None, 0, 0, 0, -1, -1, memoryview(b""), None, 0))
    assert buffer.head is not None
    buffer.refuse(buffer.head, in_doubt=False)
    ward.isolation.settle(buffer)
    assert (ward.task_metrics.failed, ward.task_metrics.retry_at_ms) == ({}, {})


def test_a_retry_by_order_comes_before_its_time_and_begins_the_pauses_again() -> None:
    ward = Ward()
    buffer = ward.buffer(3)
    for _ in range(4):
        buffer.fail("too large")
        buffer.settle(0.0)
        buffer.resume()
    ward.isolation.fail(buffer, "too large")
    assert buffer.head is not None
    buffer.refuse(buffer.head, in_doubt=False)
    ward.isolation.settle(buffer)
    told = ward.task_metrics.status("")
    assert told.retry_at_ms.keys() == told.failed.keys() == {"orders-3"}
    now = time.monotonic()
    assert ward.isolation.wake_at > now + 50
    ward.isolation.force(buffer, now)
    assert ward.isolation.due(now) == [buffer]
    ward.isolation.wake_up(buffer, now)
    assert buffer.failures == 0
    assert ward.reader.orders[-1] == (3, False, 0)
    assert ward.task_metrics.status("").retry_at_ms == {}


def test_a_retry_by_order_leaves_alone_what_only_another_run_may_go_on_with() -> None:
    ward = Ward()
    buffer = ward.buffer(3, busy=False)
    ward.isolation.hold(buffer, "the source's log has changed")
    ward.isolation.force(buffer, time.monotonic())
    ward.isolation.wake_up(buffer, time.monotonic())
    assert buffer.state is State.HELD
    assert ward.task_metrics.status("").retry_at_ms == {}


def test_what_the_target_may_have_goes_out_again_as_it_was_before_the_reader_comes_again() -> None:
    ward = Ward()
    buffer = ward.buffer(3)
    head = buffer.head
    assert head is not None
    before = bytes(head.data)
    buffer.refuse(head, in_doubt=True)
    ward.isolation.fail(buffer, "forbidden")
    assert ward.doubted == [buffer]
    assert buffer.head is head, "its sequences stand for its records"
    ward.isolation.wake_up(buffer, buffer.retry_at)
    assert ward.reader.orders == [(3, True, 0)], "nothing else is read yet"
    again = buffer.next_batch(7, 0)
    assert again is head and bytes(again.data) == before
    buffer.succeed(again)
    ward.isolation.after_progress(buffer)
    assert ward.reader.orders == [(3, True, 0), (3, False, 1)]


def test_without_a_control_page_the_task_is_begun_again_when_the_retry_is_due() -> None:
    ward = Ward(shared_memory=False)
    buffer = ward.buffer(3)
    ward.isolation.fail(buffer, "too large")
    assert buffer.head is not None
    buffer.refuse(buffer.head, in_doubt=False)
    ward.isolation.settle(buffer)
    retry_at = buffer.retry_at
    with pytest.raises(SparkMirrorError, match="too large"):
        ward.isolation.wake_up(buffer, retry_at)


def test_a_stuck_partition_gives_its_memory_back_only_where_that_helps_another() -> None:
    ward = Ward()
    stuck = ward.buffer(0)
    later = stuck.progressed_at + 60
    ward.isolation.evict_stuck([stuck], later)
    assert ward.flushed == [], "alone on a slow link it keeps what it has"
    idle = ward.buffer(1, busy=False)
    ward.isolation.evict_stuck([stuck, idle], later)
    assert ward.flushed == [stuck]
    assert ward.reader.orders == [(0, True, 0)]
    ward.reader.reader_waits = False
    other = ward.buffer(2)
    ward.isolation.evict_stuck([other, idle], other.progressed_at + 60)
    assert ward.flushed == [stuck]
    ward.isolation.evict_stuck([other, idle], other.progressed_at + 60, row_thread_waits=True)
    assert ward.flushed == [stuck, other], "also where this process has no room"


def test_a_partition_that_is_to_be_read_again_gets_the_memory_of_a_stuck_one() -> None:
    """Its broker is back when another's has gone: without memory it would wait for that one too."""
    ward = Ward()
    back, stuck = ward.buffer(0), ward.buffer(1)
    later = stuck.progressed_at + 60
    ward.isolation.evict(back)
    ward.isolation.evict_stuck([back, stuck], later)
    assert ward.flushed == [], "it waits for its own broker"
    kept = back.head
    assert kept is not None
    back.succeed(kept)
    ward.isolation.after_progress(back)
    assert back.state is State.REWINDING
    ward.isolation.evict_stuck([back, stuck], later)
    assert ward.flushed == [stuck]


def test_a_partition_that_was_retried_gets_the_memory_of_a_stuck_one() -> None:
    ward = Ward()
    retried, stuck = ward.buffer(0), ward.buffer(1)
    assert retried.head is not None
    retried.refuse(retried.head, in_doubt=False)
    ward.isolation.fail(retried, "too large")
    ward.isolation.evict_stuck([retried, stuck], stuck.progressed_at + 60)
    assert ward.flushed == [], "it is not read before its retry"
    ward.isolation.wake_up(retried, retried.retry_at)
    ward.isolation.evict_stuck([retried, stuck], stuck.progressed_at + 60)
    assert ward.flushed == [stuck]


def test_of_two_stuck_partitions_none_is_evicted_for_one_that_waits_for_its_broker_too() -> None:
    ward = Ward()
    ordered_back, stuck = ward.buffer(0), ward.buffer(1)
    ordered_back.refuse_row()
    ward.isolation.evict_stuck([ordered_back, stuck], stuck.progressed_at + 60)
    assert ward.flushed == []


def test_a_partition_that_can_keep_no_batch_is_read_again_at_once() -> None:
    """All that may be unpacked is in use: without a batch to acknowledge nothing would lead the reader back."""
    ward = Ward()
    where, budget = TopicPartition("orders", 0), UnpackingBudget(8 << 20)
    packing = Packing(codec=Codec.GZIP)
    buffer = PartitionBuffer(where, where, 0, 0, packing=packing, unpacking=Unpacking(budget))
    ward.gate.buffers[where] = buffer
    data = memoryview(bytearray(encode_batch([(None, b"v")] * 100, codec=Codec.ZSTD)))
    buffer.accept(QueuedRecords(data, 0, 100, lambda: None))
    with Unpacking(budget).holding(8 << 20):
        with pytest.raises(UnpackingBusy):
            buffer.next_batch(7, 0)
        ward.isolation.evict(buffer)
    assert buffer.idle
    assert (buffer.state, ward.reader.orders) == (State.REWINDING, [(0, True, 0), (0, False, 0)])


def test_a_partition_that_rests_because_of_its_bombs_gives_its_memory_back_at_once() -> None:
    ward = Ward()
    bombed, resting, idle = ward.buffer(0), ward.buffer(1), ward.buffer(2, busy=False)
    bombed.unpacking.is_poor = True
    bombed.rest()
    resting.rest()
    ward.isolation.evict_stuck([bombed, resting, idle], bombed.progressed_at)
    assert ward.flushed == [bombed]


def test_a_partition_that_is_held_is_not_tried_again_and_a_bounded_read_of_it_is_over() -> None:
    ward = Ward()
    buffer = ward.buffer(3, busy=False)
    ward.isolation.hold(buffer, "records are gone")
    assert buffer.retry_at == float("inf")
    assert ward.task_metrics.failed == {buffer.source: "records are gone"}
    ((slot, paused, offset),) = ward.reader.orders
    assert (slot, paused) == (3, True)
    assert offset > 1 << 60
