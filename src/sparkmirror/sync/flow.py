"""The sync jobs of one flow, by its configuration, and one round of all of them.

Called by `runtime.jobs` again and again, by `runtime.run` at start, and by `cli.plan`.
"""

from collections.abc import Callable
from functools import partial

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.flow.settings import SyncSettings
from sparkmirror.config.keys.table import TOPICS_EXCLUDE
from sparkmirror.errors import AuthorizationFailed
from sparkmirror.kafka.admin import NEW_PARTITIONS_PER_REQUEST, Admin
from sparkmirror.kafka.clients import open_admin
from sparkmirror.ledger.setup import mirror_topics
from sparkmirror.policy.filters import NameFilter, is_left_out
from sparkmirror.policy.naming import added_prefix
from sparkmirror.sync.acl_job import AclNotes, AclSync
from sparkmirror.sync.acls import AclRules
from sparkmirror.sync.change import Plan, Round, Sync, sync_once
from sparkmirror.sync.config_job import ConfigSync
from sparkmirror.sync.configs import ConfigRules
from sparkmirror.sync.topic_job import TopicSync
from sparkmirror.sync.topics import TopicRules
from sparkmirror.sync.unfilled_starts import find_unfilled


def topic_rules(flow: FlowConfig) -> TopicRules:
    """The flow's settings as the rules of the topic and the settings job."""
    return TopicRules(
        is_mirrored=flow.should_replicate,
        remote_name=flow.remote_topic,
        configs=config_rules(flow.sync),
        replication_factor=flow.replication_factor,
        by_broker=flow.topic_creation == "broker",
        is_left_out=lambda topic: (
            flow.topics.exclude == TOPICS_EXCLUDE.default and is_left_out(topic, flow.topics, flow.policy)
        ),
        are_fixed=not flow.has_own_classes and flow.sync.own_configs is None,
    )


def config_rules(sync: SyncSettings) -> ConfigRules:
    """Which settings are copied: as the lists say, or as a class of the user's does."""
    excluded, protected = NameFilter(sync.configs_exclude), NameFilter(sync.configs_protect)
    from_source, own = sync.defaults_from == "source", sync.own_configs
    return ConfigRules(
        is_copied=own.should_replicate_config_property if own else lambda key: not excluded.accepts(key),
        copies_default=own.should_replicate_source_default if own else lambda _: from_source,
        is_protected=lambda topic, key: protected.accepts(key) or protected.accepts(f"{topic}/{key}"),
    )


def acl_rules(flow: FlowConfig) -> AclRules:
    """The flow's settings as the rules of the ACL job."""
    names = mirror_topics(flow.name, flow.policy, flow.offsets.syncs_location)
    ledger = flow.ledger_topics
    return AclRules(
        is_mirrored=flow.should_replicate,
        remote_name=flow.remote_topic,
        source_name=flow.policy.upstream_topic,
        prefix=added_prefix(flow.policy, flow.name.source),
        own_topics=frozenset({names.checkpoints, names.heartbeats, names.syncs, *ledger}),
        revoke=flow.sync.acls_revoke,
        operations=flow.sync.acls_operations,
    )


def flow_syncs(flow: FlowConfig, source: Admin, target: Admin, *, first: bool = True) -> list[Sync]:
    """The jobs that the file asks for, in the order to run them; topics are made at first in any case."""
    syncs: list[Sync] = []
    if first or flow.refresh_topics_enabled:
        syncs.append(TopicSync(source, target, topic_rules(flow)))
    if flow.sync.configs_enabled:
        syncs.append(ConfigSync(source, target, topic_rules(flow), partial(find_unfilled, flow, target)))
    if flow.sync.acls_enabled:
        status = flow.ledger_topics.status
        syncs.append(AclSync(source, target, acl_rules(flow), AclNotes(flow.target, status, flow.name.source)))
    return syncs


def plan_flow(flow: FlowConfig) -> Plan:
    """The plan of a round of all jobs now. Raises ClusterError if a cluster does not answer."""
    with open_admin(flow.source, "plan") as source, open_admin(flow.target, "plan") as target:
        plans = [_permitted(sync.plan) for sync in flow_syncs(flow, source, target)]
    changes = [change for plan in plans for change in plan.changes]
    return Plan(tuple(changes), tuple(warning for plan in plans for warning in plan.warnings))


def mirrored_topics(flow: FlowConfig) -> dict[str, int]:
    """The source topics that are mirrored now, with their partition counts. Raises ClusterError."""
    with open_admin(flow.source, "plan") as source:
        topics = source.list_topics().values()
    return {
        topic.name: topic.partitions for topic in topics if not topic.internal and flow.should_replicate(topic.name)
    }


def sync_flow(flow: FlowConfig) -> list[Round]:
    """One round of all jobs, over connections of its own. Raises ClusterError if a cluster does not answer."""
    with open_admin(flow.source, "sync") as source, open_admin(flow.target, "sync") as target:
        return [run_round(sync) for sync in flow_syncs(flow, source, target)]


def begin_flow(flow: FlowConfig) -> tuple[Round, bool]:
    """Creates the topics that a flow's first records need, and returns whether others are still missing.

    A broker takes a minute for ten thousand new partitions: where a job makes topics while the flow runs, it makes all
    but the first. Settings and ACLs are the jobs' too. Raises ClusterError if a cluster does not answer.
    """
    with open_admin(flow.source, "sync") as source, open_admin(flow.target, "sync") as target:
        partitions_max = NEW_PARTITIONS_PER_REQUEST if flow.refresh_topics_enabled else None
        sync = TopicSync(source, target, topic_rules(flow), partitions_max)
        return run_round(sync), bool(sync.put_off)


def _permitted(plan: Callable[[], Plan]) -> Plan:
    """A missing right of one job is reported, and does not stop the other jobs."""
    try:
        return plan()
    except AuthorizationFailed as problem:
        return Plan(warnings=(str(problem),))


def run_round(sync: Sync) -> Round:
    """One round of one job. Raises ClusterError if a cluster does not answer."""
    try:
        return sync_once(sync)
    except AuthorizationFailed as problem:
        return Round(Plan(warnings=(str(problem),)))
