"""Which tasks run: those that must, those that did, and no more than asked for; and what they keep."""

from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.flows import flow_of

from sparkmirror.control.assignment import Assignment
from sparkmirror.control.commands import Throttle
from sparkmirror.model import TopicPartition
from sparkmirror.planning.hand_over import TaskReport
from sparkmirror.planning.plan import plan_assignment
from sparkmirror.planning.sizing import Sizing, choose_tasks, heed_limits, is_behind_freely, keep, usable_cores
from sparkmirror.planning.task_count import ONE_TASK_BYTES, Bounds
from sparkmirror.policy.rates import WHOLE_FLOW, RateLimit
from sparkmirror.telemetry.brakes import OWN_LIMITS, SOURCE_QUOTA, TARGET_QUOTA

if TYPE_CHECKING:
    from sparkmirror.planning.ownership import TaskOwnership

PARTITIONS = [TopicPartition("orders", number) for number in range(12)]
numbers = st.integers(0, 7)


@given(st.sets(numbers, min_size=1), st.sets(numbers), st.sets(numbers), st.integers(1, 8))
def test_so_many_tasks_are_chosen_and_those_first_that_have_to_run(
    owned: set[int], bound: set[int], running: set[int], count: int
) -> None:
    bound &= owned
    tasks = choose_tasks(owned, bound, running, count)
    assert len(tasks) == len(set(tasks)) == min(count, len(owned)) and set(tasks) <= owned
    assert bound <= set(tasks) or set(tasks) <= bound
    left_out = owned - set(tasks)
    assert not (left_out & running - bound and set(tasks) - bound - running), "a task that runs goes on before another"


@given(st.dictionaries(st.sampled_from(PARTITIONS), numbers), st.sets(numbers, min_size=1))
def test_what_others_wrote_last_stays_with_the_task_of_its_number(
    owners: dict[TopicPartition, int], tasks: set[int]
) -> None:
    before: Assignment = {
        task: frozenset(where for where, owner in owners.items() if owner == task) for task in owners.values()
    }
    foreign = dict(zip(PARTITIONS[:4], sorted(tasks) * 4, strict=False))
    after = plan_assignment(PARTITIONS, sorted(tasks), keep(sorted(tasks), before, foreign), {})
    assert all(where in after[number] for where, number in foreign.items())
    assert sorted(where for members in after.values() for where in members) == PARTITIONS, "each once"


def test_the_same_tasks_keep_what_they_had_and_others_are_laid_out_evenly() -> None:
    before = {0: frozenset(PARTITIONS[:10]), 1: frozenset(PARTITIONS[10:])}
    assert keep([0, 1], before, {}) == before
    grown = plan_assignment(PARTITIONS, [0, 1, 2], keep([0, 1, 2], before, {}), {})
    assert sorted(map(len, grown.values())) == [4, 4, 4]


def test_there_is_a_core_to_run_on() -> None:
    assert usable_cores() >= 1


SLOW = RateLimit("slow.*", 1000)
BEHIND = frozenset({"slow-orders", "audit"})


@pytest.mark.parametrize(
    ("report", "limits", "counts"),
    [
        (TaskReport(0.1, BEHIND), [SLOW], True),
        (TaskReport(0.1, frozenset(), (SOURCE_QUOTA,)), [], False),
        # A limit holds back what it is for, and no other topic.
        (TaskReport(0.1, BEHIND, (OWN_LIMITS,)), [RateLimit(WHOLE_FLOW, 1000)], False),
        (TaskReport(0.1, BEHIND, (OWN_LIMITS,)), [SLOW], True),
        (TaskReport(0.1, frozenset({"slow-orders"}), (OWN_LIMITS,)), [SLOW], False),
        # One that was lifted since holds nothing back.
        (TaskReport(0.1, frozenset({"slow-orders"}), (OWN_LIMITS,)), [RateLimit("slow.*", 0)], True),
        # A quota holds all of a task back.
        (TaskReport(0.1, BEHIND, (TARGET_QUOTA,)), [], False),
        (TaskReport(0.1, BEHIND, (OWN_LIMITS, SOURCE_QUOTA)), [SLOW], False),
    ],
)
def test_who_is_behind_and_held_back_is_not_behind_for_want_of_tasks(
    report: TaskReport, limits: list[RateLimit], counts: bool
) -> None:
    assert is_behind_freely(report, limits) is counts


@pytest.mark.parametrize(
    ("limits", "held"),
    [
        ([], ""),
        ([RateLimit(WHOLE_FLOW, ONE_TASK_BYTES)], "abc"),
        ([RateLimit(WHOLE_FLOW, ONE_TASK_BYTES + 1)], ""),
        ([RateLimit("a", 10)], "a"),
        ([RateLimit("a", 10), RateLimit("b", ONE_TASK_BYTES)], ""),
        ([RateLimit("a|b|c", ONE_TASK_BYTES), RateLimit(WHOLE_FLOW, 10**9)], "abc"),
        ([RateLimit("a", 10), RateLimit(WHOLE_FLOW, 10**9)], ""),
        ([RateLimit(WHOLE_FLOW, 0)], ""),
        ([RateLimit("d", 10)], ""),
    ],
)
def test_limits_that_one_task_uses_up_hold_back_what_they_are_for(limits: list[RateLimit], held: str) -> None:
    left = {TopicPartition(topic, number): inf for topic in "abc" for number in (0, 1)} | {TopicPartition("d", 0): 0.0}
    assert {where.topic for where in heed_limits(left, limits)} == set(held)


def test_orders_change_the_limits_that_hold_a_flow_back() -> None:
    """As readers obey them: by pattern, over those of the file."""
    orders: list[Throttle] = []
    ownership = SimpleNamespace(orders=orders, tasks=frozenset(), granted_slots=None)
    sizing = Sizing(flow_of("tasks.max = 2"), cast("TaskOwnership", ownership), once=False)
    held = {0: TaskReport(0.1, BEHIND, (OWN_LIMITS,))}
    sizing._count.begin(Bounds(1, 2, ""), 0)
    sizing._bounds = Bounds(1, 2, "")
    orders.append(Throttle("run", WHOLE_FLOW, 1000))
    assert not any(sizing.look(held) for _ in range(9))
    orders.append(Throttle("run", WHOLE_FLOW, 0))
    assert [sizing.look(held) for _ in range(2)] == [False, True]
