"""How long the target takes to answer the batches of a partition. Owned by `pipeline.produce.buffer`."""

from typing import Final

_GROWTH: Final = 1.02
"""By how much the shortest round trip grows with each batch, so that old measurements lose weight."""


class RoundTrip:
    """The shortest recent round trip of one partition: longer ones only show that brokers are busy."""

    __slots__ = ("_shortest_seconds", "is_far")

    def __init__(self) -> None:
        self.is_far = True
        self._shortest_seconds = 0.0

    def measure(self, seconds: float) -> None:
        """A batch was acknowledged so long after it was sent."""
        lately = self._shortest_seconds
        self._shortest_seconds = min(seconds, lately * _GROWTH) if lately else seconds

    def note_distance(self, *, is_far: bool) -> None:
        """Near a broker slow answers are not due to the link."""
        self.is_far = is_far

    @property
    def seconds(self) -> float:
        """0 near the brokers, and before the first answer."""
        return self._shortest_seconds if self.is_far else 0.0
