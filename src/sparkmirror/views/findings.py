"""The findings of `sparkmirror doctor`, line by line; pure.

Made by `operations.cluster_checks` and `operations.machine_checks`, judged here where figures decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sparkmirror.model import plain
from sparkmirror.views.table import Page, make_table

_NAMED_MAX = 5


class Level(StrEnum):
    """FAIL: the mirror cannot do what the file asks. WARN: it can, but something is to be looked at."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: `where` (a cluster's alias, the file, this machine), and what to do (`hint`)."""

    level: Level
    where: str
    what: str
    said: str
    hint: str = ""

    def as_json(self) -> dict[str, Any]:
        return plain(self)


def render_findings(findings: Sequence[Finding]) -> Page:
    """A row for each finding, with its hint below the table where there is one; at last a line that sums up."""
    rows = [(one.level.value, one.where, one.what, one.said) for one in findings]
    hints = [f"{one.level.value} {one.where}, {one.what}: {one.hint}" for one in findings if one.hint]
    counts = ", ".join(f"{sum(one.level is level for one in findings)} {level.value}" for level in Level)
    return [make_table(("", "where", "what", "found"), rows), *hints, counts]


def has_failed(findings: Sequence[Finding]) -> bool:
    return any(one.level is Level.FAIL for one in findings)


def name_some(names: Sequence[str]) -> str:
    """Up to five of them, and how many more there are."""
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def show_bytes(count: float) -> str:
    """`1.5 GB`, in units of 1,000."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
