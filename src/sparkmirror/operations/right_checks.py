"""Which rows of `operations.grants` a flow's principals lack, as the brokers of both clusters tell; changes nothing.

Asked by `operations.cluster_checks` for `doctor`, and by `operations.rights_job` for a mirror that runs.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.flow.offsets import HeartbeatSettings
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.rights import cluster_rights, may_see_transactional_id, topic_rights
from sparkmirror.operations.creation_checks import rehearse_creations, rehearse_heartbeats
from sparkmirror.operations.grants import Kind, Part, list_grants, list_heartbeat_grants, mirrored_names, named_topics
from sparkmirror.operations.group_checks import check_groups
from sparkmirror.operations.needs import CLUSTER, FlowTopics, judge_need, list_needs, plain_needs, to_principal
from sparkmirror.policy.naming import HEARTBEATS_TOPIC
from sparkmirror.sync.flow import topic_rules
from sparkmirror.sync.topic_job import observe_topics
from sparkmirror.views.findings import Finding, Level, name_some


def check_rights(
    flow: FlowConfig,
    source: Admin,
    target: Admin,
    *,
    new_partitions_max: int | None = None,
    groups_max: int | None = None,
) -> Iterator[Finding]:
    """A line for each row, granted or not, of what the flow has to do with now. Raises ClusterError.

    With `new_partitions_max` creating is rehearsed for the first of the missing remote topics, as many as have so many;
    with `groups_max` so many of the groups that are followed are asked about.
    """
    yield from _check_topics(flow, source, target, new_partitions_max)
    yield _check_transactional_id(flow, target)
    yield from check_groups(flow, source, target, groups_max)


def check_heartbeat_rights(settings: HeartbeatSettings, admin: Admin) -> Iterator[Finding]:
    """Whether heartbeats may be written, and their topic be created where it is missing. Raises ClusterError."""
    rights = topic_rights(admin, [HEARTBEATS_TOPIC])
    for need in plain_needs(list_heartbeat_grants(settings), rights):
        yield judge_need(need, rights)
    yield from rehearse_heartbeats(settings, admin)


def _check_topics(flow: FlowConfig, source: Admin, target: Admin, new_partitions_max: int | None) -> Iterator[Finding]:
    seen = observe_topics(source, target, topic_rules(flow), new_partitions_max)
    if flow.topics.include and not seen.source.keys() - {HEARTBEATS_TOPIC, flow.canary_topic}:
        yield _judge_no_topics(flow)
    names = {name: flow.remote_topic(name) for name in seen.source}
    remote = {name: seen.target[name] for name in names.values() if name in seen.target}
    rights = {
        flow.name.source: _rights(source, {*seen.source, *mirrored_names(flow), *named_topics(flow, flow.name.source)}),
        flow.name.target: _rights(target, {*remote, *named_topics(flow, flow.name.target)}),
    }
    own = {alias: named_topics(flow, alias) & known.keys() for alias, known in rights.items()}
    hidden = [name for name in sorted(mirrored_names(flow)) if rights[flow.name.source].get(name) == frozenset()]
    for need in list_needs(flow, FlowTopics(seen.source, remote, own, hidden)):
        known = rights[need.alias]
        if told := tuple(name for name in need.names if name in known):
            yield judge_need(replace(need, names=told), known)
    yield from rehearse_creations(flow, source, target, seen)


def _judge_no_topics(flow: FlowConfig) -> Finding:
    """A prefix or `*` names no topic that could be asked for: without DESCRIBE there seem to be none."""
    row = next(one for one in list_grants(flow) if one.part is Part.MIRRORED)
    wanted = name_some([one.shown for one in row.resources])
    grant = f"see `sparkmirror topics`; none can be seen without {row.operations[0]}: grant it on {wanted}"
    hint = to_principal(grant, row.alias, row.without)
    return Finding(Level.WARN, row.alias, "topics", f"no topic is to be mirrored to {flow.name.target}", hint)


def _rights(admin: Admin, names: Collection[str]) -> dict[str, Collection[str]]:
    """As far as the brokers tell: what they say nothing of is not refused."""
    on_cluster = cluster_rights(admin)
    return {**topic_rights(admin, names), **({} if on_cluster is None else {CLUSTER: on_cluster})}


def _check_transactional_id(flow: FlowConfig, target: Admin) -> Finding:
    """Without it a flow cannot fence its predecessors; with exactly-once it cannot write at all."""
    row = next(one for one in list_grants(flow) if one.resources[0].kind is Kind.TRANSACTIONAL_ID)
    prefix = row.resources[0].name
    if may_see_transactional_id(target, f"{prefix}0"):
        return Finding(Level.OK, row.alias, "permissions", f"fencing: transactional ids {prefix}* may be used")
    level = Level.FAIL if row.required else Level.WARN
    hint = to_principal("grant WRITE on all transactional ids that begin so", row.alias, row.without)
    return Finding(level, row.alias, "permissions", f"fencing: transactional ids {prefix}* may not be used", hint)
