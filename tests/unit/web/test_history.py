"""The small curves: what they keep, and what they cost where there is nothing to draw."""

from sparkmirror.web.history import SAMPLES_MAX, History


def test_a_curve_begins_at_nothing_without_an_earlier_value() -> None:
    history = History()
    history.sample({"a": 5})
    history.sample({"b": 7})
    history.sample({"a": 1, "b": 8})
    assert history.curve("a") == [5, 0, 1]
    assert history.curve("b") == [0, 7, 8]
    assert history.curve("c") == []


def test_the_last_minutes_are_kept_and_a_curve_that_fell_to_nothing_is_forgotten() -> None:
    history = History()
    for value in range(1, SAMPLES_MAX + 11):
        history.sample({"a": value, "b": 1 if value == 1 else 0})
    assert history.curve("a") == list(range(11, SAMPLES_MAX + 11))
    assert history.curve("b") == []


def test_ten_thousand_idle_partitions_keep_nothing() -> None:
    history = History()
    history.sample(dict.fromkeys(range(10000), 0))
    assert not history._curves


def test_what_is_not_known_is_no_zero() -> None:
    history = History()
    for value in (0, None, 3, None):
        history.sample({"a": value})
    assert history.curve("a") == [0, None, 3, None]
