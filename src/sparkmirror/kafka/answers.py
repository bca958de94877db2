"""What `kafka.admin.Admin` takes and returns; without I/O and without the client, so that pure planners may use it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sparkmirror.errors import ClusterError

EARLIEST = -2
LATEST = -1
NO_LEADER = -1
LITERAL = "LITERAL"
PREFIXED = "PREFIXED"


class TopicExists(ClusterError):
    """The topic exists already; its creator may go on."""


class Leader(NamedTuple):
    """The leader of a partition: a node id, or NO_LEADER, and the leader epoch (KIP-320)."""

    node_id: int
    epoch: int


class ConfigSource:
    """Where a setting's value comes from (`DescribeConfigsResponse.ConfigSource`)."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a topic. `value` is None where the cluster hides it; `source` is one of `ConfigSource`."""

    value: str | None
    source: int
    read_only: bool
    sensitive: bool

    @property
    def is_explicit(self) -> bool:
        """MirrorMaker's rule (`MirrorSourceConnector.targetConfig`): neither a default nor from a broker's file.

        Dynamic broker settings count, so they reach the remote topics as they do with MirrorMaker.
        """
        return self.is_copyable and not self.is_default

    @property
    def is_copyable(self) -> bool:
        """Whether MirrorMaker considers the setting at all: not read-only, not hidden, not from a broker's file."""
        return not (self.read_only or self.sensitive or self.source == ConfigSource.STATIC_BROKER)

    @property
    def is_default(self) -> bool:
        """Whether Kafka's built-in default is in force."""
        return self.source == ConfigSource.DEFAULT

    @property
    def is_override(self) -> bool:
        """Whether the topic itself sets the value."""
        return self.source == ConfigSource.TOPIC


class AclBinding(NamedTuple):
    """One ACL of topics, in Kafka's words: `READ`, `ALLOW`, `LITERAL`, `User:alice`."""

    topic: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str

    def __str__(self) -> str:
        topics = f"topics beginning with {self.topic}" if self.pattern == PREFIXED else f"topic {self.topic}"
        host = "" if self.host == "*" else f" from {self.host}"
        return f"{self.permission} {self.operation} on {topics} for {self.principal}{host}"


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. A replication factor of -1 leaves it to the brokers (KIP-464)."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)
