"""Which tasks run: those that must, those that did, and no more than asked for; and what they keep."""

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.control.assignment import Assignment
from sparkmirror.model import TopicPartition
from sparkmirror.planning.plan import plan_assignment
from sparkmirror.planning.sizing import choose_tasks, keep, usable_cores

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
