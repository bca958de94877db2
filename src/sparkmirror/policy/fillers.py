"""What takes up offsets of the target at which the source has no record; pure.

Called by `kafka.offset_fillers` and `kafka.start_filler`. Nothing but transaction markers is invisible to every
consumer, and each takes one offset and some milliseconds. An aborted transaction takes many offsets at once, but a
read_uncommitted consumer sees its empty records.
"""

from collections.abc import Iterable, Iterator
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


START: Final = "a start"
"""Empty records before a partition's beginning, which are deleted."""


class Rate(NamedTuple):
    """Offsets of one partition that are filled in a second, with one replica and with three, and what each takes on the
    disk of each replica."""

    one_replica: float
    three_replicas: float
    offset_bytes: float

    def with_replicas(self, replicas: int) -> float:
        """Of two replicas, of more than three, and of a number that the brokers choose, nothing was measured: they
        count as three."""
        return self.one_replica if replicas == 1 else self.three_replicas


RATES: Final = {
    MARKERS: Rate(372, 78, 78),
    WRITE_MARKERS: Rate(11_852, 2_177, 78),
    ABORTED: Rate(1_782_864, 1_373_190, 0.68),
    START: Rate(7_155_204, 3_515_317, 0.68),
}
"""Measured where clusters and programs shared two busy cores: the table of docs/identical-offsets.md."""

LONE: Final = Rate(60, 60 * 78 / 372, 78)
"""Holes of one offset each, with a record between any two: a hole waits for the records before it. With one replica it
was measured there too; with three it follows by the rates of markers."""


class Cost(NamedTuple):
    """What it takes to fill offsets of one partition, by `RATES`; the bytes are those of each replica."""

    seconds: float
    size_bytes: int


def sum_costs(costs: Iterable[Cost]) -> Cost:
    """One after the other."""
    known = list(costs)
    return Cost(sum(one.seconds for one in known), sum(one.size_bytes for one in known))


def start_cost(offsets: int, replicas: int) -> Cost:
    """Of empty records before a partition's beginning, which are deleted."""
    rate = RATES[START]
    return Cost(offsets / rate.with_replicas(replicas), round(offsets * rate.offset_bytes))


def hole_cost(offsets: int, filler: str, replicas: int) -> Cost:
    """Of one hole between records. It has at least one marker, for which the records before it are waited for."""
    marker, rate = RATES[MARKERS], RATES[filler]
    by_rate = {ABORTED: offsets - 1, WRITE_MARKERS: offsets - _UNWRITTEN}.get(filler, 0)
    others = max(0, by_rate)
    markers = offsets - others
    seconds = 1 / LONE.with_replicas(replicas) + (markers - 1) / marker.with_replicas(replicas)
    size_bytes = markers * marker.offset_bytes + others * rate.offset_bytes
    return Cost(seconds + others / rate.with_replicas(replicas), round(size_bytes))


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
