"""Plans the comparison of one partition: the mirrored records that both sides still hold, cut into spans. Pure.

Called by `verify.job`.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from random import Random
from typing import Any, Final

from sparkmirror.ledger import gaps
from sparkmirror.ledger.gaps import Gap
from sparkmirror.ledger.map_segments import Segment
from sparkmirror.ledger.offset_map import OffsetMap
from sparkmirror.model import TopicPartition, plain
from sparkmirror.verify.span import Span, Stretch

SPAN_OFFSETS: Final = 500_000
"""The size of one Spark task: half a second of reading at a gigabyte a second, with records of a kilobyte."""
_ANYWHERE: Final = 1 << 63
_STRETCHES_MAX: Final = 1000
_NEWEST_MAX: Final = 8192
"""So many stretches of a partition are compared by their places, those before as a region: a map with a bit for each
offset has a hundred thousand of them."""
_REGION_MAX: Final = 500_000
"""The greatest number of target offsets between two stretches whose records are compared; they are held in memory,
some 300 MB for so many."""
_TAIL_MAX: Final = 50_000
"""The greatest number of target records after the end of the offset map that are compared; a running mirror stores
the map once a second."""

NO_MAP: Final = "the offset map does not say where they lie on the target"
BEFORE: Final = "mirroring began behind them"
SOURCE_DELETED: Final = "the source has deleted them"
TARGET_DELETED: Final = "the target has deleted them"
SOURCE_ENDS: Final = "the source's log ends before them"
COARSE: Final = "the offset map is coarse there"
LEFT_OUT: Final = "a person has left them out, and the target keeps its own records there"
UNPROVEN: Final = (NO_MAP, COARSE)
"""Reasons with which it stays open whether the records of both clusters are equal."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The facts about one mirrored partition when a comparison begins. `position` is the ledger's. Ledger and map
    were read first, then the target's end, then the source's end, so that the target reaches at least as far as the
    map, and the source as far as the target. Where the flow keeps offsets, the map does not count."""

    source: TopicPartition
    target: TopicPartition
    offsets: OffsetMap | None
    position: int
    source_start: int
    source_end: int
    target_start: int
    target_end: int
    gaps: tuple[Gap, ...] = ()
    source_compacted: bool = False
    target_compacted: bool = False
    with_times: bool = True
    may_clamp: bool = False
    keeps_offsets: bool = False

    @property
    def identical(self) -> OffsetMap:
        """Where records stand on the target whose offsets are kept, as far as both logs have any."""
        found = OffsetMap(max(self.source_start, self.target_start))
        if (end := max(self.position, self.target_end)) > found.end_source:
            found.append(found.end_source, end - found.end_source, found.end_source)
        return found

    @property
    def left_out(self) -> list[tuple[int, int]]:
        """The offsets that a person has left out where logs part (`failback accept --leave-out`), in order: as many of
        the target's own records stand there."""
        if not self.keeps_offsets:
            return []
        return sorted((gap.expected, gap.resumed) for gap in self.gaps if gap.cause == gaps.LEFT_OUT)

    def within(self, first: int, end: int) -> "Standing":
        """The same of these offsets alone, which are kept."""
        return replace(
            self, position=min(self.position, end),
            source_start=max(self.source_start, first), source_end=min(self.source_end, end),
            target_start=max(self.target_start, first), target_end=min(self.target_end, end),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Uncompared:
    """Source offsets `first` … `end - 1`, which were not compared, and why."""

    partition: TopicPartition
    first: int
    end: int
    reason: str

    def as_json(self) -> dict[str, Any]:
        return plain(self)


def plan_spans(standing: Standing, span_offsets: int = SPAN_OFFSETS) -> tuple[list[Span], list[Uncompared]]:
    """The spans to compare, in the order of offsets, and the offsets that cannot be compared."""
    spans: list[Span] = []
    uncompared: list[Uncompared] = []
    at = 0
    for first, stop in standing.left_out:
        _add(_plan(standing.within(at, max(first, at)), span_offsets), spans, uncompared)
        uncompared += _uncompared(standing, max(first, at, standing.source_start), stop, LEFT_OUT)
        at = max(at, stop)
    _add(_plan(standing.within(at, _ANYWHERE) if at else standing, span_offsets), spans, uncompared)
    return spans, uncompared


def _add(found: tuple[list[Span], list[Uncompared]], spans: list[Span], uncompared: list[Uncompared]) -> None:
    spans += found[0]
    uncompared += found[1]


def _plan(standing: Standing, span_offsets: int) -> tuple[list[Span], list[Uncompared]]:
    found = standing.identical if standing.keeps_offsets else standing.offsets
    if standing.keeps_offsets and found is not None and not found.segments:
        return [], list(_uncompared(standing, standing.source_start, standing.position, TARGET_DELETED))
    if found is None or not found.segments:
        return [], list(_uncompared(standing, standing.source_start, standing.position, NO_MAP))
    begin = found.segments[0]
    left_out = [*_before_map(standing, begin.first, begin.target)]
    whole = [Stretch(*one) for one in deque(found.stretches(), _NEWEST_MAX)]
    kept = [clipped for stretch in whole if (clipped := _clip(stretch, standing)) is not None]
    left_out += _clipped(standing, whole, kept)
    from_begin = standing.source_start <= begin.first and standing.target_start <= begin.target
    if not from_begin:
        left_out += _head_lost(standing, begin.first, whole[0].first if whole else found.end_source)
    if not from_begin and not kept:
        return [], left_out
    first = (begin.first, _begin_on_target(standing, begin)) if from_begin else (kept[0].first, kept[0].target)
    spans: list[Span] = []
    for group in _groups(kept, first, _ends(standing, found)):
        if isinstance(group, _Coarse):
            left_out.append(Uncompared(standing.source, group.first, group.end, COARSE))
        else:
            spans += _cut(standing, group.stretches, group.first, group.end, span_offsets)
    return spans, left_out


@dataclass(frozen=True, slots=True)
class _Group:
    """Stretches and the regions between them, from a source and target offset up to another."""

    stretches: tuple[Stretch, ...]
    first: tuple[int, int]
    end: tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Coarse:
    """The source offsets of a region that is too large to be compared."""

    first: int
    end: int


def _groups(stretches: Sequence[Stretch], first: tuple[int, int], end: tuple[int, int]) -> Iterator[_Group | _Coarse]:
    """All stretches in order, in groups that are separated by regions that are too large."""
    inside: list[Stretch] = []
    at = begin = first
    for stretch in (*stretches, None):
        following = end if stretch is None else (stretch.first, stretch.target)
        if following[1] - at[1] > _REGION_MAX:
            yield _Group(tuple(inside), begin, at)
            yield _Coarse(at[0], following[0])
            inside, begin = [], following
        if stretch is not None:
            inside.append(stretch)
            at = (stretch.end, stretch.target_end)
    yield _Group(tuple(inside), begin, end)


def choose_sample(spans: Iterable[Span], percent: float, random: Random, *, of_each: bool = True) -> list[Span]:
    """About this many of the spans, at least one; with `of_each` at least one of each partition."""
    groups = [list(group) for _, group in groupby(spans, key=lambda span: span.source if of_each else None)]
    return [span for members in groups for span in _pick(members, percent, random)]


def _pick(members: Sequence[Span], percent: float, random: Random) -> list[Span]:
    count = min(max(round(len(members) * percent / 100), 1), len(members))
    return [members[at] for at in sorted(random.sample(range(len(members)), count))]


def _before_map(standing: Standing, first: int, target: int) -> Iterator[Uncompared]:
    """The source offsets before the map. If the map begins with the target log, the target lacks their records."""
    reason = BEFORE if target <= standing.target_start else NO_MAP
    yield from _uncompared(standing, standing.source_start, first, reason)


def _begin_on_target(standing: Standing, begin: Segment) -> int:
    """The target offset at which the map begins; or the beginning of the target's log, if the map covers the whole
    source log: records before it are repeats. Where offsets are kept, what the target has before is what its source
    had."""
    if standing.keeps_offsets:
        return begin.target
    return standing.target_start if standing.source_start == begin.first else begin.target


def _head_lost(standing: Standing, first: int, end: int) -> Iterator[Uncompared]:
    """The offsets before the first stretch of which one log has deleted some, so that it is not known which records
    correspond."""
    deleted = min(max(standing.source_start, first), end)
    yield from _uncompared(standing, first, deleted, SOURCE_DELETED)
    yield from _uncompared(standing, deleted, end, COARSE)


def _uncompared(standing: Standing, first: int, end: int, reason: str) -> Iterator[Uncompared]:
    if first < end:
        yield Uncompared(standing.source, first, end, reason)


def _clip(stretch: Stretch, standing: Standing) -> Stretch | None:
    """The part of a stretch that both logs still have. Records that the target lacks at the end of a stretch are
    missing, not deleted."""
    gone = max(standing.source_start - stretch.first, standing.target_start - stretch.target, 0)
    records = min(stretch.records, standing.source_end - stretch.first) - gone
    return Stretch(stretch.first + gone, records, stretch.target + gone) if records > 0 else None


def _clipped(standing: Standing, whole: Sequence[Stretch], kept: Sequence[Stretch]) -> Iterator[Uncompared]:
    if not whole:
        return
    begin, end = whole[0].first, whole[-1].end
    low = kept[0].first if kept else end
    by_source = min(max(standing.source_start, begin), low)
    yield from _uncompared(standing, begin, by_source, SOURCE_DELETED)
    yield from _uncompared(standing, by_source, min(low, standing.source_end), TARGET_DELETED)
    yield from _uncompared(standing, max(standing.source_end, begin), end, SOURCE_ENDS)


def _ends(standing: Standing, found: OffsetMap) -> tuple[int, int]:
    """The source and target offset at which the comparison ends. A map is stored after the records that it
    describes, so the comparison includes records of the target after the map's end, if they are few."""
    end, target_end = max(standing.position, found.end_source), max(standing.target_end, found.end_target)
    if target_end - found.end_target > _TAIL_MAX:
        end, target_end = found.end_source, found.end_target + _TAIL_MAX
    return min(end, standing.source_end), target_end


def _cut(
    standing: Standing, stretches: Sequence[Stretch], first: tuple[int, int], end: tuple[int, int], size: int
) -> Iterator[Span]:
    inside: list[Stretch] = []
    room = size
    for stretch in stretches:
        rest = stretch
        while rest.records > room or len(inside) >= _STRETCHES_MAX:
            head = Stretch(rest.first, min(room, rest.records), rest.target)
            inside.append(head)
            yield _span(standing, first, (head.end, head.target_end), inside)
            first, inside, room = (head.end, head.target_end), [], size
            rest = Stretch(head.end, rest.records - head.records, head.target_end)
        if rest.records:
            inside.append(rest)
            room -= rest.records
    if first[0] < end[0] or first[1] < end[1]:
        yield _span(standing, first, end, inside)


def _span(standing: Standing, first: tuple[int, int], end: tuple[int, int], inside: Sequence[Stretch]) -> Span:
    lost = [(gap.expected, gap.resumed) for gap in standing.gaps if not gap.is_on_target]
    target_lost = [(gap.resumed, gap.expected) for gap in standing.gaps if gap.is_on_target]
    return Span(
        standing.source, standing.target, first[0], max(end[0], first[0]), first[1], max(end[1], first[1]),
        tuple(inside), standing.source_start, standing.source_end, standing.target_end,
        standing.source_compacted, standing.target_compacted, standing.with_times, standing.may_clamp,
        _overlapping(lost, first[0], end[0]), _overlapping(target_lost, first[1], end[1]),
    )  # fmt: skip


def _overlapping(ranges: Iterable[tuple[int, int]], first: int, end: int) -> tuple[tuple[int, int], ...]:
    return tuple((low, high) for low, high in ranges if low < high and low <= end and high >= first)
