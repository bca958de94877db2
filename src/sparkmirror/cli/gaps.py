"""`sparkmirror gaps FILE`: what was lost before or after it was mirrored, from the gap ledger on each target."""

import argparse
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_file_arguments, add_verb, read_file
from sparkmirror.cli.output import add_format, show

if TYPE_CHECKING:
    from sparkmirror.ledger.gaps import Gap
    from sparkmirror.views.table import Page

_DESCRIPTION = (
    "List where mirroring found a source's log changed: the range, the cause (retention or deleted records, "
    "truncation, a topic made anew), when, and what was done; and where a target's topic was deleted or truncated: "
    "there the range is one of the target's offsets. What is done is decided by on.data.loss."
)


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = add_verb(verbs, "gaps", "what was lost before or after it was mirrored", _DESCRIPTION, execute)
    add_file_arguments(parser)
    add_format(parser)


def execute(args: argparse.Namespace) -> int:
    """Reads the gap ledgers and prints them. Raises ConfigError and ClusterError."""
    from sparkmirror.operations.cluster_pair import ledger_gaps

    found = {str(flow.name): ledger_gaps(flow) for flow in read_file(args).flows}
    as_json = {name: [gap.as_json() for gap in gaps] for name, gaps in found.items()}
    show(args, as_json, lambda: [part for name, gaps in found.items() for part in render(name, gaps)])
    return 0


def render(flow: str, gaps: "list[Gap]") -> "Page":
    """A line for the flow and a table of its gaps; offsets are those of the side that lost."""
    from sparkmirror.views.table import make_table

    if not gaps:
        return [f"{flow}: no gaps"]
    rows = [
        (gap.as_json()["at"], gap.partition, "target" if gap.is_on_target else "source", gap.expected, gap.resumed,
         gap.lost_records, gap.cause, gap.action)
        for gap in gaps
    ]  # fmt: skip
    titles = ("at", "partition", "side", "from", "to", "lost", "cause", "what was done")
    lost = sum(gap.lost_records for gap in gaps)
    return [f"{flow}: {len(gaps)} gap(s), {lost:,} offsets lost", make_table(titles, rows, indent=2)]
