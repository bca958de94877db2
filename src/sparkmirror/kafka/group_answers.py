"""What `kafka.groups` gives and takes; without I/O and without the client, so that pure planners may use it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sparkmirror.model import TopicPartition

_IDLE_STATES = frozenset({"empty", "dead", ""})


class Committed(NamedTuple):
    """A committed offset, the next to read, with the consumer's own note. The leader epoch is not kept: it would be
    another cluster's."""

    offset: int
    metadata: str = ""


GroupOffsets = Mapping[TopicPartition, Committed]


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as ListGroups shows it. `kind` is `classic`, `consumer` (KIP-848), `share`, `streams` or "" (old)."""

    name: str
    protocol_type: str = ""
    state: str = ""
    kind: str = ""

    @property
    def is_active(self) -> bool:
        """Whether somebody is a member, or may be."""
        return self.state.lower() not in _IDLE_STATES

    @property
    def is_consumer(self) -> bool:
        """Whether it consumes topics and commits offsets (MirrorMaker's `forConsumerGroups`): no share, streams or
        Connect group."""
        return self.protocol_type in ("", "consumer") and self.kind.lower() in ("", "classic", "consumer")
