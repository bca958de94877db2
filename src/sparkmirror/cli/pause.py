"""`sparkmirror pause FILE`: partitions of a running mirror are not read until `sparkmirror resume`."""

import argparse
from typing import Any

from sparkmirror.cli.order import add_selecting_order, order_selected, say_selected

_DESCRIPTION = (
    "Hold partitions of running flows: nothing more is read from them, what was read still arrives. It holds until "
    "`sparkmirror resume`, or until the mirror is started anew. Each flow that is chosen must have run before."
)


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    add_selecting_order(verbs, "pause", "hold partitions of a running mirror", _DESCRIPTION, execute)


def execute(args: argparse.Namespace) -> int:
    """Orders the pause. Raises as `order_selected`."""
    from sparkmirror.control.commands import Pause

    return order_selected(args, Pause, lambda _, chosen: f"pause of {say_selected(chosen)} is ordered")
