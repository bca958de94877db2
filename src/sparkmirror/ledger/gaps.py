"""The gap ledger: records that a source lost before they were mirrored, or a target after; pure.

Written by `pipeline.produce.progress` before any position beyond the gap (invariant 1), read by `cli.gaps`. Each gap
has a key of its own, so that the compacted topic keeps them all.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sparkmirror.ledger.lineage import TARGET_CAUSES
from sparkmirror.model import NO_TOPIC_ID, TopicPartition
from sparkmirror.stored_json import Moment, Name, Number, Offset, TopicName, decode_or_none, encode

UNREADABLE = "unreadable record"
"""The cause of a gap of which only the key can be read: the lost records and the time are unknown."""
LEFT_OUT = "left out"
"""The cause of a gap that a person wants where the logs of a flow that keeps offsets part (`operations.parted_logs`):
the target's topic of `topic_id`, and no other, keeps records of its own at these offsets."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Mirroring stood at `expected` and found the log to go on at `resumed`.

    `cause` is one of `pipeline.fetch.loss`, or of `ledger.lineage`: then the offsets are the target's; or LEFT_OUT.
    `lost_records` counts what lies between the two, 0 where a source's log leads back; `action` says what was done;
    `at_ms` is wall clock, `topic_id` that of the log that was found. `partition` is always the source's.
    """

    partition: TopicPartition
    cause: str
    expected: int
    resumed: int
    action: str
    at_ms: int
    topic_id: UUID = NO_TOPIC_ID
    run: str = ""

    @property
    def lost_records(self) -> int:
        ahead = self.resumed - self.expected
        return max(-ahead if self.is_on_target else ahead, 0)

    @property
    def is_on_target(self) -> bool:
        return self.cause in TARGET_CAUSES

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "cause": self.cause,
            "expected": self.expected,
            "resumed": self.resumed,
            "lost_records": self.lost_records,
            "action": self.action,
            "at": datetime.fromtimestamp(self.at_ms / 1000, UTC).isoformat(timespec="seconds"),
            "run": self.run,
        }


def encode_key(source_alias: str, gap: Gap) -> bytes:
    """The same gap found again, by a partition that is held where it stands, is the same key. Not so another one of the
    same offsets: a log that is made again, and cut where the former one was left, is two."""
    where = gap.partition
    return encode([source_alias, where.topic, where.partition, gap.expected, gap.resumed, gap.topic_id, gap.cause])


def encode_value(gap: Gap) -> bytes:
    return encode(_Stored(gap.cause, gap.expected, gap.resumed, gap.action, gap.at_ms, gap.topic_id, gap.run))


@dataclass(frozen=True, slots=True)
class _Stored:
    cause: Name
    expected: Offset
    resumed: Offset
    action: Name
    at: Moment
    id: UUID
    run: Name


def decode(source_alias: str, key: bytes | None, value: bytes | None) -> Gap | None:
    """The gap; None for what is another flow's or deleted. One whose value cannot be read is UNREADABLE, for its key
    still says where it is."""
    found = decode_or_none(key, tuple[str, TopicName, Number, Offset, Offset, UUID, Name])
    if found is None or found[0] != source_alias or value is None:
        return None
    _, topic, partition, expected, resumed, topic_id, _ = found
    where = TopicPartition(topic, partition)
    stored = decode_or_none(value, _Stored)
    if stored is None:
        return Gap(where, UNREADABLE, expected, resumed, "unknown", 0, topic_id)
    return Gap(where, stored.cause, stored.expected, stored.resumed, stored.action, stored.at, stored.id, stored.run)


def list_gaps(source_alias: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> list[Gap]:
    """All gaps of a flow, in the order in which they were found; of the same key the last counts."""
    found = (decode(source_alias, key, value) for key, value in dict(records).items())
    return sorted((gap for gap in found if gap is not None), key=lambda gap: (gap.at_ms, gap.partition))
