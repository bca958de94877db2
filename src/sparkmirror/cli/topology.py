"""`sparkmirror topology FILE`: who feeds whom, by one cluster's heartbeats."""

import argparse
import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_input_arguments, check_cluster, read_file

if TYPE_CHECKING:
    from sparkmirror.config.flows import MirrorConfig
    from sparkmirror.policy.naming import ReplicationPolicy
    from sparkmirror.status.topology import Topology

_DESCRIPTION = (
    "Show which clusters feed which, over how many hops and how long ago the last heartbeat came, as one cluster's "
    "heartbeats tell it. Clusters that the file does not name show too."
)


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = verbs.add_parser("topology", help="who feeds whom, by heartbeats", description=_DESCRIPTION)
    add_input_arguments(parser)
    parser.add_argument("--cluster", metavar="ALIAS", help="the cluster to ask (default: the first flow's target)")
    parser.add_argument("--format", choices=("text", "json", "dot", "svg"), default="text", help="(default: text)")
    parser.set_defaults(command=execute, takes_rest=False, clusters=[], flow=[])


def execute(args: argparse.Namespace) -> int:
    """Asks one cluster and prints. Raises ConfigError and ClusterError."""
    config = read_file(args)
    alias = args.cluster or config.flows[0].name.target
    check_cluster(config, alias)
    print("\n".join(_render(_observe(config, alias), args.format)))
    return 0


def _observe(config: "MirrorConfig", alias: str) -> "Topology":
    from sparkmirror.client import MirrorClient
    from sparkmirror.status.topology import read_topology

    with MirrorClient(config.clusters[alias].client, _policy(config, alias)) as client:
        beats = client.heartbeats()
    return read_topology(alias, time.time_ns() // 1_000_000, beats)


def _policy(config: "MirrorConfig", alias: str) -> "ReplicationPolicy":
    """Of a flow into the cluster, if there is one: it named the topics there."""
    into = [flow.policy for flow in config.flows if flow.name.target == alias]
    return [*into, config.flows[0].policy][0]


def _render(topology: "Topology", how: str) -> Sequence[str]:
    from sparkmirror.status import topology_pictures as pictures

    if how == "json":
        return [json.dumps(topology.as_json(), indent=2)]
    return {"text": pictures.render_text, "dot": pictures.render_dot, "svg": pictures.render_svg}[how](topology)
