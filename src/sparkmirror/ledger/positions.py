"""SparkMirror's position records, beside Connect's; they identify the log of a position; pure.

Written by the writer (in the data's transaction under exactly-once), read by `ledger.reader`. Connect's record is the
authority (`authoritative`), so that a MirrorMaker that ran in between is believed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sparkmirror.ledger.committed_end import CommittedEnd
from sparkmirror.ledger.lineage import Extent, StoredEpochs
from sparkmirror.model import NO_TOPIC_ID, Position, Topic, TopicPartition, is_another_topic
from sparkmirror.stored_json import Moment, Name, Number, Offset, TopicName, decode, decode_or_none, encode

_WHAT = "A position record of ours"
_OF_KEPT: Final = "preserve.offsets"
ALONE: Final = "alone-"
"""So begin the runs of processes that share their flow with nobody."""
LOG_HEADER: Final = "sparkmirror.log"
"""The header of Connect's records that SparkMirror wrote."""


@dataclass(frozen=True, slots=True)
class Tenure:
    """The writer of a position: assignment `generation`, `task`, `run`. It is the part of a record that fencing
    reads."""

    generation: Offset
    task: Number
    run: Name = ""


@dataclass(frozen=True, slots=True)
class PositionRecord:
    """One partition's position with its writer: assignment `generation`, `task`, `run`.

    `released` says that the task gave the partition up. Generations grow over all runs; equal ones of two runs show
    that one of them was replaced. `extent` is the least end of the target's log; None if unknown. `is_aligned` says
    that the target has all records before the position at their own offsets, and nothing else; `sequence` is then the
    number that the flow's producer gives the next record there, None if unknown. `committed_end` is set where the
    position was written in a transaction: what its producer has committed in the target's partition.
    """

    position: Position
    generation: int
    task: int
    released: bool = False
    run: str = ""
    extent: Extent | None = None
    is_aligned: bool = False
    sequence: int | None = None
    committed_end: CommittedEnd | None = None

    def outdates(self, generation: int | None) -> bool:
        """Whether Connect's record, written by a task of that generation, is of a writer that was replaced before: it
        slept, and wrote when it woke. A record of unknown origin is not."""
        return generation is not None and generation < self.generation


def is_of_this_log(record: PositionRecord, topic: Topic | None) -> bool:
    """Whether a stored position is one in the log that the target has now: its topic may have been deleted since."""
    if not record.is_aligned:
        return False
    extent = record.extent
    return extent is None or topic is None or not is_another_topic(extent.topic_id, topic.topic_id)


def encode_key(source_alias: str, partition: TopicPartition) -> bytes:
    """Compact JSON, `["A","orders",3]`."""
    return encode([source_alias, partition.topic, partition.partition])


def decode_key(key: bytes | None) -> tuple[str, TopicPartition] | None:
    """The flow's source alias and the partition; None for any other key, also for one that is spelled otherwise."""
    found = decode_or_none(key, tuple[str, TopicName, Number])
    if found is None:
        return None
    alias, partition = found[0], TopicPartition(*found[1:])
    return (alias, partition) if encode_key(alias, partition) == key else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    offset: Offset
    epochs: StoredEpochs = ()
    id: UUID = NO_TOPIC_ID
    generation: Offset
    task: Number
    released: bool = False
    run: Name = ""
    target: Extent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredAligned(_Stored):
    aligned: bool = False
    sequence: Number | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredCommitted(_Stored):
    committed: CommittedEnd | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredAny(_StoredAligned):
    """Of any kind, as it is read."""

    committed: CommittedEnd | None = None


def producer_key(source_alias: str) -> bytes:
    """Under this key lies the producer of the flow from there, if it keeps offsets."""
    return encode([source_alias, _OF_KEPT])


@dataclass(frozen=True, slots=True)
class _StoredProducer:
    producer: Offset


def encode_producer(producer_id: int) -> bytes:
    """All that ever writes the flow's data uses this producer id, with epoch 0."""
    return encode(_StoredProducer(producer_id))


def decode_producer(value: bytes | None) -> int | None:
    """None for a tombstone, and for a record that cannot be read: the flow then gets another producer id."""
    found = decode_or_none(value, _StoredProducer)
    return None if found is None else found.producer


