"""The section of docs/parity.md that `make parity` writes: what came of MirrorMaker 2's integration tests. Pure."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

BEGIN, END = "<!-- make parity: begin -->", "<!-- make parity: end -->"
_ROW = re.compile(r"^\| (\w+\.\w+) \| (passed|failed|unmapped)(?:: (.*))? \| (\d+) s \| (\S+) \|$")


class Outcome(StrEnum):
    """UNMAPPED: the test calls what only a Connect worker has."""

    PASSED = "passed"
    FAILED = "failed"
    UNMAPPED = "unmapped"


@dataclass(frozen=True, slots=True)
class Result:
    """The last run of a test, `Class.method`; `said` is why it did not pass; `day` as 2026-11-21."""

    test: str
    outcome: Outcome
    said: str
    seconds: int
    day: str

    @classmethod
    def from_row(cls, row: str) -> Self | None:
        """None for a line that is no row."""
        if not (found := _ROW.match(row)):
            return None
        test, outcome, said, seconds, day = found.groups()
        return cls(test, Outcome(outcome), said or "", int(seconds), day)

    def row(self) -> str:
        said = f": {self.said.replace('|', '/')}" if self.said else ""
        return f"| {self.test} | {self.outcome}{said} | {self.seconds} s | {self.day} |"


def read_results(page: str) -> dict[str, Result]:
    """The rows of the section, by test."""
    rows = map(Result.from_row, _section(page).splitlines())
    return {row.test: row for row in rows if row}


def write_results(page: str, results: Mapping[str, Result], tests: Sequence[str]) -> str:
    """The page with the section made of `results`; `tests` are all there are."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return "\n".join([before + BEGIN, *_lines(results, tests), END + after])


def _section(page: str) -> str:
    return page.partition(BEGIN)[2].partition(END)[0]


def _lines(results: Mapping[str, Result], tests: Sequence[str]) -> Iterator[str]:
    counts = Counter(results[test].outcome for test in tests if test in results)
    yield (
        f"Of {len(tests)} tests {counts[Outcome.PASSED]} passed, {counts[Outcome.FAILED]} failed, "
        f"{counts[Outcome.UNMAPPED]} are unmapped, and {len(tests) - counts.total()} have not been run."
    )
    yield from ("", "| MirrorMaker 2's test | | took | on |", "|---|---|---|---|")
    yield from (results[test].row() for test in tests if test in results)
