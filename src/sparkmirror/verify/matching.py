"""Compares one span: the fetched batches of both clusters, in the order of source offsets; pure.

Batches that are byte for byte equal on the target are not decoded; all others are decoded and compared record by
record. This module counts the records outside the stretches of the offset map, and `verify.regions` compares them.
Called by `verify.data_source`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sparkmirror.batch.columns import Columns
from sparkmirror.batch.compare import Comparison, compare_records, identical_batches
from sparkmirror.batch.headers import BASE_OFFSET, NEXT_OFFSET, RECORDS, TOTAL_BYTES
from sparkmirror.batch.part import NO_PART, Part, decode_part, overlapping
from sparkmirror.verify.difference import MISSING, SURPLUS, Difference, Seen, describe, see
from sparkmirror.verify.span import NOWHERE, Span

_NEIGHBOURS: Final = 3


@dataclass(slots=True)
class Findings:
    """Counts of records; `bytes` counts bytes of source batches, `identical_bytes` those of batches that are byte
    for byte equal. `holes` counts records that compaction removed, `repeated` those that the target has twice,
    `lost` those of the gap ledger. `first` is the first difference. `loose_source` and `loose_target` count the
    records of each of the span's regions."""

    loose_source: NDArray[np.int64]
    loose_target: NDArray[np.int64]
    equal: int = 0
    different: int = 0
    missing: int = 0
    surplus: int = 0
    repeated: int = 0
    lost: int = 0
    holes: int = 0
    clamped: int = 0
    bytes: int = 0
    identical_bytes: int = 0
    first: Difference | None = None

    def note(self, difference: Difference) -> None:
        """Keeps the difference with the lowest upstream offset."""
        if self.first is None or difference.upstream < self.first.upstream:
            self.first = difference


class _Side:
    """The parts of one cluster as they arrive. All source offsets below `reached` have been read."""

    def __init__(self, parts: Iterator[Part], span: Span, *, is_target: bool) -> None:
        self._parts = parts
        self._span = span
        self._is_target = is_target
        self.part = NO_PART
        self.reached = span.first
        self.is_over = False

    def advance(self) -> None:
        """Takes the next part; after the last part, everything counts as read."""
        part = next(self._parts, None)
        if part is None:
            self.part, self.reached, self.is_over = NO_PART, self._span.end, True
        else:
            self.part = part
            self.reached = self._span.reached(part.next_offset) if self._is_target else part.next_offset


def empty_findings(span: Span) -> Findings:
    """The findings before the first comparison."""
    regions = len(span.regions)
    return Findings(np.zeros(regions, np.int64), np.zeros(regions, np.int64))


def match(span: Span, source_parts: Iterator[Part], target_parts: Iterator[Part]) -> Findings:
    """Compares the whole span. Raises ProtocolError where a batch cannot be decoded."""
    return _Match(span, source_parts, target_parts).run()


