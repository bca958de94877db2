"""`sparkmirror retry FILE`: failed partitions of a running mirror are tried again at once."""

import argparse
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.order import add_selecting_order, order_selected, say_selected

if TYPE_CHECKING:
    from sparkmirror.control.commands import Selection
    from sparkmirror.telemetry.board import FlowStatus

_DESCRIPTION = (
    "Try failed partitions again now: a mirror does so by itself after 5 s, 10 s, … 60 s. Partitions that "
    "on.data.loss=pause holds are not among them: they go on when the mirror is started with on.data.loss=continue."
)
_NAMED_MAX = 10


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    add_selecting_order(verbs, "retry", "try failed partitions again at once", _DESCRIPTION, execute)


def execute(args: argparse.Namespace) -> int:
    """Orders the retry. Raises as `order_selected`."""
    from sparkmirror.control.commands import Retry

    return order_selected(args, Retry, describe)


def describe(status: "FlowStatus", chosen: "Selection") -> str:
    """What is tried again, and the flow's failed partitions as last reported, each with its reason."""
    lines = [f"{say_selected(chosen)} are tried again; {len(status.failed)} partition(s) had FAILED"]
    lines += [f"  {where}: {reason}" for where, reason in list(status.failed.items())[:_NAMED_MAX]]
    if (more := len(status.failed) - _NAMED_MAX) > 0:
        lines.append(f"  and {more} more")
    return "\n".join(lines)
