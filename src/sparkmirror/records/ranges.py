"""Ranges of offsets: how they are split among tasks, and how many of them a micro-batch takes. Pure.

Called by `records.batch_reader` and `records.stream_reader`. Source: Spark's `KafkaOffsetRangeCalculator`, and
`KafkaMicroBatchStream.rateLimit`.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor
from typing import NamedTuple

from sparkmirror.model import TopicPartition

Offsets = Mapping[TopicPartition, int]


class OffsetRange(NamedTuple):
    """Offsets `first` … `end - 1` of a partition. Compaction and transactions leave fewer records than `size`."""

    where: TopicPartition
    first: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.first


def split_ranges(
    ranges: Sequence[OffsetRange], partitions_min: int | None = None, records_max: int | None = None
) -> list[OffsetRange]:
    """The ranges that are not empty, split into at least `partitions_min` of about the same size, and so that none has
    more than `records_max` offsets. A range that is no larger than its share is not split for the minimum."""
    parts = [one for one in ranges if one.size > 0]
    if records_max is not None:
        parts = [part for one in parts for part in _cut(one, ceil(one.size / records_max))]
    if partitions_min is None or len(parts) >= partitions_min:
        return parts
    total = sum(one.size for one in parts)
    large = [one for one in parts if _share(one.size, total, partitions_min) > 1]
    large_total, wanted = sum(one.size for one in large), max(partitions_min - (len(parts) - len(large)), 1)
    return [
        part for one in parts for part in (_cut(one, _share(one.size, large_total, wanted)) if one in large else (one,))
    ]


def _share(size: int, total: int, parts: int) -> int:
    return max(floor(size / total * parts + 0.5), 1)


def _cut(whole: OffsetRange, parts: int) -> Iterator[OffsetRange]:
    first = whole.first
    for left in range(parts, 0, -1):
        end = first + (whole.end - first) // left
        if end > first:
            yield OffsetRange(whole.where, first, end)
        first = end


def limit_offsets(first: Offsets, end: Offsets, offsets_max: int) -> dict[TopicPartition, int]:
    """Where a micro-batch of about `offsets_max` offsets ends: each partition gives in proportion to what it has, and
    one that has something gives at least one."""
    sizes = {where: max(end[where] - first[where], 0) for where in end}
    total = sum(sizes.values())
    if total <= offsets_max:
        return dict(end)
    return {where: first[where] + min(_prorated(sizes[where], total, offsets_max), sizes[where]) for where in end}


def _prorated(size: int, total: int, offsets_max: int) -> int:
    share = offsets_max * size / total
    return ceil(share) if share < 1 else floor(share)
