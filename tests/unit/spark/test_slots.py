"""Slots of a cluster, shared by flows: every flow runs, none gets more than it wants, a short loss changes nothing."""

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.spark.cluster import STEADY_SECONDS, TURN_SECONDS, SlotPlan, Steady, plan_slots

wishes = st.lists(st.integers(1, 20), min_size=1, max_size=6)


def test_with_slots_for_all_every_flow_gets_what_it_wants() -> None:
    assert plan_slots([4, 2], 6) == SlotPlan((4, 2))
    assert plan_slots([4, 2], 60) == SlotPlan((4, 2))


def test_with_fewer_each_flow_gets_its_part() -> None:
    assert plan_slots([8], 3) == SlotPlan((3,))
    assert plan_slots([8, 4], 6) == SlotPlan((4, 2))
    assert plan_slots([1, 9], 4) == SlotPlan((1, 3))


def test_with_fewer_slots_than_flows_they_take_turns() -> None:
    assert plan_slots([4, 4, 4], 2) == SlotPlan((1, 1, 1), TURN_SECONDS)


@given(wishes, st.integers(1, 60))
def test_no_slot_is_left_and_no_flow_goes_without(wanted: list[int], slots: int) -> None:
    plan = plan_slots(wanted, slots)
    assert all(1 <= got <= want for got, want in zip(plan.tasks, wanted, strict=True))
    assert sum(plan.tasks) == max(min(slots, sum(wanted)), len(wanted))
    assert (plan.turn_seconds > 0) == (slots < len(wanted))


def test_an_executor_that_is_replaced_soon_is_not_missed_and_one_that_is_not_is() -> None:
    slots = Steady(3)
    assert [slots.see(2, 100.0), slots.see(3, 105.0), slots.see(3, 130.0)] == [3, 3, 3]
    assert [slots.see(2, 200.0), slots.see(2, 200.0 + STEADY_SECONDS)] == [3, 2]
    assert [slots.see(4, 300.0), slots.see(5, 305.0), slots.see(5, 305.0 + STEADY_SECONDS)] == [2, 2, 5]