@dataclass(frozen=True, slots=True)
class Accepted:
    """A person (`by`) accepts that a partition's logs part: the target's topic of `topic_id`, and no other, keeps what
    it has, and the source's records from offset `parted_at` on come behind it, at offsets of their own."""

    parted_at: Offset
    topic_id: UUID
    at_ms: Moment = 0
    by: Name = ""


def accepted_key(source_alias: str, partition: TopicPartition) -> bytes:
    """Under this key lies an `Accepted` of a flow that keeps offsets."""
    return encode_kind_key(source_alias, _OF_KEPT, partition)


def decode_accepted_key(key: bytes | None) -> tuple[str, TopicPartition] | None:
    """As `decode_key`."""
    return decode_kind_key(key, _OF_KEPT)


def encode_kind_key(source_alias: str, kind: str, partition: TopicPartition) -> bytes:
    """Of what is stored of a partition beside its position: compact JSON, `["A",kind,"orders",3]`."""
    return encode([source_alias, kind, partition.topic, partition.partition])


def decode_kind_key(key: bytes | None, kind: str) -> tuple[str, TopicPartition] | None:
    """As `decode_key`, of one kind."""
    found = decode_or_none(key, tuple[str, str, TopicName, Number])
    if found is None:
        return None
    alias, partition = found[0], TopicPartition(*found[2:])
    return (alias, partition) if encode_kind_key(alias, kind, partition) == key else None


def encode_accepted(accepted: Accepted) -> bytes:
    return encode(accepted)


def decode_accepted(value: bytes | None) -> Accepted | None:
    """None for a tombstone, and for a record that cannot be read: the partition is then refused."""
    return decode_or_none(value, Accepted)


def encode_value(record: PositionRecord) -> bytes:
    """Compact JSON; `offset` is the next one to mirror."""
    kind, more = _Stored, dict[str, int | CommittedEnd | None]()
    if record.is_aligned:
        kind, more = _StoredAligned, {"aligned": True, "sequence": record.sequence}
    elif record.committed_end is not None:
        kind, more = _StoredCommitted, {"committed": record.committed_end}
    stored = kind(
        offset=record.position.offset,
        epochs=record.position.epochs,
        id=record.position.topic_id,
        generation=record.generation,
        task=record.task,
        released=record.released,
        run=record.run,
        target=record.extent,
        **more,
    )
    return encode(stored)


def decode_value(value: bytes | None) -> PositionRecord | None:
    """The record, None for a tombstone. Members that a later version may add are ignored. Raises ProtocolError."""
    if value is None:
        return None
    stored = decode(value, _StoredAny, _WHAT)
    position = Position(stored.offset, stored.epochs, stored.id)
    writer = stored.generation, stored.task, stored.released, stored.run
    return PositionRecord(position, *writer, stored.target, stored.aligned, stored.sequence, stored.committed)


def decode_tenure(value: bytes) -> Tenure:
    """The writer of a record whose position cannot be read. Raises ProtocolError if that is unreadable too."""
    return decode(value, Tenure, _WHAT)


def encode_log(position: Position) -> bytes:
    """The log that a position lies in, for a header of Connect's record of it.

    The two records of a position go to two partitions, of which a crash may leave one behind. Connect's, which counts,
    then still tells its log; Connect and MirrorMaker look at no header, and write none.
    """
    return encode([position.topic_id, position.epochs])


def decode_log(offset: int, headers: Iterable[tuple[str, bytes | None]]) -> Position:
    """The position of a record of Connect's, with its log where the record tells it. Raises ProtocolError where that
    cannot be read: without it another log of the name would be taken for this one."""
    by_name = dict(headers)
    if LOG_HEADER not in by_name:
        return Position(offset)
    topic_id, epochs = decode(by_name[LOG_HEADER], tuple[UUID, StoredEpochs], "The log of a stored position")
    return Position(offset, epochs, topic_id)


def authoritative(
    connect: Position | None, ours: PositionRecord | None, generation: int | None = None
) -> Position | None:
    """The position to continue from: Connect's, with our epochs and topic id if it has none and both have the same
    offset.

    If the offsets differ, another program mirrored in between, and the log of our record may be gone. No position of
    Connect's means that nothing is mirrored, or that an operator reset it with Connect's tools. `generation` is that of
    SparkMirror's writer of Connect's, None of anybody else's.
    """
    if connect is not None and ours is not None and ours.outdates(generation):
        return ours.position
    if connect is None or ours is None or connect != Position(connect.offset):
        return connect
    return ours.position if ours.position.offset == connect.offset else connect
