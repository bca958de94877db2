"""How many tasks a flow runs: by histories of its load, without flapping."""

from math import fsum

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparkmirror.planning.task_count import (
    BACKLOG_RECORDS,
    CALM_LOOKS,
    CORES_ENOUGH,
    CORES_MAX,
    Bounds,
    TaskCount,
    TaskLoad,
    bound,
)

FOUR = Bounds(1, 4, "cores")
ALL_CORES_OF_A_TASK = 2.0


def loads(*cores: float, behind: int = -1) -> dict[int, TaskLoad]:
    return {task: TaskLoad(used, task == behind) for task, used in enumerate(cores)}


def running(tasks: int, bounds: Bounds = FOUR) -> TaskCount:
    """A flow in its first epoch, with so many tasks."""
    count = TaskCount()
    assert count.begin(Bounds(tasks, tasks, "tasks.min"), 0) == tasks
    assert count.begin(bounds, 0) == tasks
    return count


@pytest.mark.parametrize(
    ("least", "limits", "wished", "expected"),
    [
        (1, {"tasks.max": 1}, {"cores": 8}, (1, 1, "tasks.max")),
        (1, {"tasks.max": 64}, {"cores": 2}, (1, 2, "cores")),
        (64, {"tasks.max": 64}, {"cores": 2}, (64, 64, "tasks.max")),
        (3, {"tasks.max": 64}, {"cores": 2}, (3, 3, "cores")),
        (4, {"tasks.max": 4, "partitions": 3}, {"cores": 8}, (3, 3, "partitions")),
        (1, {"tasks.max": 8, "slots": 5}, {}, (1, 5, "slots")),
        (1, {"tasks.max": 4, "partitions": 0}, {"cores": 2}, (1, 1, "partitions")),
    ],
)
def test_nothing_goes_beyond_what_is_there_and_only_a_person_beyond_the_cores(
    least: int, limits: dict[str, int], wished: dict[str, int], expected: tuple[int, int, str]
) -> None:
    assert bound(least, limits, wished) == expected


@pytest.mark.parametrize(
    ("backlog", "tasks"), [(0, 1), (BACKLOG_RECORDS, 1), (BACKLOG_RECORDS + 1, 4), (float("inf"), 4)]
)
def test_a_flow_begins_with_the_most_tasks_where_it_is_behind_or_nobody_knows(backlog: float, tasks: int) -> None:
    count = TaskCount()
    assert count.begin(FOUR, backlog) == tasks
    assert count.begin(FOUR, 0) == tasks, "the backlog counts once"


@pytest.mark.parametrize(
    ("backlog", "held", "tasks", "why"),
    [
        (0, BACKLOG_RECORDS, 1, "close at the start"),
        (1, BACKLOG_RECORDS, 1, "behind at the start, by its rate limits"),
        (BACKLOG_RECORDS + 1, 10**9, 4, "behind at the start; no more by cores"),
        (float("inf"), 10**9, 4, "behind at the start; no more by cores"),
    ],
)
def test_what_low_limits_hold_back_is_no_reason_to_begin_with_more(
    backlog: float, held: float, tasks: int, why: str
) -> None:
    count = TaskCount()
    assert (count.begin(FOUR, backlog, held), count.reason) == (tasks, why)


@pytest.mark.parametrize(
    ("before", "history", "after"),
    [
        # One look is a peak, two are a load.
        (1, [loads(CORES_MAX + 0.1)], 1),
        (1, [loads(CORES_MAX + 0.1), loads(0.1)], 1),
        (1, [loads(CORES_MAX + 0.1), loads(CORES_MAX + 0.1)], 2),
        (1, [loads(2.0), loads(2.0)], 4),
        # Who is behind gets twice as many, whatever the cores say.
        (1, [loads(0.2, behind=0)] * 2, 2),
        (2, [loads(0.2, 0.1, behind=1)] * 2, 4),
        (4, [loads(0.2, 0.1, 0.1, 0.1, behind=1)] * 9, 4),
        # What is not known for all tasks decides nothing.
        (2, [loads(2.0)] * 9, 2),
        (2, [{}] * 30, 2),
        # Fewer only after minutes of calm, and not below what the load needs.
        (4, [loads(0.01, 0.01, 0.01, 0.01)] * (CALM_LOOKS - 1), 4),
        (4, [loads(0.01, 0.01, 0.01, 0.01)] * CALM_LOOKS, 1),
        (4, [loads(0.2, 0.2, 0.2, 0.1)] * CALM_LOOKS, 2),
        (4, [loads(0.6, 0.6, 0.3, 0.4), *[loads(0.01, 0.01, 0.01, 0.01)] * (CALM_LOOKS - 1)], 4),
        (2, [loads(0.25, 0.25)] * CALM_LOOKS, 2),
    ],
)
def test_the_next_epoch_has_as_many_as_the_load_has_shown_to_need(
    before: int, history: list[dict[int, TaskLoad]], after: int
) -> None:
    count = running(before)
    ends_epoch = False
    for look in history:
        assert not ends_epoch, "the epoch has ended"
        ends_epoch = count.look(look, FOUR)
    assert ends_epoch == (after > before), "only more tasks end an epoch"
    assert count.begin(FOUR, 0) == after


def test_a_load_that_comes_and_goes_moves_nothing() -> None:
    count = running(2)
    for _ in range(100):
        assert not count.look(loads(0.7, 0.7), FOUR)
        assert not count.look(loads(0.01, 0.01), FOUR)
        assert count.begin(FOUR, 0) == 2


@given(st.floats(0.0, 4 * ALL_CORES_OF_A_TASK))
@example(1.8)
def test_a_load_that_stays_comes_to_rest(cores: float) -> None:
    """Whatever the number of tasks at first: the load is spread over them, and no number leads to another for ever."""
    for before in (1, 2, 3, 4):
        count, tasks, seen = running(before), before, [before]
        for _ in range(10 * CALM_LOOKS):
            if count.look(loads(*[cores / tasks] * tasks), FOUR):
                tasks = count.begin(FOUR, 0)
                seen.append(tasks)
        for _ in range(3):
            tasks = count.begin(FOUR, 0)
            seen.append(tasks)
            for _ in range(CALM_LOOKS):
                assert not count.look(loads(*[cores / tasks] * tasks), FOUR)
        assert seen[-1] == seen[-2], f"{cores} cores: {seen}"
        told = fsum([cores / tasks] * tasks)  # as the looks add them up; 0.6 three times is a bit less than 1.8
        assert told / CORES_MAX <= tasks or tasks == FOUR.most
        assert tasks == 1 or cores > CORES_ENOUGH * (tasks - 1)


def test_bounds_that_close_in_take_tasks_away_at_the_next_epoch() -> None:
    count = running(4)
    assert count.begin(Bounds(1, 2, "slots"), 0) == 2
    assert "slots" in count.reason


@pytest.mark.parametrize(
    ("bounds", "backlog", "words"),
    [
        (FOUR, 0, "close at the start"),
        (FOUR, float("inf"), "behind at the start; no more by cores"),
        (Bounds(2, 2, "tasks.max"), 0, "tasks.max"),
    ],
)
def test_it_says_why(bounds: Bounds, backlog: float, words: str) -> None:
    count = TaskCount()
    count.begin(bounds, backlog)
    assert count.reason == words
