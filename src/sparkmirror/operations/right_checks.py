"""Finds the permissions of `operations.grants` that a flow lacks, on topics, groups and topics to create; changes
nothing.

The brokers of both clusters give the rights (KIP-430), and the creation of topics is rehearsed.
`operations.cluster_checks` calls it for `doctor`, and `RightsJob`, which `runtime.leader_jobs` runs, for a running
mirror.
"""

import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.flow.settings import HeartbeatSettings
from sparkmirror.errors import AuthorizationFailed, ClusterUnreachable, SparkMirrorError
from sparkmirror.kafka.admin import NEW_PARTITIONS_PER_REQUEST, Admin
from sparkmirror.kafka.answers import NewTopic, TopicExists
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.groups import ListedGroups, list_groups_now
from sparkmirror.kafka.rights import cluster_rights, group_rights, may_see_transactional_id, topic_rights
from sparkmirror.ledger.setup import compacted_topic, mirror_topics
from sparkmirror.ledger.topics import SHARING_GROUP, plan_ledger_topics
from sparkmirror.operations.grants import (
    KEEPING_OFFSETS,
    Grant,
    Kind,
    Part,
    list_grants,
    list_heartbeat_grants,
    mirrored_names,
    named_topics,
)
from sparkmirror.operations.needs import (
    CLUSTER,
    FlowTopics,
    judge_need,
    list_group_needs,
    list_needs,
    plain_needs,
    to_principal,
)
from sparkmirror.policy.naming import HEARTBEATS_TOPIC
from sparkmirror.sync.canary_job import canary_topics
from sparkmirror.sync.flow import topic_rules
from sparkmirror.sync.topic_job import new_topic, observe_topics
from sparkmirror.sync.topics import BROKER_DEFAULT, CreateTopic, TopicSnapshot, plan_topics
from sparkmirror.views.findings import Finding, Level, name_some


def check_rights(
    flow: FlowConfig,
    source: Admin,
    target: Admin,
    *,
    new_partitions_max: int | None = None,
    groups_max: int | None = None,
) -> Iterator[Finding]:
    """A finding for each row, granted or not, that applies to the flow now. Raises ClusterError. With
    `new_partitions_max` it rehearses the creation of only the first missing remote topics, up to that many
    partitions; with `groups_max` it asks about only that many of the followed groups."""
    yield from _check_topics(flow, source, target, new_partitions_max)
    yield from _check_transactional_ids(flow, target)
    yield from check_groups(flow, source, target, groups_max)


def check_heartbeat_rights(settings: HeartbeatSettings, admin: Admin) -> Iterator[Finding]:
    """Checks whether the principal may write heartbeats, and create their topic where it is missing. Raises
    ClusterError."""
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
        if known_names := tuple(name for name in need.names if name in known):
            yield judge_need(replace(need, names=known_names), known)
    yield from rehearse_creations(flow, source, target, seen)


def _judge_no_topics(flow: FlowConfig) -> Finding:
    """The finding where a prefix or `*` matches no visible topic: without DESCRIBE the topics seem not to exist."""
    row = next(one for one in list_grants(flow) if one.part is Part.MIRRORED)
    wanted = name_some([one.shown for one in row.resources])
    grant = f"see `sparkmirror topics`; none can be seen without {row.operations[0]}: grant it on {wanted}"
    hint = to_principal(grant, row.alias, row.without)
    return Finding(Level.WARN, row.alias, "topics", f"no topic is to be mirrored to {flow.name.target}", hint)


def _rights(admin: Admin, names: Collection[str]) -> dict[str, Collection[str]]:
    """The rights as far as the brokers give them; a right of which they say nothing counts as granted."""
    on_cluster = cluster_rights(admin)
    return {**topic_rights(admin, names), **({} if on_cluster is None else {CLUSTER: on_cluster})}


def _check_transactional_ids(flow: FlowConfig, target: Admin) -> Iterator[Finding]:
    """Checks the transactional ids. Without WRITE on them a flow cannot fence its predecessors, nor fill the offsets
    that it keeps; with exactly-once it cannot write."""
    for row in list_grants(flow):
        if row.resources[0].kind is not Kind.TRANSACTIONAL_ID:
            continue
        prefix, purpose = row.resources[0].name, "keeping offsets" if row.feature == KEEPING_OFFSETS else "fencing"
        said = f"{purpose}: transactional ids {prefix}*"
        if may_see_transactional_id(target, f"{prefix}0"):
            yield Finding(Level.OK, row.alias, "permissions", f"{said} may be used")
            continue
        level = Level.FAIL if row.required else Level.WARN
        hint = to_principal("grant WRITE on all transactional ids that begin so", row.alias, row.without)
        yield Finding(level, row.alias, "permissions", f"{said} may not be used", hint)


