"""The result of the last comparison of a flow, in a sentence and as JSON; pure.

`verify.job` writes it on the status topic; `views.flow_page`, `web.flow_snapshot` and `web.plain` show it.
"""

from typing import Any

from sparkmirror.clock import show_age, show_moment
from sparkmirror.telemetry.records import VerifyRecord

_WORDS = {"equal": "equal", "different": "DIFFERENT", "unproven": "not proven equal"}


def verified_sentence(found: VerifyRecord, now_ms: int) -> str:
    """A sentence: when the last round ran, what it found, how many records it compared, and the last difference."""
    sampled = "" if found.sample_percent >= 100 else f" in a sample of {found.sample_percent:g} %"
    differing = f" in {found.differences:,} of" if found.differences else ","
    parts = [
        f"compared {_age(found.at_ms, now_ms)}: {_WORDS.get(found.verdict, found.verdict)}{differing} "
        f"{found.records:,} records{sampled}, round {found.rounds}"
    ]
    if found.rounds_different:
        parts.append(f"{found.rounds_different} of {found.rounds} rounds found a difference")
    if found.first_difference:
        when = "" if found.different_at_ms is None else f" {_age(found.different_at_ms, now_ms)}"
        parts.append(f"the last{when}, first in {found.first_difference}")
    return "; ".join(parts)


def _age(at_ms: int, now_ms: int) -> str:
    return f"{show_age(max(now_ms - at_ms, 0) / 1000)} ago"


def verified_json(found: VerifyRecord) -> dict[str, Any]:
    """The result as `sparkmirror status --format json` has it."""
    return {
        "verdict": found.verdict,
        "at": show_moment(found.at_ms),
        "records": found.records,
        "differences": found.differences,
        "seconds": found.seconds,
        "sample_percent": found.sample_percent,
        "rounds": found.rounds,
        "rounds_different": found.rounds_different,
        "records_in_all": found.records_in_all,
        "first_difference": found.first_difference,
        "different_at": None if found.different_at_ms is None else show_moment(found.different_at_ms),
    }
