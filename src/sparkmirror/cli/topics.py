"""`sparkmirror topics FILE`: which source topics are mirrored to what, and why others are not."""

import argparse
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_file_arguments, add_verb, read_file
from sparkmirror.cli.orders import add_topic_pattern, check_pattern
from sparkmirror.cli.output import add_format, add_watch, show, show_again

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import FlowConfig

_DESCRIPTION = (
    "List the topics of each flow's source: the remote topic, partitions on both sides, whether its settings are in "
    "step, and for those that are not mirrored the reason: not in `topics`, excluded, internal, or on its way home."
)


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = add_verb(verbs, "topics", "which topics are mirrored, and why others are not", _DESCRIPTION, execute)
    add_file_arguments(parser)
    add_topic_pattern(parser)
    parser.add_argument("--all", action="store_true", help="internal topics too")
    add_watch(parser)
    add_format(parser)


def execute(args: argparse.Namespace) -> int:
    """Asks both clusters of each flow and prints. Raises ConfigError and ClusterError."""
    check_pattern(args.topic)
    flows = read_file(args).flows
    return show_again(args, lambda: _print(args, flows))


def _print(args: argparse.Namespace, flows: "tuple[FlowConfig, ...]") -> None:
    from sparkmirror.operations.snapshots import look_at_topics
    from sparkmirror.views.topics_page import render_topics

    found = [(flow.name, look_at_topics(flow, args.topic)) for flow in flows]
    as_json = [{"flow": str(name), "topics": [line.as_json() for line in lines]} for name, lines in found]
    show(args, as_json, lambda: [part for name, lines in found for part in render_topics(name, lines, whole=args.all)])
