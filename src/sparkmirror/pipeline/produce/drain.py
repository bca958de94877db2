"""How long a sender that is to end goes on: until what is under way is acknowledged, for a bounded time."""

from typing import Final

from sparkmirror.clock import SYSTEM_CLOCK, Clock

SECONDS_MAX: Final = 2.0
_MAKING_SECONDS: Final = 0.2


class Drain:
    """`begin` is called by the row thread, all else by the sender's."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._finish_by = 0.0

    def begin(self) -> None:
        self._finish_by = self._clock.monotonic() + SECONDS_MAX

    @property
    def has_begun(self) -> bool:
        return self._finish_by > 0

    def takes_new(self, now: float) -> bool:
        """Whether new batches may go out: after the time to drain an answer would come too late to be stored, and the
        batch would be sent twice."""
        return not self._finish_by or now < self._finish_by

    def is_over(self, now: float) -> bool:
        """Whether answers and last positions are not waited for any longer."""
        return self.has_begun and now > self._finish_by + SECONDS_MAX

    def wait_longer(self, seconds: float) -> None:
        """Extend the time by a wait for kernels, which must not count as a target's silence."""
        if seconds > _MAKING_SECONDS and self._finish_by:
            self._finish_by = self._clock.monotonic() + SECONDS_MAX
