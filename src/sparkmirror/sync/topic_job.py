"""The topic job of a flow: remote topics exist, with at least the source's partitions; observe, plan, apply.

Run by the engine at start and again and again; the plan itself is `sync.topics`, pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic, TopicExists
from sparkmirror.sync.change import Plan
from sparkmirror.sync.configs import initial_settings
from sparkmirror.sync.topics import BROKER_DEFAULT, AddPartitions, CreateTopic, TopicRules, TopicSnapshot, plan_topics


class TopicSync:
    """The topic job of one flow, a `Sync`. The admins belong to the caller."""

    description = "creating and growing remote topics"

    def __init__(self, source: Admin, target: Admin, rules: TopicRules) -> None:
        self._source = source
        self._target = target
        self._rules = rules

    def plan(self) -> Plan:
        return plan_topics(observe_topics(self._source, self._target, self._rules), self._rules)

    def apply(self, plan: Plan) -> Sequence[str]:
        """A topic that somebody else created in between is no failure; the next round looks at its partitions."""
        missing = [change for change in plan.changes if isinstance(change, CreateTopic)]
        creations = [creation for creation in missing if creation.partitions != BROKER_DEFAULT]
        by_brokers = [creation.name for creation in missing if creation.partitions == BROKER_DEFAULT]
        growths = [change for change in plan.changes if isinstance(change, AddPartitions)]
        failures: list[str] = []
        if creations:
            failures += _sentences(self._target.create_topics([new_topic(creation) for creation in creations]))
        if by_brokers:
            failures += _sentences(self._target.auto_create_topics(by_brokers))
        if growths:
            grown = self._target.create_partitions({growth.name: growth.partitions for growth in growths})
            failures += _sentences(grown)
        return failures


def observe_topics(source: Admin, target: Admin, rules: TopicRules) -> TopicSnapshot:
    """Reads both clusters: topics of both, settings of those source topics that have no remote topic yet.

    Topics that the brokers mark internal are no candidates, as MirrorMaker lists topics without them.
    """
    on_target = target.list_topics()
    on_source = {name: topic for name, topic in source.list_topics().items() if not topic.internal}
    mirrored = {name: topic for name, topic in on_source.items() if rules.is_mirrored(name)}
    left_out = tuple(sorted(name for name in on_source if rules.is_left_out(name)))
    new = [name for name in mirrored if rules.remote_name(name) not in on_target]
    described = source.describe_configs(new) if new else {}
    for name, entries in described.items():
        mirrored[name] = replace(mirrored[name], configs=initial_settings(entries, rules.configs))
    return TopicSnapshot(mirrored, on_target, len(target.brokers()), frozenset(new) - described.keys(), left_out)


def new_topic(action: CreateTopic) -> NewTopic:
    return NewTopic(action.name, action.partitions, action.replication_factor, action.configs)


def _sentences(outcome: Mapping[str, SparkMirrorError | None]) -> Sequence[str]:
    return [str(error) for error in outcome.values() if error is not None and not isinstance(error, TopicExists)]
