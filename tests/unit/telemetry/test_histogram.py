"""Histograms of durations: what is added is found again, within 6 %, also after merging and after the JSON."""

import json
import random

from sparkmirror.telemetry.histogram import Histogram


def histogram(*times_ms: int) -> Histogram:
    made = Histogram()
    for ms in times_ms:
        made.add(ms, 1)
    return made


def test_percentiles_are_within_six_percent_of_the_truth() -> None:
    chance = random.Random(7)
    times = sorted(round(chance.lognormvariate(4, 2)) for _ in range(20_000))
    found = histogram(*times)
    assert found.count == 20_000
    for share in (0.1, 0.5, 0.99, 0.999):
        truth = times[round(share * 20_000) - 1]
        measured = found.quantile_ms(share)
        assert measured is not None
        assert abs(measured - truth) <= max(0.0625 * truth, 0.5)


def test_small_times_are_exact_and_powers_of_two_part_them_exactly() -> None:
    times = [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 1023, 1024, 1025]
    found = histogram(*times)
    for limit in (1, 2, 4, 8, 16, 32, 1024, 2048):
        assert found.below(limit) == sum(ms < limit for ms in times)
    assert histogram(3).quantile_ms(0.5) == 3


def test_what_no_clock_should_show_is_counted_at_the_ends() -> None:
    odd = histogram(-5, 1 << 40)
    assert (odd.count, odd.below(1)) == (2, 1)
    assert Histogram().quantile_ms(0.5) is None


def test_histograms_add_up_and_survive_their_json() -> None:
    one, other = histogram(1, 50), histogram(50, 3000)
    both = Histogram.from_json(json.loads(json.dumps(one.plus(other).as_json())))
    assert (both.count, both.total_ms) == (4, 3101)
    assert both.as_json() == one.plus(other).as_json()
    assert both.since(one).as_json() == other.as_json()
