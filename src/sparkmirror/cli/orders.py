"""The verbs that give orders to running flows: `pause`, `resume`, `retry`, `restart` and `throttle FILE`.

An order is a record of the command topic on the flow's target.
"""

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from sparkmirror.cli.file import Command as Verb
from sparkmirror.cli.file import (
    add_file_arguments,
    add_input_arguments,
    add_partition,
    add_topic_pattern,
    add_verb,
    check_pattern,
    read_file,
)
from sparkmirror.cli.output import add_format, say, show
from sparkmirror.errors import ConfigError, SparkMirrorError

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
    """Adds an order to the verbs as `add_order` does, for an order that some partitions are given."""
    parser = add_order(verbs, name, about, description, command)
    add_topic_pattern(parser)
    add_partition(parser)


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
    """Gives orders to whole flows, as `order_selected` does."""
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


class Report(NamedTuple):
    """The last report of the tasks of a flow's latest `run`, at `at_ms` (since 1970)."""

    run: str
    status: "FlowStatus"
    at_ms: int


def latest_report(flow: "FlowConfig") -> Report | None:
    """The report of the flow's latest run; None when no run ever reported. Raises ClusterError."""
    from sparkmirror.telemetry.bus import read_board

    board = read_board(flow, "order")
    return Report(board.run, board.status(), board.at_ms) if board.run else None


def publish_order(flow: "FlowConfig", command: "Command") -> None:
    """Write one order to the flow's command topic. Raises ClusterError."""
    from sparkmirror.control.commands import command_record
    from sparkmirror.kafka.publish import publish

    topics = flow.ledger_topics
    publish(flow.target, topics.commands, [command_record(command)])


def say_selected(chosen: "Selection") -> str:
    """The selected partitions in words."""
    what = f"topics that match {chosen.pattern}" if chosen.pattern else "all topics"
    return what if chosen.partition is None else f"partition {chosen.partition} of {what}"


_PAUSE = (
    "Hold partitions of running flows: nothing more is read from them, what was read still arrives. It holds until "
    "`sparkmirror resume`, or until the mirror is started again. Each flow that is chosen must have run before."
)


def add_pause(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    add_selecting_order(verbs, "pause", "hold partitions of a running mirror", _PAUSE, pause)


def pause(args: argparse.Namespace) -> int:
    """Orders the pause. Raises as `order_selected`."""
    from sparkmirror.control.commands import Pause

    return order_selected(args, Pause.of, lambda _, chosen: f"pause of {say_selected(chosen)} is ordered")


_RESUME = "Let partitions flow again that `sparkmirror pause` holds, all of them or those that are chosen."


def add_resume(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    add_selecting_order(verbs, "resume", "let paused partitions flow again", _RESUME, resume)


def resume(args: argparse.Namespace) -> int:
    """Orders that they go on. Raises as `order_selected`."""
    from sparkmirror.control.commands import Resume

    return order_selected(args, Resume.of, lambda _, chosen: f"{say_selected(chosen)} are to go on")


_RETRY = (
    "Try failed partitions again now: a mirror does so by itself after 5 s, 10 s, … 60 s. Partitions that "
    "on.data.loss=pause holds are not among them: they go on when the mirror is started with on.data.loss=continue."
)
_FAILED_MAX = 10


def add_retry(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    add_selecting_order(verbs, "retry", "try failed partitions again at once", _RETRY, retry)


def retry(args: argparse.Namespace) -> int:
    """Orders the retry. Raises as `order_selected`."""
    from sparkmirror.control.commands import Retry

    return order_selected(args, Retry.of, describe_retry)


def describe_retry(status: "FlowStatus", chosen: "Selection") -> str:
    """The partitions that are tried again, and the flow's failed partitions as last reported, each with its reason."""
    lines = [f"{say_selected(chosen)} are tried again; {len(status.failed)} partition(s) had FAILED"]
    lines += [f"  {where}: {reason}" for where, reason in list(status.failed.items())[:_FAILED_MAX]]
    if (more := len(status.failed) - _FAILED_MAX) > 0:
        lines.append(f"  and {more} more")
    return "\n".join(lines)


_RESTART = (
    "End the tasks of running flows and begin them again at once: partitions are listed and handed out again, "
    "predecessors fenced, positions read from the ledger. The process, its options and its file stay as they are."
)


def add_restart(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    add_order(verbs, "restart", "begin the tasks of a running mirror again", _RESTART, restart)


def restart(args: argparse.Namespace) -> int:
    """Orders the restart. Raises as `order_flows`."""
    from sparkmirror.control.commands import Restart

    return order_flows(args, Restart, lambda _: "all tasks are to begin again")


_THROTTLE = (
    "Change how many bytes a second a running flow may read, in all or for the topics that match PATTERN together. "
    "It holds until the mirror is started again; write rate.limit.… into the file to keep it."
)
_RATES = "RATE: 500000, 500kB, 10MB (units of 1,000), `none` for no limit, `file` for what the file says again."


def add_throttle(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = add_verb(verbs, "throttle", "change how fast a running mirror may read", _THROTTLE, throttle)
    parser.epilog = _RATES
    add_input_arguments(parser)
    parser.add_argument("one_flow", metavar="FLOW", help="one of its flows, as in 'A->B'")
    parser.add_argument("pattern", metavar="PATTERN", nargs="?", default="", help="a regular expression for topics")
    parser.add_argument("rate", metavar="RATE", help="bytes a second, `none` or `file`")
    add_format(parser)


def throttle(args: argparse.Namespace) -> int:
    """Publishes the order to the flow's run. Raises ConfigError, ClusterError, and SparkMirrorError without a run."""
    rate = _read_rate(args.rate)
    check_pattern(args.pattern)
    args.flow = [args.one_flow]
    order_rate(read_file(args).flows[0], args.pattern, rate)
    what = f"topics that match {args.pattern}" if args.pattern else "all topics"
    said = {None: "what the file says", 0: "no limit"}.get(rate, f"{rate:,} bytes a second" if rate else "")
    ordered = {"flow": args.one_flow, "pattern": args.pattern, "bytes_per_second": rate, "file_counts": rate is None}
    show(args, ordered, lambda: [f"{args.one_flow}: {what}: {said}"])
    return 0


def order_rate(flow: "FlowConfig", pattern: str, bytes_per_second: int | None) -> None:
    """Tell the tasks of the flow's latest run; 0 is no limit, None what the file says."""
    from sparkmirror.control.commands import Throttle

    report = latest_report(flow)
    if report is None:
        raise SparkMirrorError(
            f"{flow.name}: no run of this flow has reported on {flow.target.alias}.",
            "Start the mirror first, or write the limit into its file: rate.limit.bytes.per.second.",
        )
    publish_order(flow, Throttle(report.run, pattern, bytes_per_second))


def _read_rate(text: str) -> int | None:
    from sparkmirror.policy.rates import parse_rate

    if text in ("none", "file"):
        return 0 if text == "none" else None
    try:
        return parse_rate(text)
    except ValueError as problem:
        raise ConfigError(f"RATE: {problem}", "`none` takes the limit away, `file` goes back to the file's.") from None
