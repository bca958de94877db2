"""`sparkmirror topics FILE` and `sparkmirror groups FILE`: what is mirrored to where, and why the rest is not."""

import argparse
import time
from collections.abc import Callable
from typing import Any

from sparkmirror.cli.file import add_file_arguments, add_topic_pattern, add_verb, check_pattern, read_file
from sparkmirror.cli.output import add_format, add_watch, show, show_again

_TOPICS = (
    "List the topics of each flow's source: the remote topic, partitions on both sides, whether its settings are in "
    "step, and for those that are not mirrored the reason: not in `topics`, excluded, internal, or on its way home."
)
_GROUPS = (
    "List the consumer groups of each flow's source: state and lag there, where their offsets lie on the target, state "
    "and lag there, the age of the last checkpoint (one is written when a group moves), and why a group is left out."
)


def add_topics(verbs: Any) -> None:
    """Adds `topics` to argparse's subparsers."""
    parser = add_verb(verbs, "topics", "which topics are mirrored, and why others are not", _TOPICS, _list_topics)
    add_file_arguments(parser)
    add_topic_pattern(parser)
    parser.add_argument("--all", action="store_true", help="internal topics too")
    add_watch(parser)
    add_format(parser)


def add_groups(verbs: Any) -> None:
    """Adds `groups` to argparse's subparsers."""
    parser = add_verb(verbs, "groups", "where consumer groups stand on both sides", _GROUPS, _list_groups)
    add_file_arguments(parser)
    parser.add_argument("--group", metavar="REGEX", default="", help="only groups whose whole name matches")
    parser.add_argument("--partitions", action="store_true", help="every partition of them too")
    add_watch(parser)
    add_format(parser)


def _list_topics(args: argparse.Namespace) -> int:
    from sparkmirror.operations.snapshots import look_at_topics
    from sparkmirror.views.topics_page import render_topics

    return _list(args, args.topic, "topics", look_at_topics, lambda *found: render_topics(*found, whole=args.all))


def _list_groups(args: argparse.Namespace) -> int:
    from sparkmirror.operations.snapshots import look_at_groups
    from sparkmirror.views.groups_page import render_groups

    def render(name: Any, lines: Any) -> Any:
        return render_groups(name, lines, time.time_ns() // 1_000_000, whole=args.partitions)

    return _list(args, args.group, "groups", look_at_groups, render)


def _list(
    args: argparse.Namespace, pattern: str, what: str, look: Callable[..., Any], render: Callable[..., Any]
) -> int:
    """Asks both clusters of each flow and prints. Raises ConfigError, and ClusterError for a target that is away."""
    check_pattern(pattern)
    flows = read_file(args).flows

    def once() -> None:
        found = [(flow.name, look(flow, pattern)) for flow in flows]
        as_json = [{"flow": str(name), what: [line.as_json() for line in lines]} for name, lines in found]
        show(args, as_json, lambda: [part for name, lines in found for part in render(name, lines)])

    return show_again(args, once)
