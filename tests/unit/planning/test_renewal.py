"""A task that is tried again holds what it held, and does not obey twice."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.flows import flow_of
from tests.manual_clock import ManualClock

from sparkmirror.clock import Clock
from sparkmirror.control.admission import Admission, prove
from sparkmirror.control.assignment import Assigned, TaskPlan
from sparkmirror.control.commands import Assign, Command, Restart, Share, decode_command, ends_epoch
from sparkmirror.errors import FencedError
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.model import Position, Topic, TopicPartition
from sparkmirror.planning import renewal
from sparkmirror.planning.fencing import Taken
from sparkmirror.planning.renewal import follow_orders, renew

FIRST, SECOND, THIRD = (TopicPartition("orders", number) for number in range(3))
PLAN = TaskPlan(
    task=1, run="run", epoch=4, generation=10, seconds=600.0, assigned=(Assigned(FIRST, 5),), producer_id=7,
    producer_epoch=2, brokers={}, leaders={}, commands_from=3, offsets_partitions=25, topics={"orders": 2},
)  # fmt: skip


def stored(generation: int, *, task: int = 1, released: bool = False) -> PositionRecord:
    return PositionRecord(Position(9), generation, task, released, "run")


def whole(_: TopicPartition) -> bool:
    return True


def test_a_release_of_which_one_record_is_missing_is_obeyed_again() -> None:
    orders = [Assign("run", 12, 1, release=(FIRST,))]
    ledger = {FIRST: stored(12, released=True)}
    plan = follow_orders(PLAN, orders, ledger, lambda _: False)
    assert (held(plan), plan.release) == ([FIRST], (FIRST,))
    others = {FIRST: stored(14, task=0)}
    assert held(follow_orders(PLAN, orders, others, lambda _: False)) == [], "another task has it, whatever is missing"


def held(plan: TaskPlan) -> list[TopicPartition]:
    return [item.partition for item in plan.assigned]


def test_without_orders_the_plan_stays_as_it_is() -> None:
    assert follow_orders(PLAN, [], {}, whole) == PLAN


def test_what_was_taken_on_since_is_in_the_plan_and_its_order_is_behind() -> None:
    orders = [Assign("run", 11, 1, add=(Assigned(SECOND, 0),), topics={"orders": 3}), Assign("run", 13, 1)]
    plan = follow_orders(PLAN, orders, {}, whole)
    assert (held(plan), plan.generation, plan.topics) == ([FIRST, SECOND], 13, {"orders": 3})


def test_what_was_released_is_not_read_again() -> None:
    orders = [Assign("run", 12, 1, release=(FIRST,))]
    for record in (stored(12, released=True), stored(14, task=0)):
        plan = follow_orders(PLAN, orders, {FIRST: record}, whole)
        assert (held(plan), plan.generation) == ([], 12), "released, or another task's by now"


def test_a_release_that_is_not_in_the_ledger_is_still_to_be_obeyed() -> None:
    """The attempt before was killed in between: the planner waits for it."""
    orders = [
        Assign("run", 11, 1, add=(Assigned(SECOND, 0),)),
        Assign("run", 12, 1, release=(FIRST,)),
        Assign("run", 13, 1, add=(Assigned(THIRD, 0),)),
    ]
    plan = follow_orders(PLAN, orders, {FIRST: stored(11)}, whole)
    assert (held(plan), plan.release, plan.generation) == ([FIRST, SECOND, THIRD], (FIRST,), 13)


def test_what_came_and_went_while_a_release_stays_open_does_not_come_again() -> None:
    """It would come as it stood then, and its release would store that place under the task that has it by now."""
    orders = [
        Assign("run", 11, 1, release=(FIRST,)),
        Assign("run", 12, 1, add=(Assigned(SECOND, 1000),)),
        Assign("run", 13, 1, release=(SECOND,)),
        Assign("run", 14, 0, add=(Assigned(SECOND, 1500),)),
    ]
    plan = follow_orders(replace(PLAN, secret=b"s"), orders, {FIRST: stored(10)}, whole)
    assert (held(plan), plan.release, plan.generation) == ([FIRST], (FIRST,), 13)
    admission = Admission(plan, lambda _: True)
    assert not any(admission.is_for_task(prove(order, b"s")) for order in orders)


def test_a_partition_that_came_back_is_held_again() -> None:
    orders = [Assign("run", 11, 1, release=(FIRST,)), Assign("run", 14, 1, add=(Assigned(FIRST, 8),))]
    plan = follow_orders(PLAN, orders, {FIRST: stored(14)}, whole)
    assert (held(plan), plan.generation) == ([FIRST], 14)
    assert follow_orders(replace(PLAN, generation=14), orders, {}, whole) == replace(PLAN, generation=14), (
        "orders of before"
    )


def test_a_partition_that_another_task_was_given_is_not_read_again_though_a_cut_took_its_release() -> None:
    """Two tasks would mirror it side by side until the epoch ends."""
    given = Assign("run", 13, 0, add=(Assigned(FIRST, 9), Assigned(THIRD, 0)))
    orders = [Assign("run", 12, 1, release=(FIRST,)), given]
    plan = follow_orders(PLAN, orders, {FIRST: stored(10)}, whole)
    assert (held(plan), plan.generation) == ([], 12)


def test_what_another_task_has_stored_since_is_not_taken_on_though_a_cut_took_the_orders() -> None:
    """A leader that was cut off may lack them, too. Both tasks would mirror the partition."""
    plan = follow_orders(PLAN, [], {FIRST: stored(12, task=0)}, whole)
    assert (held(plan), plan.generation) == ([], 10)
    for record in (stored(10, task=0), stored(12), replace(stored(12, task=0), run="another")):
        assert held(follow_orders(PLAN, [], {FIRST: record}, whole)) == [FIRST]


class World:
    """Clusters of which one has lost a topic: `SECOND` has no start. In `left_open` a former task has something open
    that cannot be ended now. All else of a renewal passes."""

    is_whole = view = records = problems = property(lambda self: self)
    offsets_partitions, last_sequence = 25, 99

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left_open: set[TopicPartition] = set()
        self.orders: list[Command | None] = []
        self.clock = ManualClock()
        taken = {1: Taken(1, ProducerIdentity(7, 3))}
        for name, value in {
            "stop_if_replaced": lambda *_: None, "stop_if_known_replaced": lambda *_: None,
            "is_member": lambda *_: True, "take_over": lambda *_: taken, "read_through": lambda *_: self.read_through(),
            "read_orders": lambda *_: [], "follow_orders": lambda plan, *_: plan, "settle_starts": self.settle,
            "SourceTopics": lambda _: SimpleNamespace(read=lambda _: {}), "publish": self.publish,
            "LeftBehind": lambda *_, **__: SimpleNamespace(renew=self.leave_open),
        }.items():  # fmt: skip
            monkeypatch.setattr(renewal, name, value)

    def read_through(self, *_: object) -> dict[TopicPartition, Position]:
        return {}

    def get(self, _: TopicPartition) -> None:
        return None

    def brokers(self) -> dict[int, tuple[str, int]]:
        return {}

    def settle(
        self, _: object, __: object, ___: object, items: list[Assigned], *, all_of_them: bool, clock: Clock
    ) -> list[Assigned]:
        assert clock is self.clock
        return items if all_of_them else [one for one in items if one.partition != SECOND]

    def leave_open(self, *whose: Any) -> list[Assigned]:
        return [one for one in whose[-1] if one.partition not in self.left_open]

    def publish(self, _: object, topic: str, records: Sequence[tuple[bytes, bytes]]) -> None:
        self.orders += [decode_command(value) for _, value in records]

    def renewed(self, plan: TaskPlan) -> list[TopicPartition]:
        clusters: Any = self
        return held(renew(plan, flow_of(), "run", clusters, clusters, clusters, self.clock))


def test_what_has_no_start_now_is_left_to_the_next_planner_and_its_epoch_begins_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The planner of this epoch counts it as the task's, and would not look for it before ten minutes are over."""
    world, plan = World(monkeypatch), replace(PLAN, assigned=(Assigned(FIRST, 5), Assigned(SECOND, 5)))
    assert world.renewed(plan) == [FIRST]
    (order,) = world.orders
    assert isinstance(order, Restart)
    assert (order.run, order.at_ms, ends_epoch(order, None)) == ("run", world.clock.now_ms, True)

    share, other = Share("run", "one", 3, frozenset({1}), "m1"), Share("run", "two", 3, frozenset({2}), "m2")
    assert world.renewed(replace(plan, share=share)) == [FIRST]
    assert world.orders[1] is not None
    assert [ends_epoch(world.orders[1], one) for one in (share, other)] == [True, False]
    world.left_open = {THIRD}
    assert world.renewed(replace(PLAN, assigned=(Assigned(FIRST, 5), Assigned(THIRD, 5)))) == [FIRST]
    assert len(world.orders) == 3


