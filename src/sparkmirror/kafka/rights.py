"""What the principal we log in as may do on one cluster, as its brokers say (authorized operations, KIP-430).

Called by `operations.right_checks`. Without an authorizer everything is allowed, and reported
to be.
"""

import time
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

from kafka.protocol.admin import ACLOperation, DescribeClusterRequest, DescribeGroupsRequest
from kafka.protocol.metadata import MetadataRequest

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.connection import portions, waits_within
from sparkmirror.kafka.coordinators import GROUP, TRANSACTION, find_coordinators, keys_per_search
from sparkmirror.kafka.errors import COORDINATOR_PASSING, NO_ERROR, refusal
from sparkmirror.kafka.groups import find_coordinator

Rights = frozenset[str]
"""Kafka's words: READ, WRITE, CREATE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS, CLUSTER_ACTION …"""
_GROUPS_PER_REQUEST = 100
_PAUSE_SECONDS = 0.1
_TOPIC_AUTHORIZATION_FAILED = 29
_GROUP_AUTHORIZATION_FAILED = 30
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
    """On topics, whether or not they are there; none on those that we may not see. Raises ClusterError.

    A topic is left out where the brokers say nothing of our rights on it.
    """
    wanted = sorted(names)
    if not wanted:
        return {}
    answer = admin.connection.ask(partial(_topics_request, wanted), "reading permissions")
    found = {topic.name: _rights_on(topic) for topic in answer.topics}
    return {name: rights for name, rights in found.items() if rights is not None}


def _rights_on(topic: Any) -> Rights | None:
    if topic.error_code == _TOPIC_AUTHORIZATION_FAILED:
        return frozenset()
    return _rights(topic.authorized_operations)


def group_rights(admin: Admin, groups: Collection[str]) -> dict[str, Rights]:
    """On groups, whether or not they are there; those that are not ours to see have none.

    A coordinator that has just started loads its groups first, and is waited for: what it does not tell yet is not
    refused. Raises ClusterError.
    """
    found: dict[str, Rights] = {}
    waiting = sorted(groups)
    ends_at = time.monotonic() + admin.connection.settings.request_timeout_seconds
    while waiting:
        described = list(_describe(admin, waiting))
        found |= {one.group_id: _rights(one.authorized_operations) or frozenset() for one in described}
        codes = {one.group_id: one.error_code for one in described if one.error_code in COORDINATOR_PASSING}
        waiting = sorted(codes)
        if waiting and not waits_within(admin.connection, _PAUSE_SECONDS, ends_at):
            raise refusal(codes[waiting[0]], admin.alias, f"reading permissions on group {waiting[0]}")
    return found


def _describe(admin: Admin, groups: Sequence[str]) -> Iterator[Any]:
    for node_id, names in _by_coordinator(admin, groups).items():
        for some in portions(names, _GROUPS_PER_REQUEST):
            answer = admin.connection.ask(partial(_groups_request, some), "reading permissions", node_id)
            yield from answer.groups


def _by_coordinator(admin: Admin, groups: Sequence[str]) -> dict[int, list[str]]:
    """Without those that we may not see. A cluster's first group takes a moment: the topic of groups is made then."""
    at_once = keys_per_search(admin, _GROUPS_PER_REQUEST)
    homes: dict[int, list[str]] = {}
    for some in portions(groups, at_once):
        for group, home in zip(some, find_coordinators(admin, GROUP, some, "looking for coordinators"), strict=True):
            if home.error_code != _GROUP_AUTHORIZATION_FAILED:
                node_id = home.node_id if home.error_code == NO_ERROR else find_coordinator(admin, group)
                homes.setdefault(node_id, []).append(group)
    return homes


def may_see_transactional_id(admin: Admin, transactional_id: str) -> bool:
    """Whether Describe is granted on it; brokers do not tell of Write without using it. Raises ClusterError."""
    doing = "looking for the coordinator of transactions"
    found = find_coordinators(admin, TRANSACTION, [transactional_id], doing)
    return all(one.error_code != _TRANSACTIONAL_ID_AUTHORIZATION_FAILED for one in found)


def _topics_request(names: Sequence[str]) -> Any:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(
        topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=True, min_version=8
    )


def _groups_request(groups: Sequence[str]) -> Any:
    return DescribeGroupsRequest(groups=list(groups), include_authorized_operations=True, min_version=3, max_version=5)


def _rights(bits: Collection[int] | None) -> Rights | None:
    """A bit for each operation's code. None where nobody said: kafka-python turns the sign alone into None."""
    if bits is None or _SIGN in bits:
        return None
    return frozenset(str(operation.name) for operation in ACLOperation if int(operation) in bits)
