"""`sparkmirror gaps FILE`: what was lost before or after it was mirrored, from the gap ledger on each target."""

import argparse
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparkmirror.config.flows import FlowConfig
    from sparkmirror.ledger.gaps import Gap

_DESCRIPTION = (
    "List where mirroring found a source's log changed: the range, the cause (retention or deleted records, "
    "truncation, a topic made anew), when, and what was done; and where a target's topic was deleted or truncated: "
    "there the range is one of the target's offsets. What is done is decided by on.data.loss."
)
_READ_SECONDS_MAX = 30.0


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = verbs.add_parser("gaps", help="what was lost before or after it was mirrored", description=_DESCRIPTION)
    parser.add_argument("file", metavar="FILE", help="the properties file of the mirror")
    parser.add_argument("--flow", metavar="A->B", action="append", default=[], help="only this flow; may be repeated")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to print (default: text)")
    parser.add_argument("--debug", action="store_true", help="show stack traces")
    parser.set_defaults(command=execute, takes_rest=False)


def execute(args: argparse.Namespace) -> int:
    """Reads the gap ledgers and prints them. Raises ConfigError and ClusterError."""
    from sparkmirror.config.flows import load_config

    found = {str(flow.name): _read(flow) for flow in load_config(args.file, flows=args.flow).flows}
    if args.format == "json":
        print(json.dumps({name: [gap.as_json() for gap in gaps] for name, gaps in found.items()}, indent=2))
        return 0
    for name, gaps in found.items():
        print("\n".join(render(name, gaps)))
    return 0


def render(flow: str, gaps: "list[Gap]") -> list[str]:
    """A line for each gap."""
    if not gaps:
        return [f"{flow}: no gaps"]
    lines = [f"{flow}: {len(gaps)} gap(s), {sum(gap.lost_records for gap in gaps):,} offsets lost"]
    for gap in gaps:
        side = "the target's offset" if gap.is_on_target else "offset"
        where = f"{gap.partition} from {side} {gap.expected} to {gap.resumed}"
        lines.append(f"  {gap.as_json()['at']}  {where}: {gap.cause}, {gap.lost_records:,} lost; {gap.action}")
    return lines


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
