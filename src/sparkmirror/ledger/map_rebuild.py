"""Rebuilds a lost offset map from both logs and from known pairs of offsets; pure.

Between two known pairs the records correspond one to one if both sides have equally many, with equal content: then
every offset is exact. Otherwise records were sent again or other producers wrote too, and offsets translate to the pair
before them (invariant 7). Called by `operations.map_rebuild_job`.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from sparkmirror.ledger.offset_map import Chunk, OffsetMap, Segment


class Anchor(NamedTuple):
    """The record at or after `source` lies at or after `target`, and all before it before."""

    source: int
    target: int


@dataclass(slots=True)
class LogPart:
    """The records of one partition, in order: their offsets, and a fingerprint of key, value and time of each."""

    offsets: list[int] = field(default_factory=list)
    prints: list[int] = field(default_factory=list)

    def add(self, offset: int, content: object) -> None:
        self.offsets.append(offset)
        self.prints.append(hash(content))

    def between(self, first: int, end: int) -> "LogPart":
        """The records at offsets from `first` up to `end`."""
        start, stop = bisect_left(self.offsets, first), bisect_left(self.offsets, end)
        return LogPart(self.offsets[start:stop], self.prints[start:stop])


def choose_anchors(syncs: Iterable[Anchor], first: Anchor | None, last: Anchor) -> list[Anchor]:
    """Those that rise on both sides, up to `last`. A sync that goes back says that the log began again: what was before
    it does not count."""
    found: list[Anchor] = [] if first is None else [first]
    for sync in syncs:
        while found and (found[-1].source >= sync.source or found[-1].target >= sync.target):
            found.pop()
        found.append(sync)
    while found and (found[-1].source >= last.source or found[-1].target >= last.target):
        found.pop()
    return [*found, last]


def rebuild_map(anchors: Sequence[Anchor], source: LogPart, target: LogPart) -> OffsetMap | None:
    """The map from the first anchor to the last; None with fewer than two."""
    if len(anchors) < 2:
        return None
    found = OffsetMap(anchors[0].source)
    for here, there in pairwise(anchors):
        ours, theirs = source.between(here.source, there.source), target.between(here.target, there.target)
        if ours.prints == theirs.prints:
            _append_pairs(found, ours.offsets, theirs.offsets)
            found.advance(there.source)
        else:
            flat = Segment(here.source, here.target, here.target - there.source, exact=False)
            found.extend(Chunk((flat,), there.source, there.target))
    return found


def _append_pairs(found: OffsetMap, ours: Sequence[int], theirs: Sequence[int]) -> None:
    """Append whole stretches of constant distance."""
    start = 0
    for at in range(1, len(ours) + 1):
        length = at - start
        if at < len(ours) and (ours[at] - ours[start], theirs[at] - theirs[start]) == (length, length):
            continue
        found.append(ours[start], length, theirs[start])
        start = at
