"""Rate and lag of a day: what a sample is, what is a gap in it, and that it stays small."""

from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.event_log import DayCurve
from sparkmirror.telemetry.history import SAMPLES_MAX, HistoryRecord, Sample
from sparkmirror.telemetry.records import encode_record

STEP = 300_000
NOW = 6_000_000 * STEP


def look_on(curve: DayCurve, begins_ms: int, *, rate: int | None, lag: int | None, records: int = 0) -> int:
    """Once a second through one sample; what was mirrored at its end."""
    for second in range(300):
        records += rate or 0
        curve.look(begins_ms + second * 1000, None if rate is None else records, lag)
    return records


def test_a_sample_is_the_mean_rate_and_the_greatest_lag_of_five_minutes() -> None:
    curve = DayCurve()
    records = look_on(curve, NOW, rate=50, lag=7)
    curve.look(NOW + STEP - 1, records, 90)
    curve.look(NOW + STEP, records, 0)
    assert curve.samples == (Sample(NOW, 50, 90),)


def test_what_nobody_knows_is_a_gap_and_no_zero() -> None:
    curve = DayCurve()
    records = look_on(curve, NOW, rate=50, lag=7)
    look_on(curve, NOW + STEP, rate=None, lag=None)
    look_on(curve, NOW + 2 * STEP, rate=10, lag=0, records=records + 10**6)
    curve.look(NOW + 3 * STEP, None, None)
    assert curve.samples[1:] == (Sample(NOW + STEP), Sample(NOW + 2 * STEP, 10, 0)), "nobody saw the million go"


def test_a_run_that_begins_at_nothing_takes_nothing_away() -> None:
    curve = DayCurve()
    records = look_on(curve, NOW, rate=50, lag=0)
    look_on(curve, NOW + STEP, rate=50, lag=0)
    curve.look(NOW + 2 * STEP, 0, 0)
    assert records and [one.records_per_second for one in curve.samples] == [50, 50]


def test_a_process_goes_on_from_what_an_earlier_one_has_written_and_a_day_is_kept() -> None:
    first, second = DayCurve(), DayCurve()
    for at in range(400):
        first.look(NOW + at * STEP, 1, at)
    assert len(first.samples) == SAMPLES_MAX
    key, value = encode_record("west", HistoryRecord(samples=first.samples))
    assert len(value) < 10_000
    board = StatusBoard("west")
    assert board.take(key, value, NOW)
    second.adopt(board.history.samples)
    assert second.samples == first.samples
    later = NOW + 450 * STEP
    second.look(later, 1, 3)
    second.look(later + STEP, 1, 3)
    assert second.samples[-1].at_ms == later and second.samples[-2].at_ms == NOW + 398 * STEP, "nobody ran it meanwhile"
    assert second.samples[0].at_ms > later - SAMPLES_MAX * STEP
