"""A task that is tried again holds what it held, and does not obey twice."""

from dataclasses import replace

from sparkmirror.control.assignment import Assigned, TaskPlan
from sparkmirror.control.commands import Assign
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.model import Position, TopicPartition
from sparkmirror.planning.renewal import follow_orders

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
    assert held(follow_orders(PLAN, orders, ledger, lambda _: False)) == [FIRST]
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
    assert (held(plan), plan.generation) == ([FIRST, SECOND, THIRD], 11)


def test_a_partition_that_came_back_is_held_again() -> None:
    orders = [Assign("run", 11, 1, release=(FIRST,)), Assign("run", 14, 1, add=(Assigned(FIRST, 8),))]
    plan = follow_orders(PLAN, orders, {FIRST: stored(14)}, whole)
    assert (held(plan), plan.generation) == ([FIRST], 14)
    assert follow_orders(replace(PLAN, generation=14), orders, {}, whole) == replace(PLAN, generation=14), (
        "orders of before"
    )
