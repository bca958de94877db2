"""Rate and lag of a flow in the last day, five minutes a sample, from what is known of it once a second; pure.

Kept in the history record (`telemetry.history`), by the process that leads the flow.
"""

from collections.abc import Iterable
from typing import Final

from sparkmirror.telemetry.history import SAMPLE_SECONDS, SAMPLES_MAX, Sample

_STEP_MS: Final = SAMPLE_SECONDS * 1000


class DayCurve:
    """`samples` are those that are over, the oldest first."""

    def __init__(self) -> None:
        self.samples: tuple[Sample, ...] = ()
        self._begins_ms: int | None = None
        self._before: tuple[int, int] | None = None
        self._records = 0
        self._known_ms = 0
        self._lag: int | None = None

    def adopt(self, samples: Iterable[Sample]) -> None:
        """Go on from what an earlier process has written."""
        self.samples = tuple(samples)

    def look(self, now_ms: int, records: int | None, lag_records: int | None) -> None:
        """`records` is the sum of what was mirrored, None where nobody knows how the flow stands. A sum that is lower
        than the one before is of another run."""
        begins_ms = now_ms - now_ms % _STEP_MS
        if self._begins_ms is not None and begins_ms != self._begins_ms:
            self._close(self._begins_ms, now_ms)
        self._begins_ms = begins_ms
        if records is not None and self._before is not None and records >= self._before[1]:
            self._records += records - self._before[1]
            self._known_ms += max(now_ms - self._before[0], 0)
        self._before = None if records is None else (now_ms, records)
        if lag_records is not None:
            self._lag = max(self._lag or 0, lag_records)

    def _close(self, begins_ms: int, now_ms: int) -> None:
        rate = round(self._records * 1000 / self._known_ms) if self._known_ms else None
        oldest_ms = now_ms - SAMPLES_MAX * _STEP_MS
        earlier = [one for one in self.samples if oldest_ms <= one.at_ms < begins_ms]
        self.samples = (*earlier, Sample(begins_ms, rate, self._lag))[-SAMPLES_MAX:]
        self._records = self._known_ms = 0
        self._lag = None
