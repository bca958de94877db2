"""Answers `/healthz` and `/readyz`: whether the mirror that serves the page is well. Informed by `runtime.run`."""

import time
from collections.abc import Callable

_SILENCE_SECONDS_MAX = 60.0


class Health:
    """`beat` is called from the run's loop; a loop that stands still for a minute is a problem.

    Written by one thread and read by others: each attribute is one reference.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._beat_at: float | None = None
        self._not_ready: tuple[str, ...] = ()

    def beat(self, not_ready: tuple[str, ...] = ()) -> None:
        """The loop goes round; `not_ready` says of flows that do not do their work how they stand."""
        self._not_ready = not_ready
        self._beat_at = self._now()

    def problem(self) -> str:
        """Why this process should be ended and started again; empty when it should not."""
        if self._beat_at is None or (silent := self._now() - self._beat_at) <= _SILENCE_SECONDS_MAX:
            return ""
        return f"the run's loop has stood still for {silent:.0f} s"

    def waiting(self) -> str:
        """The reason why not all flows do their work; empty when they do. A warning alone is no reason."""
        if self._beat_at is None:
            return "the mirror is starting"
        return "\n".join(self._not_ready)
