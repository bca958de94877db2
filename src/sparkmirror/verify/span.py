"""The unit that one Spark task compares: a range of one source partition, and the place of its records on the target;
pure.

`verify.plan` makes spans, `verify.data_source` carries them to the tasks, `verify.matching` and `verify.regions` use
them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkmirror.model import TopicPartition

NOWHERE = -1
"""The source offset of a target record that the offset map does not know."""


class Stretch(NamedTuple):
    """The records at source offsets `first` … `first + records - 1` lie on the target at consecutive offsets from
    `target` on."""

    first: int
    records: int
    target: int

    @property
    def end(self) -> int:
        return self.first + self.records

    @property
    def target_end(self) -> int:
        return self.target + self.records


class Region(NamedTuple):
    """The offsets between stretches: source offsets `first` … `end - 1`, and target offsets; either range may be
    empty. They belong to transaction markers, to records that compaction removed, to records that were sent again
    after a crash, and to records whose place is not known."""

    first: int
    end: int
    target_first: int
    target_end: int


@dataclass(frozen=True)
class Span:
    """Source offsets `first` … `end - 1` of one partition and target offsets `target_first` … `target_end - 1`.

    `stretches` lie inside, in order. `source_log_start`, `source_log_end` and `target_log_end` are the bounds of the
    logs at planning time; the task reads nothing beyond `source_log_end`. A record that is missing in a compacted topic
    is a hole, not a difference. `lost` are ranges of source offsets from the gap ledger, `target_lost` ranges of target
    offsets.
    """

    source: TopicPartition
    target: TopicPartition
    first: int
    end: int
    target_first: int
    target_end: int
    stretches: tuple[Stretch, ...]
    source_log_start: int
    source_log_end: int
    target_log_end: int
    source_compacted: bool = False
    target_compacted: bool = False
    with_times: bool = True
    may_clamp: bool = False
    lost: tuple[tuple[int, int], ...] = ()
    target_lost: tuple[tuple[int, int], ...] = ()

    @property
    def offsets(self) -> int:
        return self.end - self.first

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """The non-empty regions before, between and after the stretches."""
        return tuple(region for region in self._regions() if region.first < region.end or region[2] < region[3])

    def _regions(self) -> Iterator[Region]:
        at, there = self.first, self.target_first
        for stretch in self.stretches:
            yield Region(at, stretch.first, there, stretch.target)
            at, there = stretch.end, stretch.target_end
        yield Region(at, self.end, there, self.target_end)

    @cached_property
    def _columns(self) -> NDArray[np.int64]:
        return np.array(self.stretches, np.int64).reshape(len(self.stretches), 3).T.copy()

    def rebase(self, target_offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """The source offsets of target offsets; NOWHERE outside the stretches."""
        if not self.stretches:
            return np.full(len(target_offsets), NOWHERE, np.int64)
        firsts, records, targets = self._columns
        at = np.searchsorted(targets, target_offsets, "right") - 1
        behind = target_offsets - targets[at]
        return np.where((at >= 0) & (behind < records[at]), firsts[at] + behind, NOWHERE)

    def is_mapped(self, source_offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """For each source offset whether it is in a stretch."""
        if not self.stretches:
            return np.zeros(len(source_offsets), np.bool_)
        firsts, records, _ = self._columns
        at = np.searchsorted(firsts, source_offsets, "right") - 1
        mapped: NDArray[np.bool_] = (at >= 0) & (source_offsets - firsts[at] < records[at])
        return mapped

    def touches_region(
        self, firsts: NDArray[np.int64], lasts: NDArray[np.int64], *, on_target: bool
    ) -> NDArray[np.bool_]:
        """Whether each range of offsets, both ends included, touches a region."""
        edges = self._target_edges if on_target else self._edges
        touches: NDArray[np.bool_] = np.searchsorted(edges[1], firsts, "right") < np.searchsorted(
            edges[0], lasts, "right"
        )
        return touches

    @cached_property
    def _edges(self) -> NDArray[np.int64]:
        """The first and last source offsets of the regions that have any."""
        edges = [(region.first, region.end) for region in self.regions if region.first < region.end]
        return np.array(edges, np.int64).reshape(len(edges), 2).T.copy()

    @cached_property
    def _target_edges(self) -> NDArray[np.int64]:
        edges = [(one.target_first, one.target_end) for one in self.regions if one.target_first < one.target_end]
        return np.array(edges, np.int64).reshape(len(edges), 2).T.copy()

    def count_by_region(self, offsets: NDArray[np.int64], *, on_target: bool) -> NDArray[np.int64]:
        """The number of these offsets, which are in no stretch, in each region."""
        ends = np.array([region.target_end if on_target else region.end for region in self.regions], np.int64)
        return np.bincount(np.searchsorted(ends, offsets, "right"), minlength=len(ends))

    def target_range(self, first: int, end: int) -> tuple[int, int]:
        """The target offsets from the first record of these source offsets that is in a stretch to the offset after
        the last one."""
        low = bisect_right(self.stretches, first, key=lambda stretch: stretch.end)
        high = bisect_left(self.stretches, end, key=lambda stretch: stretch.first)
        if low >= high:
            return self.target_first, self.target_first
        begin, last = self.stretches[low], self.stretches[high - 1]
        return begin.target + max(first - begin.first, 0), last.target + min(end - last.first, last.records)

    def reached(self, target_offset: int) -> int:
        """The source offset below which everything is read once the target is read up to `target_offset`."""
        if target_offset >= min(self.target_end, self.target_log_end):
            return self.end
        at = bisect_right(self.stretches, target_offset, key=lambda stretch: stretch.target) - 1
        if at < 0:
            return self.first
        stretch = self.stretches[at]
        return stretch.first + min(target_offset - stretch.target, stretch.records)
