"""How far offsets without a record are filled in a partition whose offsets are kept: a part of its status record; pure.

The planner reports a start (`planning.status_records`), the task a hole (`pipeline.produce.aligned_offsets`), each only
if it takes longer than a moment. What no living process has reported lately is unknown.
"""

from collections import deque
from typing import Final, NamedTuple

from sparkmirror.stored_json import Offset

_RATE_SECONDS: Final = 10.0


class Filling(NamedTuple):
    """Offsets from `first` up to `stop`, filled up to `reached`; None where that is unknown. `is_start`: they lie
    before the partition's first record, and no task has it yet. `offsets_per_second` is the rate of the last seconds,
    None where it is unknown, as before anything was filled."""

    is_start: bool
    first: Offset
    stop: Offset
    reached: Offset | None = None
    offsets_per_second: float | None = None

    @property
    def left(self) -> int | None:
        return None if self.reached is None else max(self.stop - self.reached, 0)

    @property
    def share(self) -> float | None:
        """From 0 to 1."""
        if self.reached is None:
            return None
        return min(max(self.reached - self.first, 0) / (self.stop - self.first), 1.0) if self.stop > self.first else 1.0

    @property
    def seconds_left(self) -> float | None:
        if self.left == 0:
            return 0.0
        return None if self.left is None or not self.offsets_per_second else self.left / self.offsets_per_second

    def unknown(self) -> "Filling":
        """The same range, of which nobody knows how far it is filled."""
        return Filling(self.is_start, self.first, self.stop)


class FillGauge:
    """Measures one fill; `first` is where it began, in whatever process."""

    def __init__(self, first: int, stop: int, now: float, reached: int, *, is_start: bool) -> None:
        """`now` is by a monotonic clock; `reached` is where this process goes on."""
        self._first = first
        self.stop = stop
        self._is_start = is_start
        self._marks = deque([(now, reached)])
        self.begun_at = now

    @property
    def reached(self) -> int:
        return self._marks[-1][1]

    def note(self, now: float, reached: int) -> Filling:
        self._marks.append((now, reached))
        while len(self._marks) > 2 and now - self._marks[1][0] >= _RATE_SECONDS:
            self._marks.popleft()
        return self.show()

    def show(self) -> Filling:
        """As it was noted last; the rate is unknown before anything was filled."""
        (before, reached_then), (now, reached) = self._marks[0], self._marks[-1]
        rate = (reached - reached_then) / (now - before) if now > before and reached > reached_then else None
        return Filling(self._is_start, self._first, self.stop, reached, None if rate is None else round(rate, 1))
