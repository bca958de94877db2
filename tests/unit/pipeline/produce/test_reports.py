"""What a task tells of itself and of its partitions on the status topic, and how often."""

import pytest
from tests.manual_clock import ManualClock

from sparkmirror.batch.records import Record, encode_batch
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.aligned_buffer import AlignedBuffer
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.produce.queued_records import QueuedRecords, free_nothing
from sparkmirror.pipeline.produce.reports import Report, Reports
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingAddress
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.brakes import OWN_LIMITS, SOURCE_QUOTA, TARGET_QUOTA
from sparkmirror.telemetry.records import BEAT_SECONDS, PartitionRecord, PartitionState

RETRY_AT_MS = 1_800_000_000_000
ORDERS = [TopicPartition("orders", number) for number in range(500)]


class Task:
    """A task with partitions, a clock that a test turns, and the board that reads what it tells."""

    def __init__(self, partitions: int = 1) -> None:
        self.clock = ManualClock()
        self.plan = PlanRow(0, "run", 1, 5, 7, 3, RingAddress(0, 0, 0, 0, 0), 25, ())
        self.task_metrics = TaskMetrics(self.plan, self.clock)
        self.buffers = {where: PartitionBuffer(where, where, 0, 0) for where in ORDERS[:partitions]}
        self.reports = Reports(self.task_metrics, self.buffers, "A", self.clock)
        self.board = StatusBoard("A", "run")
        for where in self.buffers:
            self.task_metrics.assigned(where)

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms

    def arrive(self, where: TopicPartition, first: int, following: int, produced_ms: int, end: int = 0) -> None:
        run = Delivery(
            "run", where, "A.orders", first, following, following - first, end or following, produced_ms,
            memoryview(b""), None, self.now_ms,
        )  # fmt: skip
        self.task_metrics.arrived(self.buffers[where], run)

    def acknowledge(self, where: TopicPartition, *produced_ms: int) -> None:
        records = [Record(at, ms, None, b"v") for at, ms in enumerate(produced_ms)]
        buffer = self.buffers[where]
        data = memoryview(bytearray(encode_batch(records, base_offset=buffer.position)))
        following = buffer.position + len(records)
        buffer.accept(QueuedRecords(data, buffer.position, following, free_nothing, self.now_ms - 4))
        batch = buffer.next_batch(1, 0)
        assert batch is not None
        self.task_metrics.acknowledged(where, batch, self.now_ms)
        buffer.succeed(batch)
        self.task_metrics.moved(buffer)

    def tell(self, seconds: float = 1.0, *, final: bool = False) -> list[Report]:
        self.clock.now += seconds
        due = self.reports.due(self.plan, "", in_transactions=False, final=final)
        for report in due:
            assert self.board.take(report.key, report.value, self.now_ms)
        return due

    def told(self, where: TopicPartition = ORDERS[0]) -> PartitionRecord:
        return self.board.partitions[where]


def test_an_idle_task_tells_of_its_partitions_once_and_then_beats() -> None:
    task = Task(3)
    assert len(task.tell()) == 4
    assert sum(len(task.tell()) for _ in range(20)) == 2
    assert task.told().state is PartitionState.RUNNING


def test_it_is_reported_whether_offsets_are_kept() -> None:
    task = Task(2)
    task.buffers[ORDERS[0]] = AlignedBuffer(ORDERS[0], ORDERS[0], 0, 0)
    task.tell()
    assert [task.told(where).keeps_offsets for where in ORDERS[:2]] == [True, False]


