"""How a topic is called on the target, and what a name says about where a topic came from.

The two built-in policies of MirrorMaker 2 (KIP-382, KIP-690, KIP-949, KIP-1074), rule for rule as release 4.3 has them:
`DefaultReplicationPolicy` and `IdentityReplicationPolicy` of `connect-mirror-client`. Pure. Called by the topic filter,
by the flow's plan and by everything that names an internal topic.
"""

import re
from dataclasses import dataclass
from typing import Protocol

HEARTBEATS_TOPIC = "heartbeats"
_TOPIC = re.compile(r"(?!\.{1,2}$|__|mm2-)[A-Za-z0-9._-]{1,249}", re.ASCII)


class ReplicationPolicy(Protocol):
    """The contract of Java's `ReplicationPolicy`. Names are topic names; a source is a cluster alias."""

    def format_remote_topic(self, source: str, topic: str) -> str:
        """The target's name of `topic` of cluster `source`."""

    def topic_source(self, topic: str) -> str | None:
        """The cluster that `topic` was mirrored from last; None for a topic that was not mirrored."""

    def upstream_topic(self, topic: str) -> str | None:
        """The name of `topic` on its source; None for a topic that was not mirrored."""

    def original_topic(self, topic: str) -> str:
        """The name of `topic` on the cluster where it was first written."""

    def is_internal_topic(self, topic: str) -> bool:
        """Whether the topic belongs to Kafka or MirrorMaker and is never mirrored."""

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether the topic is `heartbeats`, here or after any number of hops."""

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether the topic holds MirrorMaker's checkpoints."""

    def heartbeats_topic(self) -> str:
        """The heartbeats topic of any cluster."""

    def offset_syncs_topic(self, alias: str) -> str:
        """The offset-syncs topic for the *other* cluster `alias`."""

    def checkpoints_topic(self, source: str) -> str:
        """The checkpoints topic, on the target, of flows from `source`."""


@dataclass(frozen=True, slots=True)
class DefaultReplicationPolicy:
    """Remote topics carry their source's alias: `A.orders`.

    Any topic with the separator in its name counts as remote, as in MirrorMaker: `orders.eu` has the source `orders`.
    `internal_separator_enabled` says whether internal topics use the separator too (KIP-949).
    """

    separator: str = "."
    internal_separator_enabled: bool = True

    def format_remote_topic(self, source: str, topic: str) -> str:
        return f"{source}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        if not self.separator:  # Java's split parts the letters
            return topic[0] if len(topic) > 1 else None
        source, found, rest = topic.partition(self.separator)
        # Java's split drops trailing empty parts, so `foo.` and `..` have one part or none: not remote.
        return source if found and rest.replace(self.separator, "") else None

    def upstream_topic(self, topic: str) -> str | None:
        source = DefaultReplicationPolicy.topic_source(self, topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        while (upstream := self.upstream_topic(topic)) is not None and upstream != topic:
            topic = upstream
        return topic

    def is_internal_topic(self, topic: str) -> bool:
        return (
            topic.startswith(("__", "."))
            or (topic.startswith("mm2") and topic.endswith(f"{self._internal_separator}internal"))
            or self.is_checkpoints_topic(topic)
        )

    def is_heartbeats_topic(self, topic: str) -> bool:
        return self.original_topic(topic) == HEARTBEATS_TOPIC

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(self.checkpoints_topic(""))

    def heartbeats_topic(self) -> str:
        return HEARTBEATS_TOPIC

    def offset_syncs_topic(self, alias: str) -> str:
        return self._internal_separator.join(("mm2-offset-syncs", alias, "internal"))

    def checkpoints_topic(self, source: str) -> str:
        return self._internal_separator.join((source, "checkpoints", "internal"))

    @property
    def _internal_separator(self) -> str:
        return self.separator if self.internal_separator_enabled else "."


@dataclass(frozen=True, slots=True)
class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Remote topics keep their names (KIP-382's successor of MirrorMaker 1), so a name tells nothing about loops.

    `source` is the alias of the flow's source: every topic is said to come from there. Names that *end in*
    `heartbeats` are prefixed all the same, because heartbeats must show how many clusters they crossed.
    """

    source: str | None = None

    def format_remote_topic(self, source: str, topic: str) -> str:
        if _looks_like_heartbeats(topic):
            return DefaultReplicationPolicy.format_remote_topic(self, source, topic)
        return topic

    def topic_source(self, topic: str) -> str | None:
        if _looks_like_heartbeats(topic):
            return DefaultReplicationPolicy.topic_source(self, topic)
        return self.source

    def upstream_topic(self, topic: str) -> str | None:
        if _looks_like_heartbeats(topic):
            return DefaultReplicationPolicy.upstream_topic(self, topic)
        return topic


@dataclass(frozen=True, slots=True)
class SameNamePolicy(IdentityReplicationPolicy):
    """Every topic keeps its name, as MirrorMaker 1 has it: no exception for heartbeats, which it does not know.

    Left out are the brokers' own topics and those in which mirrors keep their positions: in a chain they would be
    taken for the next mirror's.
    """

    def format_remote_topic(self, source: str, topic: str) -> str:  # noqa: ARG002
        return topic

    def topic_source(self, topic: str) -> str | None:  # noqa: ARG002
        return self.source

    def upstream_topic(self, topic: str) -> str | None:
        return topic

    def is_internal_topic(self, topic: str) -> bool:
        return topic in _BROKER_TOPICS or (topic.startswith("mm2-") and topic.endswith(".internal"))

    def is_heartbeats_topic(self, topic: str) -> bool:  # noqa: ARG002
        return False


_BROKER_TOPICS = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata", "__remote_log_metadata"}
)


def can_hold_data(topic: str) -> bool:
    """Whether users may send records to a topic of this name: brokers take it, and it is not internal."""
    return _TOPIC.fullmatch(topic) is not None


def is_built_in(policy: ReplicationPolicy) -> bool:
    """Whether the policy is one of this module: what it does is known, and can be written as a Spark expression."""
    return type(policy) in (DefaultReplicationPolicy, IdentityReplicationPolicy, SameNamePolicy)


def added_prefix(policy: ReplicationPolicy, source: str) -> str:
    """What a built-in policy puts before every name of a flow from `source`; "" where it keeps names or is another."""
    return policy.format_remote_topic(source, "") if type(policy) is DefaultReplicationPolicy else ""


def _looks_like_heartbeats(topic: str) -> bool:
    return topic.endswith(HEARTBEATS_TOPIC)
