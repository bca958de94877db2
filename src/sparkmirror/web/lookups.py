"""Asks both clusters for the data of the page's views: failover readiness, groups, brokers. `runtime.page` makes it,
`web.api` calls it."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.health import BrokerAnswer, ask_brokers
from sparkmirror.kafka.settings import client_settings
from sparkmirror.model import Cluster
from sparkmirror.operations.cluster_pair import open_sides
from sparkmirror.operations.failover_snapshot import look
from sparkmirror.operations.snapshots import look_at_groups

_FRESH_SECONDS: Final = 5.0


class LookUp:
    """Runs one look-up at a time; callers during it, or soon after, get the same answer."""

    def __init__(self, flow: FlowConfig, make: Callable[[FlowConfig], dict[str, Any]]) -> None:
        self._flow = flow
        self._make = make
        self._lock = threading.Lock()
        self._found: dict[str, Any] = {}
        self._found_at = 0.0

    def __call__(self) -> dict[str, Any]:
        """The answer with its time, `at_ms`. Raises ClusterError."""
        with self._lock:
            if not self._found or time.monotonic() - self._found_at > _FRESH_SECONDS:
                self._found = self._make(self._flow) | {"at_ms": time.time_ns() // 1_000_000}
                self._found_at = time.monotonic()
            return self._found


def look_at_readiness(flow: FlowConfig) -> dict[str, Any]:
    """The result of `sparkmirror failover status`, without the places of each group, of which there can be many."""
    with open_sides(flow, "page") as cluster_pair:
        found = look(flow, cluster_pair).as_json()
    groups = {name: {key: value for key, value in group.items() if key != "partitions"}
              for name, group in found["groups"].items()}  # fmt: skip
    return {**found, "groups": groups}


def look_at_all_groups(flow: FlowConfig) -> dict[str, Any]:
    """The result of `sparkmirror groups --partitions`."""
    return {"groups": [line.as_json() for line in look_at_groups(flow)]}


def look_at_brokers(flow: FlowConfig) -> dict[str, Any]:
    """The brokers of both clusters; a cluster that does not answer has a problem and no brokers."""
    return {"clusters": [_cluster(flow.source, "source"), _cluster(flow.target, "target")]}


def _cluster(cluster: Cluster, role: str) -> dict[str, Any]:
    answer: dict[str, Any] = {"alias": cluster.alias, "role": role, "problem": "", "brokers": []}
    try:
        with open_admin(cluster, "page") as admin:
            leads = Counter(leader.node_id for leader in admin.leaders().values())
            answers = ask_brokers(client_settings(cluster, "page"), admin.brokers())
    except SparkMirrorError as problem:
        return answer | {"problem": str(problem.args[0])}
    return answer | {"brokers": [_broker(one, leads[one.node_id]) for one in answers]}


def _broker(answer: BrokerAnswer, leads: int) -> dict[str, Any]:
    """`leads` counts the partitions that the broker leads, of topics that the flow's principal may see."""
    known = answer.problem is None
    return {
        "id": answer.node_id,
        "address": answer.address,
        "leads": leads,
        "problem": "" if answer.problem is None else str(answer.problem.args[0]),
        "round_trip_ms": answer.round_trip_seconds * 1000 if known else None,
        "release": answer.release if known else "",
    }


LOOKS: Final[Mapping[str, Callable[[FlowConfig], dict[str, Any]]]] = {
    "readiness": look_at_readiness,
    "groups": look_at_all_groups,
    "brokers": look_at_brokers,
}
"""The look-ups by the last part of their paths."""
