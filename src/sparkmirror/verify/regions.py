"""Compares the regions of a span that have records; regions lie between the stretches of an offset map.

It reads the regions once more, with the records around them. Records that were sent again lie between stretches. At
least once, in order, means: the target repeats the source's order without a hole, and where it jumps, it jumps back.
`verify.data_source` calls it after `verify.matching` has counted these records; contents may be digests.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from sparkmirror.batch.part import Part
from sparkmirror.verify.difference import MISSING, SURPLUS, Difference, Seen
from sparkmirror.verify.matching import Findings, records_of
from sparkmirror.verify.span import Region, Span


@dataclass(slots=True)
class Followed:
    """Counts of records, and for each kind of difference its first place: a row of the source's or of the target's
    records. `ahead` counts the source's records after the rows that must be present."""

    equal: int = 0
    ahead: int = 0
    repeated: int = 0
    missing: int = 0
    surplus: int = 0
    first_missing: tuple[int, int] | None = None
    first_surplus: tuple[int, int] | None = None


def follow(source: Sequence[Hashable], target: Sequence[Hashable], start: int, must_reach: int) -> Followed:
    """Checks that `target` follows the source's records from row `start` on; all rows below `must_reach` must be
    present. Further records on the target may be the source's next ones, which were repeated, or which a running
    mirror wrote after it stored the map."""
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
    """The row of a record of the target: the expected row if it has that record, else the last such row before, else
    the next."""
    if not rows:
        return None
    place = bisect_left(rows, at)
    if place < len(rows) and rows[place] == at:
        return at
    return rows[place - 1] if place else rows[place]


_DIGEST_BYTES = 16
Read = Callable[[bool, int, int], Iterator[Part]]
"""Parts of the target (True) or of the source, from one offset up to another."""


@dataclass(slots=True)
class _Log:
    """A range of one log: offsets, and digests of the contents."""

    offsets: list[int] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)

    def add(self, record: Seen, span: Span) -> None:
        self.offsets.append(record.offset)
        self.digests.append(_digest(record, with_time=span.with_times and not span.may_clamp))

    def rows_below(self, offset: int) -> int:
        return sum(one < offset for one in self.offsets)


def match_regions(span: Span, found: Findings, read: Read) -> None:
    """Compares the regions and adds the results to `found`. Raises the errors of `read`, and ProtocolError."""
    for region, loose, loose_target in zip(
        span.regions, found.loose_source.tolist(), found.loose_target.tolist(), strict=True
    ):
        if loose_target:
            _match_region(span, region, found, read)
        elif loose:
            _note_missing(span, region, found, read, loose, region.first)


def _match_region(span: Span, region: Region, found: Findings, read: Read) -> None:
    around = region.target_end - region.target_first
    ours = _read_around(span, region, read, around)
    theirs = _Log()
    for record in _records(read, True, region.target_first, min(region.target_end, span.target_log_end)):
        theirs.add(record, span)
    followed = follow(ours.digests, theirs.digests, ours.rows_below(region.first), ours.rows_below(region.end))
    is_tail = region.end == span.end and region.target_end == span.target_end
    found.equal += followed.equal + (followed.ahead if is_tail else 0)
    found.repeated += followed.repeated + (0 if is_tail else followed.ahead)
    if followed.first_missing is not None:
        _note_missing(span, region, found, read, followed.missing, ours.offsets[followed.first_missing[0]])
    _note_surplus(span, region, followed, ours, theirs, found, read)


def _note_missing(span: Span, region: Region, found: Findings, read: Read, records: int, from_offset: int) -> None:
    """Notes that this many records of the region are missing on the target; the first of them is at or after
    `from_offset`."""
    if _is_ledgered(span, region):
        found.lost += records
    elif span.target_compacted:
        found.holes += records
    else:
        found.missing += records
        one = _see(read, False, from_offset, region.end)
        found.note(Difference(MISSING, one.offset, region.target_end, one.as_json()))


def _note_surplus(
    span: Span, region: Region, followed: Followed, ours: _Log, theirs: _Log, found: Findings, read: Read
) -> None:
    if followed.first_surplus is None:
        return
    if span.source_compacted:
        found.holes += followed.surplus
    else:
        row, there = followed.first_surplus
        found.surplus += followed.surplus
        other = _see(read, True, theirs.offsets[there], region.target_end)
        found.note(Difference(SURPLUS, _offset(ours, row, region.end), other.offset, None, other.as_json()))


def _is_ledgered(span: Span, region: Region) -> bool:
    """Whether the gap ledger accounts for the missing records."""
    lost = any(first <= region.end and end >= region.first for first, end in span.lost)
    return lost or any(first <= region.target_end and end >= region.target_first for first, end in span.target_lost)


def _offset(log: _Log, row: int, otherwise: int) -> int:
    return log.offsets[row] if row < len(log.offsets) else otherwise


def _read_around(span: Span, region: Region, read: Read, records: int) -> _Log:
    """The source's records of the region, with some before it and up to so many after it."""
    log, behind = _Log(), 0
    for record in _records(read, False, max(region.first - records, span.source_log_start), span.source_log_end):
        behind += record.offset >= region.end
        if behind > records:
            break
        log.add(record, span)
    return log


def _records(read: Read, is_target: bool, first: int, end: int) -> Iterator[Seen]:
    return (record for part in read(is_target, first, end) for record in records_of(part, first, end))


def _digest(record: Seen, *, with_time: bool) -> bytes:
    return blake2b(repr(record.content(with_time=with_time)).encode(), digest_size=_DIGEST_BYTES).digest()


def _see(read: Read, is_target: bool, offset: int, end: int) -> Seen:
    """The first record at or after an offset."""
    return next(_records(read, is_target, offset, end))
