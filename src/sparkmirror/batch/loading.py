"""Loads the kernels beside the work that goes on: linking them takes 0.06 s of CPU, compiling them once many seconds.

Asked by the reader and the sender, whose loops must not stand still for so long.
"""

import os
import sys
import time
from math import inf
from threading import Thread
from typing import Final

from sparkmirror.clock import SYSTEM_CLOCK, Clock

_WAIT_SECONDS_MAX: Final = 2.0
"""Loading takes less even beside others; what takes longer is compiling, which happens once on a machine."""


_WORTH_SECONDS: Final = 0.1
"""More than loading costs; and each process that has loaded them needs some MB more."""


_OFTEN_SECONDS: Final = 0.1
_AT_ONCE: Final = os.environ.get("SPARKMIRROR_KERNELS") == "at-once"
"""For tests, whose mirrors seldom live as long as loading takes to pay."""


class _Loading:
    """The one loading of a process."""

    def __init__(self) -> None:
        self.spent_seconds = 0.0
        self._thread: Thread | None = None
        self._began_at = 0.0

    @property
    def has_begun(self) -> bool:
        return self._thread is not None

    def begin(self) -> Thread:
        if self._thread is None:
            self._thread = Thread(target=_load, name="kernels", daemon=True)
            self._began_at = time.monotonic()
            self._thread.start()
        return self._thread

    def ends_soon(self) -> bool:
        if self._thread is None or not self._thread.is_alive():
            return False
        return time.monotonic() - self._began_at < _WAIT_SECONDS_MAX


_loading = _Loading()


def kernels_ready() -> bool:
    """Whether a kernel answers at once. The first call of a process begins to load them, in a thread.

    Who must have a kernel need not ask: using one waits until it is loaded.
    """
    return not _loading.begin().is_alive()


def kernels_pay(seconds: float) -> bool:
    """As `kernels_ready`, for work that takes so many seconds without them: loading begins when the work of this
    process, all in all, has come to what loading costs."""
    if _loading.has_begun or _AT_ONCE:
        return kernels_ready()
    _loading.spent_seconds += seconds
    return _loading.spent_seconds >= _WORTH_SECONDS and kernels_ready()


class OftenDone:
    """Work that counts for `kernels_pay` only where it is done ten times a second and more: so a mirror that is caught
    up loads kernels within seconds, at 50 records/s too, and an idle one, which has no use for them, never.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._done_at = -inf

    def kernels_pay(self, seconds: float) -> bool:
        """As the function, for work that was done now."""
        now = self._clock.monotonic()
        is_often, self._done_at = _AT_ONCE or now - self._done_at < _OFTEN_SECONDS, now
        return is_often and kernels_pay(seconds)


def kernels_soon() -> bool:
    """Whether they are being loaded and will be there in a moment: what waits may then be merged."""
    return _loading.ends_soon()


def kernels_loaded() -> bool:
    """As `kernels_ready`, but does not begin to load them."""
    return "sparkmirror.batch.kernels" in sys.modules and kernels_ready()


def _load() -> None:
    try:
        from sparkmirror.batch import fetch_turns, kernels, lz4_blocks, plain_answers, produce_turns, small_runs  # noqa: F401
    except Exception:
        return  # The first use imports them again and raises this where it can be reported.
    from sparkmirror.batch.machine_code import leave_linker

    leave_linker()
