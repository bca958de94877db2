"""Orders to running flows, over the command topic of their target: what `pause`, `resume`, `retry`, `restart` and
`throttle` share, and `status` reads. Called by these verbs.
"""

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from sparkmirror.cli.file import Command as Verb
from sparkmirror.cli.file import add_file_arguments, add_verb, read_file
from sparkmirror.cli.output import add_format, say, show
from sparkmirror.errors import SparkMirrorError

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import FlowConfig
    from sparkmirror.control.commands import Command, Selection
    from sparkmirror.telemetry.board import FlowStatus


def add_order(verbs: Any, name: str, about: str, description: str, command: Verb) -> argparse.ArgumentParser:
    """An order's verb: FILE, which flows, and how to print what was ordered."""
    parser = add_verb(verbs, name, about, description, command)
    add_file_arguments(parser)
    add_format(parser)
    return parser


def add_selecting_order(verbs: Any, name: str, about: str, description: str, command: Verb) -> None:
    """As `add_order`, for one that is given to some of the partitions."""
    parser = add_order(verbs, name, about, description, command)
    add_topic_pattern(parser)
    parser.add_argument("--partition", metavar="N", type=int, help="only this partition number")


def add_topic_pattern(parser: argparse.ArgumentParser) -> None:
    """Which topics, by name."""
    parser.add_argument("--topic", metavar="REGEX", default="", help="only topics whose whole source name matches")


def order_selected(
    args: argparse.Namespace,
    make: "Callable[[str, Selection, int], Command]",
    describe: "Callable[[FlowStatus, Selection], str]",
) -> int:
    """Give the order to the latest run of each flow that the arguments choose, and say so.

    `make` gets the run, the partitions and the time. Raises ConfigError, ClusterError, and SparkMirrorError where no
    flow has a run.
    """
    from sparkmirror.control.commands import Selection

    check_pattern(args.topic)
    chosen = Selection(args.topic, args.partition)
    return order_flows(args, lambda run, at_ms: make(run, chosen, at_ms), lambda status: describe(status, chosen))


def order_flows(
    args: argparse.Namespace, make: "Callable[[str, int], Command]", describe: "Callable[[FlowStatus], str]"
) -> int:
    """As `order_selected`, for orders to whole flows."""
    at_ms = time.time_ns() // 1_000_000
    ordered: list[dict[str, str]] = []
    for flow in read_file(args).flows:
        report = latest_report(flow)
        if report is None:
            say(f"{flow.name}: no run has reported; nothing is ordered")
            continue
        publish_order(flow, make(report.run, at_ms))
        ordered.append({"flow": str(flow.name), "run": report.run, "ordered": describe(report.status)})
    if not ordered:
        raise SparkMirrorError("None of the flows has a run that could obey.", "Start the mirror first.")
    show(args, ordered, lambda: [f"{one['flow']}: {one['ordered']}" for one in ordered])
    return 0


def check_pattern(pattern: str) -> None:
    """Raises ConfigError for what is no regular expression of Java's; an empty one stands for all topics."""
    from sparkmirror.policy.filters import check_expression

    check_expression(pattern)


class Report(NamedTuple):
    """What the tasks of a flow's latest `run` reported last, at `at_ms` (since 1970)."""

    run: str
    status: "FlowStatus"
    at_ms: int


def latest_report(flow: "FlowConfig") -> Report | None:
    """Of the flow's latest run; None when none ever reported. Raises ClusterError."""
    from sparkmirror.telemetry.bus import read_board

    board = read_board(flow, "order")
    return Report(board.run, board.status(), board.at_ms) if board.run else None


def publish_order(flow: "FlowConfig", command: "Command") -> None:
    """Write one order to the flow's command topic. Raises ClusterError."""
    from sparkmirror.control.commands import command_record
    from sparkmirror.kafka.publish import publish
    from sparkmirror.ledger.topics import ledger_topics

    topics = ledger_topics(flow.name.source, flow.offset_storage_topic)
    publish(flow.target, topics.commands, [command_record(command)])


def say_selected(chosen: "Selection") -> str:
    """The selected partitions in words."""
    what = f"topics that match {chosen.pattern}" if chosen.pattern else "all topics"
    return what if chosen.partition is None else f"partition {chosen.partition} of {what}"
