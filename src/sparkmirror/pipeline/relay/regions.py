"""The regions of a ring: which of its bytes are taken, and when they are free again. Pure; called by
`pipeline.relay.ring`.

Regions lie one behind the other and become free in their order. So the one at the front holds up all others, and one
that a broker stops filling in the middle of its answer would stop the task: it leaves the ring when others wait for
memory behind it, and comes back when it is whole.
"""

from collections import deque
from typing import Final, Protocol

from sparkmirror.clock import SYSTEM_CLOCK, Clock

FILLING_SECONDS: Final = 0.5
"""So long others wait for memory behind a region that is being filled, before it has to leave the ring."""


class Filler(Protocol):
    """What fills a region bit by bit, and may have to leave it."""

    def make_way(self) -> None:
        """Move what has come so far out of the ring, count that as `aside_bytes`, and lend the region without
        leases."""


class _Region:
    """Its `leases` are -1 until it is filled."""

    __slots__ = ("filler", "leases", "start", "stop")

    def __init__(self, start: int, stop: int, filler: Filler | None) -> None:
        self.start = start
        self.stop = stop
        self.leases = -1
        self.filler = filler


class Regions:
    """`ring_bytes` is the ring's size; `aside_bytes` is what fillers that made way hold outside it, at most as much
    again."""

    def __init__(self, ring_bytes: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self.ring_bytes = ring_bytes
        self.aside_bytes = 0
        self._clock = clock
        self._head = 0
        self._regions: deque[_Region] = deque()
        self._region_of: dict[int, _Region] = {}
        self._blocked: tuple[int, float] = (-1, 0.0)

    def reserve(self, size: int, filler: Filler | None = None) -> int | None:
        """A contiguous region of `size` bytes, as the position of its first byte; None while there is no room. Without
        a `filler` it is filled at once."""
        head = self._head
        room_to_end = self.ring_bytes - head % self.ring_bytes if self.ring_bytes else 0
        start = head if size <= room_to_end else head + room_to_end
        tail = self._regions[0].start if self._regions else head
        if not self._regions:
            tail = start
        if start + size - tail > self.ring_bytes:
            return self.reserve(size, filler) if self._clear_front() else None
        self._regions.append(_Region(start, start + size, filler))
        self._head = start + size
        return start

    def lend(self, region: int, leases: list[int]) -> None:
        """Declare the leases of a region that was filled; without any it is free at once."""
        found = self._regions[-1]
        if found.start != region:
            found = next(candidate for candidate in reversed(self._regions) if candidate.start == region)
        found.leases = len(leases)
        for lease in leases:
            self._region_of[lease] = found
        self._release_front()

    def give_up(self, region: int, size: int) -> None:
        """Keep so many bytes of a region that is not lent; what is behind is free where no other region follows."""
        last = self._regions[-1]
        if last.start == region:
            last.stop = self._head = region + size

    @property
    def awaits_filler(self) -> bool:
        """Whether the front is still being filled: then no lease that comes back frees any memory."""
        return bool(self._regions) and self._regions[0].leases < 0

    def _clear_front(self) -> bool:
        if not self.awaits_filler:
            return False
        front, now = self._regions[0], self._clock.monotonic()
        if self._blocked[0] != front.start:
            self._blocked = front.start, now
        if front.filler is None or now - self._blocked[1] < FILLING_SECONDS:
            return False
        if self.aside_bytes + front.stop - front.start > self.ring_bytes:
            return False
        front.filler.make_way()
        return True

    def _release_front(self) -> None:
        regions = self._regions
        while regions and regions[0].leases == 0:
            regions.popleft()
