"""The partitions a task reads right now, and where in each. No I/O. Owned by `source.reader`."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from sparkmirror.kafka.wire import FetchPosition
from sparkmirror.model import NO_TOPIC_ID, TopicPartition
from sparkmirror.relay.lease import RingAddress, slot_count
from sparkmirror.relay.schema import PLAN, Row
from sparkmirror.source.commands import assigned_to_json
from sparkmirror.source.fetch import PartitionKey
from sparkmirror.source.plan import Assigned, TaskPlan

if TYPE_CHECKING:
    from sparkmirror.source.throttle import Bucket


@dataclass(slots=True, eq=False)
class Reading:
    """One partition being read. `offset` is the next to fetch; `slot` its place on the control page, -1 for none.

    `node` is the broker to fetch from (the leader, or a nearer replica), None while it is unknown; `not_before` a
    monotonic time until which it rests after an error. `readable` is the end of what readers may read, as the last
    answer said; `bytes_per_offset` and `batch_bytes` are means of what came lately. While `is_chased`, `source.lanes`
    reads it, and no fetch session does.
    """

    partition: TopicPartition
    topic_id: UUID
    offset: int
    leader_epoch: int
    end: int | None
    slot: int
    node: int | None = None
    held_by_writer: bool = False
    held_by_order: bool = False
    not_before: float = 0.0
    fault: str = ""
    readable: int = 0
    bytes_per_offset: float = 0.0
    batch_bytes: float = 0.0
    is_chased: bool = False
    buckets: "tuple[Bucket, ...]" = ()

    @property
    def stop(self) -> int:
        """The offset up to which there is something to read, as far as is known."""
        return self.readable if self.end is None else min(self.readable, self.end)

    @property
    def paused(self) -> bool:
        """Whether nothing is to be asked of it: its target has trouble, or the operator said so."""
        return self.held_by_writer or self.held_by_order

    def may_read(self, now: float) -> bool:
        """Whether it is neither done nor paused, resting or held back by a rate limit."""
        if self.paused or self.done or self.not_before > now:
            return False
        return not any(bucket.seconds_until_ready(now) for bucket in self.buckets)

    def grain_bytes(self, otherwise: int) -> int:
        """What one fetch may ask for, with its rate limits."""
        return min((bucket.grain_bytes for bucket in self.buckets), default=otherwise)

    def spend(self, size: int) -> None:
        for bucket in self.buckets:
            bucket.spend(size)

    def measure(self, offsets: int, batches: int, size: int) -> None:
        """Learn from a run what the next will be like; the newest counts half."""
        if offsets and batches:
            weight = 0.5 if self.batch_bytes else 1.0
            self.bytes_per_offset += weight * (size / offsets - self.bytes_per_offset)
            self.batch_bytes += weight * (size / batches - self.batch_bytes)

    @property
    def done(self) -> bool:
        return self.end is not None and self.offset >= self.end

    def key(self, by_id: bool) -> PartitionKey:
        return (self.topic_id if by_id else self.partition.topic, self.partition.partition)


class Partitions:
    """All partitions of the task, found by name, by slot, and by broker."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._readings: dict[TopicPartition, Reading] = {}
        self._slots: list[Reading | None] = []

    def __iter__(self) -> Iterator[Reading]:
        return iter(self._readings.values())

    def __len__(self) -> int:
        return len(self._readings)

    def get(self, partition: TopicPartition) -> Reading | None:
        return self._readings.get(partition)

    def add(self, assigned: Assigned, node: int | None) -> Reading:
        slot = -1
        if len(self._slots) < slot_count():
            slot = len(self._slots)
            self._slots.append(None)
        reading = Reading(
            assigned.partition,
            assigned.topic_id,
            assigned.offset,
            assigned.leader_epoch,
            assigned.end,
            slot,
            node=node,
        )
        self._readings[assigned.partition] = reading
        if slot >= 0:
            self._slots[slot] = reading
        return reading

    def remove(self, partition: TopicPartition) -> Reading | None:
        reading = self._readings.pop(partition, None)
        if reading is not None and reading.slot >= 0:
            self._slots[reading.slot] = None
        return reading

    @property
    def slots(self) -> range:
        return range(len(self._slots))

    def in_slot(self, slot: int) -> Reading | None:
        return self._slots[slot]

    def wanted(self, node: int, *, by_id: bool, now: float) -> dict[PartitionKey, FetchPosition]:
        """What to ask of one broker."""
        return {
            key: FetchPosition(
                *key, reading.offset, reading.leader_epoch, min(self._bytes_max, reading.grain_bytes(self._bytes_max))
            )
            for reading in self._readings.values()
            if reading.node == node and not reading.is_chased and reading.may_read(now)
            if not by_id or reading.topic_id != NO_TOPIC_ID
            for key in (reading.key(by_id),)
        }

    def by_key(self, node: int, *, by_id: bool) -> Mapping[PartitionKey, Reading]:
        return {reading.key(by_id): reading for reading in self._readings.values() if reading.node == node}

    def homeless(self, now: float) -> list[Reading]:
        """Partitions whose broker must be looked up."""
        return [
            reading
            for reading in self._readings.values()
            if not reading.done
            and not reading.paused
            and reading.not_before <= now
            and (reading.node is None or reading.topic_id == NO_TOPIC_ID)
        ]

    def all_done(self) -> bool:
        return all(reading.done for reading in self._readings.values())


def plan_row(plan: TaskPlan, generation: int, assigned: Iterable[tuple[Assigned, int]], ring: RingAddress) -> Row:
    """The row that tells the writer what follows: who we are, where the ring is, and each partition's start."""
    payload = {
        "task": plan.task,
        "run": plan.run,
        "epoch": plan.epoch,
        "generation": generation,
        "producer": [plan.producer_id, plan.producer_epoch],
        "ring": list(ring),
        "offsets_partitions": plan.offsets_partitions,
        "partitions": [{**assigned_to_json(item), "slot": slot} for item, slot in assigned],
    }
    return Row(PLAN, payload=json.dumps(payload).encode())
