"""`sparkmirror gaps FILE`: what was lost before or after it was mirrored, from the gap ledger on each target."""

import argparse
import os
import socket
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_file_arguments, add_verb, read_file
from sparkmirror.cli.output import add_format, say, show

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import FlowConfig
    from sparkmirror.ledger.gaps import Gap
    from sparkmirror.views.table import Page

_DESCRIPTION = (
    "List where mirroring found a source's log changed: the range, the cause (retention or deleted records, "
    "truncation, a topic made again), when, and what was done; and where a target's topic was deleted or truncated: "
    "there the range is one of the target's offsets. What is done is decided by on.data.loss. Until somebody has seen "
    "them (--acknowledge), gaps hold a flow at AMBER."
)


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = add_verb(verbs, "gaps", "what was lost before or after it was mirrored", _DESCRIPTION, execute)
    add_file_arguments(parser)
    parser.add_argument(
        "--acknowledge",
        action="store_true",
        help="say that you have seen all that are listed: they no longer hold the flow at AMBER",
    )
    add_format(parser)


def execute(args: argparse.Namespace) -> int:
    """Reads the gap ledgers and prints them; acknowledges them if asked. Raises ConfigError and ClusterError."""
    from sparkmirror.operations.cluster_pair import ledger_gaps

    flows = read_file(args).flows
    found = {str(flow.name): ledger_gaps(flow) for flow in flows}
    if args.acknowledge:
        for flow in flows:
            acknowledge(flow, found[str(flow.name)])
    as_json = {name: [gap.as_json() for gap in gaps] for name, gaps in found.items()}
    show(args, as_json, lambda: [part for name, gaps in found.items() for part in render(name, gaps)])
    return 0


def acknowledge(flow: "FlowConfig", gaps: "list[Gap]") -> None:
    """Writes to the flow's status topic that these gaps have been seen, and by whom. Raises ClusterError."""
    from sparkmirror.kafka.publish import publish
    from sparkmirror.telemetry.problems import plural
    from sparkmirror.telemetry.records import AcknowledgedRecord, encode_record

    if gaps:
        by = f"{os.environ.get('USER') or os.getuid()}@{socket.gethostname()}"
        records = [encode_record(flow.name.source, AcknowledgedRecord.of(gap, by)) for gap in gaps]
        publish(flow.target, flow.ledger_topics.status, records)
        say(f"{flow.name}: {plural(len(gaps), 'gap')} acknowledged")


def render(flow: str, gaps: "list[Gap]") -> "Page":
    """A line for the flow and a table of its gaps; offsets are those of the side that lost."""
    from sparkmirror.telemetry.problems import plural
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
    counted = f"{plural(len(gaps), 'gap')}, {plural(lost, 'offset')} lost"
    return [f"{flow}: {counted}", make_table(titles, rows, indent=2)]
