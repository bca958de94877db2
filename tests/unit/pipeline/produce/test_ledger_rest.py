"""When the ledger may wait: nothing has come but heartbeats, and there is nothing to tell."""

import selectors
from typing import Any

import pytest
from tests.manual_clock import ManualClock
from tests.unit.pipeline.produce.known_producer import known

from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.ledger.misplaced import Misplaced
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import NO_TOPIC_ID, Connector, TopicPartition
from sparkmirror.pipeline.produce.acked_position import Place
from sparkmirror.pipeline.produce.assembly import SenderOptions, assemble
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.effects import Offer
from sparkmirror.pipeline.produce.progress import ProgressOptions
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingAddress
from sparkmirror.policy.naming import DefaultReplicationPolicy

TOPICS = ledger_topics("A")
POSITIONS, STATUS = TOPICS.positions, TOPICS.status
HEARTBEATS, ORDERS = TopicPartition("heartbeats", 0), TopicPartition("orders", 0)


class Task:
    """A task at least once, with a buffer for each partition, whose ledger acknowledges at once."""

    def __init__(self, *partitions: TopicPartition) -> None:
        self.clock = ManualClock()
        nowhere: Any = None
        settings: ClientSettings = nowhere
        is_heartbeats = DefaultReplicationPolicy().is_heartbeats_topic
        options = ProgressOptions(Connector.of_dedicated_mode("A"), TOPICS, 1.0, is_heartbeats)
        plan = PlanRow(0, "run", 1, 1, 7, 3, RingAddress(0, 0, 0, 0, 0), 25, ())
        selector = selectors.DefaultSelector()
        parts = assemble(SenderOptions(settings, options), plan, None, nowhere, selector, self.clock)
        self.parts = parts
        parts.brokers._leaders.refresh = lambda: None  # type: ignore[method-assign]
        for where in partitions:
            self.parts.task_metrics.assigned(where)
            buffer = PartitionBuffer(where, where, 0, 0, moved=self.parts.progress.moved, clock=self.clock)
            self.parts.gate.buffers[where] = buffer

    def come(self, where: TopicPartition, records: int = 1) -> None:
        """As many more records are fetched, and acknowledged."""
        buffer = self.parts.gate.buffers[where]
        end = buffer.acknowledged + records
        self.parts.task_metrics.answered(where, end, buffer)
        buffer.move_to(end, buffer.lineage)
        self.parts.task_metrics.moved(buffer)

    def pass_second(self) -> set[str]:
        """To which topics of the ledger something went in the second."""
        self.clock.now += 1.0
        self.parts.guarantee.poll(self.clock.monotonic())
        went = [effect.buffer for effect in self.parts.effects if isinstance(effect, Offer)]
        self.parts.effects.clear()
        for buffer in went:
            known(buffer, 7, 3)
            while (batch := buffer.next_batch(7, 3)) is not None:
                buffer.succeed(batch)
        return {buffer.target.topic for buffer in went}

    def seconds(self, count: int, *, beats: int = 1) -> list[bool]:
        """Whether something went to the ledger, by second."""
        found = []
        for _ in range(count):
            self.come(HEARTBEATS, beats)
            found.append(bool(self.pass_second()))
        return found


@pytest.fixture
def task() -> Task:
    """Of heartbeats and orders, at rest: both positions are stored."""
    task = Task(HEARTBEATS, ORDERS)
    for _ in range(3):
        task.come(ORDERS)
        task.pass_second()
    task.seconds(10)
    while not task.pass_second():
        pass
    return task


def test_the_positions_of_heartbeats_alone_are_stored_every_five_seconds(task: Task) -> None:
    assert task.seconds(15) == [False, False, False, False, True] * 3


def test_another_record_is_stored_at_once_and_the_heartbeats_with_it(task: Task) -> None:
    task.seconds(2)
    task.come(ORDERS)
    assert {POSITIONS, STATUS} <= task.pass_second()
    assert task.parts.progress.moved == {}


def test_many_records_are_no_heartbeats_whatever_their_topic_is_called(task: Task) -> None:
    assert task.seconds(6, beats=100) == [True] * 6


def test_a_topic_of_which_the_policy_says_that_it_has_no_heartbeats_is_stored_each_second() -> None:
    task = Task(TopicPartition("my-heartbeats", 0))
    for _ in range(5):
        task.come(TopicPartition("my-heartbeats", 0))
        assert POSITIONS in task.pass_second()


