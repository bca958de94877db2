"""The nouns every other module shares. Frozen, without I/O.

An *offset* in this project is always the offset of the **next** record to read or write, as in Kafka's consumer
positions. The one exception lives at the edge: Kafka Connect's offsets topic stores the offset of the last mirrored
record, and `ledger.connect` converts there and nowhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple, Self
from uuid import UUID

NO_EPOCH = -1
NO_TOPIC_ID = UUID(int=0)

Epochs = tuple[tuple[int, int], ...]
"""Leader epochs of what was read of a log (KIP-320), each with the offset from which on it was; oldest first."""


def is_another_topic(known: object, found: UUID) -> bool:
    """Whether the topic that was known by its id is another one than has the name now: it was deleted and made again.
    False where either id is unknown."""
    if known is found:  # as a rule, and of each batch that was mirrored
        return False
    return NO_TOPIC_ID not in (known, found) and known != found


ANOTHER_ID_SECONDS: Final = 0.5
"""Another id of a topic than the known one counts when it was shown twice, by two looks so far apart: a broker that
stood still first answers with what it knew, also with ids of topics that are gone."""


class TopicPartition(NamedTuple):
    """One partition of one topic; prints as Kafka writes it, `orders-3`. A tuple, whose hash no Python code makes."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class FlowName:
    """An ordered pair of cluster aliases; prints as MirrorMaker writes it, `A->B`."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster as configured: its alias and Kafka client properties under Java names (`bootstrap.servers`, `ssl.…`).

    `client` may hold secrets: it is kept out of `repr`.
    """

    alias: str
    client: Mapping[str, str] = field(repr=False)

    @property
    def bootstrap_servers(self) -> str:
        return self.client["bootstrap.servers"]


@dataclass(frozen=True, slots=True)
class Connector:
    """MirrorMaker's source connector as Kafka Connect on the target knows it.

    Positions are kept under its name; transactional ids are made of the name and of the workers' group.
    """

    source_alias: str
    group: str
    name: str

    @classmethod
    def of_dedicated_mode(cls, source_alias: str) -> Self:
        """As MirrorMaker names them when it runs by itself, without `group.id` in its file."""
        return cls(source_alias, f"{source_alias}-mm2", "MirrorSourceConnector")


@dataclass(frozen=True, slots=True)
class Position:
    """Where a source partition stands: the next offset to mirror, and how to recognise the log it belongs to.

    `epochs` are the leader epochs of what was mirrored, `topic_id` is the source topic's id (KIP-516). The three are
    one value: an offset of one log says nothing about another one (`ledger.lineage`).
    """

    offset: int
    epochs: Epochs = ()
    topic_id: UUID = NO_TOPIC_ID

    @property
    def leader_epoch(self) -> int:
        """Of the last mirrored batch, NO_EPOCH where that is not known."""
        return self.epochs[-1][0] if self.epochs else NO_EPOCH


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as a cluster describes it. `configs` holds explicitly set values only; empty when not asked for."""

    name: str
    topic_id: UUID
    partitions: int
    replication_factor: int
    internal: bool = False
    configs: Mapping[str, str] = field(default_factory=dict)


def plain(value: Any) -> dict[str, Any]:
    """The fields of a dataclass, as JSON is made of them; a partition becomes `topic` and `partition`."""
    values: dict[str, Any] = {}
    for one in fields(value):
        found = getattr(value, one.name)
        if isinstance(found, TopicPartition):
            values |= {"topic": found.topic, "partition": found.partition}
        else:
            values[one.name] = found
    return values
