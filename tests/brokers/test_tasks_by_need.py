"""How many tasks a planner begins with, by what the clusters say; and who slept is refused all the same."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from tests.brokers.late_writes import INVALID_PRODUCER_EPOCH, write_late
from tests.flows import flow_between
from tests.scenarios.status import board_of
from tests.waiting import wait_until

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.assignment import TaskPlan
from sparkmirror.control.commands import Throttle, command_record
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.fencing import init_producer_ids, transactional_id
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger import connect, positions
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.setup import ensure_ledger_topics
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Position, TopicPartition
from sparkmirror.planning import sizing
from sparkmirror.planning.hand_over import TaskReport
from sparkmirror.planning.planner import Planner
from sparkmirror.planning.task_count import BACKLOG_RECORDS, CALM_LOOKS
from sparkmirror.policy.rates import WHOLE_FLOW
from sparkmirror.telemetry.records import TaskRecord, encode_record
from sparkmirror.testing.kafka import KafkaCluster

PARTITIONS = 4
CORES = 3


class Story:
    """A flow of four partitions with at most four tasks, on a machine with three cores."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster, *lines: str) -> None:
        self.alias, self.topic = f"A{uuid4().hex[:12]}", f"need-{uuid4().hex[:12]}"
        self.flow: FlowConfig = flow_between(
            source, target, self.alias, f"topics = {self.topic}", "tasks.max = 4", *lines
        )
        self._source = source
        self.open = ExitStack()

    def write(self, records: int, partition: int) -> None:
        producer = Producer({"bootstrap.servers": self._source.bootstrap_servers, "linger.ms": 50})
        for _ in range(records):
            producer.produce(self.topic, b"v", partition=partition)
            producer.poll(0)
        assert producer.flush(60) == 0

    def store(self, partition: int, offset: int, task: int, generation: int = 1, run: str = "before") -> None:
        """As a task's writer does: Connect's record and ours."""
        where, topics = TopicPartition(self.topic, partition), self.flow.ledger_topics
        record = PositionRecord(Position(offset), generation, task, run=run)
        key = connect.encode_key(self.flow.connector, where)
        publish(self.flow.target, topics.offsets, [(key, connect.encode_value(offset))])
        ours = (positions.encode_key(self.alias, where), positions.encode_value(record))
        publish(self.flow.target, topics.positions, [ours])

    def begin(self, planner: Planner, epoch: int = 1) -> dict[int, list[int]]:
        """The partitions by task."""
        plans: list[TaskPlan] = planner.begin_epoch(epoch)
        return {plan.task: sorted(item.partition.partition for item in plan.assigned) for plan in plans}

    def planner(self, run: str = "run") -> Planner:
        planner = Planner(self.flow, run, once=False)
        self.open.callback(planner.close)
        return planner


@pytest.fixture
def story(
    source: Admin, target: Admin, source_cluster: KafkaCluster, target_cluster: KafkaCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Story]:  # fmt: skip
    monkeypatch.setattr(Planner, "_start_watching", lambda _: None)
    monkeypatch.setattr(sizing, "usable_cores", lambda: CORES)
    story = Story(source_cluster, target_cluster)
    assert source.create_topics([NewTopic(story.topic, PARTITIONS, 1)]) == {story.topic: None}
    ensure_ledger_topics(target, ledger_topics(story.alias))
    with story.open:
        yield story


def test_a_flow_that_is_caught_up_begins_with_one_task(story: Story) -> None:
    story.write(10, 0)
    assert story.begin(story.planner()) == {0: [0, 1, 2, 3]}


def test_a_flow_that_is_far_behind_begins_with_as_many_as_there_are_cores(story: Story) -> None:
    story.write(BACKLOG_RECORDS + 1, 0)
    begun = story.begin(story.planner())
    assert sorted(begun) == [0, 1, 2] and sorted(chain.from_iterable(begun.values())) == [0, 1, 2, 3]


def test_a_backlog_behind_a_low_limit_is_no_reason_for_more_than_one_task(
    story: Story, source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    """One that the flow's limit lets through no faster, however many tasks read it; orders change that limit."""
    story.write(BACKLOG_RECORDS + 1, 0)
    lines = [f"topics = {story.topic}", "tasks.max = 4", "rate.limit.bytes.per.second = 20000"]
    story.flow = flow_between(source_cluster, target_cluster, story.alias, *lines)
    planner = story.planner()
    assert story.begin(planner) == {0: [0, 1, 2, 3]}
    assert planner._sizing.reason == "1 of at most 4: behind at the start, by its rate limits"
    lifted = command_record(Throttle("lifted", WHOLE_FLOW, 0))
    publish(story.flow.target, story.flow.ledger_topics.commands, [lifted])
    assert sorted(story.begin(story.planner("lifted"))) == [0, 1, 2]


def test_what_another_process_wrote_last_stays_with_its_task_until_it_was_written_again(story: Story) -> None:
    """A batch of a task that slept is refused only where a later task of its number has written."""
    for partition in range(PARTITIONS):
        story.write(10, partition)
        story.store(partition, 10 if partition < 2 else 5, task=partition)
    planner = story.planner()
    begun = story.begin(planner)
    assert sorted(begun) == [2, 3], "both tasks have to run whose partitions go on"
    assert 2 in begun[2] and 3 in begun[3]
    own = planner._generation
    story.store(2, 10, task=2, generation=own, run="run")
    begun = story.begin(planner, 2)
    assert 3 in begun[3], "it has not been written yet"
    story.store(3, 10, task=3, generation=own, run="run")
    for _ in range(CALM_LOOKS):
        planner._sizing.look({task: TaskReport(0.01) for task in begun})
    assert len(story.begin(planner, 3)) == 1, "ten calm looks, and nothing is bound any more"


def test_a_task_that_slept_cannot_set_a_position_back_where_no_task_uses_its_id_now(
    story: Story, target: Admin
) -> None:
    """At least once no coordinator is asked, and nothing is written under that id any more."""
    story.write(10, 0)
    names = {task: transactional_id(story.flow.connector, task) for task in (1, 3)}
    slept = {task: init_producer_ids(target, [name])[name] for task, name in names.items()}
    planner = story.planner()
    assert story.begin(planner) == {0: [0, 1, 2, 3]}
    where = TopicPartition(story.topic, 0)
    # A coordinator answers before markers stand.
    wait_until(lambda: end_of_positions(target, story.flow) >= len(slept), "the markers stand")
    for identity in slept.values():
        assert write_late(target, story.flow, where, identity) == INVALID_PRODUCER_EPOCH

    assert story.begin(planner, 2) == {0: [0, 1, 2, 3]}
    assert end_of_positions(target, story.flow) == len(slept), "the leaders know it already"


def end_of_positions(target: Admin, flow: FlowConfig) -> int:
    return target.await_end(TopicPartition(flow.ledger_topics.positions, 0))


def test_a_task_that_another_process_ran_and_none_runs_now_is_not_missed(story: Story) -> None:
    """The other process left: its tasks are this process's, which needs fewer, and no page waits for their word."""
    story.write(10, 0)
    status = story.flow.ledger_topics.status
    last_words = [encode_record(story.alias, TaskRecord("run", task, 0)) for task in range(PARTITIONS)]
    publish(story.flow.target, status, last_words)
    assert list(story.begin(story.planner())) == [0]
    target = {"bootstrap.servers": story.flow.target.bootstrap_servers}
    assert sorted(board_of(target, story.alias).tasks) == [0]