def test_lag_rate_and_latency_of_a_partition_are_reported() -> None:
    task = Task(1)
    task.tell()
    now_ms = task.now_ms
    task.arrive(ORDERS[0], 0, 100, now_ms - 50, end=300)
    task.acknowledge(ORDERS[0], now_ms - 80, now_ms - 60)
    task.tell(2.0)
    found = task.told()
    assert (found.offset, found.end, found.lag_records, found.target_topic) == (2, 300, 298, "A.orders")
    assert found.lag_seconds(now_ms) == 0.06
    assert (found.records, found.records_per_second) == (2, 1.0)
    assert found.latency == (60, 60, 80, 70.0)
    assert found.age == (50, 50, 50, 50.0)
    status = task.board.status()
    assert (status.lag_records, status.behind_since_ms) == (298, now_ms - 60)
    assert (status.recent_latency.count, status.recent_latency.total_ms) == (2, 140)
    assert (status.transit.count, status.transit.total_ms) == (2, 8)


def test_a_rate_falls_back_to_none_when_nothing_moves() -> None:
    task = Task(1)
    task.tell()
    task.arrive(ORDERS[0], 0, 1, task.now_ms)
    task.acknowledge(ORDERS[0], task.now_ms)
    task.tell(2.0)
    assert task.told().records_per_second == 0.5
    assert task.told().behind_since_ms is None
    task.tell(2.0)
    assert task.told().records_per_second == 0.0
    assert sum(len(task.tell(3.0)) for _ in range(3)) == 1, "the beat"


def test_one_that_was_in_step_is_behind_since_its_next_record_was_produced() -> None:
    task = Task(1)
    task.arrive(ORDERS[0], 0, 1, task.now_ms - 1000)
    task.acknowledge(ORDERS[0], task.now_ms - 1000)
    task.clock.now += 3600
    task.arrive(ORDERS[0], 1, 2, task.now_ms - 7)
    task.tell(0.0)
    assert task.told().lag_seconds(task.now_ms) == 0.007


def test_many_partitions_take_turns_and_one_that_fails_goes_first() -> None:
    task = Task(500)
    assert len(task.tell()) == 101
    task.task_metrics.failed[ORDERS[499]] = "too large"
    task.task_metrics.retry_at_ms[ORDERS[499]] = RETRY_AT_MS
    task.tell()
    assert (task.told(ORDERS[499]).state, task.told(ORDERS[499]).retry_at_ms) == (PartitionState.FAILED, RETRY_AT_MS)
    for _ in range(4):
        assert len(task.tell()) <= 101
    assert task.board.partitions.keys() == set(ORDERS)
    del task.task_metrics.failed[ORDERS[499]]
    task.tell()
    assert (task.told(ORDERS[499]).state, task.told(ORDERS[499]).retry_at_ms) == (PartitionState.RUNNING, None)


def test_at_the_end_all_that_changed_is_reported_and_then_nothing_more() -> None:
    task = Task(300)
    task.tell()
    for where in task.buffers:
        task.arrive(where, 0, 1, task.now_ms)
        task.acknowledge(where, task.now_ms)
    assert len(task.tell(0.1, final=True)) == 301
    assert all(record.records == 1 for record in task.board.partitions.values())
    assert task.tell(0.0, final=True) == []


def test_what_was_lost_is_reported_again() -> None:
    task = Task(1)
    for report in task.tell():
        report.forget()
    assert len(task.tell(2.0)) == 2


def test_clocks_that_differ_make_no_negative_latency() -> None:
    task = Task(1)
    task.arrive(ORDERS[0], 0, 1, task.now_ms + 500)
    task.acknowledge(ORDERS[0], task.now_ms + 500)
    task.tell()
    assert task.told().latency.min_ms == 0
    assert task.board.status().latency.total_ms == 0


