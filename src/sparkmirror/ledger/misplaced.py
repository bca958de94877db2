"""Notes of offsets of a target that hold something else than their source had there, as records beside the positions;
pure.

Written for flows that keep offsets, by the task whose batch came to stand there (`pipeline.produce.misplaced_notes`)
and by the planner that finds a difference; read by `ledger.view`. Without them a partition would turn healthy as soon
as the source has lost the records that tell (`planning.misplaced_offsets`).
"""

from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.model import Topic, TopicPartition, is_another_topic
from sparkmirror.stored_json import Moment, Name, Number, Offset, Text, TopicName, decode_or_none, encode

_KIND: Final = "preserve.offsets.misplaced"
_UNREADABLE: Final = "its note of an offset that holds something else than the source had there cannot be read"


class Misplaced(NamedTuple):
    """An `offset` in the target's topic of `topic_id`, and in no other of that name. Each has a key of its own: a note
    that comes late, of a process that slept, takes none away."""

    topic_id: UUID
    offset: Offset

    def counts(self, record: PositionRecord | None, topic: Topic | None, ends: int) -> bool:
        """Whether the offset is in the log that the target has now, up to its end, and not below the position of the
        ledger: that was reached in this log by somebody who knew the offset to be right."""
        is_other = topic is not None and is_another_topic(self.topic_id, topic.topic_id)
        is_passed = record is not None and self.offset < record.position.offset
        return self.offset < ends and not (is_other or is_passed)


@dataclass(frozen=True, slots=True)
class _Stored:
    reason: Text
    at: Moment
    run: Name = ""


def encode_key(source_alias: str, where: TopicPartition, found: Misplaced) -> bytes:
    return encode([source_alias, _KIND, where.topic, where.partition, found.topic_id, found.offset])


def decode_key(key: bytes | None) -> tuple[str, TopicPartition, Misplaced] | None:
    """The flow's source alias, the partition and the offset; None for any other key."""
    found = decode_or_none(key, tuple[str, str, TopicName, Number, UUID, Offset])
    if found is None:
        return None
    alias, where, offset = found[0], TopicPartition(*found[2:4]), Misplaced(*found[4:])
    return (alias, where, offset) if encode_key(alias, where, offset) == key else None


def encode_value(reason: str, at_ms: int, run: str = "") -> bytes:
    """`reason` is a clause for people."""
    return encode(_Stored(reason, at_ms, run))


def decode_reason(value: bytes | None) -> str | None:
    """None for a tombstone. A note that cannot be read counts: its key says all but the reason."""
    if value is None:
        return None
    stored = decode_or_none(value, _Stored)
    return _UNREADABLE if stored is None else stored.reason
