"""Waits for a condition, with a deadline."""

import time
from collections.abc import Callable
from typing import Any

from tests.oracle import DEADLINE_SECONDS_LEAST

_TICK_SECONDS = 0.02


def wait_until(condition: Callable[[], Any], what: str, seconds: float = DEADLINE_SECONDS_LEAST) -> None:
    """Fails with `what` when the condition has not come true in time."""
    seconds = max(seconds, DEADLINE_SECONDS_LEAST)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(_TICK_SECONDS)
