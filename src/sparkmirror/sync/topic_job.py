"""The topic job of a flow: remote topics exist, with at least the source's partitions; observe, plan, apply.

Run by the engine at start and every `refresh.topics.interval.seconds`; the plan itself is `sync.topics`, pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic, TopicExists
from sparkmirror.sync.topics import AddPartitions, CreateTopic, TopicPlan, TopicRules, TopicSnapshot, plan_topics


@dataclass(frozen=True, slots=True)
class TopicReport:
    """One round of the job: what was planned and which sentences came back."""

    plan: TopicPlan
    failures: tuple[str, ...]


class TopicSync:
    """The topic job of one flow. The admins belong to the caller."""

    description = "creating and growing remote topics"

    def __init__(self, source: Admin, target: Admin, rules: TopicRules) -> None:
        self._source = source
        self._target = target
        self._rules = rules

    def plan(self) -> TopicPlan:
        """What `sync_once` would do now. Raises ClusterError if a cluster does not answer."""
        return plan_topics(observe_topics(self._source, self._target, self._rules), self._rules)

    def sync_once(self) -> TopicReport:
        """One round; idempotent. Raises ClusterError if a cluster does not answer, never for a single topic."""
        plan = self.plan()
        return TopicReport(plan, tuple(apply_topics(self._target, plan)))


def observe_topics(source: Admin, target: Admin, rules: TopicRules) -> TopicSnapshot:
    """Reads both clusters: topics of both, settings of those source topics that have no remote topic yet.

    Topics that the brokers mark internal are no candidates, as MirrorMaker lists topics without them.
    """
    on_target = target.list_topics()
    mirrored = {
        name: topic for name, topic in source.list_topics().items() if not topic.internal and rules.is_mirrored(name)
    }
    new = [name for name in mirrored if rules.remote_name(name) not in on_target]
    configs = source.topic_configs(new) if new else {}
    for name, explicit in configs.items():
        mirrored[name] = replace(mirrored[name], configs=explicit)
    return TopicSnapshot(mirrored, on_target, len(target.brokers()), frozenset(new) - configs.keys())


def apply_topics(target: Admin, plan: TopicPlan) -> list[str]:
    """Carries out the plan; returns a sentence per topic that failed, all others are done.

    A topic that somebody else created in between is no failure; the next round looks at its partitions.
    """
    creations = [action for action in plan.actions if isinstance(action, CreateTopic)]
    growths = [action for action in plan.actions if isinstance(action, AddPartitions)]
    failures: list[str] = []
    if creations:
        failures += _sentences(target.create_topics([_new_topic(action) for action in creations]))
    if growths:
        failures += _sentences(target.create_partitions({action.name: action.partitions for action in growths}))
    return failures


def _new_topic(action: CreateTopic) -> NewTopic:
    return NewTopic(action.name, action.partitions, action.replication_factor, action.configs)


def _sentences(outcome: Mapping[str, SparkMirrorError | None]) -> Sequence[str]:
    return [str(error) for error in outcome.values() if error is not None and not isinstance(error, TopicExists)]