class _Match:
    """The state of one span's comparison; everything below the source offset `_at` is compared."""

    def __init__(self, span: Span, source_parts: Iterator[Part], target_parts: Iterator[Part]) -> None:
        self._span = span
        self._source = _Side(source_parts, span, is_target=False)
        self._target = _Side(target_parts, span, is_target=True)
        self._at = span.first
        self._found = empty_findings(span)

    def run(self) -> Findings:
        while not (self._source.is_over and self._target.is_over and self._at >= self._span.end):
            for side in (self._source, self._target):
                if not side.is_over and (side.reached <= self._at or self._at >= self._span.end):
                    self._take(side)
            end = min(self._source.reached, self._target.reached, self._span.end)
            if end > self._at:
                self._compare(end)
                self._at = end
        return self._found

    def _take(self, side: _Side) -> None:
        side.advance()
        table = side.part.table
        if side is self._source:
            self._found.bytes += int(table[:, TOTAL_BYTES].sum())
            self._count_loose(side.part, self._found.loose_source, on_target=False)
        else:
            self._count_loose(side.part, self._found.loose_target, on_target=True)

    def _count_loose(self, part: Part, counts: NDArray[np.int64], *, on_target: bool) -> None:
        """Counts the records outside all stretches. Only batches that reach beyond a stretch are decoded."""
        span = self._span
        first, end = (span.target_first, span.target_end) if on_target else (span.first, span.end)
        table = part.table
        reaches = span.touches_region(table[:, BASE_OFFSET], table[:, NEXT_OFFSET] - 1, on_target=on_target)
        for row in np.flatnonzero(reaches).tolist():
            alone = part._replace(table=table[row : row + 1])
            offsets = decode_part(alone, first, end)[0].offsets
            offsets = offsets[(offsets >= first) & (offsets < end)]
            is_mapped = span.rebase(offsets) != NOWHERE if on_target else span.is_mapped(offsets)
            counts += span.count_by_region(offsets[~is_mapped], on_target=on_target)

    def _compare(self, end: int) -> None:
        """Compares source offsets from `_at` up to `end`: equal batches as bytes, all others record by record."""
        ours = overlapping(self._source.part.table, self._at, end)
        same = ours[self._identical(ours, end)]
        self._found.identical_bytes += int(same[:, TOTAL_BYTES].sum())
        self._found.equal += int(same[:, RECORDS].sum())
        at = self._at
        for first, stop in _joined(same):
            self._compare_records(at, first)
            at = stop
        self._compare_records(at, end)

    def _identical(self, ours: NDArray[np.int64], end: int) -> NDArray[np.int64]:
        theirs = self._target.part.table
        first, last = self._span.rebase(theirs[:, BASE_OFFSET]), self._span.rebase(theirs[:, NEXT_OFFSET] - 1)
        spanned = theirs[:, NEXT_OFFSET] - 1 - theirs[:, BASE_OFFSET]
        whole = (first >= self._at) & (last < end) & (last - first == spanned)
        rebased = theirs[whole]
        rebased[:, BASE_OFFSET], rebased[:, NEXT_OFFSET] = first[whole], last[whole] + 1
        return identical_batches(self._source.part.buffer, ours, self._target.part.buffer, rebased, 0)

    def _compare_records(self, first: int, end: int) -> None:
        """Compares the records of source offsets `first` … `end - 1` that are in a stretch; they are decoded in
        pieces."""
        while first < end:
            lowest, highest = self._span.target_range(first, end)
            ours, read = decode_part(self._source.part, first, end)
            theirs, target_read = decode_part(self._target.part, lowest, highest)
            stop = min(read, end if target_read >= highest else self._span.reached(target_read))
            self._judge(ours, theirs, first, stop)
            first = stop

    def _judge(self, ours: Columns, theirs: Columns, first: int, stop: int) -> None:
        span, found = self._span, self._found
        ours = _chosen(ours, span.is_mapped(ours.offsets) & (ours.offsets >= first) & (ours.offsets < stop))
        rebased = span.rebase(theirs.offsets)
        wanted = (rebased >= first) & (rebased < stop)
        theirs, rebased = _chosen(theirs, wanted), rebased[wanted]
        likeness = compare_records(
            ours, replace(theirs, offsets=rebased), 0, with_times=span.with_times, may_clamp=span.may_clamp
        )
        found.equal += likeness.equal
        found.clamped += likeness.clamped
        found.different += likeness.different
        if likeness.first_different is not None:
            row, there = likeness.first_different
            found.note(describe(_some(ours, row), _some(theirs, there), with_time=span.with_times))
        self._judge_lone(likeness, ours, theirs, rebased)

    def _judge_lone(self, likeness: Comparison, ours: Columns, theirs: Columns, rebased: NDArray[np.int64]) -> None:
        """Judges records that only one cluster has: compaction may have removed the other's."""
        span, found = self._span, self._found
        if span.target_compacted:
            found.holes += likeness.only_source
        elif likeness.first_only_source is not None:
            found.missing += likeness.only_source
            one = see(ours, likeness.first_only_source[0])
            found.note(Difference(MISSING, one.offset, span.target_range(one.offset, one.offset + 1)[0], one.as_json()))
        if span.source_compacted:
            found.holes += likeness.only_target
        elif likeness.first_only_target is not None:
            found.surplus += likeness.only_target
            row = likeness.first_only_target[0]
            other = see(theirs, row)
            found.note(Difference(SURPLUS, int(rebased[row]), other.offset, None, other.as_json()))


def records_of(part: Part, first: int, end: int) -> Iterator[Seen]:
    """The records of a part at offsets `first` … `end - 1`, one by one; for few records. Raises ProtocolError."""
    while first < end:
        columns, first_left = decode_part(part, first, end)
        for row, offset in enumerate(columns.offsets.tolist()):
            if first <= offset < end:
                yield see(columns, row)
        first = first_left


def _joined(rows: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """The ranges of offsets that batches cover, with adjacent ranges merged."""
    if not len(rows):
        return
    edges = np.flatnonzero(rows[1:, BASE_OFFSET] != rows[:-1, NEXT_OFFSET]) + 1
    firsts = rows[np.concatenate(([0], edges)), BASE_OFFSET]
    stops = rows[np.concatenate((edges - 1, [len(rows) - 1])), NEXT_OFFSET]
    yield from zip(firsts.tolist(), stops.tolist(), strict=True)


def _chosen(columns: Columns, wanted: NDArray[np.bool_]) -> Columns:
    if wanted.all():
        return columns
    return replace(
        columns,
        offsets=columns.offsets[wanted],
        timestamps=columns.timestamps[wanted],
        places=columns.places[wanted],
    )


def _some(columns: Columns, row: int) -> list[Seen]:
    """A record and a few after it."""
    return [see(columns, at) for at in range(row, min(row + _NEIGHBOURS, len(columns)))]
