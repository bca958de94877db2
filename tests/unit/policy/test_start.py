"""Where mirroring begins, as Java's consumer reads `auto.offset.reset`."""

import pytest

from sparkmirror.policy.start import parse_kept_start, parse_start, start_ms

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize("text", ["earliest", " latest ", "NONE"])
def test_words_are_taken_in_any_case_and_name_no_time(text: str) -> None:
    assert parse_start(text) == text.strip().lower()
    assert start_ms(parse_start(text), NOW_MS) is None


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [("P7D", 604_800), ("PT1H", 3_600), ("PT1H30M", 5_400), ("P1DT0.5S", 86_400.5), ("pt90s", 90), ("PT0S", 0)],
)
def test_a_duration_counts_back_from_now(duration: str, seconds: float) -> None:
    assert start_ms(parse_start(f"by_duration:{duration}"), NOW_MS) == NOW_MS - int(seconds * 1000)


def test_nobody_starts_before_the_epoch() -> None:
    assert start_ms(parse_start("by_duration:P999999D"), NOW_MS) == 0


@pytest.mark.parametrize(
    "text", ["", "newest", "by_duration:", "by_duration:7d", "by_duration:PT", "by_duration:P1Y", "by_duration:P-1D"]
)
def test_what_is_no_duration_is_reported_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="such as P7D"):
        parse_start(text)


@pytest.mark.parametrize(
    ("text", "value", "at_ms"),
    [
        ("", "", None),
        (" Latest ", "latest", None),
        ("by_duration:pt1h", "by_duration:PT1H", NOW_MS - 3_600_000),
        ("1700000000000", "1700000000000", 1_700_000_000_000),
        ("2026-11-20T11:00", "1795172400000", 1_795_172_400_000),
        ("2026-11-20T12:00:00+01:00", "1795172400000", 1_795_172_400_000),
    ],
)
def test_kept_offsets_may_begin_at_a_point_in_time_too(text: str, value: str, at_ms: int | None) -> None:
    assert parse_kept_start(text) == value
    assert start_ms(parse_kept_start(text), NOW_MS) == at_ms


@pytest.mark.parametrize("text", ["none", "yesterday", "-5", "by_duration:7d"])
def test_what_is_no_start_is_reported_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="such as P7D"):
        parse_kept_start(text)
