"""`sparkmirror restart FILE`: the tasks of running flows begin anew from the ledger, the process stays."""

import argparse
from typing import Any

from sparkmirror.cli.order import add_order, order_flows

_DESCRIPTION = (
    "End the tasks of running flows and begin them anew at once: partitions are listed and handed out again, "
    "predecessors fenced, positions read from the ledger. The process, its options and its file stay as they are."
)


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    add_order(verbs, "restart", "begin the tasks of a running mirror anew", _DESCRIPTION, execute)


def execute(args: argparse.Namespace) -> int:
    """Orders the restart. Raises as `order_flows`."""
    from sparkmirror.control.commands import Restart

    return order_flows(args, Restart, lambda _: "all tasks are to begin anew")
