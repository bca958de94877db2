"""Decides when a bounded read may treat the rest of its range as empty, although the log's end lies beyond.

An empty answer alone proves nothing: tiered storage that does not answer in time gives one, without an error (KIP-405).
Only compaction can leave a log without records at its end, which is rare. Owned by `pipeline.fetch.responses`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sparkmirror.pipeline.fetch.fetch_session import PartitionKey
from sparkmirror.pipeline.fetch.partitions import PartitionFetchState

EMPTY_SECONDS: Final = 30.0
EMPTY_ANSWERS_MIN: Final = 5
"""Time alone proves nothing: a process that slept has waited without an answer."""


@dataclass(slots=True)
class _Suspicion:
    offset: int
    since: float
    answers: int = 0


class Emptiness:
    """The bounded partitions of a task whose broker reports a later end and returns nothing. Times are monotonic."""

    def __init__(self) -> None:
        self._suspicions: dict[PartitionFetchState, _Suspicion] = {}

    def __bool__(self) -> bool:
        return bool(self._suspicions)

    def suspect(self, fetch_state: PartitionFetchState, now: float) -> None:
        """An answer named the partition and had no records of it."""
        known = self._suspicions.get(fetch_state)
        if known is None or known.offset != fetch_state.offset:
            self._suspicions[fetch_state] = _Suspicion(fetch_state.offset, now)

    def clear(self, fetch_state: PartitionFetchState) -> None:
        """The broker returned records, or an error."""
        self._suspicions.pop(fetch_state, None)

    def believe(
        self, fetch_states: Mapping[PartitionKey, PartitionFetchState], by_id: bool, now: float
    ) -> Iterator[PartitionFetchState]:
        """After an answer without any records: the broker's partitions that have been empty for long enough.

        The answer need not name them: a fetch session leaves out partitions without changes. One that throttles us, and
        names none, is no answer to the question.
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
