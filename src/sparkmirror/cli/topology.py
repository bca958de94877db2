"""`sparkmirror topology FILE`: who feeds whom, by one cluster's heartbeats."""

import argparse
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_cluster, add_input_arguments, add_verb, check_cluster, read_file
from sparkmirror.cli.output import add_format, show

if TYPE_CHECKING:
    from sparkmirror.views.table import Page
    from sparkmirror.views.topology import Topology

_DESCRIPTION = (
    "Show which clusters feed which, over how many hops and how long ago the last heartbeat came, as one cluster's "
    "heartbeats tell it. Clusters that the file does not name show too."
)


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = add_verb(verbs, "topology", "who feeds whom, by heartbeats", _DESCRIPTION, execute)
    add_input_arguments(parser)
    add_cluster(parser, "the first flow's target")
    add_format(parser, ("dot", "svg"))


def execute(args: argparse.Namespace) -> int:
    """Asks one cluster and prints. Raises ConfigError and ClusterError."""
    from sparkmirror.operations.snapshots import look_topology

    config = read_file(args)
    alias = args.cluster or config.flows[0].name.target
    check_cluster(config, alias)
    found = look_topology(config, alias)
    show(args, found.as_json(), lambda: _page(found, args.format))
    return 0


def _page(topology: "Topology", how: str) -> "Page":
    from sparkmirror.views.topology import render_dot, render_svg, render_text

    draw = {"table": render_text, "dot": render_dot, "svg": render_svg}[how]
    return list(draw(topology))
