"""A planner that has slept while another process took its tasks: nobody obeys what it orders then."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest
from tests.flows import flow_between
from tests.waiting import wait_until

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.assignment import TaskPlan
from sparkmirror.control.commands import Share, Stop, command_record
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.publish import publish
from sparkmirror.kafka.settings import client_settings
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.fetch.connection import FetchLimits
from sparkmirror.pipeline.fetch.reader import TaskReader
from sparkmirror.pipeline.fetch.reader_options import ReaderOptions
from sparkmirror.planning import ownership as duty
from sparkmirror.planning.planner import Planner
from sparkmirror.planning.renewal import read_orders
from sparkmirror.testing.kafka import KafkaCluster


@pytest.fixture
def flow(source: Admin, source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> FlowConfig:
    """Of one task, and a topic; others of its name come later."""
    alias, topic = f"A{uuid4().hex[:12]}", f"slept-{uuid4().hex[:12]}"
    source.create_topics([NewTopic(topic, 1, 1)])
    return flow_between(source_cluster, target_cluster, alias, f"topics = {topic}.*", "tasks.max = 1")


@pytest.fixture
def planners(flow: FlowConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Planner]]:
    """Of two processes of a run. Neither looks for topics by itself: the tests say when."""
    monkeypatch.setattr(duty, "is_member", lambda *_: True)  # the group of processes is the whole session's
    monkeypatch.setattr(Planner, "_start_watching", lambda _: None)
    with ExitStack() as cleanup:
        both = {process: Planner(flow, "run", once=False, process=process) for process in ("slept", "awake")}
        for one in both.values():
            cleanup.callback(one.close)
            one.is_stopped()  # makes the ledger's topics
        yield both


def begin(flow: FlowConfig, planner: Planner, process: str) -> TaskPlan:
    """The process is granted the flow's one task, and plans."""
    share = Share("run", process, 1, frozenset({0}), "m")
    publish(flow.target, ledger_topics(flow.name.source).commands, [command_record(share)])
    wait_until(lambda: not planner.is_stopped() and planner.has_work(), f"{process} hears of its share", 60)
    (plan,) = planner.begin_epoch(1)
    return plan


def test_a_task_obeys_its_own_planner_and_no_other_process_of_its_run(
    flow: FlowConfig, planners: dict[str, Planner], source: Admin, target: Admin
) -> None:
    (topic,) = (name for name in source.list_topics() if flow.should_replicate(name))
    begin(flow, planners["slept"], "slept")
    plan = begin(flow, planners["awake"], "awake")
    settings = client_settings(flow.target, "test")
    options = ReaderOptions(
        client_settings(flow.source, "test"),
        FetchLimits(),
        0,
        flow.should_replicate,
        (settings, ledger_topics(flow.name.source).commands),
    )
    reader = TaskReader(plan, options)
    loop = threading.Thread(target=lambda: [None for _ in reader.batches()])
    loop.start()

    # It wakes, sees a new topic, and orders a task of its own, which is the other's by now, to mirror it.
    source.create_topics([NewTopic(f"{topic}-strange", 1, 1)])
    wait_until(lambda: f"{topic}-strange" in source.list_topics(), "the topic is there", 60)
    planners["slept"].refresh()
    source.create_topics([NewTopic(f"{topic}-own", 1, 1)])
    wait_until(lambda: f"{topic}-own" in source.list_topics(), "the topic is there", 60)
    planners["awake"]._assignment = {0: frozenset({TopicPartition(topic, 0), TopicPartition(f"{topic}-strange", 0)})}
    planners["awake"].refresh()
    try:
        own, strange = TopicPartition(f"{topic}-own", 0), TopicPartition(f"{topic}-strange", 0)
        wait_until(lambda: reader._partitions.get(own) is not None, "the task obeys its own planner", 60)
        assert reader._partitions.get(strange) is None, "it took what another process ordered"
    finally:
        publish(flow.target, ledger_topics(flow.name.source).commands, [command_record(Stop("run"))])
        loop.join(60)
        reader.close()
    orders = read_orders(flow, plan, target)
    ordered = [item.partition for order in orders if order.task == plan.task for item in order.add]
    assert ordered == [own], "a renewed attempt of the task reads the same orders"
