"""What a plan begins with: predecessors cannot write any more before anybody looks how far they came."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import cast

import pytest
from tests.flows import flow_of

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.assignment import Assigned, TaskPlan
from sparkmirror.control.commands import Assign, Command, Restart
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.model import NO_TOPIC_ID, Position, Topic, TopicPartition
from sparkmirror.planning import planner, renewal
from sparkmirror.planning.fencing import Taken
from sparkmirror.planning.plan import Move
from sparkmirror.planning.planner import Planner


class Enough(Exception):
    """Positions were asked for: the rest of the plan is another story."""


class Clusters:
    """Source, target and ledger in one; `order` is what was done to them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.order: list[str] = []
        for module in (planner, renewal):
            monkeypatch.setattr(module, "stop_if_replaced", lambda *_: self.order.append("look for a newer run"))
            monkeypatch.setattr(module, "take_over", self._take_over)
        monkeypatch.setattr(Planner, "_clients", lambda _: (self, self, self))

    def _take_over(self, _flow: object, _target: object, _ledger: object, tasks: Collection[int]) -> dict[int, Taken]:
        self.order.append(f"fence tasks {sorted(tasks)}")
        return {task: Taken(task, ProducerIdentity(7, 0)) for task in tasks}

    def await_end(self, _partition: object) -> int:
        return 0

    partitions = ()

    def read_through(self, _target: object, **_: object) -> None:
        raise Enough


@pytest.fixture
def flow() -> FlowConfig:
    return flow_of("tasks.max = 3")


def test_all_that_may_write_is_fenced_before_positions_are_read(
    flow: FlowConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = Clusters(monkeypatch)
    with pytest.raises(Enough):
        Planner(flow, "run-1", once=False).begin_epoch(1)
    assert clusters.order == ["look for a newer run", "fence tasks [0, 1, 2]"]


def test_an_attempt_that_spark_repeats_fences_the_one_before_it_first(
    flow: FlowConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = Clusters(monkeypatch)
    plan = cast(TaskPlan, type("Plan", (), {"task": 2, "generation": 5, "share": None}))
    with pytest.raises(Enough):
        Planner(flow, "run-1", once=False).renew(plan)
    assert clusters.order == ["look for a newer run", "fence tasks [2]"]


def test_the_epoch_ends_where_nobody_says_whether_a_partition_was_given_to_its_new_task(
    flow: FlowConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That task may have it. At the next look its topic may be gone, or its start unknown: a third one would get it."""
    where = TopicPartition("orders", 1)
    one = Planner(flow, "run-1", once=False)
    told: list[Command] = []

    def tell(_: Planner, *commands: Command) -> None:
        told.extend(commands)
        if any(isinstance(command, Assign) and command.add for command in commands):
            raise ClusterUnreachable("no answer")

    released = {where: PositionRecord(Position(7), 1, 0, released=True, run="run-1")}
    view = SimpleNamespace(records=released, is_whole=lambda _: True)
    ledger = SimpleNamespace(poll=lambda _: None, view=view, read_through=lambda _: {where: Position(7)})
    source = SimpleNamespace(list_topics=lambda: {"orders": Topic("orders", NO_TOPIC_ID, 3, 1)})
    for name, value in {
        "_clients": lambda _: (source, None, ledger), "_tell": tell,
        "_assigned": lambda _, partitions, *__: [Assigned(one, 7) for one in partitions],
    }.items():  # fmt: skip
        monkeypatch.setattr(Planner, name, value)
    one._hand_overs.begin([Move(where, 0, 1)], 1, 0.0)
    with pytest.raises(ClusterUnreachable):
        one._complete_moves(0.0)
    monkeypatch.setattr(one, "_stopping", Once())
    one._watch()
    assert isinstance(told[-1], Restart)


def test_the_epoch_ends_where_a_task_that_runs_has_left_something_open_that_only_its_own_id_ends(
    flow: FlowConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Planner(flow, "run-1", once=False)
    told: list[Command] = []
    monkeypatch.setattr(Planner, "_tell", lambda _, *commands: told.extend(commands))
    monkeypatch.setattr(Planner, "_look", lambda _: None)
    monkeypatch.setattr(one, "_stopping", Once())
    one._watch()
    assert not told
    one._left_behind.in_use = {TopicPartition("orders", 1)}
    monkeypatch.setattr(one, "_stopping", Once())
    one._watch()
    (order,) = told
    assert isinstance(order, Restart)


class Once:
    """Lets a watch look once."""

    def __init__(self) -> None:
        self._asked = 0

    def wait(self, _: float) -> bool:
        self._asked += 1
        return self._asked > 2


@pytest.mark.parametrize(("seconds", "moves"), [(0, []), (30, [Move(TopicPartition("orders", 1), 0, 1)])])
def test_a_flow_whose_partitions_keep_their_tasks_still_gets_more_where_it_needs_them(
    monkeypatch: pytest.MonkeyPatch, seconds: int, moves: list[Move]
) -> None:
    where = TopicPartition("orders", 1)
    lines = f"tasks.max = 2\nbalance.interval.seconds = {seconds}\nrefresh.topics.enabled = false"
    one = Planner(flow_of(lines), "run-1", once=False)
    one._assignment = {0: frozenset([where]), 1: frozenset()}
    begun: list[Move] = []
    asked: list[object] = []
    told: list[Command] = []
    monkeypatch.setattr(Planner, "_clients", lambda _: (None, None, None))
    monkeypatch.setattr(Planner, "_tell", lambda _, *commands: told.extend(commands))
    monkeypatch.setattr(Planner, "_complete_moves", lambda *_: None)
    monkeypatch.setattr(one._hand_overs, "look", lambda *_: (Move(where, 0, 1),))
    monkeypatch.setattr(one._hand_overs, "begin", lambda made, *_: begun.extend(made))
    monkeypatch.setattr(one._hand_overs, "task_reports", {0: "heavy"})
    monkeypatch.setattr(one._sizing, "look", lambda loads: bool(asked.append(loads)) or True)
    monkeypatch.setattr(type(one._sizing), "may_change", True)
    one._look()
    assert (begun, asked) == (moves, [{0: "heavy"}])
    assert isinstance(told[-1], Restart)