def test_what_becomes_of_a_partition_is_reported_at_once(task: Task) -> None:
    task.seconds(1)
    task.parts.task_metrics.failed[ORDERS] = "too large"
    assert STATUS in task.pass_second()
    task.seconds(2)
    del task.parts.task_metrics.failed[ORDERS]
    assert STATUS in task.pass_second()


def test_a_ledger_partition_that_fails_is_reported_at_once(task: Task) -> None:
    task.seconds(1)
    task.parts.task_metrics.failed[TopicPartition(TOPICS.offsets, 3)] = "forbidden"
    assert STATUS in task.pass_second()


def test_a_problem_with_the_target_is_reported_at_once(task: Task) -> None:
    task.seconds(1)
    task.parts.ledger_flush._brokers.problem = "it does not answer"
    task.parts.ledger_flush._brokers._problem_at = task.clock.monotonic()
    assert STATUS in task.pass_second()


def test_a_task_that_is_behind_is_reported_each_second(task: Task) -> None:
    """Since when it stands still, and why, is to be known."""
    task.parts.task_metrics.answered(ORDERS, 50, task.parts.gate.buffers[ORDERS])
    told = task.seconds(6)
    assert told[0] and all(told)


@pytest.mark.parametrize("where", [ORDERS, HEARTBEATS])
def test_a_release_waits_for_no_heartbeat(task: Task, where: TopicPartition) -> None:
    task.seconds(1)
    task.parts.progress.release(where)
    assert POSITIONS in task.pass_second()


def test_a_gap_of_heartbeats_is_stored_at_once(task: Task) -> None:
    task.seconds(1)
    buffer = task.parts.gate.buffers[HEARTBEATS]
    at = buffer.acknowledged
    task.parts.progress.gaps.add(buffer, "retention", at - 1, at, "went on", NO_TOPIC_ID, buffer.place.order)
    assert TOPICS.gaps in task.pass_second()


def test_a_cut_of_the_targets_log_is_in_the_map_at_once(task: Task) -> None:
    task.seconds(1)
    buffer = task.parts.gate.buffers[HEARTBEATS]
    task.parts.progress.cut(buffer, buffer.acknowledged, 3)
    assert task.pass_second()


def test_what_is_misplaced_is_noted_at_once(task: Task) -> None:
    task.seconds(1)
    task.parts.progress.misplaced.add(HEARTBEATS, Misplaced(NO_TOPIC_ID, 3), "others wrote there")
    assert POSITIONS in task.pass_second()


def test_a_map_that_was_not_stored_is_stored_again_at_once(task: Task) -> None:
    task.seconds(1)
    buffer = task.parts.gate.buffers[ORDERS]
    task.parts.progress.cut(buffer, 1, 1)
    task.pass_second()
    mapping = task.parts.progress._mapping
    assert not mapping.cuts
    mapping.store_again(ORDERS, mapping._growing[ORDERS])
    assert TOPICS.offset_map in task.pass_second()


def test_a_status_that_was_not_stored_is_due_again_at_once(task: Task) -> None:
    task.seconds(1)
    task.parts.ledger_flush._reports._forget_task()
    assert STATUS in task.pass_second()


def test_a_ledger_that_lost_what_was_stored_has_it_again_at_once(task: Task) -> None:
    task.seconds(1)
    task.parts.progress.store_again()
    assert POSITIONS in task.pass_second()


def test_a_partition_that_begins_is_stored_at_once(task: Task) -> None:
    task.seconds(1)
    task.parts.progress.adopt(ORDERS)
    assert POSITIONS in task.pass_second()


def test_the_log_of_heartbeats_that_was_made_again_is_stored_at_once(task: Task) -> None:
    task.seconds(1)
    buffer = task.parts.gate.buffers[HEARTBEATS]
    buffer.move_to(buffer.acknowledged + 1, buffer.lineage._replace(turns=1))
    assert POSITIONS in task.pass_second()


def test_at_the_end_nothing_waits(task: Task) -> None:
    task.come(HEARTBEATS)
    assert not task.parts.guarantee.finish()
    stored = task.parts.progress._stored[HEARTBEATS]
    assert stored == Place(task.parts.gate.buffers[HEARTBEATS].acknowledged, stored.lineage)
