"""Points in time and ages, as people write and read them."""

import pytest
from tests.manual_clock import ManualClock

from sparkmirror.clock import parse_moment, show_age, show_moment, to_the_second


@pytest.mark.parametrize(
    ("text", "moment_ms"),
    [
        ("1970-01-01T00:00", 0),
        ("2026-11-20T11:00", 1_795_172_400_000),
        ("2026-11-20T11:00:00Z", 1_795_172_400_000),
        ("2026-11-20T12:00:00+01:00", 1_795_172_400_000),
        ("2026-11-20T11:00:00.250", 1_795_172_400_250),
        ("2026-11-20", 1_795_132_800_000),
        ("1795172400000", 1_795_172_400_000),
    ],
)
def test_a_time_without_a_zone_is_utc(text: str, moment_ms: int) -> None:
    assert parse_moment(text) == moment_ms


@pytest.mark.parametrize("text", ["yesterday", "", "11:00", "2026-13-01T00:00", "-5"])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="2026-11-20T11:00"):
        parse_moment(text)


def test_a_time_is_shown_as_it_can_be_written() -> None:
    assert show_moment(1_795_172_400_000) == "2026-11-20T11:00:00+00:00"
    assert parse_moment(show_moment(1_795_172_400_250)) == 1_795_172_400_250


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (12.4, "12 s"), (150, "2 min"), (10_000, "3 h"), (200_000, "2 d")],
)
def test_an_age_is_shown_in_one_unit(seconds: float, shown: str) -> None:
    assert show_age(seconds) == shown


@pytest.mark.parametrize("began", [100.0, 100.002, 100.3, 100.49, 100.51, 100.7, 100.998])
@pytest.mark.parametrize("seconds", [1.0, 2.0, 4.998, 5.0, 60.0])
def test_waits_of_a_second_and_more_end_together(began: float, seconds: float) -> None:
    clock = ManualClock(began)
    clock.now += to_the_second(seconds, clock)
    assert clock.now == pytest.approx(round(clock.now), abs=1e-9)
    assert abs(clock.now - began - seconds) <= 0.5


def test_a_wait_of_less_than_a_second_is_as_it_was_asked_for() -> None:
    assert to_the_second(0.25, ManualClock(100.7)) == 0.25
