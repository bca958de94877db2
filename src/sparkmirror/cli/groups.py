"""`sparkmirror groups FILE`: where consumer groups stand on both sides of each flow, and why one is not synced."""

import argparse
import time
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_file_arguments, add_verb, read_file
from sparkmirror.cli.orders import check_pattern
from sparkmirror.cli.output import add_format, add_watch, show, show_again

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import FlowConfig

_DESCRIPTION = (
    "List the consumer groups of each flow's source: state and lag there, where their offsets lie on the target, state "
    "and lag there, the age of the last checkpoint (one is written when a group moves), and why a group is left out."
)


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = add_verb(verbs, "groups", "where consumer groups stand on both sides", _DESCRIPTION, execute)
    add_file_arguments(parser)
    parser.add_argument("--group", metavar="REGEX", default="", help="only groups whose whole name matches")
    parser.add_argument("--partitions", action="store_true", help="every partition of them too")
    add_watch(parser)
    add_format(parser)


def execute(args: argparse.Namespace) -> int:
    """Asks both clusters of each flow and prints. Raises ConfigError, and ClusterError for a target that is away."""
    check_pattern(args.group)
    flows = read_file(args).flows
    return show_again(args, lambda: _print(args, flows))


def _print(args: argparse.Namespace, flows: "tuple[FlowConfig, ...]") -> None:
    from sparkmirror.operations.snapshots import look_at_groups
    from sparkmirror.views.groups_page import render_groups

    found = [(flow.name, look_at_groups(flow, args.group)) for flow in flows]
    at_ms = time.time_ns() // 1_000_000
    as_json = [{"flow": str(name), "groups": [line.as_json() for line in lines]} for name, lines in found]
    show(
        args,
        as_json,
        lambda: [part for name, lines in found for part in render_groups(name, lines, at_ms, whole=args.partitions)],
    )
