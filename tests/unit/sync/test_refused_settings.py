"""A remote topic whose source has a setting that the target's brokers refuse."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace

from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.errors import INVALID_CONFIG, refusal
from sparkmirror.sync.change import Plan
from sparkmirror.sync.topic_job import TopicSync
from sparkmirror.sync.topics import CreateTopic, TopicRules

RULES = TopicRules(is_mirrored=lambda _: True, remote_name=lambda name: name)
OLD, KEPT = "message.downconversion.enable", "retention.ms"
POLICY_VIOLATION = 44


class Target:
    """Refuses topics that have one setting, for whatever reason."""

    def __init__(self, code: int) -> None:
        self._code = code
        self.created: dict[str, Mapping[str, str]] = {}
        self.rehearsed = 0

    def rehearse_topics(self, topics: Sequence[NewTopic]) -> dict[str, SparkMirrorError | None]:
        self.rehearsed += 1
        return {topic.name: self._problem(topic) for topic in topics}

    def _problem(self, topic: NewTopic) -> SparkMirrorError | None:
        if OLD not in topic.configs:
            return None
        return refusal(self._code, "B", f"creating topic {topic.name}", "Unknown")

    def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, SparkMirrorError | None]:
        outcome = self.rehearse_topics(topics)
        self.rehearsed -= 1
        self.created |= {topic.name: topic.configs for topic in topics if outcome[topic.name] is None}
        return outcome


def apply(target: Target, *topics: CreateTopic) -> Sequence[str]:
    sync = TopicSync(SimpleNamespace(), target, RULES)  # type: ignore[arg-type]
    return sync.apply(Plan(topics))


def topic(name: str, **configs: str) -> CreateTopic:
    return CreateTopic(name, name, 1, 1, {key.replace("_", "."): value for key, value in configs.items()})


def test_a_topic_is_created_without_the_setting_that_the_target_refuses() -> None:
    target = Target(INVALID_CONFIG)
    configs = {"message_downconversion_enable": "false", "retention_ms": "1000"}
    told = apply(target, topic("a", **configs), topic("b", retention_ms="1000"), topic("c", **configs))
    assert target.created == {name: {KEPT: "1000"} for name in "abc"}
    why = "Cluster B: creating topic {} failed with INVALID_CONFIG: Unknown."
    assert told == [f"{name} is created without {OLD}=false: {why.format(name)}" for name in "ac"]
    assert target.rehearsed == 2, "each setting once"


def test_a_topic_that_is_refused_for_another_reason_is_not_created() -> None:
    target = Target(POLICY_VIOLATION)
    told = apply(target, topic("a", message_downconversion_enable="false"))
    assert target.created == {}
    assert len(told) == 1
    assert told[0].startswith("Cluster B: creating topic a failed with POLICY_VIOLATION: Unknown.")
