"""`sparkmirror gaps FILE`: what was lost before or after it was mirrored, from the gap ledger on each target."""

import argparse
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_file_arguments, add_verb, read_file
from sparkmirror.cli.output import add_format, show

if TYPE_CHECKING:
    from sparkmirror.config.flows import FlowConfig
    from sparkmirror.ledger.gaps import Gap
    from sparkmirror.status.table import Page

_DESCRIPTION = (
    "List where mirroring found a source's log changed: the range, the cause (retention or deleted records, "
    "truncation, a topic made anew), when, and what was done; and where a target's topic was deleted or truncated: "
    "there the range is one of the target's offsets. What is done is decided by on.data.loss."
)
_READ_SECONDS_MAX = 30.0


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = add_verb(verbs, "gaps", "what was lost before or after it was mirrored", _DESCRIPTION, execute)
    add_file_arguments(parser)
    add_format(parser)


def execute(args: argparse.Namespace) -> int:
    """Reads the gap ledgers and prints them. Raises ConfigError and ClusterError."""
    found = {str(flow.name): _read(flow) for flow in read_file(args).flows}
    as_json = {name: [gap.as_json() for gap in gaps] for name, gaps in found.items()}
    show(args, as_json, lambda: [part for name, gaps in found.items() for part in render(name, gaps)])
    return 0


def render(flow: str, gaps: "list[Gap]") -> "Page":
    """A line for the flow and a table of its gaps; offsets are those of the side that lost."""
    from sparkmirror.status.table import make_table

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


def _read(flow: "FlowConfig") -> "list[Gap]":
    from sparkmirror.kafka.clients import open_admin, open_tail
    from sparkmirror.ledger.gaps import list_gaps
    from sparkmirror.ledger.topics import ledger_topics
    from sparkmirror.model import TopicPartition

    topic = ledger_topics(flow.name.source, flow.offset_storage_topic).gaps
    with open_admin(flow.target, "gaps") as admin:
        if topic not in admin.list_topics([topic]):
            return []
    with open_tail(flow.target, "gaps", [TopicPartition(topic, 0)]) as tail:
        records = [(record.key, record.value) for record in tail.read_to_end(_READ_SECONDS_MAX)]
    return list_gaps(flow.name.source, records)
