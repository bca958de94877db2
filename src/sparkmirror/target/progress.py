"""What the writer records beside the data: positions in Connect's format and ours, and its task's status.

Composes small record batches for the ledger's partitions from acknowledged positions only (invariant 3); in
transactions from those that are reached when all that was sent is acknowledged, which is awaited before the commit.
Nothing new is composed before the last lot is acknowledged: a position is never overtaken by an older one. Owned by
`target.sender`.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from sparkmirror.batch.records import encode_batch
from sparkmirror.ledger import connect, gaps, map_records, positions
from sparkmirror.ledger.gaps import Gap
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.topics import LedgerTopics
from sparkmirror.model import Connector, Position, TopicPartition
from sparkmirror.policy.partitioner import murmur2_partition
from sparkmirror.target.mapping import OffsetMapping
from sparkmirror.target.outbox import Outbox
from sparkmirror.target.parcel import Batch, Parcel
from sparkmirror.target.reports import Report

_LOT_BYTES_MAX: Final = 512 << 10
_RECORD_OVERHEAD_BYTES_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class ProgressOptions:
    """Where positions and status go: the flow's internal topics on the target."""

    connector: Connector
    topics: LedgerTopics
    flush_seconds: float


class _Entry(NamedTuple):
    """One record of the ledger, and how to make it due again should it be lost."""

    key: bytes
    value: bytes
    forget: Callable[[], None]


