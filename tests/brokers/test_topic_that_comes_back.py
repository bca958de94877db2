"""A source topic that goes and comes back: nobody is given its partitions while a task may still hold them."""

import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from tests.faults.numbered import create_topic
from tests.faults.test_lost_records import delete_topic
from tests.flows import flow_between
from tests.oracle import DEADLINE_SECONDS_LEAST

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.assignment import TaskPlan
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.publish import publish
from sparkmirror.ledger import connect, positions
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Position, TopicPartition
from sparkmirror.planning.planner import Planner
from sparkmirror.planning.renewal import read_orders
from sparkmirror.testing.kafka import KafkaCluster

TOPIC = f"back-{uuid4().hex[:12]}"


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> FlowConfig:
    alias = f"A{uuid4().hex[:12]}"
    create_topic(source_cluster.bootstrap_servers, TOPIC, 2)
    return flow_between(source_cluster, target_cluster, alias, f"topics = {TOPIC}", "tasks.max = 2", "tasks.min = 2")


@pytest.fixture
def planner(flow: FlowConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planner]:
    """It does not look for topics by itself: the test says when."""
    monkeypatch.setattr(Planner, "_start_watching", lambda _: None)
    planner = Planner(flow, "run", once=False)
    planner.is_stopped()  # makes the ledger's topics
    yield planner
    planner.close()


def test_its_partitions_are_given_out_when_the_ledger_shows_that_they_were_released(
    flow: FlowConfig, planner: Planner, source_cluster: KafkaCluster, target: Admin
) -> None:
    plans = planner.begin_epoch(1)
    held = {item.partition: plan for plan in plans for item in plan.assigned}
    assert sorted(held) == [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]
    delete_topic(source_cluster.bootstrap_servers, TOPIC)
    planner.refresh()
    create_topic(source_cluster.bootstrap_servers, TOPIC, 2)
    planner.refresh()
    assert _given(flow, plans, target) == [], "the tasks may not have let go yet"
    for where, plan in held.items():
        _release(flow, where, plan, plan.generation + 1)
        deadline = time.monotonic() + DEADLINE_SECONDS_LEAST
        while where not in _given(flow, plans, target):  # a look may come between the release's two records
            assert time.monotonic() < deadline
            planner.refresh()
    assert sorted(_given(flow, plans, target)) == sorted(held), "each once"


def _given(flow: FlowConfig, plans: list[TaskPlan], target: Admin) -> list[TopicPartition]:
    """What tasks were ordered to take since the epoch began."""
    orders = [order for plan in plans for order in read_orders(flow, plan, target) if order.task == plan.task]
    return [item.partition for order in orders for item in order.add]


def _release(flow: FlowConfig, where: TopicPartition, plan: TaskPlan, generation: int) -> None:
    """As the task's writer does: Connect's record and ours."""
    topics = ledger_topics(flow.name.source)
    record = PositionRecord(Position(7), generation, plan.task, released=True, run="run")
    publish(flow.target, topics.offsets, [(connect.encode_key(flow.connector, where), connect.encode_value(7))])
    ours = (positions.encode_key(flow.name.source, where), positions.encode_value(record))
    publish(flow.target, topics.positions, [ours])
