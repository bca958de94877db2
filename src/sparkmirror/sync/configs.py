"""Plans which settings of remote topics to change; pure. `sync.config_job` observes and applies.

MirrorMaker's rules (`MirrorSourceConnector.targetConfig`, `ConfigPropertyFilter`): an explicit value of the source is
set on the remote topic, a default of the source removes what is set there, or is set itself where defaults are taken
from the source. Values from a broker's file, read-only, hidden and excluded ones are left alone. Beyond it: only what
differs is sent, and settings can be protected.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sparkmirror.kafka.answers import ConfigEntry
from sparkmirror.sync.change import Change, Plan


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


def plan_configs(pairs: list[SettingsPair], rules: ConfigRules) -> Plan:
    """The changes that bring the settings of remote topics in step; pure, and empty once applied."""
    changes: list[Change] = []
    unknown: dict[str, str] = {}
    for pair in sorted(pairs, key=lambda pair: pair.source_topic):
        for key, entry in sorted(pair.source.items()):
            if not entry.is_copyable or not rules.is_copied(key) or rules.is_protected(pair.name, key):
                continue
            changes += _plan_setting(pair, key, entry, rules)
            if not entry.is_default and key not in pair.target:
                unknown.setdefault(key, pair.name)
    warnings = [
        f"The target does not know the setting {key}: it is not copied, to {name} for example."
        for key, name in unknown.items()
    ]
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
