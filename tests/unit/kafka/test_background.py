"""Work beside a selector loop: one piece per key, and silence after the end."""

import logging
import threading

import pytest

from sparkmirror.kafka.background import Background

SECONDS_MAX = 60.0


def test_work_is_done_once_per_key_and_its_outcome_collected_on_the_callers_thread() -> None:
    woken = threading.Event()
    go_on = threading.Event()
    background = Background(woken.set)
    background.submit("look-up", lambda: go_on.wait(SECONDS_MAX))
    background.submit("look-up", lambda: pytest.fail("the same key is being worked on"))
    assert background.collect() == []
    go_on.set()
    assert woken.wait(SECONDS_MAX)
    (outcome,) = background.collect()
    assert (outcome.key, outcome.result, outcome.error) == ("look-up", True, None)
    woken.clear()
    background.submit("look-up", lambda: 1 / 0)
    assert woken.wait(SECONDS_MAX)
    (outcome,) = background.collect()
    assert isinstance(outcome.error, ZeroDivisionError)
    background.close()


def test_work_that_ends_after_the_close_wakes_nobody() -> None:
    """The loop's pipe is closed by then, and its number may be another file's: a wake-up would write into that."""
    calls: list[str] = []
    go_on = threading.Event()
    threads: list[threading.Thread] = []

    def slow() -> None:
        threads.append(threading.current_thread())
        started.set()
        go_on.wait(SECONDS_MAX)

    started = threading.Event()
    background = Background(lambda: calls.append("woken"))
    background.submit("dial", slow)
    assert started.wait(SECONDS_MAX)
    background.close()
    go_on.set()
    threads[0].join(SECONDS_MAX)
    assert not threads[0].is_alive()
    assert calls == []


def test_work_that_never_began_is_dropped_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    go_on = threading.Event()
    started = threading.Event()
    threads: list[threading.Thread] = []

    def slow() -> None:
        threads.append(threading.current_thread())
        started.set()
        go_on.wait(SECONDS_MAX)

    background = Background(lambda: None, threads=1)
    background.submit("first", slow)
    background.submit("second", lambda: pytest.fail("cancelled work ran"))
    assert started.wait(SECONDS_MAX)
    with caplog.at_level(logging.ERROR):
        background.close()
        go_on.set()
        threads[0].join(SECONDS_MAX)
    assert caplog.records == []