def check_groups(flow: FlowConfig, source: Admin, target: Admin, groups_max: int | None = None) -> Iterator[Finding]:
    """Checks the groups that are followed on both clusters (the first `groups_max` of them), the group that holds
    progress on the source, and the group by which processes share flows. Raises ClusterError."""
    followed: list[str] = []
    if flow.offsets.emit_checkpoints:
        seen = list_groups_now(source)
        followed = _followed(flow, seen)[:groups_max]
        yield from _judge_seen(flow, source, seen, followed)
    admins = {flow.name.source: source, flow.name.target: target}
    for need in list_group_needs(flow, followed):
        yield judge_need(need, group_rights(admins[need.alias], need.names))
    yield _check_sharing(flow, target)


def _followed(flow: FlowConfig, seen: ListedGroups) -> list[str]:
    """The followed groups that the principal may see."""
    accepts = flow.offsets.groups.accepts
    return sorted(name for name, group in seen.groups.items() if group.is_consumer and accepts(name))


def _judge_seen(flow: FlowConfig, source: Admin, seen: ListedGroups, followed: Collection[str]) -> Iterator[Finding]:
    """A finding for each coordinator that does not list its groups yet; without any, one where no group is visible. A
    principal that may Describe the cluster sees all groups; another may lack the right to see the groups that
    matter."""
    for problem in seen.missing:
        said = f"not all groups were looked at: {problem.args[0]}"
        yield Finding(Level.WARN, flow.name.source, "groups", said, problem.hint)
    if followed or seen.missing:
        return
    if "DESCRIBE" not in (cluster_rights(source) or ()):
        said = "following consumer groups: none that `groups` includes can be seen"
        hint = to_principal("grant DESCRIBE on these groups", flow.name.source, "they have no checkpoints")
        yield Finding(Level.WARN, flow.name.source, "permissions", said, hint)


def _check_sharing(flow: FlowConfig, target: Admin) -> Finding:
    """Checks the group of processes. Without it a process works alone, and a second one takes its flows over."""
    row = next(one for one in list_grants(flow) if one.resources[0].name == SHARING_GROUP)
    (need,) = plain_needs(row, (SHARING_GROUP,))
    found = judge_need(need, group_rights(target, need.names))
    may = "may" if found.level is Level.OK else "may not"
    return replace(found, said=f"{row.feature}: group {SHARING_GROUP} {may} be joined")


_WHAT = "creating topics"


def rehearse_creations(flow: FlowConfig, source: Admin, target: Admin, seen: TopicSnapshot) -> Iterator[Finding]:
    """Rehearses the creation of all topics that the flow creates on either cluster and that are missing. Raises
    ClusterError."""
    grants = list(list_grants(flow))
    for admin in (source, target):
        wanted = [*_of_features(flow, admin)]
        if admin is target:
            wanted += [*_internal(flow, target), *_remote(flow, seen)]
        yield from judge_creations(admin.alias, _rehearse(admin, wanted), grants)


def rehearse_heartbeats(settings: HeartbeatSettings, admin: Admin) -> Iterator[Finding]:
    """Rehearses the creation of the topic of heartbeats. Raises ClusterError."""
    wanted = compacted_topic(admin, HEARTBEATS_TOPIC, settings.replication_factor)
    yield from judge_creations(admin.alias, _rehearse(admin, [wanted]), [list_heartbeat_grants(settings)])


def _rehearse(admin: Admin, wanted: Sequence[NewTopic]) -> Mapping[str, SparkMirrorError | None]:
    """Rehearses also topics that the principal may not see: the brokers answer whether they exist."""
    there = admin.list_topics(topic.name for topic in wanted)
    return admin.rehearse_topics([topic for topic in wanted if topic.name not in there])


def _of_features(flow: FlowConfig, admin: Admin) -> Iterator[NewTopic]:
    names, offsets = mirror_topics(flow.name, flow.policy, flow.offsets.syncs_location), flow.offsets
    is_source = admin.alias == flow.name.source
    if offsets.emit_syncs and names.syncs_on_source is is_source:
        yield compacted_topic(admin, names.syncs, offsets.syncs_replication_factor)
    if offsets.emit_checkpoints and not is_source:
        yield compacted_topic(admin, names.checkpoints, offsets.checkpoints_replication_factor)
    if flow.canary_interval_seconds:
        yield from canary_topics(flow, admin)