def test_an_epoch_goes_on_where_all_have_a_start_or_a_run_waits_for_its_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    assert world.renewed(PLAN) == [FIRST]
    assert world.renewed(replace(PLAN, seconds=0.0, assigned=(Assigned(SECOND, 5),))) == [SECOND]
    assert world.orders == []


def test_who_began_while_the_task_took_its_id_over_is_seen_before_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both would go on, each by its own positions, until the one that began is told that it is fenced."""
    world = World(monkeypatch)
    clusters: Any = world
    began: list[str] = []

    def look(*_: object) -> None:
        assert began == ["read"], "by what the ledger has once the id is taken"
        raise FencedError("a newer instance has taken over")

    monkeypatch.setattr(World, "read_through", lambda *_: began.append("read"))
    monkeypatch.setattr(renewal, "stop_if_known_replaced", look)
    with pytest.raises(FencedError):
        renew(PLAN, flow_of(), "run", clusters, clusters, clusters, world.clock)


def test_a_partition_that_came_by_an_order_lies_in_another_log_only_if_that_is_shown_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that is behind shows a topic's former id: the partition would be mirrored again from its beginning."""
    world, ids = World(monkeypatch), (UUID(int=1), UUID(int=2))
    stands, plan = Position(90, topic_id=ids[1]), replace(PLAN, assigned=(Assigned(FIRST, 5), Assigned(THIRD, 0)))
    before, now = ({"orders": Topic("orders", one, 3, 1)} for one in ids)
    monkeypatch.setattr("sparkmirror.planning.starts._views", lambda *_: [])
    for name, value in {
        "follow_orders": lambda *_: plan, "SourceTopics": lambda _: SimpleNamespace(read=lambda _: before),
    }.items():  # fmt: skip
        monkeypatch.setattr(renewal, name, value)
    monkeypatch.setattr(World, "read_through", lambda *_: {THIRD: stands})
    monkeypatch.setattr(World, "list_topics", lambda *_: now, raising=False)
    clusters: Any = world
    renewed = renew(PLAN, flow_of(), "run", clusters, clusters, clusters, world.clock)
    assert renewed.assigned[1] == Assigned(THIRD, 90, topic_id=ids[1])