class Progress:
    """Remembers what is stored, and turns what changed into parcels for the ledger's outboxes."""

    def __init__(
        self,
        options: ProgressOptions,
        task: int,
        offsets_partitions: int,
        run: str = "",
        *,
        in_transactions: bool = False,
    ) -> None:
        self._options = options
        self._offsets_partitions = offsets_partitions
        self._task = task
        self._run = run
        # What the ledger holds, or will once what is open is acknowledged.
        self._stored: dict[TopicPartition, int] = {}
        self._topic_ids: dict[TopicPartition, UUID] = {}
        self._released: set[TopicPartition] = set()
        self.moved: dict[TopicPartition, None] = {}
        """Partitions whose position may not be what is stored. Outboxes enter themselves."""
        self._gaps: list[Gap] = []
        self._mapping = OffsetMapping()
        self._in_transactions = in_transactions
        self._uncommitted: list[_Entry] = []
        self._open = 0
        self._due_at = 0.0
        self.outboxes: dict[TopicPartition, Outbox] = {}

    def adopt(self, partition: TopicPartition, topic_id: UUID) -> None:
        """A partition that this task takes over. Its start is stored at once.

        Otherwise one that starts at the log's end, and stays idle, would start at another end the next time
        (invariant 1).
        """
        self._stored.pop(partition, None)
        self.moved[partition] = None
        self._released.discard(partition)
        self._topic_ids[partition] = topic_id
        self._mapping.close(partition)

    def release(self, partition: TopicPartition) -> None:
        """Store the partition's last position once more, marked as released: its next owner waits for that."""
        self._released.add(partition)
        self.moved[partition] = None
        self._mapping.close(partition)

    def map_batches(self, partition: TopicPartition, batches: Iterable[Batch]) -> None:
        """Where the records of acknowledged batches went, for the translation of offsets."""
        for batch in batches:
            self._mapping.add(partition, batch)

    def record_gap(
        self, where: TopicPartition, cause: str, expected: int, resumed: int, action: str, topic_id: UUID
    ) -> None:
        """The source's log is not where it was left: stored before any position beyond it (invariant 1)."""
        at_ms = time.time_ns() // 1_000_000
        self._gaps.append(Gap(where, cause, expected, resumed, action, at_ms, topic_id, self._run))

    @property
    def settled(self) -> bool:
        return self._open == 0

    def due(self, now: float) -> bool:
        return self._open == 0 and now >= self._due_at

    def is_ahead(self, outboxes: Iterable[Outbox]) -> bool:
        """Whether a position that was composed in the open transaction lies beyond what the target has."""
        return any(self._stored.get(outbox.source, 0) > outbox.acknowledged for outbox in outboxes)

    def commit(self) -> None:
        """The transaction that held what was composed is committed."""
        self._uncommitted.clear()

    def roll_back(self) -> None:
        """It is aborted: all of it is due again."""
        for outbox in self.outboxes.values():
            outbox.rewind()
        for entry in self._uncommitted:
            entry.forget()
        self._uncommitted.clear()

    def pick(self, outboxes: Mapping[TopicPartition, Outbox]) -> Collection[Outbox]:
        """Those that `compose` has to look at; in transactions all: what was sent moves them too."""
        if self._in_transactions:
            return outboxes.values()
        return [outboxes[where] for where in self.moved if where in outboxes]

    def compose(self, outboxes: Collection[Outbox], generation: int, status: Sequence[Report] | None) -> list[Outbox]:
        """Queue records for all that changed among the outboxes that `pick` gave; returns the ledger outboxes that now
        have something to send.

        Without a status, as in most transactions, offset maps wait for the next time too.
        """
        self._due_at = time.monotonic() + self._options.flush_seconds
        lots: dict[TopicPartition, list[_Entry]] = {}
        if self._gaps:
            self._add_gaps(lots)
            if not self._in_transactions:
                self._due_at = 0.0
                for report in status or ():
                    report.forget()
                return [self._queue(target, entries) for target, entries in lots.items()]
        for outbox in outboxes:
            where = outbox.source
            offset, epoch = outbox.reach if self._in_transactions else (outbox.acknowledged, outbox.leader_epoch)
            if self._stored.get(where) != offset or where in self._released:
                self._add_position(lots, outbox, offset, epoch, generation)
                self._stored[where] = offset
        self._released.clear()
        self.moved.clear()
        if status is not None or not self._in_transactions:
            self._add_maps(lots, outboxes, generation)
        if status:
            home = TopicPartition(self._options.topics.status, 0)
            lots.setdefault(home, []).extend(_Entry(*report) for report in status)
        return [self._queue(target, entries) for target, entries in lots.items()]

    def _add_position(
        self, lots: dict[TopicPartition, list[_Entry]], outbox: Outbox, offset: int, epoch: int, generation: int
    ) -> None:
        options, where = self._options, outbox.source
        released = where in self._released
        forget = partial(self._forget_position, where, released)
        key = connect.encode_key(options.connector, where)
        home = TopicPartition(options.topics.offsets, murmur2_partition(key, self._offsets_partitions))
        lots.setdefault(home, []).append(_Entry(key, connect.encode_value(offset), forget))
        position = Position(offset, epoch, self._topic_ids[where])
        record = PositionRecord(position, generation, self._task, released, self._run, outbox.extent)
        value = positions.encode_value(record)
        entry = _Entry(positions.encode_key(options.connector.source_alias, where), value, forget)
        lots.setdefault(TopicPartition(options.topics.positions, 0), []).append(entry)

    def _add_gaps(self, lots: dict[TopicPartition, list[_Entry]]) -> None:
        home = TopicPartition(self._options.topics.gaps, 0)
        found, self._gaps = self._gaps, []
        for gap in found:
            key, value = gaps.encode_key(self._options.connector.source_alias, gap), gaps.encode_value(gap)
            lots.setdefault(home, []).append(_Entry(key, value, partial(self._forget_gap, gap)))

    def _add_maps(
        self, lots: dict[TopicPartition, list[_Entry]], outboxes: Collection[Outbox], generation: int
    ) -> None:
        home = TopicPartition(self._options.topics.offset_map, 0)
        positions = {outbox.source: outbox.acknowledged for outbox in outboxes}
        topic_ids = {outbox.source: outbox.extent.topic_id for outbox in outboxes if outbox.extent is not None}
        for where, chunk, name in self._mapping.changed(positions, generation, topic_ids):
            key = map_records.encode_key(self._options.connector.source_alias, where, name)
            value = map_records.encode_chunk(chunk.map.as_chunk())
            forget = partial(self._mapping.store_again, where, chunk)
            lots.setdefault(home, []).append(_Entry(key, value, forget))

    def _forget_position(self, where: TopicPartition, released: bool) -> None:
        self._stored.pop(where, None)
        self.moved[where] = None
        if released:
            self._released.add(where)

    def _forget_gap(self, gap: Gap) -> None:
        self._gaps.append(gap)

    def _queue(self, target: TopicPartition, entries: list[_Entry]) -> Outbox:
        outbox = self.outboxes.get(target)
        if outbox is None:
            outbox = self.outboxes[target] = Outbox(target, target, 0, -1, is_ledger=True)
        timestamp = time.time_ns() // 1_000_000
        if self._in_transactions:
            self._uncommitted += entries
        for lot in _split(entries):
            first, following = outbox.position, outbox.position + len(lot)
            batch = encode_batch([(entry.key, entry.value) for entry in lot], base_offset=first, timestamp=timestamp)
            self._open += 1
            outbox.accept(
                Parcel(memoryview(bytearray(batch)), first, following, partial(self._settle, outbox, following, lot))
            )
        return outbox

    def _settle(self, outbox: Outbox, following: int, lot: list[_Entry]) -> None:
        """Acknowledged, or given up by a target that refuses it: then all of it is composed anew."""
        self._open -= 1
        if outbox.acknowledged < following:
            for entry in lot:
                entry.forget()


def _split(entries: list[_Entry]) -> Iterator[list[_Entry]]:
    """Lots that any topic's `max.message.bytes` allows."""
    lot: list[_Entry] = []
    size = 0
    for entry in entries:
        size += len(entry.key) + len(entry.value) + _RECORD_OVERHEAD_BYTES_MAX
        if lot and size > _LOT_BYTES_MAX:
            yield lot
            lot, size = [], len(entry.key) + len(entry.value) + _RECORD_OVERHEAD_BYTES_MAX
        lot.append(entry)
    yield lot
