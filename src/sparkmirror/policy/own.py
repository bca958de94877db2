"""A user's own classes in place of MirrorMaker's: of Python, `module:Class` in the file, or Java. Called by `config`.

The contracts are Java's (`ReplicationPolicy`, `TopicFilter`, `ConfigPropertyFilter`, `GroupFilter`), in Python's words.
A class is made without arguments and may have `configure(properties)`, which gets the flow's properties as
MirrorMaker's connectors do. docs/policies.md has examples.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from sparkmirror.own_class import find_class, make_instance
from sparkmirror.plugins import ClassPath
from sparkmirror.policy.filters import NameFilter, TopicFilter
from sparkmirror.policy.java_classes import (
    CONFIG_FILTER,
    GROUP_FILTER,
    POLICY,
    TOPIC_FILTER,
    JavaFilter,
    JavaInstance,
    JavaPolicy,
)
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


@dataclass(frozen=True, slots=True)
class OwnClasses:
    """Makes them for one flow: `properties` configure them, those of Java are looked for in `where`.

    A spec is `module:Class`, or the name of a Java class. All methods raise ValueError with a phrase about it.
    """

    properties: Mapping[str, str]
    where: ClassPath = field(default_factory=ClassPath)

    def policy(self, spec: str) -> ReplicationPolicy:
        """The naming. A Python one that is derived from a built-in policy gets the separator."""
        if _is_java(spec):
            return JavaPolicy(self._java(spec, POLICY))
        properties, found = self.properties, find_class(spec)
        separator = properties.get("replication.policy.separator", ".")
        internal = properties.get("replication.policy.internal.topic.separator.enabled", "true").lower() != "false"
        arguments: tuple[Any, ...] = ()
        if isinstance(found, type) and issubclass(found, DefaultReplicationPolicy) and "__init__" not in vars(found):
            identity = issubclass(found, IdentityReplicationPolicy)
            arguments = (separator, internal, *((properties["source.cluster.alias"],) if identity else ()))
        return cast(ReplicationPolicy, make_instance(spec, found, arguments, properties, _NAMING))

    def topics(self, spec: str, *, heartbeats: bool) -> OwnTopicFilter:
        """The topic filter."""
        return OwnTopicFilter((".*",), (), heartbeats, cast(OwnTopics, self._filter(spec, TOPIC_FILTER, _TOPICS)))

    def configs(self, spec: str) -> OwnConfigs:
        """The filter of topic settings."""
        return cast(OwnConfigs, self._filter(spec, CONFIG_FILTER, _CONFIGS))

    def groups(self, spec: str) -> OwnGroupFilter:
        """The group filter."""
        return OwnGroupFilter(own=cast(OwnGroups, self._filter(spec, GROUP_FILTER, _GROUPS)))

    def _filter(self, spec: str, interface: str, names: tuple[str, ...]) -> Any:
        if _is_java(spec):
            return JavaFilter(self._java(spec, interface))
        return make_instance(spec, find_class(spec), (), self.properties, names)

    def _java(self, name: str, interface: str) -> JavaInstance:
        return JavaInstance(name, interface, self.properties, self.where)


def _is_java(spec: str) -> bool:
    return ":" not in spec
