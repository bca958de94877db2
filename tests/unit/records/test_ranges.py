"""Ranges are split and limited as Spark's own connector does it, and no offset is dropped or doubled."""

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.model import TopicPartition
from sparkmirror.records.ranges import OffsetRange, limit_offsets, split_ranges

A, B, C = (TopicPartition("t", number) for number in range(3))


def test_without_limits_each_partition_is_one_range_and_empty_ones_are_left_out() -> None:
    ranges = [OffsetRange(A, 5, 9), OffsetRange(B, 7, 7), OffsetRange(C, 3, 1)]
    assert split_ranges(ranges) == ranges[:1]


def test_large_partitions_are_split_for_a_minimum_and_small_ones_are_not() -> None:
    assert split_ranges([OffsetRange(A, 0, 10)], 3) == [
        OffsetRange(A, 0, 3), OffsetRange(A, 3, 6), OffsetRange(A, 6, 10)
    ]  # fmt: skip
    parts = split_ranges([OffsetRange(A, 0, 1000), OffsetRange(B, 0, 1)], 4)
    assert [one.where for one in parts] == [A, A, A, B]


def test_no_range_has_more_than_its_most_records() -> None:
    parts = split_ranges([OffsetRange(A, 0, 10), OffsetRange(B, 0, 3)], records_max=4)
    assert [(one.where, one.size) for one in parts] == [(A, 3), (A, 3), (A, 4), (B, 3)]


RANGES = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5000)), min_size=1, max_size=6)


@given(RANGES, st.integers(1, 40), st.none() | st.integers(1, 600))
def test_every_offset_is_in_one_part(spans: list[tuple[int, int]], wanted: int, most: int | None) -> None:
    whole = [OffsetRange(TopicPartition("t", at), first, first + size) for at, (first, size) in enumerate(spans)]
    parts = split_ranges(whole, wanted, most)
    assert all(part.size > 0 for part in parts)
    assert most is None or all(part.size <= most for part in parts)
    for one in whole:
        own = [part for part in parts if part.where == one.where]
        edges = [one.first, *(part.end for part in own)]
        assert [part.first for part in own] == edges[:-1]
        assert edges[-1] == one.end if one.size else not own


@given(RANGES, st.integers(1, 500))
def test_a_batch_is_about_as_large_as_its_limit_and_starves_nobody(spans: list[tuple[int, int]], most: int) -> None:
    first = {TopicPartition("t", at): start for at, (start, _) in enumerate(spans)}
    end = {where: first[where] + size for where, (_, size) in zip(first, spans, strict=True)}
    limited = limit_offsets(first, end, most)
    taken = {where: limited[where] - first[where] for where in end}
    assert all(0 <= taken[where] <= end[where] - first[where] for where in end)
    assert all(taken[where] for where in end if end[where] > first[where]), "each gives something"
    assert sum(taken.values()) <= most + len(end)
