"""The findings of `sparkmirror doctor`, line by line; pure.

`operations.cluster_checks` and `operations.machine_checks` make them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sparkmirror.model import plain
from sparkmirror.views.table import Page, make_table

_NAMED_MAX = 5


class Level(StrEnum):
    """FAIL: the mirror cannot do what the file asks. WARN: it can, but a person should look."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check: `where` it looked (a cluster's alias, the file, this machine), `what` it checked, what it
    found (`said`), and what to do (`hint`)."""

    level: Level
    where: str
    what: str
    said: str
    hint: str = ""

    def as_json(self) -> dict[str, Any]:
        return plain(self)


def render_findings(findings: Sequence[Finding]) -> Page:
    """A table with a row for each finding, then the hints, then a line with the number of findings of each level."""
    rows = [(one.level.value, one.where, one.what, one.said) for one in findings]
    hints = [f"{one.level.value} {one.where}, {one.what}: {one.hint}" for one in findings if one.hint]
    counts = ", ".join(f"{sum(one.level is level for one in findings)} {level.value}" for level in Level)
    return [make_table(("", "where", "what", "found"), rows), *hints, counts]


def has_failed(findings: Sequence[Finding]) -> bool:
    return any(one.level is Level.FAIL for one in findings)


def name_some(names: Sequence[str]) -> str:
    """Up to five names, and the number of further ones."""
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def show_bytes(count: float) -> str:
    """`1.5 GB`, in units of 1,000."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def show_cost(seconds: float, size_bytes: float) -> str:
    """`about 12 s, 3.4 MB for each replica`."""
    shown = f"about {seconds:,.0f} s" if seconds >= 1 else "less than 1 s"
    return f"{shown}, {show_bytes(size_bytes)} for each replica"
