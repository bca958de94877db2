"""When a reader gives Spark what it has, and how much padding goes behind it; pure. Called by `pipeline.fetch.reader`.

Each Python stage of a flow's plan, the writer's included, lets a full batch go when one more row has come. So a batch
of padding brings rows out of the first stage, as a full batch that waits in the second for one more row; rows come out
of n stages when n batches of padding follow them. Where more rows follow soon, it is left to these to push them.
"""

from math import inf
from typing import Final

_FLUSH_SECONDS: Final = 1.0
_IDLE_FLUSH_SECONDS: Final = 5.0
"""A reader without rows flushes so often, also what it has announced: the JVM's part of it costs 1.3 ms."""
_FLUSHED_SECONDS: Final = 3.0
"""So long after its last rows a reader flushes once a second: what a stage makes may be smaller than its buffers."""
SOON_SECONDS: Final = 0.025
"""Rows that came less than this after others are left to those that follow, if some do within as long."""
FEW_RECORDS: Final = 1000
"""A batch of more is on its way through all stages but for its end: not worth a push of its own."""


class Flushes:
    """Of one task, whose rows pass through so many Python stages."""

    def __init__(self, stages: int) -> None:
        self._stages = stages
        self._given_at = self._filled_at = -inf
        self._held = 0

    def due(self, records: int | None, now: float) -> int:
        """How many batches of padding go to Spark now, behind rows of so many records if it is not None; 0 for none."""
        if records is not None:
            self._filled_at = now
            is_alone = now - self._given_at >= SOON_SECONDS and records <= FEW_RECORDS
            self._held = 0 if is_alone else self._stages - 1
            return self._stages if is_alone else 1
        if self._held and self.seconds_left(now) <= 0:
            held, self._held = self._held, 0
            return held
        pause = _FLUSH_SECONDS if now - self._filled_at < _FLUSHED_SECONDS else _IDLE_FLUSH_SECONDS
        return self._stages if now - self._given_at >= pause else 0

    def note_given(self, now: float) -> None:
        """Spark asks for more."""
        self._given_at = now

    def seconds_left(self, now: float) -> float:
        """Until the rows that were left to others are pushed; infinite where there are none."""
        return self._given_at + SOON_SECONDS - now if self._held else inf
