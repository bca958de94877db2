"""The settings job between two real clusters."""

import time
from dataclasses import replace
from uuid import uuid4

import pytest
from tests.oracle import DEADLINE_SECONDS_LEAST

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.kafka.topic_settings import Settings, alter_topics
from sparkmirror.sync.change import Plan, sync_once
from sparkmirror.sync.config_job import ConfigSync
from sparkmirror.sync.configs import ConfigRules, ResetConfig, SetConfig
from sparkmirror.sync.topic_job import TopicSync
from sparkmirror.sync.topics import TopicRules


@pytest.fixture
def prefix() -> str:
    return f"settings-{uuid4().hex[:12]}-"


@pytest.fixture
def rules(prefix: str) -> TopicRules:
    configs = ConfigRules(
        is_copied=lambda key: key != "min.insync.replicas",
        is_protected=lambda topic, key: key == "retention.bytes",
    )
    return TopicRules(lambda name: name.startswith(prefix), lambda name: f"A.{name}", configs, 1)


def alter(admin: Admin, topic: str, settings: Settings) -> None:
    wanted = {**overrides(admin, topic), **settings}
    assert alter_topics(admin, {topic: settings}) == []
    await_overrides(admin, topic, {key: value for key, value in wanted.items() if value is not None})


def await_overrides(admin: Admin, topic: str, wanted: dict[str, str]) -> None:
    """Brokers know of a change a moment after the controller has answered."""
    deadline = time.monotonic() + DEADLINE_SECONDS_LEAST
    while (found := overrides(admin, topic)) != wanted:
        assert time.monotonic() < deadline, f"{topic} has {found}, not {wanted}"
        time.sleep(0.02)


def overrides(admin: Admin, topic: str) -> dict[str, str | None]:
    return {key: entry.value for key, entry in admin.describe_configs([topic])[topic].items() if entry.is_override}


def test_remote_topics_follow_their_source(source: Admin, target: Admin, prefix: str, rules: TopicRules) -> None:
    orders = f"{prefix}orders"
    created = {"cleanup.policy": "compact", "retention.bytes": "1000000", "min.insync.replicas": "1"}
    assert source.create_topics([NewTopic(orders, 1, 1, created)]) == {orders: None}
    sync_once(TopicSync(source, target, rules))
    assert overrides(target, f"A.{orders}") == {"cleanup.policy": "compact", "retention.bytes": "1000000"}
    job = ConfigSync(source, target, rules)
    assert job.plan() == Plan(), "a new remote topic is in step"
    alter(source, orders, {"cleanup.policy": None, "segment.bytes": "2097152", "retention.bytes": "2000000"})
    alter(target, f"A.{orders}", {"max.message.bytes": "2000", "min.insync.replicas": "1", "retention.bytes": "5"})
    assert job.plan().changes == (
        ResetConfig(f"A.{orders}", orders, "cleanup.policy", "compact"),
        ResetConfig(f"A.{orders}", orders, "max.message.bytes", "2000"),
        SetConfig(f"A.{orders}", orders, "segment.bytes", "2097152"),
    )
    assert sync_once(job).failures == ()
    kept = {"min.insync.replicas": "1", "retention.bytes": "5"}
    await_overrides(target, f"A.{orders}", {"segment.bytes": "2097152", **kept})
    assert job.plan() == Plan(), "an applied plan leaves nothing to plan"


def test_defaults_of_the_source_are_pinned_when_asked(
    source: Admin, target: Admin, prefix: str, rules: TopicRules
) -> None:
    defaults = ConfigRules(rules.configs.is_copied, copies_default=lambda key: key == "retention.bytes")
    from_source = replace(rules, configs=defaults)
    orders = f"{prefix}orders"
    assert source.create_topics([NewTopic(orders, 1, 1)]) == {orders: None}
    assert target.create_topics([NewTopic(f"A.{orders}", 1, 1, {"retention.bytes": "9"})]) == {f"A.{orders}": None}
    assert sync_once(ConfigSync(source, target, from_source)).failures == ()
    await_overrides(target, f"A.{orders}", {"retention.bytes": "-1"})


def test_a_value_that_the_target_refuses_does_not_spoil_the_others(target: Admin, prefix: str) -> None:
    good, bad = f"{prefix}good", f"{prefix}bad"
    assert target.create_topics([NewTopic(good, 1, 1), NewTopic(bad, 1, 1)]) == {good: None, bad: None}
    wrong = {"retention.ms": "many", "segment.bytes": "2097152"}
    (failure,) = alter_topics(target, {good: {"retention.ms": "60000"}, bad: wrong, f"{prefix}gone": {}})
    assert f"Cluster B: changing retention.ms of topic {bad} failed with INVALID_CONFIG" in str(failure)
    await_overrides(target, good, {"retention.ms": "60000"})
    await_overrides(target, bad, {"segment.bytes": "2097152"})


def test_a_topic_that_is_gone_is_reported_and_does_not_spoil_the_others(target: Admin, prefix: str) -> None:
    there, gone = f"{prefix}there", f"{prefix}gone"
    assert target.create_topics([NewTopic(there, 1, 1)]) == {there: None}
    (failure,) = alter_topics(target, {gone: {"retention.ms": "1"}, there: {"retention.ms": "60000"}})
    assert f"changing retention.ms of topic {gone} failed with UNKNOWN_TOPIC_OR_PARTITION" in str(failure)
    await_overrides(target, there, {"retention.ms": "60000"})
