"""Where partitions begin of which nothing was mirrored yet, as records beside the positions; pure.

Written by `planning.chosen_starts` for flows that keep offsets, before anything is filled there; read by `ledger.view`.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sparkmirror.ledger.positions import decode_kind_key, encode_kind_key
from sparkmirror.model import NO_EPOCH, Position, TopicPartition
from sparkmirror.stored_json import Name, NumberOrNone, Offset, decode_or_none, encode

_KIND: Final = "preserve.offsets.start"
_MARK: Final = f'"{_KIND}"'.encode()


@dataclass(frozen=True, slots=True)
class ChosenStart:
    """The partition begins at `offset`, as the setting `start` had it when it was looked at first. It holds for this
    topic of the source (`source_id`) and of the target (`topic_id`), and as long as the setting is the same. The
    source's log had the leader `epoch` there: one that is cut below has another."""

    offset: Offset
    start: Name
    source_id: UUID
    topic_id: UUID
    epoch: NumberOrNone = NO_EPOCH

    @property
    def place(self) -> Position:
        epochs = () if self.epoch == NO_EPOCH else ((self.epoch, self.offset),)
        return Position(self.offset, epochs, self.source_id)

    def is_same(self, other: "ChosenStart") -> bool:
        """Whether both are of one choice, at whatever offset."""
        return (self.start, self.source_id, self.topic_id) == (other.start, other.source_id, other.topic_id)


def start_key(source_alias: str, partition: TopicPartition) -> bytes:
    return encode_kind_key(source_alias, _KIND, partition)


def is_start_key(key: bytes | None) -> bool:
    """Whether it may be one, at little cost."""
    return key is not None and _MARK in key


def decode_start_key(key: bytes | None) -> tuple[str, TopicPartition] | None:
    """The flow's source alias and the partition; None for any other key."""
    return decode_kind_key(key, _KIND)


def encode_start(start: ChosenStart) -> bytes:
    return encode(start)


def decode_start(value: bytes | None) -> ChosenStart | None:
    """None for a tombstone, and for a record that cannot be read: the start is chosen again then."""
    return decode_or_none(value, ChosenStart)
