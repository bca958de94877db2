"""The topic job of a flow: remote topics exist, with at least the source's partitions; observe, plan, apply.

Run at start, when very many topics are not all created before the first record flows, and at intervals; the plan is
made in `sync.topics`, pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic, TopicExists
from sparkmirror.kafka.errors import INVALID_CONFIG, RequestRefused
from sparkmirror.model import Topic
from sparkmirror.sync.change import Plan
from sparkmirror.sync.configs import initial_settings
from sparkmirror.sync.topics import (
    BROKER_DEFAULT,
    AddPartitions,
    CreateTopic,
    TopicRules,
    TopicSnapshot,
    beyond,
    plan_topics,
)


class TopicSync:
    """The topic job of one flow, a `Sync`. The admins belong to the caller."""

    description = "creating and growing remote topics"

    def __init__(self, source: Admin, target: Admin, rules: TopicRules, new_partitions_max: int | None = None) -> None:
        """With `new_partitions_max` a round makes only the first of the missing topics, as many as have so many."""
        self._source = source
        self._target = target
        self._rules = rules
        self._new_partitions_max = new_partitions_max
        self.put_off: Sequence[str] = ()
        """Source topics that the last plan has left to a later round."""
        self._looked: tuple[object, ...] = ()
        self._planned = Plan()
        self._is_partial = False

    def plan(self) -> Plan:
        """Topics that were in step and have not changed are not planned again.

        Settings that could not be read may be readable now: that shows in no list of topics.
        """
        looked = (self._target.list_topics(), self._source.list_topics())
        is_settled = not (self._planned.changes or self._is_partial) and self._rules.are_fixed
        if looked != self._looked or not is_settled:
            # Not listed again: a broker that is behind may answer then, and what it lacks would count as in step.
            seen = _observe(self._source, self._target, looked, self._rules, self._new_partitions_max)
            self.put_off, self._is_partial = seen.put_off, bool(seen.unreadable)
            self._planned, self._looked = plan_topics(seen, self._rules), looked
        return self._planned

    def apply(self, plan: Plan) -> Sequence[str]:
        """A topic that another client created in between is no failure; the next round checks its partitions."""
        missing = [change for change in plan.changes if isinstance(change, CreateTopic)]
        creations = [creation for creation in missing if creation.partitions != BROKER_DEFAULT]
        by_brokers = [creation.name for creation in missing if creation.partitions == BROKER_DEFAULT]
        growths = [change for change in plan.changes if isinstance(change, AddPartitions)]
        failures: list[str] = []
        if creations:
            failures += self._create([new_topic(creation) for creation in creations])
        if by_brokers:
            failures += _sentences(self._target.auto_create_topics(by_brokers))
        if growths:
            grown = self._target.create_partitions({growth.name: growth.partitions for growth in growths})
            failures += _sentences(grown)
        return failures

    def _create(self, topics: Sequence[NewTopic]) -> Sequence[str]:
        """A setting that the target refuses costs its topic that setting, not its records: brokers of another version
        do not know it, or do not take its value."""
        outcome = dict(self._target.create_topics(topics))
        lesser = self._without_refused([topic for topic in topics if _is_of_setting(outcome.get(topic.name))])
        if not lesser:
            return _sentences(outcome)
        again = self._target.create_topics([less for _, less in lesser])
        left_out = [
            f"{topic.name} is created without {_lost(topic, less)}: {outcome[topic.name]}"
            for topic, less in lesser
            if again[topic.name] is None
        ]
        return [*left_out, *_sentences(outcome | again)]

    def _without_refused(self, topics: Sequence[NewTopic]) -> list[tuple[NewTopic, NewTopic]]:
        """Those that have a setting which the target refuses by itself, each with the same topic without."""
        known: dict[tuple[str, str], bool] = {}
        found: list[tuple[NewTopic, NewTopic]] = []
        for topic in topics:
            for setting in topic.configs.items():
                if setting not in known:
                    alone = replace(topic, configs=dict([setting]))
                    known[setting] = _is_of_setting(self._target.rehearse_topics([alone])[topic.name])
            taken = {key: value for key, value in topic.configs.items() if not known[key, value]}
            if len(taken) < len(topic.configs):
                found.append((topic, replace(topic, configs=taken)))
        return found


def observe_topics(
    source: Admin, target: Admin, rules: TopicRules, new_partitions_max: int | None = None
) -> TopicSnapshot:
    """Reads both clusters: topics of both, settings of those source topics that have no remote topic yet.

    Topics that the brokers mark internal are no candidates, as MirrorMaker lists topics without them.
    """
    return _observe(source, target, (target.list_topics(), source.list_topics()), rules, new_partitions_max)


def _observe(
    source: Admin,
    target: Admin,
    listed: tuple[Mapping[str, Topic], Mapping[str, Topic]],
    rules: TopicRules,
    new_partitions_max: int | None,
) -> TopicSnapshot:
    """As `observe_topics`, of topics that are `listed` already, the target's first."""
    on_target, of_source = listed
    on_source = {name: topic for name, topic in of_source.items() if not topic.internal}
    mirrored = {name: topic for name, topic in on_source.items() if rules.is_mirrored(name)}
    left_out = tuple(sorted(name for name in on_source if rules.is_left_out(name)))
    new = sorted(name for name in mirrored if rules.remote_name(name) not in on_target)
    put_off = () if new_partitions_max is None else beyond(mirrored, new, new_partitions_max)
    for name in put_off:
        del mirrored[name]
    new = new[: len(new) - len(put_off)]
    described = source.describe_configs(new) if new else {}
    for name, entries in described.items():
        mirrored[name] = replace(mirrored[name], configs=initial_settings(entries, rules.configs))
    unreadable = frozenset(new) - described.keys()
    return TopicSnapshot(mirrored, on_target, len(target.brokers()), unreadable, left_out, put_off)


def new_topic(action: CreateTopic) -> NewTopic:
    return NewTopic(action.name, action.partitions, action.replication_factor, action.configs)


def _is_of_setting(problem: SparkMirrorError | None) -> bool:
    return isinstance(problem, RequestRefused) and problem.code == INVALID_CONFIG


def _lost(topic: NewTopic, less: NewTopic) -> str:
    return ", ".join(f"{key}={value}" for key, value in topic.configs.items() if key not in less.configs)


def _sentences(outcome: Mapping[str, SparkMirrorError | None]) -> Sequence[str]:
    return [str(error) for error in outcome.values() if error is not None and not isinstance(error, TopicExists)]
