"""Least, greatest and mean duration of the last 30 to 60 s, as MirrorMaker's metrics have them; pure.

It keeps two samples of 30 s and drops the older one when a third begins, as Kafka's `SampledStat` does. Used by
`pipeline.produce.task_metrics` and `sync.offset_job`.
"""

from typing import Final

from sparkmirror.telemetry.records import Spread

_WINDOW_MS: Final = 30_000


class Window:
    """Durations of the last 30 to 60 s, in ms. A negative duration counts as 0."""

    __slots__ = ("_before", "_era", "_last", "_now")

    def __init__(self) -> None:
        self._era = 0
        self._last = 0
        self._now: tuple[int, int, int, int] | None = None
        self._before: tuple[int, int, int, int] | None = None

    def add(self, least_ms: int, most_ms: int, records: int, now_ms: int) -> None:
        """Count `records` records whose durations are spread evenly from `least_ms` to `most_ms`."""
        if least_ms < 0:
            least_ms = 0
            if most_ms < 0:
                most_ms = 0
        if now_ms // _WINDOW_MS != self._era:
            self._turn(now_ms)
        self._last = least_ms
        doubled = (least_ms + most_ms) * records
        if self._now is None:
            self._now = (least_ms, most_ms, doubled, records)
        else:
            least, most, total, count = self._now
            self._now = (
                least_ms if least_ms < least else least,
                most_ms if most_ms > most else most,
                total + doubled,
                count + records,
            )

    def _turn(self, now_ms: int) -> None:
        era = now_ms // _WINDOW_MS
        if era != self._era:
            self._before = self._now if era == self._era + 1 else None
            self._now = None
            self._era = era

    def spread(self, now_ms: int) -> Spread:
        self._turn(now_ms)
        found = [one for one in (self._before, self._now) if one is not None]
        count = sum(one[3] for one in found)
        if not count:
            return Spread(self._last)
        mean = sum(one[2] for one in found) / (2 * count)
        return Spread(self._last, min(one[0] for one in found), max(one[1] for one in found), round(mean, 3))
