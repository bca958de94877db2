"""When a bounded read believes that nothing lies before its end, although the broker has more offsets. Pure.

An empty answer alone proves nothing: tiered storage that does not answer in time gives one, without an error (KIP-405).
Only compaction can leave a log without records at its end, and seldom does. Owned by `pipeline.fetch.responses`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sparkmirror.pipeline.fetch.connection import PartitionKey
from sparkmirror.pipeline.fetch.partitions import PartitionFetchState

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
        self._suspicions: dict[PartitionFetchState, _Suspicion] = {}

    def __bool__(self) -> bool:
        return bool(self._suspicions)

    def suspect(self, fetch_state: PartitionFetchState, now: float) -> None:
        """An answer named the partition and had nothing of it."""
        known = self._suspicions.get(fetch_state)
        if known is None or known.offset != fetch_state.offset:
            self._suspicions[fetch_state] = _Suspicion(fetch_state.offset, now)

    def clear(self, fetch_state: PartitionFetchState) -> None:
        """The broker gave something, or says why not."""
        self._suspicions.pop(fetch_state, None)

    def believe(
        self, fetch_states: Mapping[PartitionKey, PartitionFetchState], by_id: bool, now: float
    ) -> Iterator[PartitionFetchState]:
        """An answer of a broker had nothing at all: those among its `readings` that have been empty for long enough.

        In a fetch session it names none of which nothing has changed.
        """
        for fetch_state, found in list(self._suspicions.items()):
            if fetch_states.get(fetch_state.key(by_id)) is not fetch_state or not fetch_state.may_read(now):
                continue
            if fetch_state.offset != found.offset:
                del self._suspicions[fetch_state]
                continue
            found.answers += 1
            if found.answers >= EMPTY_ANSWERS_MIN and now - found.since >= EMPTY_SECONDS:
                del self._suspicions[fetch_state]
                yield fetch_state
