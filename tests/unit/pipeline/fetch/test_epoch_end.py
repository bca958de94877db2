"""When a task's epoch is over: by the clock, by an order, and soon after its process was given more tasks."""

from dataclasses import replace

from msgspec import structs

from sparkmirror.control.assignment import TaskPlan
from sparkmirror.control.commands import Restart, Share, Stop
from sparkmirror.pipeline.fetch.orders import GROWN_SECONDS, EpochEnd

SHARE = Share("run", "p", 3, frozenset({0, 1}), "m")
MORE = structs.replace(SHARE, number=4, tasks=frozenset({0, 1, 2, 3}), at_once=True)
PLAN = TaskPlan(0, "run", 5, 8, 600.0, (), 1000, 6, {}, {}, 0, 25, share=SHARE)


def test_an_epoch_ends_by_the_clock_or_by_an_order() -> None:
    end = EpochEnd(PLAN, 100.0)
    assert not end.has_come(699.9) and end.has_come(700.0)
    end.hear(Stop("run", "another"), 110.0)
    assert not end.has_come(699.9)
    end.hear(Restart("run", 1), 120.0)
    assert end.has_come(120.0)


def test_that_of_a_bounded_run_ends_by_an_order_alone() -> None:
    end = EpochEnd(replace(PLAN, seconds=0.0, share=None), 100.0)
    assert not end.has_come(1e9)
    end.hear(Stop("run"), 110.0)
    assert end.has_come(110.0)


def test_tasks_that_are_added_are_taken_inside_the_epoch_which_then_ends_soon() -> None:
    end = EpochEnd(PLAN, 100.0)
    end.hear(MORE, 110.0)
    assert not end.has_come(109.9 + GROWN_SECONDS) and end.has_come(110.0 + GROWN_SECONDS)
    end.hear(SHARE, 111.0)
    end.hear(structs.replace(MORE, process="another", number=9), 111.0)
    assert not end.has_come(112.0), "read again, and another process's"
    end.hear(structs.replace(MORE, number=5, tasks=frozenset({0, 1, 2})), 112.0)
    assert end.has_come(112.0), "a task that was added is taken away again"


def test_tasks_whose_last_process_may_only_sleep_are_taken_by_an_epoch_that_begins_with_them() -> None:
    """What it has under way is refused then, wherever a task of the same number has written."""
    end = EpochEnd(PLAN, 100.0)
    end.hear(structs.replace(MORE, at_once=False), 110.0)
    assert end.has_come(110.0)


def test_growing_makes_no_epoch_longer() -> None:
    end = EpochEnd(PLAN, 100.0)
    end.hear(MORE, 699.0)
    assert end.has_come(700.0)
