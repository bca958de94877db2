"""Flows of small configuration files, for tests that need a flow and few of its settings."""

from typing import Final

from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig, parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.testing.kafka import KafkaCluster

SMALLEST: Final = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
"""The smallest file with a flow, `A->B`; no broker has these addresses."""


def config_of(*lines: str) -> MirrorConfig:
    """SMALLEST and these lines."""
    return parse_config(parse_properties((SMALLEST + "\n".join(lines)).encode(), "mm2"))


def flow_of(*lines: str) -> FlowConfig:
    """The only flow of SMALLEST and these lines."""
    (flow,) = config_of(*lines).flows
    return flow


def flow_between(source: KafkaCluster, target: KafkaCluster, alias: str, *lines: str) -> FlowConfig:
    """The flow `alias->B` between clusters of one broker each.

    Without mirrored heartbeats: other tests leave topics of that name on shared brokers.
    """
    text = [
        f"clusters = {alias}, B",
        f"{alias}->B.enabled = true",
        f"{alias}.bootstrap.servers = {source.bootstrap_servers}",
        f"B.bootstrap.servers = {target.bootstrap_servers}",
        "replication.factor = 1",
        "offset.storage.replication.factor = 1",
        "heartbeats.replication.enabled = false",
        *lines,
    ]
    (flow,) = parse_config(parse_properties("\n".join(text).encode(), "mm2")).flows
    return flow
