"""The driver's eye on a cluster's executors: flows are fitted to them, and a person learns of what is missing."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from tests.manual_clock import ManualClock

from sparkmirror.errors import ClusterUnreachable, SparkMirrorError
from sparkmirror.runtime.executors import Executors

MASTER = "spark://host:7077"


class Flow:
    """What `Executors` needs of a running flow; `told` is what it was fitted to."""

    def __init__(self, name: str, tasks: int) -> None:
        self.flow = SimpleNamespace(name=name, tasks_max=tasks)
        self.told: list[tuple[int, int]] = []
        self.refuses = False

    def fit(self, tasks: int, turn_seconds: int) -> None:
        if self.refuses:
            raise ClusterUnreachable("B: no broker answered.")
        self.told.append((tasks, turn_seconds))


class World(ManualClock):
    """A cluster with `slots`, a clock, and a stop that is never asked for; each wait lets time pass."""

    def __init__(self, slots: int) -> None:
        super().__init__()
        self.slots = slots
        self.is_ended = False
        self.stops_at = 1e9
        pool = SimpleNamespace(defaultResourceProfile=lambda: None)
        scala = SimpleNamespace(
            isStopped=lambda: self.is_ended,
            resourceProfileManager=lambda: pool,
            maxNumConcurrentTasks=lambda _: self.slots,
        )
        self.pythonExec = "python3"
        self.jobs = 0
        self._jsc = SimpleNamespace(sc=lambda: scala)

    def parallelize(self, numbers: range, slots: int) -> "World":
        assert len(numbers) == slots
        return self

    def foreach(self, work: object) -> None:
        self.jobs += 1

    def getConf(self) -> dict[str, str]:
        return {"spark.driver.host": "driver"}

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return self.now >= self.stops_at


def executors(world: World, *flows: Flow) -> Executors:
    given: Any = (world, MASTER, flows, world)
    return Executors(*given)


def wait(some: Executors, world: World) -> bool:
    stop: Any = world
    return some.wait(stop)


def pass_time(some: Executors, world: World, seconds: int) -> None:
    for _ in range(seconds):
        world.now += 1
        some.poll()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "sparkmirror.runtime.executors")
    return caplog


def test_with_a_slot_for_each_task_nothing_is_waited_for_and_nothing_said(said: pytest.LogCaptureFixture) -> None:
    world, flow = World(slots=4), Flow("A->B", 4)
    assert wait(executors(world, flow), world)
    assert (flow.told, said.messages) == ([(4, 0)], [])
    assert world.now < 1001
    assert world.jobs == 1, "executors are known to have the packages"


def test_with_fewer_slots_the_flows_run_fewer_tasks_and_the_log_says_so(said: pytest.LogCaptureFixture) -> None:
    world, one, two = World(slots=3), Flow("A->B", 4), Flow("B->A", 2)
    assert wait(executors(world, one, two), world)
    assert (one.told, two.told) == ([(2, 0)], [(1, 0)])
    assert 3 <= world.now - 1000 < 5, "no others are expected soon"
    (sentence,) = said.messages
    assert sentence.startswith(f"Spark at {MASTER} has 3 slots for 6 tasks: A->B 2 of 4, B->A 1 of 2 run.")


def test_flows_that_take_turns_are_logged_even_if_each_has_all_its_tasks(said: pytest.LogCaptureFixture) -> None:
    world, flows = World(slots=1), [Flow("A->B", 1), Flow("B->A", 1)]
    assert wait(executors(world, *flows), world)
    assert [flow.told for flow in flows] == [[(1, 10)], [(1, 10)]]
    assert "has 1 slot for 2 tasks: A->B 1 of 1, B->A 1 of 1 run, in turns of 10 s." in said.messages[0]


def test_a_cluster_without_executors_is_waited_for_with_a_word_on_where_to_look(
    said: pytest.LogCaptureFixture,
) -> None:
    world, flow = World(slots=0), Flow("A->B", 4)
    world.stops_at = 1100
    assert not wait(executors(world, flow), world)
    assert flow.told == []
    assert len(said.messages) == 2, "after 15 s, and a minute later"
    assert "whether they reach the driver at driver" in said.messages[0]


def test_executors_that_are_lost_and_come_back_soon_change_nothing_and_others_do() -> None:
    world, flow = World(slots=4), Flow("A->B", 4)
    some = executors(world, flow)
    wait(some, world)
    world.slots = 3
    pass_time(some, world, 5)
    world.slots = 4
    pass_time(some, world, 30)
    assert flow.told == [(4, 0)]
    world.slots = 2
    pass_time(some, world, 30)
    world.slots = 0
    pass_time(some, world, 30)
    world.slots = 4
    pass_time(some, world, 30)
    assert flow.told == [(4, 0), (2, 0), (4, 0)], "without any slot there is nothing to fit to"


def test_an_order_that_does_not_get_through_is_given_again(said: pytest.LogCaptureFixture) -> None:
    world, flow = World(slots=4), Flow("A->B", 4)
    some = executors(world, flow)
    wait(some, world)
    world.slots, flow.refuses = 2, True
    pass_time(some, world, 15)
    assert "is tried again: B: no broker answered." in said.messages[0]
    flow.refuses = False
    pass_time(some, world, 15)
    assert flow.told == [(4, 0), (2, 0)]


def test_an_application_that_the_cluster_has_ended_ends_the_mirror() -> None:
    world = World(slots=4)
    some = executors(world, Flow("A->B", 4))
    wait(some, world)
    world.is_ended = True
    with pytest.raises(SparkMirrorError, match=f"{MASTER} has ended the application"):
        pass_time(some, world, 2)
