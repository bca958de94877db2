"""Assignments: complete, disjoint, sticky, balanced, the same for the same input."""

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.control.assignment import home_task
from sparkmirror.model import TopicPartition
from sparkmirror.planning.plan import plan_assignment, plan_moves

Assigned = dict[int, frozenset[TopicPartition]]

partitions = st.sets(
    st.builds(TopicPartition, st.sampled_from(["orders", "payments", "logs"]), st.integers(0, 9)), max_size=20
)
task_counts = st.integers(1, 5)
rates = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["orders", "logs"]), st.integers(0, 9)), st.floats(0, 1e9), max_size=10
)


def owners(assignment: Assigned) -> dict[TopicPartition, int]:
    found = {partition: task for task, members in assignment.items() for partition in members}
    assert len(found) == sum(map(len, assignment.values())), "no partition has two owners"
    return found


@given(partitions, task_counts, rates)
def test_every_partition_has_one_task(
    wanted: set[TopicPartition], tasks: int, known: dict[TopicPartition, float]
) -> None:
    assignment = plan_assignment(wanted, range(tasks), {}, known)
    assert assignment.keys() == set(range(tasks))
    assert owners(assignment).keys() == wanted


@given(partitions, partitions, task_counts, task_counts, rates)
def test_what_has_an_owner_keeps_it(
    before: set[TopicPartition],
    after: set[TopicPartition],
    tasks_before: int,
    tasks_after: int,
    known: dict[TopicPartition, float],
) -> None:
    first = plan_assignment(before, range(tasks_before), {}, known)
    second = plan_assignment(after, range(tasks_after), first, known)
    assert owners(second).keys() == after
    for partition, task in owners(first).items():
        if partition in after and task < tasks_after:
            assert owners(second)[partition] == task


@given(partitions, task_counts)
def test_without_rates_the_numbers_differ_by_at_most_one(wanted: set[TopicPartition], tasks: int) -> None:
    counts = [len(members) for members in plan_assignment(wanted, range(tasks), {}, {}).values()]
    assert max(counts) - min(counts) <= 1


@given(partitions, task_counts, rates)
def test_no_task_bears_more_than_its_share_and_one_partition(
    wanted: set[TopicPartition], tasks: int, known: dict[TopicPartition, float]
) -> None:
    assignment = plan_assignment(wanted, range(tasks), {}, known)
    loads = [sum(known.get(tp, 0.0) for tp in members) for members in assignment.values()]
    heaviest = max((known.get(tp, 0.0) for tp in wanted), default=0.0)
    assert max(loads) <= (sum(loads) / tasks + heaviest) * (1 + 1e-9)


@given(partitions, task_counts, rates, st.randoms())
def test_the_order_of_the_input_does_not_matter(
    wanted: set[TopicPartition], tasks: int, known: dict[TopicPartition, float], chance: random.Random
) -> None:
    some = plan_assignment(sorted(wanted)[::2], range(tasks), {}, known)
    shuffled = list(wanted)
    chance.shuffle(shuffled)
    backwards = dict(reversed(list(some.items())))
    assert plan_assignment(shuffled, range(tasks), backwards, known) == plan_assignment(
        sorted(wanted), range(tasks), some, known
    )


@given(partitions, partitions, task_counts)
def test_moves_and_fresh_ones_lead_from_one_assignment_to_the_other(
    before: set[TopicPartition], after: set[TopicPartition], tasks: int
) -> None:
    first = owners(plan_assignment(before, range(tasks), {}, {}))
    target = plan_assignment(after, range(tasks), {}, {})
    moves, fresh = plan_moves(plan_assignment(before, range(tasks), {}, {}), target)
    result = {tp: task for tp, task in first.items() if tp in after}
    for move in moves:
        assert result[move.partition] == move.from_task != move.to_task
        result[move.partition] = move.to_task
    for task, added in fresh.items():
        for partition in added:
            assert partition not in first
            result[partition] = task
    assert result == owners(target)


@given(st.text(min_size=1), st.integers(1, 50), st.integers(1, 9))
def test_partitions_of_a_topic_have_their_homes_at_one_task_after_another(topic: str, count: int, tasks: int) -> None:
    homes = [home_task(TopicPartition(topic, number), tasks) for number in range(count)]
    assert all((after - before) % tasks in (0, 1) for before, after in itertools.pairwise(homes))
    assert max(map(homes.count, range(tasks))) - min(map(homes.count, range(tasks))) <= 1
