"""Creates the internal topics that a flow lacks on its target, the ledger's and MirrorMaker's.

Called at a flow's start, by `sync.offset_job`, `sync.heartbeat_job` and the CLI. MirrorMaker's topics are created as
`MirrorUtils.createSinglePartitionCompactedTopic` does: one partition, `cleanup.policy=compact` and nothing else. An
existing topic is taken as it is.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic, TopicExists
from sparkmirror.kafka.connection import waits_within
from sparkmirror.ledger.topics import LedgerPlan, LedgerTopics, plan_ledger_topics
from sparkmirror.model import FlowName
from sparkmirror.policy.naming import ReplicationPolicy

_APPEARS_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.1


def create_ledger_topics(admin: Admin, plan: LedgerPlan) -> None:
    """Creates what is missing; a topic that another process created in between is fine. Raises the first refusal."""
    for error in admin.create_topics(plan.missing).values() if plan.missing else ():
        if error is not None and not isinstance(error, TopicExists):
            raise error


def ensure_ledger_topics(admin: Admin, topics: LedgerTopics) -> Sequence[str]:
    """Observes, plans and creates; returns the plan's warnings. Raises AuthorizationFailed and the like."""
    existing = admin.list_topics(topics)
    configs = admin.topic_configs(existing)
    described = {name: replace(topic, configs=configs.get(name, {})) for name, topic in existing.items()}
    unreadable = existing.keys() - configs.keys()
    plan = plan_ledger_topics(topics, described, len(admin.brokers()), unreadable=unreadable)
    create_ledger_topics(admin, plan)
    return plan.warnings


def count_offsets_partitions(admin: Admin, topics: LedgerTopics) -> int:
    """How many partitions Connect's offsets topic has, which exists. A server may not know it yet. Raises
    ClusterUnreachable where it still does not: it may be cut off from the others."""
    ends_at = time.monotonic() + _APPEARS_SECONDS
    while topics.offsets not in (found := admin.list_known_topics([topics.offsets])):
        if not waits_within(admin.connection, _PAUSE_SECONDS, ends_at):
            raise ClusterUnreachable(
                f"The server of {admin.alias} that was asked does not know topic {topics.offsets}.",
                "It may be cut off from the others. Repeat the command.",
            )
    return found[topics.offsets].partitions


@dataclass(frozen=True, slots=True)
class MirrorTopics:
    """Names of a flow's topics. `syncs` is on the source if `syncs_on_source`, all else is on the target."""

    syncs: str
    syncs_on_source: bool
    checkpoints: str
    heartbeats: str


def mirror_topics(flow: FlowName, policy: ReplicationPolicy, syncs_location: str) -> MirrorTopics:
    """The syncs topic is called after the other cluster than the one it is on (KIP-716)."""
    on_source = syncs_location == "source"
    return MirrorTopics(
        policy.offset_syncs_topic(flow.target if on_source else flow.source),
        on_source,
        policy.checkpoints_topic(flow.source),
        policy.heartbeats_topic(),
    )


def ensure_compacted_topic(admin: Admin, name: str, replication_factor: int) -> bool:
    """Creates the topic if it is missing; returns whether it did. With fewer brokers than wanted replicas, the topic
    gets as many replicas as there are brokers. Raises AuthorizationFailed and the like."""
    if admin.list_topics([name]):
        return False
    outcome = admin.create_topics([compacted_topic(admin, name, replication_factor)])[name]
    if outcome is not None and not isinstance(outcome, TopicExists):
        raise outcome
    return outcome is None


def compacted_topic(admin: Admin, name: str, replication_factor: int) -> NewTopic:
    """What `ensure_compacted_topic` creates where it is missing. Raises ClusterError."""
    replicas = min(replication_factor, len(admin.brokers())) if replication_factor > 0 else replication_factor
    return NewTopic(name, 1, replicas, {"cleanup.policy": "compact"})
