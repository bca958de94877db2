"""Whether a flow may do with consumer groups what its file asks; changes nothing. Asked by
`operations.right_checks`."""

from collections.abc import Iterator
from dataclasses import replace

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.groups import list_groups
from sparkmirror.kafka.rights import cluster_rights, group_rights
from sparkmirror.ledger.topics import SHARING_GROUP
from sparkmirror.operations.grants import list_grants
from sparkmirror.operations.needs import judge_need, list_group_needs, plain_needs, to_principal
from sparkmirror.views.findings import Finding, Level


def check_groups(flow: FlowConfig, source: Admin, target: Admin, groups_max: int | None = None) -> Iterator[Finding]:
    """Groups that are followed on both sides, the first `groups_max` of them, the group that holds progress on the
    source, and the one that processes share flows by. Raises ClusterError.
    """
    followed = _followed(flow, source)[:groups_max]
    if flow.offsets.emit_checkpoints and not followed:
        yield from _judge_none(flow, source)
    admins = {flow.name.source: source, flow.name.target: target}
    for need in list_group_needs(flow, followed):
        yield judge_need(need, group_rights(admins[need.alias], need.names))
    yield _check_sharing(flow, target)


def _followed(flow: FlowConfig, source: Admin) -> list[str]:
    """Of those that we may see."""
    if not flow.offsets.emit_checkpoints:
        return []
    accepts = flow.offsets.groups.accepts
    return sorted(name for name, group in list_groups(source).items() if group.is_consumer and accepts(name))


def _judge_none(flow: FlowConfig, source: Admin) -> Iterator[Finding]:
    """Who may Describe the cluster sees all groups; anybody else may be kept from seeing those that matter."""
    if "DESCRIBE" not in (cluster_rights(source) or ()):
        said = "following consumer groups: none that `groups` includes can be seen"
        hint = to_principal("grant DESCRIBE on these groups", flow.name.source, "they have no checkpoints")
        yield Finding(Level.WARN, flow.name.source, "permissions", said, hint)


def _check_sharing(flow: FlowConfig, target: Admin) -> Finding:
    """Without it a process works alone, and a second one takes its flows over."""
    row = next(one for one in list_grants(flow) if one.resources[0].name == SHARING_GROUP)
    (need,) = plain_needs(row, (SHARING_GROUP,))
    found = judge_need(need, group_rights(target, need.names))
    may = "may" if found.level is Level.OK else "may not"
    return replace(found, said=f"{row.feature}: group {SHARING_GROUP} {may} be joined")
