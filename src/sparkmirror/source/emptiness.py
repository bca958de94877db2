"""When a bounded read believes that nothing lies before its end, although the broker has more offsets. Pure.

An empty answer alone proves nothing: tiered storage that does not answer in time gives one, without an error
(KIP-405). Only compaction can leave a log without records at its end, and seldom does. Owned by `source.harvest`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sparkmirror.source.fetch import PartitionKey
from sparkmirror.source.partitions import Reading

EMPTY_SECONDS: Final = 30.0
EMPTY_ANSWERS_MIN: Final = 5
"""A process that has slept has waited, and has not been answered."""


@dataclass(slots=True)
class _Suspicion:
    offset: int
    since: float
    answers: int = 0


class Emptiness:
    """The bounded readings of a task whose broker says that there is more, and gives nothing. Times are monotonic."""

    def __init__(self) -> None:
        self._suspicions: dict[Reading, _Suspicion] = {}

    def __bool__(self) -> bool:
        return bool(self._suspicions)

    def suspect(self, reading: Reading, now: float) -> None:
        """An answer named the partition and had nothing of it."""
        known = self._suspicions.get(reading)
        if known is None or known.offset != reading.offset:
            self._suspicions[reading] = _Suspicion(reading.offset, now)

    def clear(self, reading: Reading) -> None:
        """The broker gave something, or says why not."""
        self._suspicions.pop(reading, None)

    def believe(self, readings: Mapping[PartitionKey, Reading], by_id: bool, now: float) -> Iterator[Reading]:
        """An answer of a broker had nothing at all: those among its `readings` that have been empty for long enough.

        In a fetch session it names none of which nothing has changed.
        """
        for reading, found in list(self._suspicions.items()):
            if readings.get(reading.key(by_id)) is not reading or not reading.may_read(now):
                continue
            if reading.offset != found.offset:
                del self._suspicions[reading]
                continue
            found.answers += 1
            if found.answers >= EMPTY_ANSWERS_MIN and now - found.since >= EMPTY_SECONDS:
                del self._suspicions[reading]
                yield reading
