"""Observes what `views.topology` judges: the heartbeats on one cluster. Called by `cli.topology` and `web.watchers`."""

import time

from sparkmirror.client import MirrorClient
from sparkmirror.config.flow.flows import MirrorConfig
from sparkmirror.policy.naming import ReplicationPolicy
from sparkmirror.views.topology import Topology, read_topology


def look_topology(config: MirrorConfig, alias: str, beats_max: int | None = None) -> Topology:
    """As one cluster's heartbeats tell it, by the last `beats_max` of each topic where given. Raises ClusterError."""
    with MirrorClient(config.clusters[alias].client, _policy(config, alias)) as client:
        beats = client.heartbeats() if beats_max is None else client.heartbeats(beats_max=beats_max)
    return read_topology(alias, time.time_ns() // 1_000_000, beats)


def _policy(config: MirrorConfig, alias: str) -> ReplicationPolicy:
    """Of a flow into the cluster, if there is one: it named the topics there."""
    into = [flow.policy for flow in config.flows if flow.name.target == alias]
    return [*into, config.flows[0].policy][0]
