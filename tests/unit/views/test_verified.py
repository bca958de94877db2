"""What is said of the last comparison."""

from typing import Any

from sparkmirror.telemetry.records import VerifyRecord
from sparkmirror.views.verified import verified_json, verified_sentence

NOW_MS = 1_800_000_000_000
FIRST = "orders-0 at upstream offset 7, downstream offset 9 (value)"


def found(verdict: str = "equal", **told: object) -> VerifyRecord:
    return VerifyRecord(verdict, **({"records": 4900, "rounds": 12, "at_ms": NOW_MS - 30_000} | told))  # type: ignore[arg-type]


def test_an_equal_round_says_when_and_how_much_was_compared() -> None:
    assert verified_sentence(found(), NOW_MS) == "compared 30 s ago: equal, 4,900 records, round 12"
    sampled = verified_sentence(found("unproven", sample_percent=5.0), NOW_MS)
    assert sampled == "compared 30 s ago: not proven equal, 4,900 records in a sample of 5 %, round 12"


def test_a_difference_is_named_also_by_rounds_that_did_not_see_it_again() -> None:
    before: dict[str, Any] = {"rounds_different": 1, "first_difference": FIRST, "different_at_ms": NOW_MS - 300_000}
    assert verified_sentence(found("different", differences=3, **before), NOW_MS).startswith(
        "compared 30 s ago: DIFFERENT in 3 of 4,900 records, round 12; "
    )
    assert verified_sentence(found(**before), NOW_MS) == (
        "compared 30 s ago: equal, 4,900 records, round 12; 1 of 12 rounds found a difference; the last 5 min ago, "
        f"first in {FIRST}"
    )


def test_as_json_it_has_moments_not_ages() -> None:
    told = verified_json(found(different_at_ms=NOW_MS - 60_000))
    assert (told["at"], told["different_at"]) == ("2027-01-15T07:59:30+00:00", "2027-01-15T07:59:00+00:00")
    assert verified_json(found())["different_at"] is None
