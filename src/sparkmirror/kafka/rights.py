"""What the principal we log in as may do on one cluster, as its brokers say (authorized operations, KIP-430).

Called by `sync.cluster_checks`. Without an authorizer everything is allowed, and said to be.
"""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from kafka.protocol.admin import ACLOperation, DescribeClusterRequest, DescribeGroupsRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.errors import NO_ERROR
from sparkmirror.kafka.groups import find_coordinators

Rights = frozenset[str]
"""Kafka's words: READ, WRITE, CREATE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS, CLUSTER_ACTION …"""
_TRANSACTION = 1
_TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
_DESCRIBE_CLUSTER = 60
_SIGN = 31


def cluster_rights(admin: Admin) -> Rights | None:
    """On the cluster as a whole; None where its brokers do not tell (before Kafka 2.8). Raises ClusterError."""
    if _DESCRIBE_CLUSTER not in admin.api_versions():
        return None
    answer = admin.connection.ask(
        lambda: DescribeClusterRequest(include_cluster_authorized_operations=True, max_version=0), "reading permissions"
    )
    return _rights(answer.authorized_operations)


def topic_rights(admin: Admin, names: Collection[str]) -> dict[str, Rights]:
    """On topics, of those that we may see. Raises ClusterError."""
    wanted = sorted(names)
    if not wanted:
        return {}
    answer = admin.connection.ask(partial(_topics_request, wanted), "reading permissions")
    found = {topic.name: _rights(topic.authorized_operations) for topic in answer.topics}
    return {name: rights for name, rights in found.items() if rights is not None}


def group_rights(admin: Admin, group: str) -> Rights:
    """On a group, whether or not there is one; empty where it is not ours to see. Raises ClusterError."""
    home = find_coordinators(admin, [group])[0]
    if home.error_code != NO_ERROR:
        return frozenset()
    answer = admin.connection.ask(partial(_group_request, group), "reading permissions", home.node_id)
    return next((_rights(one.authorized_operations) or frozenset() for one in answer.groups), frozenset())


def may_see_transactional_id(admin: Admin, transactional_id: str) -> bool:
    """Whether Describe is granted on it; brokers do not tell of Write without using it. Raises ClusterError."""
    request = partial(
        FindCoordinatorRequest, key=transactional_id, key_type=_TRANSACTION,
        coordinator_keys=[transactional_id], max_version=5,
    )  # fmt: skip
    answer = admin.connection.ask(request, "looking for the coordinator of transactions")
    found: Sequence[Any] = answer.coordinators or [answer]
    return all(one.error_code != _TRANSACTIONAL_ID_AUTHORIZATION_FAILED for one in found)


def _topics_request(names: Sequence[str]) -> Any:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(
        topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=True, min_version=8
    )


def _group_request(group: str) -> Any:
    return DescribeGroupsRequest(groups=[group], include_authorized_operations=True, min_version=3, max_version=5)


def _rights(bits: Collection[int]) -> Rights | None:
    """A bit for each operation's code; the sign alone means that nobody said."""
    if _SIGN in bits:
        return None
    return frozenset(str(operation.name) for operation in ACLOperation if int(operation) in bits)
