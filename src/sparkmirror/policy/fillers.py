"""What takes up offsets of the target at which the source has no record; pure.

Called by `kafka.offset_fillers` and `kafka.start_filler`. Nothing but transaction markers is invisible to every
consumer, and each takes one offset and some milliseconds. An aborted transaction takes many offsets at once, but a
read_uncommitted consumer sees its empty records.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

MARKERS: Final = "markers"
ABORTED: Final = "aborted"
WRITE_MARKERS: Final = "write-markers"
"""Markers that are written without a coordinator, for which brokers ask a right of their own."""
FILLERS: Final = (MARKERS, ABORTED, WRITE_MARKERS)

RECORDS_MAX: Final = 500_000
"""Empty records of one batch: 0.4 MB with zstd, below the 1 MB that topics take by default."""

SEQUENCES: Final = 1 << 31
"""Sequence numbers begin again behind the last one."""

IDS: Final = 4
"""Transactional ids of a partition: the marker of one is written while the next is asked for."""


def id_prefix(group: str) -> str:
    """How the transactional ids of a flow's fillers begin; group is that of its connector."""
    return f"{group}-sparkmirror-offsets-"


def transactional_ids(prefix: str) -> list[str]:
    """Those of one partition, whose prefix ends with its name."""
    return [f"{prefix}-{number}" for number in range(IDS)]


def written_id(prefix: str) -> str:
    """The transactional id of a partition whose epochs number the writers of `WRITE_MARKERS`; the one transaction of
    each writer is its first marker."""
    return f"{prefix}-written"


def all_ids(prefix: str) -> list[str]:
    """All whose producers may have filled offsets of one partition."""
    return [*transactional_ids(prefix), written_id(prefix)]


WRITTEN_MAX: Final = 1000
"""Markers of one request."""
_UNWRITTEN: Final = 100


def plan_written(hole: "Hole", end: int) -> int:
    """How many markers the next request may have. The hole's last offsets are kept for transactions, which a
    coordinator fences: what a request of a process that died still brings stays below them, and so does the first
    marker of who takes over, before which it may come."""
    return max(0, min(WRITTEN_MAX, hole.stop - _UNWRITTEN - end))


LONE_MARKERS_A_SECOND: Final = 60
"""Holes of one offset each, with a record between any two, of one partition: measured where clusters and mirror shared
two busy cores."""


class Cost(NamedTuple):
    """What it takes to fill offsets, by what was measured (docs/identical-offsets.md) on one partition of a broker that
    had little else to do; the bytes are those of each replica."""

    seconds: float
    size_bytes: int


def start_cost(offsets: int) -> Cost:
    """Of empty records before a partition's beginning, which are deleted."""
    return Cost(offsets * 0.1e-6, round(offsets * 0.8))


def hole_cost(offsets: int, filler: str) -> Cost:
    """Of offsets that are lost between records."""
    if filler == ABORTED:
        return Cost(offsets * 1.15e-6, round(offsets * 0.8))
    written = max(0, offsets - _UNWRITTEN) if filler == WRITE_MARKERS else 0
    return Cost(written / 10_000 + (offsets - written) / 970, offsets * 78)


class Hole(NamedTuple):
    """Offsets from `first` up to `stop` at which the source has no record."""

    first: int
    stop: int


def plan_transactions(hole: Hole, filler: str) -> Iterator[int]:
    """How many empty records each aborted transaction has that fills a part of the hole; its marker takes one offset
    more."""
    left = hole.stop - hole.first
    while left > 0:
        records = min(left - 1, RECORDS_MAX) if filler == ABORTED else 0
        yield records
        left -= records + 1


def plan_batches(hole: Hole, records_max: int = RECORDS_MAX) -> Iterator[int]:
    """How many empty records each batch has, where batches alone fill the hole."""
    left = hole.stop - hole.first
    while left > 0:
        records = min(left, records_max)
        yield records
        left -= records
