"""The JVM is asked about a query at once when it ends, and seldom before."""

import threading
from typing import Any

import pytest
from tests.manual_clock import ManualClock
from tests.waiting import wait_until

from sparkmirror.runtime.query_watch import QueryWatch


class Query:
    """Runs until it is ended, with or without an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.ended = threading.Event()
        self._error = error

    def awaitTermination(self) -> None:
        self.ended.wait()
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize("error", [None, RuntimeError("the task failed"), OSError("the JVM is gone")])
def test_the_jvm_is_asked_as_soon_as_a_query_has_ended_and_each_time_from_then_on(error: Exception | None) -> None:
    query: Any = Query(error)
    watch = QueryWatch(query, ManualClock())
    assert watch.is_due, "nothing is known yet"
    assert not watch.is_due
    query.ended.set()
    wait_until(lambda: watch.is_due, "its end is noticed", 10)
    assert watch.is_due


def test_while_a_query_runs_the_jvm_is_asked_every_five_seconds() -> None:
    query: Any = Query()
    clock = ManualClock()
    watch = QueryWatch(query, clock)
    asked = 0
    for _ in range(21):
        asked += watch.is_due
        clock.sleep(1.0)
    assert asked == 5
    query.ended.set()
