"""What holds a task back that could be faster: the flow's own rate limits, and quotas of the brokers; pure.

More tasks of such a flow would not be faster. Measured by `pipeline.produce.task_metrics`, shown with the status, and
heeded by `planning.sizing`.
"""

from collections.abc import Mapping
from typing import Final

OWN_LIMITS: Final = "its rate limits"
SOURCE_QUOTA: Final = "a quota of the source"
TARGET_QUOTA: Final = "a quota of the target"

HELD_SHARE: Final = 0.1
"""The least share of the time that a task pauses for what holds it back. Who pauses at all is at the limit; one that
pauses for less would be hardly faster without it."""


class Brakes:
    """Of one attempt of a task. `held_by` names what held it back between the last two looks; nothing at first."""

    def __init__(self) -> None:
        self.held_by: tuple[str, ...] = ()
        self._before: Mapping[str, int] = {}
        self._at = 0.0

    def look(self, pauses: Mapping[str, int], now: float) -> None:
        """`pauses` are sums since the attempt began, in ms, by what asked for them; `now` is monotonic."""
        passed_ms = (now - self._at) * 1000
        if self._before and passed_ms > 0:
            self.held_by = tuple(
                cause for cause, ms in pauses.items() if ms - self._before[cause] >= HELD_SHARE * passed_ms
            )
        self._before, self._at = dict(pauses), now


def say_held(held_by: tuple[str, ...]) -> str:
    """As the status says it, "held back by its rate limits"; "" where nothing holds it back."""
    return f"held back by {' and '.join(held_by)}" if held_by else ""
