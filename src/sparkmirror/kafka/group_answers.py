"""What `kafka.groups` gives and takes; without I/O and without the client, so that pure planners may use it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sparkmirror.model import NO_EPOCH, TopicPartition

_IDLE_STATES = frozenset({"empty", "dead", ""})


class Committed(NamedTuple):
    """A committed offset, the next to read, with the consumer's own note. A leader epoch holds on this cluster only: it
    is never carried to another one."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH


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
