"""A flow's rates, from its sums as they are seen now and then; pure. Used by the progress that a run shows, and by the
status page."""

from dataclasses import dataclass, field
from typing import Final

_RATE_SECONDS: Final = 3.0
_FEW_PER_SECOND: Final = 5.0
_FEW_SECONDS: Final = 6.0
"""A task through which nothing but heartbeats pass counts them every five seconds (`pipeline.produce.ledger_flush`)."""


@dataclass(slots=True)
class Pace:
    """Records and bytes a second, over the last seconds."""

    records_per_second: float = 0.0
    bytes_per_second: float = 0.0
    _marks: list[tuple[float, int, int]] = field(default_factory=list)

    def measure(self, now_seconds: float, records: int, size: int) -> None:
        """Takes the sums at a time; sums lower than before are those of a new run."""
        if self._marks and records < self._marks[-1][1]:
            self._marks.clear()
        if self._awaits_few(now_seconds, records):
            return
        self._marks.append((now_seconds, records, size))
        while len(self._marks) > 2 and now_seconds - self._marks[1][0] >= _RATE_SECONDS:
            self._marks.pop(0)
        at, records_then, size_then = self._marks[0]
        if now_seconds > at:
            self.records_per_second = round((records - records_then) / (now_seconds - at), 1)
            self.bytes_per_second = round((size - size_then) / (now_seconds - at), 1)

    def _awaits_few(self, now_seconds: float, records: int) -> bool:
        """Whether a few records a second may have passed that were not counted yet."""
        if not self._marks or self.records_per_second > _FEW_PER_SECOND:
            return False
        at, counted, _ = self._marks[-1]
        return records == counted and now_seconds - at < _FEW_SECONDS
