"""Which topics may lose records, and what happens when they do."""

import pytest

from sparkmirror.policy.loss import LossPolicy, parse_rules


def test_the_first_rule_that_matches_the_whole_name_counts() -> None:
    policy = LossPolicy("continue", parse_rules(["payments.*:fail", "pay.*:pause"]))
    assert [policy.of(topic) for topic in ("payments-eu", "payroll", "my-payments")] == ["fail", "pause", "continue"]


@pytest.mark.parametrize("item", ["payments", "payments:stop", ":fail", "payments:"])
def test_a_rule_needs_a_pattern_and_an_action(item: str) -> None:
    with pytest.raises(ValueError, match="must list `PATTERN:ACTION`"):
        parse_rules([item])
