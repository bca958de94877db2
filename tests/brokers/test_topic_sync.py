"""The topic job between two real clusters."""

from dataclasses import replace
from uuid import uuid4

import pytest

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import NewTopic
from sparkmirror.sync.change import Plan, sync_once
from sparkmirror.sync.configs import ConfigRules
from sparkmirror.sync.topic_job import TopicSync
from sparkmirror.sync.topics import CreateTopic, TopicRules


@pytest.fixture
def prefix() -> str:
    return f"sync-{uuid4().hex[:12]}-"


@pytest.fixture
def rules(prefix: str) -> TopicRules:
    return TopicRules(
        is_mirrored=lambda name: name.startswith(prefix),
        remote_name=lambda name: f"A.{name}",
        configs=ConfigRules(is_copied=lambda key: key not in ("min.insync.replicas", "retention.bytes")),
        replication_factor=1,
    )


def create(admin: Admin, *topics: NewTopic) -> None:
    assert set(admin.create_topics(topics).values()) == {None}


def test_remote_topics_are_created_with_partitions_and_explicit_settings(
    source: Admin, target: Admin, prefix: str, rules: TopicRules
) -> None:
    configs = {"cleanup.policy": "compact", "segment.bytes": "2097152", "retention.bytes": "1000000"}
    create(source, NewTopic(f"{prefix}a", 3, 1, configs), NewTopic(f"{prefix}b", 1, 1), NewTopic(f"x-{prefix}", 1, 1))
    report = sync_once(TopicSync(source, target, rules))
    assert report.failures == ()
    remote = target.list_topics([f"A.{prefix}a", f"A.{prefix}b", f"A.x-{prefix}"])
    assert {name: topic.partitions for name, topic in remote.items()} == {f"A.{prefix}a": 3, f"A.{prefix}b": 1}
    copied = target.describe_configs([f"A.{prefix}a"])[f"A.{prefix}a"]
    assert (copied["cleanup.policy"].value, copied["segment.bytes"].value) == ("compact", "2097152")
    assert copied["retention.bytes"].value == "-1", "excluded settings stay at the target's default"


def test_a_grown_topic_grows_its_remote_and_then_there_is_nothing_to_do(
    source: Admin, target: Admin, prefix: str, rules: TopicRules
) -> None:
    name = f"{prefix}orders"
    create(source, NewTopic(name, 2, 1))
    job = TopicSync(source, target, rules)
    sync_once(job)
    assert job.plan() == Plan()
    assert source.create_partitions({name: 5}) == {name: None}
    assert sync_once(job).failures == ()
    assert target.list_topics([f"A.{name}"])[f"A.{name}"].partitions == 5
    assert job.plan() == Plan()


def test_a_remote_topic_with_more_partitions_is_left_alone(
    source: Admin, target: Admin, prefix: str, rules: TopicRules
) -> None:
    create(source, NewTopic(f"{prefix}a", 1, 1))
    create(target, NewTopic(f"A.{prefix}a", 4, 1))
    assert TopicSync(source, target, rules).plan() == Plan()


def test_a_setting_that_the_target_does_not_know_costs_a_topic_nothing_else(
    source: Admin, target: Admin, prefix: str, rules: TopicRules
) -> None:
    name = f"A.{prefix}a"
    configs = {"message.downconversion.enable": "false", "segment.bytes": "14", "segment.ms": "60000"}
    failures = TopicSync(source, target, rules).apply(Plan((CreateTopic(name, f"{prefix}a", 1, 1, configs),)))
    assert len(failures) == 1
    assert failures[0].startswith(f"{name} is created without message.downconversion.enable=false, segment.bytes=14: ")
    assert target.topic_configs([name])[name]["segment.ms"] == "60000"


def test_one_bad_topic_does_not_spoil_the_rest(source: Admin, target: Admin, prefix: str, rules: TopicRules) -> None:
    create(source, *(NewTopic(f"{prefix}{letter}", 1, 1) for letter in "abc"))
    odd = replace(rules, remote_name=lambda name: "no/such/name" if name.endswith("b") else f"A.{name}")
    report = sync_once(TopicSync(source, target, odd))
    assert len(report.failures) == 1
    assert "creating topic no/such/name failed with INVALID_TOPIC" in report.failures[0]
    assert set(target.list_topics([f"A.{prefix}a", f"A.{prefix}c"])) == {f"A.{prefix}a", f"A.{prefix}c"}


def test_more_copies_than_brokers_are_reduced_with_a_warning(
    source: Admin, target: Admin, prefix: str, rules: TopicRules
) -> None:
    create(source, NewTopic(f"{prefix}a", 1, 1))
    report = sync_once(TopicSync(source, target, replace(rules, replication_factor=99)))
    brokers = len(target.brokers())
    assert report.failures == ()
    assert f"replication factor {brokers} instead of 99" in report.plan.warnings[0]
    assert target.list_topics([f"A.{prefix}a"])[f"A.{prefix}a"].replication_factor == brokers


def test_a_topic_made_by_somebody_else_in_between_is_no_failure(
    source: Admin, target: Admin, prefix: str, rules: TopicRules
) -> None:
    create(source, NewTopic(f"{prefix}a", 2, 1))
    job = TopicSync(source, target, rules)
    plan = job.plan()
    create(target, NewTopic(f"A.{prefix}a", 1, 1))
    assert job.apply(plan) == []
    assert sync_once(TopicSync(source, target, rules)).failures == ()
    assert target.list_topics([f"A.{prefix}a"])[f"A.{prefix}a"].partitions == 2
