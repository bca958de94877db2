"""What a plan begins with: predecessors cannot write any more before anybody looks how far they came."""

from collections.abc import Collection
from typing import cast

import pytest
from tests.flows import flow_of

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.assignment import TaskPlan
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.planning import planner, renewal
from sparkmirror.planning.fencing import Taken
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

    def read_through(self, _target: object) -> None:
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
