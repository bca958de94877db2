"""Partitions of which nothing can be read although their logs go on: an open transaction holds them back; pure.

A fetch session names such a partition only while its high watermark grows, and brings no run that would show it. So the
end is reported again, a second after the last run or report at the earliest: most transactions are over by then. After
a minute the reason is reported too. Owned by `pipeline.fetch.responses`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Final

from sparkmirror.pipeline.fetch.partitions import PartitionFetchState, Partitions

REPORT_SECONDS: Final = 1.0
REASON_SECONDS: Final = 60.0
_UNREPORTED: Final = -1


@dataclass(slots=True)
class _OpenEnd:
    """What lies between `offset` and the high watermark `end` waits since a monotonic time."""

    offset: int
    since: float
    end: int
    reported: int = _UNREPORTED
    due: float = 0.0


class OpenEnds:
    """By partition. Truthy while there are any, which takes a consumer that reads committed records alone: brokers tell
    every other one too where the first open transaction begins."""

    def __init__(self, *, read_committed: bool) -> None:
        self._read_committed = read_committed
        self._waiting: dict[PartitionFetchState, _OpenEnd] = {}
        self._due = inf

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __contains__(self, fetch_state: PartitionFetchState) -> bool:
        """Whether its end is reported from here: it stands where it stood, and nothing else holds it."""
        found = self._waiting.get(fetch_state)
        return found is not None and found.offset == fetch_state.offset and fetch_state.fault in ("", _reason(found))

    def note(self, fetch_state: PartitionFetchState, end: int, now: float, *, is_reported: bool = False) -> None:
        """An answer came with the high watermark `end`; `is_reported` says that this was just reported. Does nothing
        where more can be read before it, or nothing is behind."""
        if not (self._read_committed and is_held_back(fetch_state, end)):
            return
        known = self._waiting.get(fetch_state)
        if known is None or known.offset != fetch_state.offset:
            known = self._waiting[fetch_state] = _OpenEnd(fetch_state.offset, now, end, due=now + REPORT_SECONDS)
            self._due = min(self._due, known.due)
        known.end = end
        if is_reported:
            known.reported = end

    def take_due(self, partitions: Partitions, now: float) -> Iterator[tuple[PartitionFetchState, int, str]]:
        """The ends to report, each with the reason, empty for the first minute. Partitions that went on are dropped."""
        if now < self._due:
            return
        self._due = now + REPORT_SECONDS
        for fetch_state, found in list(self._waiting.items()):
            if not _waits(fetch_state, found, partitions):
                del self._waiting[fetch_state]
            elif found.due <= now and (report := _report(fetch_state, found, now)) is not None:
                found.reported, found.due = found.end, now + REPORT_SECONDS
                yield report


def _waits(fetch_state: PartitionFetchState, found: _OpenEnd, partitions: Partitions) -> bool:
    if fetch_state.done or fetch_state.paused or partitions.get(fetch_state.partition) is not fetch_state:
        return False
    return fetch_state.offset == found.offset and fetch_state.fault in ("", _reason(found))


def _report(
    fetch_state: PartitionFetchState, found: _OpenEnd, now: float
) -> tuple[PartitionFetchState, int, str] | None:
    reason = _reason(found) if now - found.since >= REASON_SECONDS else ""
    if found.end == found.reported and reason == fetch_state.fault:
        return None
    return fetch_state, found.end, reason


def _reason(found: _OpenEnd) -> str:
    return f"an open transaction at offset {found.offset} holds back all behind it"


def is_held_back(fetch_state: PartitionFetchState, end: int) -> bool:
    """Whether all is read that may be read, although the log goes on up to `end`."""
    return fetch_state.readable <= fetch_state.offset < end
