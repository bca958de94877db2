"""What another process has left is mirrored by the tasks that run: a planner of a shared flow, without Spark."""

from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest
from tests.flows import flow_between
from tests.waiting import wait_until

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.assignment import home_task
from sparkmirror.control.commands import Assign, Share, command_record, decode_command
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.clients import open_tail
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger import connect, positions
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Position, TopicPartition
from sparkmirror.planning import ownership as duty
from sparkmirror.planning.fencing import take_identity
from sparkmirror.planning.planner import Planner
from sparkmirror.policy.partitioner import murmur2_partition
from sparkmirror.testing.kafka import KafkaCluster

PARTITIONS = 4
LEFT_AT, LEFT_GENERATION = 7, 9
OFFSETS_PARTITIONS = 25


@pytest.fixture
def flow(source: Admin, source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> FlowConfig:
    """Of two tasks, and a topic of which each has two partitions."""
    alias, topic = f"A{uuid4().hex[:12]}", f"left-{uuid4().hex[:12]}"
    source.create_topics([NewTopic(topic, PARTITIONS, 1)])
    return flow_between(source_cluster, target_cluster, alias, f"topics = {topic}", "tasks.max = 2", "tasks.min = 2")


@pytest.fixture
def planner(flow: FlowConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planner]:
    monkeypatch.setattr(duty, "is_member", lambda *_: True)  # the group of processes is the whole session's
    with ExitStack() as cleanup:
        one = Planner(flow, "run", once=False, process="p")
        cleanup.callback(one.close)
        one.is_stopped()  # makes the ledger's topics
        yield one


def grant(flow: FlowConfig, number: int, *tasks: int) -> None:
    share = Share("run", "p", number, frozenset(tasks), "m", at_once=number > 1)
    publish(flow.target, ledger_topics(flow.name.source).commands, [command_record(share)])


def store(flow: FlowConfig, where: TopicPartition) -> None:
    """As the other process's task has left it."""
    topics, position = ledger_topics(flow.name.source), Position(LEFT_AT)
    ours = positions.encode_value(PositionRecord(position, LEFT_GENERATION, 1, run="run"))
    publish(flow.target, topics.positions, [(positions.encode_key(flow.name.source, where), ours)])
    key = connect.encode_key(flow.connector, where)
    value = connect.encode_value(LEFT_AT)
    publish(flow.target, topics.offsets, [(key, value)], place=lambda one: murmur2_partition(one, OFFSETS_PARTITIONS))


def test_tasks_that_are_added_are_fenced_and_their_partitions_given_to_those_that_run(
    flow: FlowConfig, planner: Planner, target: Admin, source: Admin
) -> None:
    (topic,) = (name for name in source.list_topics() if flow.should_replicate(name))
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    kept, left = ([tp for tp in partitions if home_task(tp, 2) == task] for task in (0, 1))
    grant(flow, 1, 0)
    planner.is_stopped()
    (plan,) = planner.begin_epoch(1)
    assert {item.partition for item in plan.assigned} == set(kept)
    other = take_identity(flow, target, 1)
    for where in left:
        store(flow, where)

    grant(flow, 2, 0, 1)

    told: list[Assign] = []
    commands = TopicPartition(ledger_topics(flow.name.source).commands, 0)
    with open_tail(flow.target, "test", [commands]) as tail:

        def is_told() -> bool:
            found = (decode_command(record.value) for record in tail.poll(0.1))
            told.extend(command for command in found if isinstance(command, Assign))
            return bool(told)

        wait_until(is_told, "the task that runs is given what was left", 60)
    (order,) = told
    assert order.task == 0 and order.generation > LEFT_GENERATION, "whose offset map is newer is told by it"
    assert {(item.partition, item.offset) for item in order.add} == {(where, LEFT_AT) for where in left}
    assert not order.release
    identity = take_identity(flow, target, 1)
    assert (identity.producer_id, identity.epoch) == (other.producer_id, other.epoch + 2), "fenced in between"
    first, second = planner.begin_epoch(2)
    assert {item.partition for one in (first, second) for item in one.assigned} == set(partitions)
    assert (first.task, second.task) == (0, 1), "the next epoch has all tasks"
