"""Plans which settings of remote topics to change; pure. `sync.config_job` observes and applies.

MirrorMaker's rules (`MirrorSourceConnector.targetConfig`, `ConfigPropertyFilter`): an explicit value of the source is
set on the remote topic, a default of the source removes what is set there, or is set itself where defaults are taken
from the source. Values from a broker's file, read-only, hidden and excluded ones are left alone. Beyond it: only what
differs is sent, and settings can be protected; and what a person sets so that a start can be filled, where offsets are
kept, stays until it is.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sparkmirror.kafka.answers import ConfigEntry
from sparkmirror.sync.change import Change, Plan

POLICY: Final = "cleanup.policy"
COMPACT: Final = "compact"
FOR_STARTS: Final = {POLICY: "compact,delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""What a person sets on a remote topic, where its source has `compact`, so that brokers delete the empty records of a
start (DeleteRecords), and nothing else: they refuse it where a topic is only compacted."""


def _never(*_: str) -> bool:
    return False


def _always(*_: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class SetConfig:
    """Give the remote topic `name` the source's value; `value_now` is its own override, None without one."""

    name: str
    source_topic: str
    key: str
    value: str
    value_now: str | None = None

    @property
    def sentence(self) -> str:
        before = "" if self.value_now is None else f" instead of {self.value_now}"
        return f"set {self.key}={self.value}{before} on {self.name}, like {self.source_topic}"


@dataclass(frozen=True, slots=True)
class ResetConfig:
    """Remove an override from the remote topic `name`, because `source_topic` has none."""

    name: str
    source_topic: str
    key: str
    value_now: str | None

    @property
    def sentence(self) -> str:
        return f"reset {self.key}={self.value_now} on {self.name} to its default, like {self.source_topic}"


@dataclass(frozen=True, slots=True)
class ConfigRules:
    """What the configuration says about settings.

    `is_copied` and `copies_default` are `ConfigPropertyFilter`'s two questions, by name of the setting. `is_protected`
    is asked with the remote topic and the setting: a new topic is given such a setting, later it is the target's own.
    """

    is_copied: Callable[[str], bool] = _always
    copies_default: Callable[[str], bool] = _never
    is_protected: Callable[[str, str], bool] = _never


@dataclass(frozen=True, slots=True)
class SettingsPair:
    """All settings of a source topic and of its remote topic `name`."""

    name: str
    source_topic: str
    source: Mapping[str, ConfigEntry]
    target: Mapping[str, ConfigEntry]

    @property
    def is_for_starts(self) -> bool:
        """Whether a person has set that records of a compacted topic can be deleted on the target."""
        here, there = self.source.get(POLICY), self.target.get(POLICY)
        if here is None or there is None or not there.is_override:
            return False
        return here.value == COMPACT and set((there.value or "").split(",")) == {COMPACT, "delete"}


def initial_settings(source: Mapping[str, ConfigEntry], rules: ConfigRules) -> dict[str, str]:
    """The settings of a new remote topic."""
    return {
        key: entry.value
        for key, entry in source.items()
        if entry.value is not None
        and entry.is_copyable
        and rules.is_copied(key)
        and (not entry.is_default or rules.copies_default(key))
    }


def plan_configs(pairs: list[SettingsPair], rules: ConfigRules, unfilled: Collection[str] = ()) -> Plan:
    """The changes that bring the settings of remote topics in step; pure, and empty once applied. The starts of
    `unfilled` ones are not filled yet: what a person has set for that stays."""
    changes: list[Change] = []
    unknown: dict[str, str] = {}
    waiting: list[str] = []
    for pair in sorted(pairs, key=lambda pair: pair.source_topic):
        stays: Collection[str] = FOR_STARTS if pair.name in unfilled and pair.is_for_starts else ()
        waiting += [pair.name] if stays else []
        for key, entry in sorted(pair.source.items()):
            if not entry.is_copyable or not rules.is_copied(key) or rules.is_protected(pair.name, key) or key in stays:
                continue
            changes += _plan_setting(pair, key, entry, rules)
            if not entry.is_default and key not in pair.target:
                unknown.setdefault(key, pair.name)
    warnings = [
        f"The target does not know the setting {key}: it is not copied, to {name} for example."
        for key, name in unknown.items()
    ]
    warnings += [f"{name} keeps its {POLICY} and its retention until its start is filled." for name in waiting]
    return Plan(tuple(changes), tuple(warnings))


def _plan_setting(pair: SettingsPair, key: str, entry: ConfigEntry, rules: ConfigRules) -> Iterator[Change]:
    there = pair.target.get(key)
    if there is None:
        return
    override = there.value if there.is_override else None
    if entry.is_default and not rules.copies_default(key):
        if there.is_override:
            yield ResetConfig(pair.name, pair.source_topic, key, override)
    elif entry.value is not None and not (there.is_override and there.value == entry.value):
        yield SetConfig(pair.name, pair.source_topic, key, entry.value, override)
