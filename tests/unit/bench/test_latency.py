"""Percentiles by nearest rank."""

import os
import time

import pytest
from bench.latency import percentile, summarise
from bench.machine import idle_core_seconds
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.errors import SparkMirrorError


def test_percentiles_of_a_thousand_are_those_one_would_count_off() -> None:
    found = summarise(50, [float(n) for n in range(1000, 0, -1)], 0.5)
    assert (found.records, found.p50_ms, found.p99_ms, found.p999_ms) == (1000, 500.0, 990.0, 999.0)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.sampled_from((0.5, 0.99, 0.999)))
def test_at_least_the_part_asked_for_is_not_above_the_percentile(values: list[float], part: float) -> None:
    ordered = sorted(values)
    found = percentile(ordered, part)
    assert sum(value <= found for value in ordered) >= part * len(ordered)
    assert sum(value < found for value in ordered) < part * len(ordered)


def test_nothing_received_is_an_error_and_not_a_zero() -> None:
    with pytest.raises(SparkMirrorError, match="No record came through"):
        summarise(50, [], 0.5)


def test_one_bad_second_is_seen_among_good_ones() -> None:
    found = summarise(3, [1.0, 2.0, 3.0, 90.0, 80.0, 1.0, 2.0], 0.25)
    assert (found.p99_by_second_ms, found.machine_idle) == ((3.0, 90.0, 2.0), 0.25)


def test_a_machine_is_idle_for_no_longer_than_it_runs() -> None:
    assert 0 <= idle_core_seconds() <= time.clock_gettime(time.CLOCK_BOOTTIME) * (os.cpu_count() or 1) + 1
