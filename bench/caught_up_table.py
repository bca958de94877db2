"""The table of mirrors that have caught up. Pure; called by `bench.results`."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.caught_up import CaughtUp
from bench.markdown import render_table


@dataclass(frozen=True, slots=True)
class CaughtUpRow:
    """One contestant at one rate over so many partitions. A str says why there is no measurement."""

    contestant: str
    title: str
    per_second: int
    partitions: int
    outcome: CaughtUp | str


_HEAD = ["Caught up", "partitions", "records/s", "% of a core", "p50 ms", "p99 ms", "p99.9 ms", "answers/s",
         "µs an answer", "% of a core by process", "µs an answer by process", "PSS MB",
         "PSS MB by process"]  # fmt: skip


def render_caught_up(rows: Sequence[CaughtUpRow]) -> str:
    """Markdown; nothing where nothing was measured."""
    if not rows:
        return ""
    ordered = sorted(rows, key=lambda row: (row.partitions, row.per_second))
    return render_table(_HEAD, [_cells(row) for row in ordered])


def _cells(row: CaughtUpRow) -> list[str]:
    found = row.outcome
    head = [row.title, str(row.partitions), f"{row.per_second:,}"]
    if isinstance(found, str):
        return [*head, "failed", *[""] * (len(_HEAD) - len(head) - 1)]
    ages = (
        [f"{value:.1f}" for value in (found.ages.p50_ms, found.ages.p99_ms, found.ages.p999_ms)] if found.ages else []
    )
    costs = found.microseconds_an_answer()
    return [
        *head,
        f"{found.cores * 100:.1f}",
        *(ages or [""] * 3),
        "" if found.answers_per_second is None else f"{found.answers_per_second:,.0f}",
        f"{costs.pop(''):,.0f}" if costs else "",
        _by_role({role: cores * 100 for role, cores in found.cores_by_role.items()}, 1),
        _by_role(costs, 0),
        f"{found.pss_bytes / 1e6:,.0f}" if found.pss_by_role else "",
        _by_role({role: size / 1e6 for role, size in found.pss_by_role.items()}, 0),
    ]


def _by_role(values: dict[str, float], digits: int) -> str:
    """Largest first."""
    ordered = sorted(values.items(), key=lambda item: -item[1])
    return ", ".join(f"{role} {value:,.{digits}f}" for role, value in ordered)


def describe_caught_up(outcome: CaughtUp | str) -> str:
    """In a line."""
    if isinstance(outcome, str):
        return f"failed: {outcome}"
    ages = outcome.ages
    told = f", p50 {ages.p50_ms:.1f} ms, p99 {ages.p99_ms:.1f} ms" if ages else ""
    answers = outcome.answers_per_second
    return f"{outcome.cores * 100:.1f} % of a core{told}" + (f", {answers:,.0f} answers/s" if answers else "")
