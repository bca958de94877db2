"""A clock that moves when a test says so, for code that takes `sparkmirror.clock.Clock`."""


class ManualClock:
    """`now` is the monotonic time, `cpu` the CPU time of the one thread that there is; both in seconds."""

    def __init__(self, now: float = 1000.0, began_at: float = 1_800_000_000.0) -> None:
        """At the monotonic time 0 the wall clock shows `began_at`, in seconds since 1970."""
        self.now = now
        self.cpu = 0.0
        self._began_at = began_at

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return self.now_ms * 1_000_000

    def thread_time(self) -> float:
        return self.cpu

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return round((self._began_at + self.now) * 1000)
