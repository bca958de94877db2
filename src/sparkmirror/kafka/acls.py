"""ACLs of topics on one cluster: describe, create, delete (KIP-140, KIP-290).

Called by `sync.acl_job`, and by `operations.failover_run`, which waits until all brokers apply a change, and goes only
by what all of them say.
"""

import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from kafka.protocol.admin import (
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
)

from sparkmirror.errors import ClusterUnreachable, SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import AclBinding
from sparkmirror.kafka.connection import portions, waits_within
from sparkmirror.kafka.errors import NO_ERROR, refusal

_TOPIC = 2
_ANY = 1
_SECURITY_DISABLED = 54
_BINDINGS_PER_REQUEST = 500
_PAUSE_SECONDS = 0.05
_AGREE_SECONDS = 5.0


def describe_acls(admin: Admin, node_id: int | None = None, seconds_max: float | None = None) -> set[AclBinding] | None:
    """All bindings of topics, whatever their pattern, that one broker knows; None where it has no authorizer.

    Raises AuthorizationFailed without the permission Describe on the cluster.
    """
    doing = "reading ACLs"
    answer = admin.connection.ask(_describe_request, doing, node_id, seconds_max)
    if answer.error_code == _SECURITY_DISABLED:
        return None
    if answer.error_code != NO_ERROR:
        raise refusal(answer.error_code, admin.alias, doing, answer.error_message)
    return {
        AclBinding(
            resource.resource_name,
            ACLResourcePatternType(resource.pattern_type).name,
            acl.principal,
            acl.host,
            str(ACLOperation(acl.operation).name),
            ACLPermissionType(acl.permission_type).name,
        )
        for resource in answer.resources
        for acl in resource.acls
        if acl.operation in _OPERATIONS
    }


def create_acls(admin: Admin, bindings: Sequence[AclBinding]) -> dict[AclBinding, SparkMirrorError | None]:
    """Adds each binding; binding -> None, or why not. One that is there already counts as added."""
    outcome: dict[AclBinding, SparkMirrorError | None] = {}
    for some in portions(bindings, _BINDINGS_PER_REQUEST):
        answer = admin.connection.ask(partial(_create_request, some), "creating ACLs")
        for binding, result in zip(some, answer.results, strict=True):
            outcome[binding] = _outcome(admin, result, f"creating the ACL {binding}")
    return outcome


def delete_acls(admin: Admin, bindings: Sequence[AclBinding]) -> dict[AclBinding, SparkMirrorError | None]:
    """Removes exactly these bindings; binding -> None, or why not. One that is not there counts as removed."""
    outcome: dict[AclBinding, SparkMirrorError | None] = {}
    for some in portions(bindings, _BINDINGS_PER_REQUEST):
        answer = admin.connection.ask(partial(_delete_request, some), "removing ACLs")
        for binding, result in zip(some, answer.filter_results, strict=True):
            outcome[binding] = _outcome(admin, result, f"removing the ACL {binding}")
    return outcome


def known_acls(admin: Admin) -> set[AclBinding]:
    """All that any live broker knows. Raises as `describe_acls`."""
    return {one for node_id in sorted(admin.brokers()) for one in describe_acls(admin, node_id) or ()}


def have_all_brokers(admin: Admin, bindings: Collection[AclBinding]) -> bool:
    """Whether every live broker that answers within some seconds knows these and no others: one that slept, or is cut
    off from the others, says what it knew, and one learns of a change later than another. Raises as `describe_acls`."""
    for node_id in sorted(admin.brokers()):
        with suppress(ClusterUnreachable):
            if describe_acls(admin, node_id, _AGREE_SECONDS) != bindings:
                return False
    return True


def agreed_acls(admin: Admin, among: Collection[AclBinding]) -> set[AclBinding] | None:
    """Those of `among` that the cluster has, by the word of every live broker; None where it has no authorizer. Each
    broker learns of a change by itself, so this waits until they agree.

    Raises SparkMirrorError where they do not within `request.timeout.ms`, AuthorizationFailed as `describe_acls`.
    """
    ends_at = time.monotonic() + admin.connection.settings.request_timeout_seconds
    while True:
        told = [describe_acls(admin, node_id) for node_id in sorted(admin.brokers())]
        known = {frozenset(bindings.intersection(among)) for bindings in told if bindings is not None}
        if not known or None in told:
            return None
        if len(known) == 1:
            return set(known.pop())
        if not waits_within(admin.connection, _PAUSE_SECONDS, ends_at):
            raise SparkMirrorError(
                f"Cluster {admin.alias}: its brokers do not agree on the ACLs of the mirrored topics yet.",
                "Run it again when nobody changes them.",
            )


def await_acls(admin: Admin, there: Collection[AclBinding] = (), gone: Collection[AclBinding] = ()) -> None:
    """Returns when every live broker applies a change: each broker learns of it by itself.

    Raises SparkMirrorError, which names the brokers that do not within `request.timeout.ms`.
    """
    ends_at = time.monotonic() + admin.connection.settings.request_timeout_seconds
    brokers = set(admin.brokers())
    while behind := sorted(node_id for node_id in brokers if not _knows(admin, node_id, there, gone)):
        if not waits_within(admin.connection, _PAUSE_SECONDS, ends_at):
            raise SparkMirrorError(
                f"Cluster {admin.alias}: brokers {', '.join(map(str, behind))} do not go by the changed ACLs yet.",
                "Run it again: what is done already is not done twice.",
            )
        brokers = set(behind) & set(admin.brokers())


def _knows(admin: Admin, node_id: int, there: Collection[AclBinding], gone: Collection[AclBinding]) -> bool:
    known = describe_acls(admin, node_id) or set()
    return known >= set(there) and not known & set(gone)


_OPERATIONS = frozenset(int(operation) for operation in ACLOperation if operation > _ANY)


def _outcome(admin: Admin, result: Any, doing: str) -> SparkMirrorError | None:
    if result.error_code == NO_ERROR:
        return None
    return refusal(result.error_code, admin.alias, doing, result.error_message)


def _describe_request() -> Any:
    return DescribeAclsRequest(
        resource_type_filter=_TOPIC,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )


def _create_request(bindings: Sequence[AclBinding]) -> Any:
    creation = CreateAclsRequest.AclCreation
    return CreateAclsRequest(
        creations=[
            creation(
                resource_type=_TOPIC,
                resource_name=binding.topic,
                resource_pattern_type=ACLResourcePatternType[binding.pattern],
                principal=binding.principal,
                host=binding.host,
                operation=ACLOperation[binding.operation],
                permission_type=ACLPermissionType[binding.permission],
            )
            for binding in bindings
        ]
    )


def _delete_request(bindings: Sequence[AclBinding]) -> Any:
    chosen = DeleteAclsRequest.DeleteAclsFilter
    return DeleteAclsRequest(
        filters=[
            chosen(
                resource_type_filter=_TOPIC,
                resource_name_filter=binding.topic,
                pattern_type_filter=ACLResourcePatternType[binding.pattern],
                principal_filter=binding.principal,
                host_filter=binding.host,
                operation=ACLOperation[binding.operation],
                permission_type=ACLPermissionType[binding.permission],
            )
            for binding in bindings
        ]
    )