def _internal(flow: FlowConfig, target: Admin) -> Sequence[NewTopic]:
    return plan_ledger_topics(flow.ledger_topics, {}, len(target.brokers())).missing


def _remote(flow: FlowConfig, seen: TopicSnapshot) -> Iterator[NewTopic]:
    for change in plan_topics(seen, topic_rules(flow)).changes:
        if isinstance(change, CreateTopic) and change.partitions != BROKER_DEFAULT:
            yield new_topic(change)


def judge_creations(
    alias: str, outcome: Mapping[str, SparkMirrorError | None], grants: Iterable[Grant] = ()
) -> Iterator[Finding]:
    """Judges the brokers' answers to the rehearsal: a finding for each row that was refused."""
    refused = {name: why for name, why in outcome.items() if why is not None and not isinstance(why, TopicExists)}
    if outcome and not refused:
        yield Finding(Level.OK, alias, _WHAT, f"{len(outcome)} can be created")
    for grant in grants:
        names = [name for name, why in refused.items() if _breaks(grant, alias, name, why)]
        if names:
            yield _judge_refused(alias, {name: refused.pop(name) for name in names}, len(outcome), grant)
    if refused:
        yield _judge_refused(alias, refused, len(outcome))


def _breaks(grant: Grant, alias: str, name: str, why: SparkMirrorError) -> bool:
    if grant.alias != alias or "CREATE" not in grant.operations or not isinstance(why, AuthorizationFailed):
        return False
    return any(one.covers(name) for one in grant.resources)


def _judge_refused(
    alias: str, refused: Mapping[str, SparkMirrorError], asked: int, grant: Grant | None = None
) -> Finding:
    first = next(iter(refused.values()))
    said = f"{len(refused)} of {asked} cannot be created ({name_some(sorted(refused))}): {first.args[0]}"
    if grant is None:
        return Finding(Level.FAIL, alias, _WHAT, said, first.hint)
    which = f"topic {next(iter(refused))}" if len(refused) == 1 else "these topics"
    hint = to_principal(f"grant CREATE on {which}, or on the cluster,", alias, grant.without)
    level = Level.FAIL if grant.required else Level.WARN
    return Finding(level, alias, "permissions", f"{grant.feature}: {said.rstrip('.')}", hint)


log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0
_LACKING_SECONDS: Final = 15.0
"""The time between two checks while a right is missing: the person who grants it waits for the message that it is
there."""
_CONTENT_SECONDS: Final = 300.0
_GROUPS_MAX: Final = 100
"""Brokers answer for a group with all its members, so only some groups are asked about; they show whether the right
is granted."""


class RightsJob:
    """Checks soon after the start and every five minutes, or more often while a right is missing."""

    def __init__(self, flow: FlowConfig, heartbeats: Sequence[HeartbeatSettings] = ()) -> None:
        self._flow = flow
        self._heartbeats = heartbeats
        self._lacking: set[tuple[str, str, str]] = set()
        self._unseen: set[tuple[str, str, str]] = set()
        self._due_at = 0.0

    def __call__(self) -> None:
        """Checks. Other jobs report a cluster that does not answer; this one asks it again soon. Raises
        ClusterError."""
        if time.monotonic() < self._due_at:
            return
        self._due_at = time.monotonic() + _LACKING_SECONDS
        try:
            found = [one for one in self._look() if one.level is not Level.OK]
        except ClusterUnreachable:
            return
        lacking = {(one.where, one.said, one.hint) for one in found if one.what == "permissions"}
        unseen = {(one.where, one.said, one.hint) for one in found if one.what == "topics"}
        for one in sorted(lacking - self._lacking):
            log.warning("%s: %s: %s; %s.", self._flow.name, *one)
        for one in sorted(unseen - self._unseen):
            log.info("%s: %s: %s; %s.", self._flow.name, *one)  # there may be none, as on a new cluster
        if self._lacking and not lacking:
            log.info("%s: all permissions are granted now.", self._flow.name)
        self._lacking, self._unseen = lacking, unseen
        if not lacking:
            self._due_at = time.monotonic() + _CONTENT_SECONDS

    def _look(self) -> Iterator[Finding]:
        flow = self._flow
        with open_admin(flow.source, "permissions") as source, open_admin(flow.target, "permissions") as target:
            yield from check_rights(
                flow, source, target, new_partitions_max=NEW_PARTITIONS_PER_REQUEST, groups_max=_GROUPS_MAX
            )
        for settings in self._heartbeats:
            with open_admin(settings.target, "permissions") as admin:
                yield from check_heartbeat_rights(settings, admin)
