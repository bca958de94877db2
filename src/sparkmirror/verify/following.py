"""Compares what lies between the stretches of an offset map: records that were sent again, for instance. Pure.

At least once, in order, means: the target reads as the source, forward without a hole, and where it jumps, it jumps
back. Called by `verify.regions`, with contents that may be digests.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Followed:
    """Counts of records, and where the first of each kind of difference is: a row of the source's, of the target's.

    Those `ahead` are the source's, from behind the rows that had to be there.
    """

    equal: int = 0
    ahead: int = 0
    repeated: int = 0
    missing: int = 0
    surplus: int = 0
    first_missing: tuple[int, int] | None = None
    first_surplus: tuple[int, int] | None = None


def follow(source: Sequence[Hashable], target: Sequence[Hashable], start: int, must_reach: int) -> Followed:
    """Reads `target` as the source's records from row `start` on; those below row `must_reach` must all be there.

    What the target has beyond them may be the source's next records: they come again, or a mirror that runs is ahead of
    what it noted.
    """
    places: dict[Hashable, list[int]] = defaultdict(list)
    for place, content in enumerate(source):
        places[content].append(place)
    found = Followed()
    at = reached = start
    for there, content in enumerate(target):
        row = _find_row(places.get(content, ()), at)
        if row is None:
            found.surplus += 1
            found.first_surplus = found.first_surplus or (at, there)
            continue
        if (left_out := min(row, must_reach) - reached) > 0:
            found.missing += left_out
            found.first_missing = found.first_missing or (reached, there)
        if row < reached:
            found.repeated += 1
        elif row < must_reach:
            found.equal += 1
        else:
            found.ahead += 1
        at = row + 1
        reached = max(reached, at)
    if reached < must_reach:
        found.missing += must_reach - reached
        found.first_missing = found.first_missing or (reached, len(target))
    return found


def _find_row(rows: Sequence[int], at: int) -> int | None:
    """Where a record is that has come: the expected row if it is there, else the last before it, else the next."""
    if not rows:
        return None
    place = bisect_left(rows, at)
    if place < len(rows) and rows[place] == at:
        return at
    return rows[place - 1] if place else rows[place]
