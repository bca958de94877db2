"""A user's own Python classes in place of MirrorMaker's Java ones, `module:Class` in the file; called by `config`.

The contracts are Java's (`ReplicationPolicy`, `TopicFilter`, `ConfigPropertyFilter`, `GroupFilter`), in Python's words.
A class is made without arguments and may have `configure(properties)`, which gets the flow's properties as
MirrorMaker's connectors do. docs/policies.md has examples.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from sparkmirror.policy.filters import NameFilter, TopicFilter
from sparkmirror.policy.naming import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy


class OwnTopics(Protocol):
    """Contract of a `topic.filter.class`."""

    def should_replicate_topic(self, topic: str) -> bool:
        """Whether the source topic is wanted. Internal topics and those on their way home are left out in any case."""


class OwnConfigs(Protocol):
    """Contract of a `config.property.filter.class`."""

    def should_replicate_config_property(self, name: str) -> bool:
        """Whether the topic setting `name` is copied."""

    def should_replicate_source_default(self, name: str) -> bool:
        """Whether it is copied even where the source has Kafka's default."""


class OwnGroups(Protocol):
    """Contract of a `group.filter.class`."""

    def should_replicate_group(self, group: str) -> bool:
        """Whether the consumer group is wanted."""


_NAMING = tuple(name for name in vars(ReplicationPolicy) if not name.startswith("_"))
_TOPICS = ("should_replicate_topic",)
_CONFIGS = ("should_replicate_config_property", "should_replicate_source_default")
_GROUPS = ("should_replicate_group",)


@dataclass(frozen=True, slots=True)
class OwnTopicFilter(TopicFilter):
    """A flow's topics as a class of the user's decides. To the search for loops it may want any topic."""

    own: OwnTopics | None = None

    def accepts(self, name: str) -> bool:
        return self.own is not None and bool(self.own.should_replicate_topic(name))


@dataclass(frozen=True, slots=True)
class OwnGroupFilter(NameFilter):
    """A flow's consumer groups as a class of the user's decides."""

    own: OwnGroups | None = None

    def accepts(self, name: str) -> bool:
        return self.own is not None and bool(self.own.should_replicate_group(name))


def load_policy(spec: str, properties: Mapping[str, str]) -> ReplicationPolicy:
    """The naming `spec`. One derived from a built-in policy gets the separator. Raises ValueError with a phrase."""
    separator = properties.get("replication.policy.separator", ".")
    internal = properties.get("replication.policy.internal.topic.separator.enabled", "true").lower() != "false"
    found = _find(spec)
    arguments: tuple[Any, ...] = ()
    if isinstance(found, type) and issubclass(found, DefaultReplicationPolicy) and "__init__" not in vars(found):
        identity = issubclass(found, IdentityReplicationPolicy)
        arguments = (separator, internal, *((properties["source.cluster.alias"],) if identity else ()))
    return cast(ReplicationPolicy, _made(spec, found, arguments, properties, _NAMING))


def load_topics(spec: str, properties: Mapping[str, str], *, heartbeats: bool) -> OwnTopicFilter:
    """The topic filter `spec`. Raises ValueError with a phrase."""
    own = cast(OwnTopics, _made(spec, _find(spec), (), properties, _TOPICS))
    return OwnTopicFilter((".*",), (), heartbeats, own)


def load_configs(spec: str, properties: Mapping[str, str]) -> OwnConfigs:
    """The filter of topic settings `spec`. Raises ValueError with a phrase."""
    return cast(OwnConfigs, _made(spec, _find(spec), (), properties, _CONFIGS))


def load_groups(spec: str, properties: Mapping[str, str]) -> OwnGroupFilter:
    """The group filter `spec`. Raises ValueError with a phrase."""
    return OwnGroupFilter(own=cast(OwnGroups, _made(spec, _find(spec), (), properties, _GROUPS)))


def _find(spec: str) -> Any:
    module_name, _, class_name = spec.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{module_name}.".startswith(f"{missing.name}."):
            raise ValueError(f"cannot be imported: the module {missing.name} is missing") from None
        raise ValueError(f"names the module {module_name}, which Python does not find; see PYTHONPATH") from None
    except Exception as problem:
        raise ValueError(f"cannot be imported: {_said(problem)}") from None
    if not callable(found := getattr(module, class_name, None)):
        raise ValueError(f"names {class_name}, and the module {module_name} has no such class")
    return found


def _made(
    spec: str, found: Any, arguments: tuple[Any, ...], properties: Mapping[str, str], names: tuple[str, ...]
) -> Any:
    try:
        made = found(*arguments)
        if missing := [name for name in names if not callable(getattr(made, name, None))]:
            raise ValueError(f"lacks {', '.join(missing)}")
        if callable(configure := getattr(made, "configure", None)):
            configure(dict(properties))
    except ValueError:
        raise
    except Exception as problem:
        raise ValueError(f"cannot be used: {spec} raised {_said(problem)}") from None
    return made


def _said(problem: Exception) -> str:
    return f"{type(problem).__name__}: {' '.join(str(problem).split())}"
