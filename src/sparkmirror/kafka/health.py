"""How the brokers of one cluster are: answering, of which release, with how much disk, by which clock.

Called by `operations.cluster_checks`. Nothing is changed.
"""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeLogDirsRequest, DescribeQuorumRequest
from kafka.protocol.broker_version_data import infer_broker_version_from_api_versions

from sparkmirror.errors import ClusterError, ProtocolError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.errors import NO_ERROR
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.link import dial

_AT_ONCE = 16
_DESCRIBE_QUORUM, _DESCRIBE_LOG_DIRS = 55, 35
_ASK_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """One broker by the address that it advertises; with a `problem` nothing else is known."""

    node_id: int
    address: str
    problem: ClusterError | ProtocolError | None = None
    round_trip_seconds: float = 0.0
    versions: Mapping[int, tuple[int, int]] | None = None

    @property
    def release(self) -> str:
        """Of Kafka, at least, by the requests that it understands: `4.3`."""
        return ".".join(map(str, infer_broker_version_from_api_versions(dict(self.versions or {}))))


@dataclass(frozen=True, slots=True)
class BrokerDisk:
    """The fullest log directory of one broker."""

    node_id: int
    free_bytes: int
    total_bytes: int


def ask_brokers(settings: ClientSettings, addresses: Mapping[int, tuple[str, int]]) -> list[BrokerAnswer]:
    """Connect to each broker as the data plane does, at the same time; within ten seconds or so."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda item: _ask_broker(settings, item[0], *item[1]), sorted(addresses.items())))


def _ask_broker(settings: ClientSettings, node_id: int, host: str, port: int) -> BrokerAnswer:
    address = f"{host}:{port}"
    try:
        link = dial(host, port, settings)
    except (ClusterError, ProtocolError) as problem:
        return BrokerAnswer(node_id, address, problem)
    link.close()
    return BrokerAnswer(node_id, address, None, link.round_trip_seconds, link.versions)


def clock_ahead_seconds(admin: Admin) -> float | None:
    """By how much the clock of the cluster's controller is ahead of ours; None where it does not tell.

    KRaft's leader answers with its own time (KIP-836), which needs the permission Describe on the cluster. Exact to
    half of the round trip. Raises ClusterError.
    """
    if admin.api_versions().get(_DESCRIBE_QUORUM, (0, 0))[1] < 1:
        return None
    before = time.time()
    answer = admin.connection.ask(_quorum_request, "asking for the controller's clock", None, _ASK_SECONDS_MAX)
    now = (before + time.time()) / 2
    for partition in (partition for topic in answer.topics for partition in topic.partitions):
        for voter in partition.current_voters:
            if voter.replica_id == partition.leader_id and voter.last_caught_up_timestamp > 0:
                return float(voter.last_caught_up_timestamp / 1000 - now)
    return None


def broker_disks(admin: Admin) -> list[BrokerDisk]:
    """Of each broker that tells (Kafka 3.3 and later, with Describe on the cluster). Raises ClusterError."""
    found = []
    for node_id in sorted(admin.brokers()):
        if admin.api_versions(node_id).get(_DESCRIBE_LOG_DIRS, (0, 0))[1] < 4:
            continue
        answer = admin.connection.ask(_log_dirs_request, "asking for disk space", node_id, _ASK_SECONDS_MAX)
        known = [one for one in answer.results if one.error_code == NO_ERROR and one.total_bytes > 0]
        if known:
            fullest = min(known, key=lambda one: one.usable_bytes / one.total_bytes)
            found.append(BrokerDisk(node_id, fullest.usable_bytes, fullest.total_bytes))
    return found


def _quorum_request() -> Any:
    topic = DescribeQuorumRequest.TopicData
    partitions = [topic.PartitionData(partition_index=0)]
    return DescribeQuorumRequest(topics=[topic(topic_name="__cluster_metadata", partitions=partitions)], min_version=1)


def _log_dirs_request() -> Any:
    # No topics: only the directories are wanted.
    return DescribeLogDirsRequest(topics=[], min_version=4)
