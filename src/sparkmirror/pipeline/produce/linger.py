"""Holds a little back for a while, so that more goes with it: the producer's `linger.ms`. Owned by
`pipeline.produce.buffer`.

As in Java's producer the time runs from the first record on, and what makes a whole batch waits no longer.
"""

from math import inf

from sparkmirror.clock import SYSTEM_CLOCK, Clock


class Linger:
    """What waits of one target partition, by its bytes. With 0 seconds nothing is held back."""

    __slots__ = ("_batch_bytes", "_bytes", "_clock", "_ends_at", "_is_told", "_seconds")

    def __init__(self, seconds: float, batch_bytes: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._seconds = seconds
        self._batch_bytes = batch_bytes
        self._bytes = 0
        self._ends_at = -inf
        self._is_told = False

    def add(self, size_bytes: int) -> None:
        if not self._bytes and self._seconds:
            self._ends_at = self._clock.monotonic() + self._seconds
            self._is_told = False
        self._bytes += size_bytes
        if self._bytes >= self._batch_bytes:
            self._ends_at = -inf

    @property
    def holds_back(self) -> bool:
        return self._ends_at > 0 and self._ends_at > self._clock.monotonic()

    def tell_end(self) -> float:
        """When what waits goes out though it is little; given once, 0 after that and while nothing is held back."""
        if self._is_told or not self.holds_back:
            return 0.0
        self._is_told = True
        return self._ends_at

    def begin_anew(self) -> None:
        """Nothing waits any more."""
        self._bytes = 0
        self._ends_at = -inf

    def stop(self) -> None:
        """Hold nothing back from now on."""
        self._seconds = 0.0
        self._ends_at = -inf
