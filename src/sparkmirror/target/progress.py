"""What the writer records beside the data: positions in Connect's format and ours, and its task's status.

Composes small record batches for the ledger's partitions from acknowledged positions only (invariant 3). Nothing new is
composed before the last lot is acknowledged: a position is never overtaken by an older one. Owned by `target.sender`.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sparkmirror.batch.records import encode_batch
from sparkmirror.ledger import connect, positions
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.topics import LedgerTopics
from sparkmirror.model import Position, TopicPartition
from sparkmirror.target.outbox import Outbox, Parcel


@dataclass(frozen=True, slots=True)
class ProgressOptions:
    """Where positions and status go: the flow's internal topics on the target."""

    source_alias: str
    topics: LedgerTopics
    offsets_partitions: int
    flush_seconds: float


class Progress:
    """Remembers what is stored, and turns what changed into parcels for the ledger's outboxes."""

    def __init__(self, options: ProgressOptions, task: int) -> None:
        self._options = options
        self._task = task
        self._stored: dict[TopicPartition, int] = {}
        self._topic_ids: dict[TopicPartition, UUID] = {}
        self._released: set[TopicPartition] = set()
        self._open = 0
        self._due_at = 0.0
        self._last_status = b""
        self.outboxes: dict[TopicPartition, Outbox] = {}

    def adopt(self, partition: TopicPartition, offset: int, topic_id: UUID) -> None:
        """A partition that this task takes over, with the position that the ledger holds for it."""
        self._stored[partition] = offset
        self._topic_ids[partition] = topic_id

    def release(self, partition: TopicPartition) -> None:
        """Store the partition's last position once more, marked as released: its next owner waits for that."""
        self._released.add(partition)

    @property
    def settled(self) -> bool:
        return self._open == 0

    def due(self, now: float) -> bool:
        return self._open == 0 and now >= self._due_at

    def compose(self, outboxes: Iterable[Outbox], generation: int, status: Mapping[str, Any]) -> list[Outbox]:
        """Queue records for all that changed; returns the ledger outboxes that now have something to send."""
        self._due_at = time.monotonic() + self._options.flush_seconds
        lots: dict[TopicPartition, list[tuple[bytes, bytes]]] = {}
        for outbox in outboxes:
            where = outbox.source
            if self._stored.get(where) != outbox.acknowledged or where in self._released:
                self._add_position(lots, outbox, generation)
                self._stored[where] = outbox.acknowledged
        self._released.clear()
        self._add_status(lots, status)
        return [self._queue(target, pairs) for target, pairs in lots.items()]

    def _add_position(
        self, lots: dict[TopicPartition, list[tuple[bytes, bytes]]], outbox: Outbox, generation: int
    ) -> None:
        options = self._options
        where = outbox.source
        key = connect.encode_key(options.source_alias, where)
        home = TopicPartition(options.topics.offsets, connect.partition_of(key, options.offsets_partitions))
        lots.setdefault(home, []).append((key, connect.encode_value(outbox.acknowledged)))
        position = Position(outbox.acknowledged, outbox.leader_epoch, self._topic_ids[where])
        record = PositionRecord(position, generation, self._task, where in self._released)
        lots.setdefault(TopicPartition(options.topics.positions, 0), []).append(
            (positions.encode_key(options.source_alias, where), positions.encode_value(record))
        )

    def _add_status(self, lots: dict[TopicPartition, list[tuple[bytes, bytes]]], status: Mapping[str, Any]) -> None:
        if not status:
            return
        value = json.dumps(status, separators=(",", ":")).encode()
        if value != self._last_status:
            self._last_status = value
            key = json.dumps(["task", self._options.source_alias, self._task], separators=(",", ":")).encode()
            lots.setdefault(TopicPartition(self._options.topics.status, 0), []).append((key, value))

    def _queue(self, target: TopicPartition, pairs: list[tuple[bytes, bytes]]) -> Outbox:
        outbox = self.outboxes.get(target)
        if outbox is None:
            outbox = self.outboxes[target] = Outbox(target, target, 0, -1)
        data = bytearray(encode_batch(pairs, timestamp=time.time_ns() // 1_000_000))
        self._open += 1
        outbox.accept(Parcel(memoryview(data), 0, len(pairs), self._settle()))
        return outbox

    def _settle(self) -> Callable[[], None]:
        def settle() -> None:
            self._open -= 1

        return settle
