"""Answers `/healthz` and `/readyz`: whether the mirror that serves the page is well. `runtime.run` reports to it."""

import time
from collections.abc import Callable

_SILENCE_SECONDS_MAX = 60.0


class Health:
    """The run's loop calls `beat`; a loop that stands still for a minute is a problem. It ends with `stopping`.

    One thread writes and others read: each attribute is a single reference.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._beat_at: float | None = None
        self._not_ready: tuple[str, ...] = ()

    def beat(self, not_ready: tuple[str, ...] = ()) -> None:
        """The loop has run once more. `not_ready` describes the flows, or jobs, that are not ready."""
        self._not_ready = not_ready
        self._beat_at = self._now()

    def stopping(self) -> None:
        """The loop has ended: what it has said last holds no more."""
        self.beat(("the mirror is stopping",))

    def problem(self) -> str:
        """The reason why a supervisor should restart this process; empty when there is none."""
        if self._beat_at is None or (silent := self._now() - self._beat_at) <= _SILENCE_SECONDS_MAX:
            return ""
        return f"the run's loop has stood still for {silent:.0f} s"

    def waiting(self) -> str:
        """The reason why not all flows, or jobs, are ready; empty when all are. An AMBER verdict is no reason."""
        if self._beat_at is None:
            return "the mirror is starting"
        return "\n".join(self._not_ready)