@pytest.mark.parametrize(
    "later",
    [
        PlanRow(1, "run", 2, 6, 7, 3, RingAddress(0, 0, 0, 0, 0), 25, ()),
        PlanRow(0, "run", 1, 5, 7, 4, RingAddress(0, 0, 0, 0, 0), 25, ()),
    ],
    ids=["another task in another epoch", "the same task, tried again"],
)
def test_counters_go_on_over_epochs_tasks_and_attempts(later: PlanRow) -> None:
    first = Task(1)
    first.arrive(ORDERS[0], 0, 1, first.now_ms)
    first.acknowledge(ORDERS[0], first.now_ms)
    first.tell()
    second = Task(1)
    second.board = first.board
    second.plan = second.task_metrics._plan = later
    second.arrive(ORDERS[0], 1, 3, second.now_ms)
    second.acknowledge(ORDERS[0], second.now_ms, second.now_ms)
    second.tell()
    assert second.told().records == 3
    assert second.board.status().records == 3


def test_a_topic_that_was_deleted_leaves_no_trouble_behind() -> None:
    task = Task(2)
    waits, fails = ORDERS[:2]
    task.task_metrics.faults[waits] = "the source answers error 3"
    task.task_metrics.failed[fails] = "refused"
    task.task_metrics.retry_at_ms[fails] = 17
    task.tell()
    assert (task.told(waits).state, task.told(fails).state) == (PartitionState.WAITING, PartitionState.FAILED)
    for where in (waits, fails):
        task.task_metrics.released(where)
    task.tell()
    status = task.board.status()
    assert (status.partitions, status.faults, status.failed, status.retry_at_ms) == (0, {}, {}, {})
    assert task.tell() == []


def test_records_behind_an_open_transaction_count_as_lag_and_do_not_stall_the_task() -> None:
    task = Task()
    where, buffer = ORDERS[0], task.buffers[ORDERS[0]]
    task.task_metrics.answered(where, 10_000, buffer, is_read_up=True)
    status = task.task_metrics.status("")
    assert (status.lag_records, status.unknown_ends, status.behind_since_ms) == (10_000, 0, task.now_ms)
    task.clock.now += 60
    assert task.task_metrics.status("").stalled_since_ms is None, "nothing can be read"
    task.arrive(where, 0, 2, task.now_ms, end=10_000)
    for _ in range(2):
        status = task.task_metrics.status("")
    assert status.stalled_since_ms == task.now_ms, "what has come is not mirrored"


def test_what_the_target_has_yet_to_take_stalls_the_task_behind_an_open_transaction_too() -> None:
    task = Task()
    where, buffer = ORDERS[0], task.buffers[ORDERS[0]]
    data = memoryview(bytearray(encode_batch([(None, b"v")] * 2)))
    buffer.accept(QueuedRecords(data, 0, 2, free_nothing, task.now_ms))
    task.task_metrics.answered(where, 10, buffer, is_read_up=True)
    for _ in range(2):
        status = task.task_metrics.status("")
    assert status.stalled_since_ms == task.now_ms


def test_a_partition_that_is_read_to_its_end_has_no_lag() -> None:
    task = Task()
    where = ORDERS[0]
    task.arrive(where, 0, 2, task.now_ms)
    task.acknowledge(where, task.now_ms, task.now_ms)
    task.task_metrics.answered(where, 2, task.buffers[where], is_read_up=True)
    status = task.task_metrics.status("")
    assert (status.lag_records, status.behind_since_ms, status.stalled_since_ms) == (0, None, None)


def test_a_task_tells_what_has_held_it_back_since_its_last_beat() -> None:
    task = Task()
    metrics = task.task_metrics
    metrics.limited_ms = 60_000
    assert metrics.status("").held_by == (), "over which time it paused is not known"
    metrics.limited_ms += 5_000
    task.clock.now += BEAT_SECONDS
    assert metrics.status("").held_by == (OWN_LIMITS,)
    metrics.throttled_ms, metrics.source_throttled_ms = 3_000, 4_000
    assert metrics.status("").held_by == (OWN_LIMITS,), "the same beat"
    task.clock.now += BEAT_SECONDS
    assert metrics.status("").held_by == (SOURCE_QUOTA, TARGET_QUOTA)
    task.clock.now += BEAT_SECONDS
    assert metrics.status("").held_by == ()
