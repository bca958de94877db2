"""docs/compatibility.md: its rows are what the last run of each pair has found. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.compatibility.pair import CHECKS, RELEASES

_PASSED = "passed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of a pair: `problem` is "" when all was right; `day` as 2026-11-21."""

    source: str
    target: str
    problem: str
    seconds: int
    day: str


def render(outcomes: Sequence[Outcome]) -> str:
    """The page, rows in the order of the releases."""
    rows = sorted(outcomes, key=lambda one: (_numbers(one.source), _numbers(one.target)))
    return "\n".join([*_introduction(), *map(_row, rows), ""])


def read_page(text: str) -> list[Outcome]:
    """The rows of a page."""
    lines = [line for line in text.splitlines() if line.startswith("| ") and line[2].isdigit()]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [Outcome(one, other, "" if said == _PASSED else said, int(took.removesuffix(" s")), day)
            for one, other, said, took, day in cells]  # fmt: skip


def _introduction() -> Iterator[str]:
    yield from ("# Brokers of other releases", "")
    yield "`make compatibility` writes this page. For each pair of the releases " + ", ".join(RELEASES)
    yield "it starts a broker of each (KRaft, jars from Maven) and lets SparkMirror mirror between them."
    yield "A client (librdkafka) then checks on both clusters that:"
    yield from ("", *(f"- {check};" for check in CHECKS[:-1]), f"- {CHECKS[-1]}.", "")
    yield "The table has the pairs that were tested. The seconds are those of the whole test, with the start of both"
    yield from ("brokers and two starts of the mirror, on two cores that other tests kept busy.", "")
    yield from ("| source | target | | seconds | day |", "|---|---|---|---|---|")


def _row(one: Outcome) -> str:
    said = (one.problem or _PASSED).replace("|", "/")
    return f"| {one.source} | {one.target} | {said} | {one.seconds} s | {one.day} |"


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
