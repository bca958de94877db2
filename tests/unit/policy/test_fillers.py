"""Fillers take up exactly the offsets of a hole, whatever its size."""

import re
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.policy.fillers import (
    ABORTED,
    FILLERS,
    LONE,
    MARKERS,
    RATES,
    RECORDS_MAX,
    WRITE_MARKERS,
    Hole,
    hole_cost,
    plan_batches,
    plan_transactions,
    start_cost,
)

PAGE = Path(__file__).parents[3] / "docs" / "identical-offsets.md"

ends = st.integers(0, 5 * RECORDS_MAX)


@given(ends, ends)
def test_aborted_transactions_take_up_a_hole_with_as_few_markers_as_they_can(first: int, size: int) -> None:
    planned = list(plan_transactions(Hole(first, first + size), ABORTED))
    assert sum(records + 1 for records in planned) == size
    assert all(records == RECORDS_MAX for records in planned[:-1])
    assert all(0 <= records <= RECORDS_MAX for records in planned)


@given(ends, st.integers(0, 1000))
def test_markers_alone_have_no_record_that_anybody_could_see(first: int, size: int) -> None:
    assert list(plan_transactions(Hole(first, first + size), MARKERS)) == [0] * size


@given(ends, ends, st.integers(RECORDS_MAX // 10, RECORDS_MAX))
def test_batches_take_up_a_start_one_after_the_other(first: int, size: int, records_max: int) -> None:
    planned = list(plan_batches(Hole(first, first + size), records_max))
    assert [first, *accumulate(planned, initial=first)][-1] == first + size
    assert all(0 < records <= records_max for records in planned)


def test_the_rates_are_those_that_the_page_says_were_measured() -> None:
    rows = re.findall(r"^\| `?([a-z -]+)`? \| ([13]) \| ([\d,]+) \| ([\d.]+) \|$", PAGE.read_text(), re.MULTILINE)
    said = {(what, int(replicas)): (float(rate.replace(",", "")), float(each)) for what, replicas, rate, each in rows}
    assert said == {
        (what, replicas): (rate.with_replicas(replicas), rate.offset_bytes)
        for what, rate in RATES.items()
        for replicas in (1, 3)
    }


@pytest.mark.parametrize("filler", FILLERS)
def test_more_replicas_never_cost_less_and_what_was_not_measured_counts_as_three(filler: str) -> None:
    one, two, three, chosen = (hole_cost(5000, filler, replicas).seconds for replicas in (1, 2, 3, -1))
    assert one < two == three == chosen
    assert start_cost(5000, 1).seconds < start_cost(5000, -1).seconds


def test_a_hole_by_itself_waits_for_the_records_before_it_whatever_fills_it() -> None:
    for filler in FILLERS:
        assert hole_cost(1, filler, 1) == (1 / LONE.one_replica, 78)
    assert hole_cost(50, WRITE_MARKERS, 1) == hole_cost(50, MARKERS, 1), "transactions fill small holes"


def test_a_large_hole_takes_minutes_seconds_or_nothing_by_what_fills_it() -> None:
    seconds = {filler: hole_cost(100_000, filler, 3).seconds for filler in FILLERS}
    assert 1200 < seconds[MARKERS] < 1300
    assert 40 < seconds[WRITE_MARKERS] < 60
    assert seconds[ABORTED] < 1
    assert hole_cost(100_000, ABORTED, 3).size_bytes < hole_cost(100_000, MARKERS, 3).size_bytes / 100
