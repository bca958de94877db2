"""Rates as people write them, and which limit counts."""

import pytest

from sparkmirror.policy.rates import RateLimit, lay_over, parse_rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("500000", 500_000),
        ("500kB", 500_000),
        ("1.5MB", 1_500_000),
        (" 2 GB ", 2_000_000_000),
        ("3M", 3_000_000),
        ("7B", 7),
    ],
)
def test_a_rate_is_bytes_a_second(text: str, rate: int) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "0", "-1", "fast", "10 MiB", "1e6", "0.5B"])
def test_what_is_no_rate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="as in `500000`, `500kB` or `10MB`"):
        parse_rate(text)


def test_orders_replace_the_limits_of_their_pattern_and_new_patterns_count_first() -> None:
    limits = (RateLimit("", 10), RateLimit("a.*", 20))
    ordered = [RateLimit("a.*", 5), RateLimit("a-b", 7)]
    assert lay_over(limits, ordered) == (RateLimit("a-b", 7), RateLimit("", 10), RateLimit("a.*", 5))


def test_a_limit_applies_to_whole_names() -> None:
    assert RateLimit("a|b", 1).applies_to("b")
    assert not RateLimit("a|b", 1).applies_to("ab")
    assert RateLimit("", 1).applies_to("anything")
