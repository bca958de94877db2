"""Which settings of remote topics are changed, case by case."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from sparkmirror.kafka.answers import ConfigEntry, ConfigSource
from sparkmirror.sync.change import Change, Plan
from sparkmirror.sync.configs import (
    ConfigRules,
    ResetConfig,
    SetConfig,
    SettingsPair,
    initial_settings,
    plan_configs,
)

KEY = "retention.ms"
RULES = ConfigRules(is_copied=lambda key: key != "min.insync.replicas")
FROM_SOURCE = replace(RULES, copies_default=lambda key: True)


def own(value: str) -> ConfigEntry:
    return ConfigEntry(value, ConfigSource.TOPIC, read_only=False, sensitive=False)


def default(value: str = "7") -> ConfigEntry:
    return ConfigEntry(value, ConfigSource.DEFAULT, read_only=False, sensitive=False)


def dynamic(value: str) -> ConfigEntry:
    return ConfigEntry(value, ConfigSource.ALL_BROKERS, read_only=False, sensitive=False)


def from_file(value: str) -> ConfigEntry:
    return ConfigEntry(value, ConfigSource.STATIC_BROKER, read_only=False, sensitive=False)


def pair(source: Mapping[str, ConfigEntry], target: Mapping[str, ConfigEntry]) -> SettingsPair:
    return SettingsPair("A.orders", "orders", source, target)


def setting(value: str, now: str | None = None) -> SetConfig:
    return SetConfig("A.orders", "orders", KEY, value, now)


def reset(now: str) -> ResetConfig:
    return ResetConfig("A.orders", "orders", KEY, now)


@pytest.mark.parametrize(
    ("source", "target", "target_wins", "source_wins"),
    [
        (own("1"), default(), setting("1"), setting("1")),
        (own("1"), own("2"), setting("1", "2"), setting("1", "2")),
        (own("1"), own("1"), None, None),
        (own("1"), dynamic("1"), setting("1"), setting("1")),
        (dynamic("1"), default(), setting("1"), setting("1")),
        (default(), own("2"), reset("2"), setting("7", "2")),
        (default(), default("9"), None, setting("7")),
        (default(), from_file("9"), None, setting("7")),
        (from_file("1"), own("2"), None, None),
    ],
    ids=[
        "explicit",
        "another value there",
        "in step",
        "equal, but not its own",
        "a dynamic default of the source's brokers",
        "removed on the source",
        "default on both",
        "the target's brokers have another default",
        "from the file of the source's broker",
    ],
)
def test_the_settings_plan_follows_the_source_unless_the_target_wins(
    source: ConfigEntry, target: ConfigEntry, target_wins: Change | None, source_wins: Change | None
) -> None:
    pairs = [pair({KEY: source}, {KEY: target})]
    assert plan_configs(pairs, RULES) == Plan((target_wins,) if target_wins else ())
    assert plan_configs(pairs, FROM_SOURCE) == Plan((source_wins,) if source_wins else ())


def test_excluded_hidden_and_read_only_settings_are_left_alone() -> None:
    entries = {
        "min.insync.replicas": own("2"),
        "secret": replace(own("1"), sensitive=True, value=None),
        "fixed": replace(own("1"), read_only=True),
    }
    there = dict.fromkeys(entries, own("9"))
    assert plan_configs([pair(entries, there)], RULES) == Plan()
    assert initial_settings(entries, RULES) == {}


def test_a_protected_setting_is_given_at_creation_and_then_is_the_targets_own() -> None:
    rules = replace(RULES, is_protected=lambda topic, key: (topic, key) == ("A.orders", KEY))
    assert initial_settings({KEY: own("1")}, rules) == {KEY: "1"}
    assert plan_configs([pair({KEY: own("1")}, {KEY: own("2")})], rules) == Plan()
    elsewhere = SettingsPair("A.other", "other", {KEY: own("1")}, {KEY: own("2")})
    assert plan_configs([elsewhere], rules).changes == (SetConfig("A.other", "other", KEY, "1", "2"),)


def test_a_setting_that_the_target_does_not_know_is_reported_once_and_not_sent() -> None:
    pairs = [replace(pair({"new.feature": own("1")}, {}), name=name) for name in ("A.a", "A.b")]
    plan = plan_configs(pairs, RULES)
    assert plan.changes == ()
    assert plan.warnings == ("The target does not know the setting new.feature: it is not copied, to A.a for example.",)


def test_new_topics_take_explicit_values_and_defaults_only_when_asked() -> None:
    entries = {
        "a": own("1"),
        "b": default("2"),
        "c": dynamic("3"),
        "d": from_file("4"),
        "min.insync.replicas": own("5"),
    }
    assert initial_settings(entries, RULES) == {"a": "1", "c": "3"}
    assert initial_settings(entries, FROM_SOURCE) == {"a": "1", "b": "2", "c": "3"}


def test_changes_read_as_sentences() -> None:
    assert setting("1").sentence == "set retention.ms=1 on A.orders, like orders"
    assert setting("1", "2").sentence == "set retention.ms=1 instead of 2 on A.orders, like orders"
    assert reset("2").sentence == "reset retention.ms=2 on A.orders to its default, like orders"
