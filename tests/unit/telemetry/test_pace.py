"""Rates from sums that are seen now and then."""

from sparkmirror.telemetry.pace import Pace


def test_a_pace_is_that_of_the_last_seconds_and_begins_again_with_a_run() -> None:
    pace = Pace()
    for second in range(10):
        pace.measure(float(second), 1000 * second, 10 * second)
    assert (pace.records_per_second, pace.bytes_per_second) == (1000.0, 10.0)
    for second in range(10, 15):
        pace.measure(float(second), 9000, 90)
    assert pace.records_per_second == 0.0
    pace.measure(15.0, 50, 1)
    pace.measure(16.0, 150, 2)
    assert pace.records_per_second == 100.0


def test_heartbeats_that_are_counted_every_five_seconds_are_one_a_second_all_the_time() -> None:
    pace, found = Pace(), []
    for tick in range(120):
        pace.measure(tick / 2, 5 * (tick // 10), 500 * (tick // 10))
        found.append((pace.records_per_second, pace.bytes_per_second))
    assert set(found[20:]) == {(1.0, 100.0)}
    for tick in range(120, 150):
        pace.measure(tick / 2, 55, 5500)
    assert (pace.records_per_second, pace.bytes_per_second) == (0.0, 0.0), "they have ceased"
