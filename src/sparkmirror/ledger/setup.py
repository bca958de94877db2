"""Creates the internal topics that a flow lacks on its target; called at a flow's start and by the CLI."""

from collections.abc import Sequence
from dataclasses import replace

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import TopicExists
from sparkmirror.ledger.topics import (
    INTERNAL_REPLICATION_FACTOR,
    OFFSETS_PARTITIONS,
    LedgerPlan,
    LedgerTopics,
    plan_ledger_topics,
)


def create_ledger_topics(admin: Admin, plan: LedgerPlan) -> None:
    """Creates what is missing; a topic that another process created in between is fine. Raises the first refusal."""
    for error in admin.create_topics(plan.missing).values() if plan.missing else ():
        if error is not None and not isinstance(error, TopicExists):
            raise error


def ensure_ledger_topics(
    admin: Admin,
    topics: LedgerTopics,
    *,
    replication_factor: int = INTERNAL_REPLICATION_FACTOR,
    offsets_partitions: int = OFFSETS_PARTITIONS,
) -> Sequence[str]:
    """Observes, plans and creates; returns the plan's warnings. Raises AuthorizationFailed and the like."""
    existing = admin.list_topics(topics)
    configs = admin.topic_configs(existing)
    described = {name: replace(topic, configs=configs.get(name, {})) for name, topic in existing.items()}
    plan = plan_ledger_topics(
        topics,
        described,
        len(admin.brokers()),
        replication_factor=replication_factor,
        offsets_partitions=offsets_partitions,
        unreadable=existing.keys() - configs.keys(),
    )
    create_ledger_topics(admin, plan)
    return plan.warnings
