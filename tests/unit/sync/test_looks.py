"""Looks of the topic and the settings job at clusters that are as they were."""

from collections.abc import Iterable, Sequence
from uuid import UUID

import pytest

from sparkmirror.kafka.answers import ConfigEntry, ConfigSource, NewTopic
from sparkmirror.model import Topic
from sparkmirror.sync import topic_job
from sparkmirror.sync.change import Plan
from sparkmirror.sync.config_job import ConfigSync
from sparkmirror.sync.configs import SetConfig
from sparkmirror.sync.topic_job import TopicSync
from sparkmirror.sync.topics import TopicRules, TopicSnapshot, plan_topics

RULES = TopicRules(is_mirrored=lambda name: name != "private", remote_name=lambda name: f"A.{name}", are_fixed=True)


class Told:
    """Stands for what brokers told of settings."""

    def __init__(self, values: dict[str, str], reads: list[str], refused: dict[str, int]) -> None:
        self._values = values
        self._reads = reads
        self.refused = refused
        self.digest = repr(sorted(values.items())).encode()

    def read(self) -> dict[str, dict[str, ConfigEntry]]:
        self._reads += self._values
        return {
            topic: {"retention.ms": ConfigEntry(value, ConfigSource.TOPIC, False, False)}
            for topic, value in self._values.items()
        }


class Cluster:
    """Stands for an admin: topics with their `retention.ms`, and error codes instead of it."""

    alias = "A"

    def __init__(self, **retentions: str) -> None:
        self.retentions = {name.replace("_", "."): value for name, value in retentions.items()}
        self.reads: list[str] = []
        self.refused: dict[str, int] = {}
        self.created: list[str] = []

    def list_topics(self) -> dict[str, Topic]:
        return {name: Topic(name, UUID(int=1), 100, 1) for name in self.retentions}

    def brokers(self) -> dict[int, tuple[str, int]]:
        return {1: ("a", 1), 2: ("b", 1)}

    def ask_configs(self, topics: Iterable[str]) -> Told:
        told = {name: self.retentions[name] for name in topics if name not in self.refused}
        return Told(told, self.reads, self.refused)

    def describe_configs(self, topics: Iterable[str]) -> dict[str, dict[str, ConfigEntry]]:
        return self.ask_configs(topics).read()

    def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, None]:
        self.created += [topic.name for topic in topics]
        self.retentions |= dict.fromkeys(self.created, "1")
        return {}


def test_settings_that_are_as_they_were_are_not_read_again() -> None:
    source, target = Cluster(orders="1", private="9"), Cluster(A_orders="1")
    sync = ConfigSync(source, target, RULES)  # type: ignore[arg-type]
    assert [sync.plan().changes for _ in range(3)] == [(), (), ()]
    assert source.reads == ["orders"]
    assert sync.compared == 1
    source.retentions["orders"] = "2"
    assert sync.plan().changes == (SetConfig("A.orders", "orders", "retention.ms", "2", "1"),)
    assert sync.plan().changes, "as long as it is not done"
    target.retentions["A.orders"] = "2"
    assert sync.plan().changes == ()


def test_settings_that_a_cluster_does_not_show_are_named() -> None:
    """Without DESCRIBE_CONFIGS on one topic it was left out, and the job seemed to be well."""
    source, target = Cluster(orders="1", bills="1", gone="1"), Cluster(A_orders="2", A_bills="1", A_gone="1")
    target.alias = "B"
    source.refused = {"orders": 29, "gone": 3}
    sync = ConfigSync(source, target, RULES)  # type: ignore[arg-type]
    said = "A does not show the settings of orders (TOPIC_AUTHORIZATION_FAILED): none are copied."
    assert [sync.plan() for _ in range(2)] == [Plan(warnings=(said,))] * 2
    source.refused, target.refused = {}, {f"A.{name}": 29 for name in ("bills", "orders")}
    source.retentions["bills"] = "3"
    (said,) = sync.plan().warnings
    assert said.startswith("B does not show the settings of A.bills, A.orders (TOPIC_AUTH")


def test_topics_in_step_are_thought_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    thoughts = []

    def think(seen: TopicSnapshot, rules: TopicRules) -> Plan:
        thoughts.append(seen)
        return plan_topics(seen, rules)

    monkeypatch.setattr(topic_job, "plan_topics", think)
    source, target = Cluster(orders="1"), Cluster(A_orders="1")
    sync = TopicSync(source, target, RULES)  # type: ignore[arg-type]
    assert [sync.plan().changes for _ in range(3)] == [(), (), ()]
    assert len(thoughts) == 1
    source.retentions["bills"] = "1"
    plan = sync.plan()
    assert len(thoughts) == 2
    sync.apply(plan)
    assert target.created == ["A.bills"]
    assert sync.plan().changes == ()


def test_the_first_of_very_many_topics_are_made_at_once_the_others_in_a_later_round() -> None:
    source, target = Cluster(**{f"t{number}": "1" for number in range(5)}), Cluster()
    first = TopicSync(source, target, RULES, 250)  # type: ignore[arg-type]
    first.apply(first.plan())
    assert target.created == ["A.t0", "A.t1"]
    assert first.put_off == ("t2", "t3", "t4")
    later = TopicSync(source, target, RULES)  # type: ignore[arg-type]
    later.apply(later.plan())
    assert target.created == [f"A.t{number}" for number in range(5)]


def test_a_topic_that_a_broker_behind_the_others_lacks_is_made_all_the_same() -> None:
    """What was seen to change once and was planned by a second look, which did not show it, was never made."""
    source, target = Cluster(orders="1"), Cluster(A_orders="1")
    sync = TopicSync(source, target, RULES)  # type: ignore[arg-type]
    assert sync.plan().changes == ()
    looks = iter([{"orders": "1", "bills": "1"}, {"orders": "1"}, {"orders": "1", "bills": "1"}])
    listed = source.list_topics

    def list_by_turns() -> dict[str, Topic]:
        source.retentions = next(looks)
        return listed()

    source.list_topics = list_by_turns  # type: ignore[method-assign]
    sync.apply(sync.plan())
    assert target.created == ["A.bills"]
