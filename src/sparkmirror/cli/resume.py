"""`sparkmirror resume FILE`: partitions that `sparkmirror pause` holds are read again."""

import argparse
from typing import Any

from sparkmirror.cli.order import add_selecting_order, order_selected, say_selected

_DESCRIPTION = "Let partitions flow again that `sparkmirror pause` holds, all of them or those that are chosen."


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    add_selecting_order(verbs, "resume", "let paused partitions flow again", _DESCRIPTION, execute)


def execute(args: argparse.Namespace) -> int:
    """Orders that they go on. Raises as `order_selected`."""
    from sparkmirror.control.commands import Resume

    return order_selected(args, Resume, lambda _, chosen: f"{say_selected(chosen)} are to go on")
