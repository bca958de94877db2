"""The clock that the program reads, and points in time and ages as people write and read them."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Protocol


class Clock(Protocol):
    """What code that waits or stamps takes as a parameter, so that a test can give its own."""

    def monotonic(self) -> float:
        """Seconds since some moment; they never go back."""

    def time_ns(self) -> int:
        """Nanoseconds since 1970, by a clock that may be set."""

    def thread_time(self) -> float:
        """Seconds of CPU time that the calling thread has used."""

    def sleep(self, seconds: float) -> None:
        """Lets the calling thread wait for so long."""


class SystemClock:
    """This machine's clock. Its functions are attributes, by which the simulator gives all parts its own time."""

    __slots__ = ("monotonic", "sleep", "thread_time", "time_ns")

    def __init__(self) -> None:
        self.monotonic: Callable[[], float] = time.monotonic
        self.time_ns: Callable[[], int] = time.time_ns
        self.thread_time: Callable[[], float] = time.thread_time
        self.sleep: Callable[[float], None] = time.sleep


SYSTEM_CLOCK: Final = SystemClock()


def to_the_second(seconds: float, clock: Clock = SYSTEM_CLOCK) -> float:
    """How long to wait for about `seconds`, until the clock shows a whole second; less than one is waited for as it is.

    Threads that wait so wake together, and find what they run in the processor's caches: an idle mirror's driver then
    takes a quarter less. The wait is at most half a second longer or shorter.
    """
    if seconds < 1.0:
        return seconds
    now = clock.monotonic()
    return round(now + seconds) - now


def parse_moment(text: str) -> int:
    """Milliseconds since 1970 of `2026-11-20T11:00`, with seconds and zone as one likes, or of a plain number of them.

    Without a zone it is UTC, as for `kafka-consumer-groups --to-datetime`. Raises ValueError with a sentence.
    """
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        hint = "write 2026-11-20T11:00 (UTC), 2026-11-20T11:00:30+01:00, or milliseconds since 1970"
        raise ValueError(f"`{text}` is no point in time: {hint}") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def show_moment(moment_ms: int) -> str:
    """`2026-11-20T11:00:00+00:00`, with milliseconds where there are any."""
    unit = "milliseconds" if moment_ms % 1000 else "seconds"
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec=unit)


def show_age(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min`, `5 h`, `2 d`."""
    for unit, size, limit in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < limit:
            number = seconds / size
            return f"{number:.1f} {unit}" if unit == "s" and seconds < 10 else f"{number:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"
