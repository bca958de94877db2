"""Records where each source record went: the open end of every partition's offset map.

`pipeline.produce.progress` adds acknowledged batches, and stores them in the ledger. A task never reads the map:
records from before it took a partition on are in other chunks (`ledger.map_records`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import UUID

from sparkmirror.batch.piece import Span
from sparkmirror.ledger.map_records import CHUNK_WEIGHT_MAX, ChunkName
from sparkmirror.ledger.offset_map import OffsetMap
from sparkmirror.model import NO_TOPIC_ID, TopicPartition, is_another_topic
from sparkmirror.pipeline.produce.queued_records import Batch

_NOTED_MAX: Final = 512
_APART: Final = -2
"""Stands for the place of a batch that others' records may lie before."""


class OpenChunk:
    """A partition's open chunk. `name` is set when it is stored for the first time, `changed` while it must be stored
    (again).

    Its `generation` is the one that it was begun in: a process that slept, and wakes under a later order, adds to what
    others have gone beyond since.
    """

    __slots__ = ("changed", "generation", "map", "name")

    def __init__(self, begin: int, generation: int, source_id: UUID = NO_TOPIC_ID) -> None:
        self.map = OffsetMap(begin, source_id=source_id)
        self.generation = generation
        self.name: ChunkName | None = None
        self.changed = False


@dataclass(frozen=True, slots=True, eq=False)
class _Cut:
    """A cut of the target's log, and the chunk that records it."""

    chunk: OpenChunk


class OffsetMapping:
    """The open chunks of one task's partitions."""

    def __init__(self, began_ms: int) -> None:
        """`began_ms` is later than that of an earlier attempt of the task."""
        self._began_ms = began_ms
        self.generation = 0
        self._numbers = 0
        self._growing: dict[TopicPartition, OpenChunk] = {}
        self._full: list[tuple[TopicPartition, OpenChunk]] = []
        self._positions: dict[TopicPartition, int] = {}
        self._touched: dict[TopicPartition, None] = {}
        self._cuts: dict[TopicPartition, _Cut] = {}
        self._noted: list[tuple[TopicPartition, int, tuple[Span, ...], UUID]] = []

    def add(self, partition: TopicPartition, batch: Batch, *, is_alone: bool = True) -> None:
        """Add an acknowledged batch, in order. Without a base offset its place is not known. Not `is_alone` where
        records of other source partitions may lie before it."""
        self.add_spans(partition, batch.base_offset if is_alone else _APART, batch.spans, batch.lineage.topic_id)

    def add_spans(self, partition: TopicPartition, target: int, spans: tuple[Span, ...], source_id: UUID) -> None:
        """As `add`, of records that lie from that place on."""
        self._noted.append((partition, target, spans, source_id))
        if len(self._noted) >= _NOTED_MAX:
            self.settle()

    def settle(self) -> None:
        """Enter what was added into the maps: many at a time, as in `pipeline.produce.task_metrics`."""
        noted, self._noted = self._noted, []
        for partition, base_offset, spans, source_id in noted:
            self._enter(partition, base_offset, spans, source_id)

    def _enter(self, partition: TopicPartition, target: int, spans: tuple[Span, ...], source_id: UUID) -> None:
        self._touched[partition] = None
        for span in spans:
            first, records, more, bits = span
            growing = self._open(partition, first, source_id) if records else self._growing.get(partition)
            if growing is None:  # it was closed behind the record of which more became
                continue
            if target == _APART:
                growing.map.append_apart(first, span.next_offset)
                growing.changed = True
                continue
            if records and target < 0:
                for at, in_a_row in span.ranges():
                    growing.map.append_unknown(at, in_a_row)
            elif records:
                growing.map.append(first, records, target, bits)
                target += records
            if more:
                growing.map.append_more(more, exact=target >= 0)
                target += more if target >= 0 else 0
            growing.changed = True

    def _open(self, partition: TopicPartition, first: int, source_id: UUID) -> OpenChunk:
        growing = self._growing.get(partition)
        if growing is not None and not growing.map.segments and growing.map.source_id == NO_TOPIC_ID:
            growing.map.source_id = source_id
        is_same_log = growing is not None and not is_another_topic(growing.map.source_id, source_id)
        if growing is not None and is_same_log and first >= growing.map.end_source:
            if growing.map.weight < CHUNK_WEIGHT_MAX:
                return growing
            following = OpenChunk(growing.map.end_source, self.generation, source_id)
            following.map.end_target = growing.map.end_target
        else:
            following = OpenChunk(first, self.generation, source_id)
        if growing is not None and growing.changed:
            self._full.append((partition, growing))
        self._growing[partition] = following
        return following

    def cut(self, partition: TopicPartition, source: int, target: int, source_id: UUID) -> None:
        """The target's log was cut, and what comes from source offset `source` on goes to `target`, or behind it. What
        is entered already says so itself."""
        self.settle()
        growing = self._growing.get(partition)
        if growing is None or not growing.map.segments or growing.map.end_source <= source:
            self.close(partition)
            growing = self._growing[partition] = OpenChunk(source, self.generation, source_id)
            growing.map.begin_at(target)
        growing.changed = True
        self._touched[partition] = None
        self._cuts[partition] = _Cut(growing)

    @property
    def touched(self) -> Collection[TopicPartition]:
        """The partitions whose map may have to be stored, by what was entered so far."""
        return self._touched.keys()

    @property
    def cuts(self) -> Collection[TopicPartition]:
        """The partitions of which the stored map does not know yet that the target's log was cut."""
        return self._cuts.keys()

    def is_untold(self, partition: TopicPartition) -> bool:
        """Whether the chunk that records a cut is still to be stored, and not under way."""
        return (cut := self._cuts.get(partition)) is not None and cut.chunk.changed

    def kept(self, partition: TopicPartition, chunk: OpenChunk) -> Callable[[], None] | None:
        """What to call when the chunk, as `changed` gives it now, is stored for good, if it records a cut."""
        cut = self._cuts.get(partition)
        return None if cut is None or cut.chunk is not chunk else partial(self._forget_cut, partition, cut)

    def _forget_cut(self, partition: TopicPartition, cut: _Cut) -> None:
        if self._cuts.get(partition) is cut:
            del self._cuts[partition]

    def close(self, partition: TopicPartition) -> None:
        """The partition is taken on or released: its next batch begins another chunk."""
        self.settle()
        self._positions.pop(partition, None)
        growing = self._growing.pop(partition, None)
        if growing is not None and growing.changed:
            self._full.append((partition, growing))

    def changed(
        self, positions: Mapping[TopicPartition, int], topic_ids: Mapping[TopicPartition, UUID]
    ) -> Iterator[tuple[TopicPartition, OpenChunk, ChunkName]]:
        """Chunks to store, full ones first. `positions` are the acknowledged source offsets, most of them unchanged
        since the last call. `topic_ids` are the known ids of the target topics, by source partition."""
        self.settle()
        for partition, position in positions.items():
            if self._positions.get(partition) != position:
                self._positions[partition] = position
                self._touched[partition] = None
                if partition not in self._growing:
                    self._growing[partition] = OpenChunk(position, self.generation)
        full, self._full = self._full, []
        touched, self._touched = self._touched, {}
        growing_ones = [(where, self._growing[where]) for where in touched if where in self._growing]
        for partition, growing in [*full, *growing_ones]:
            if partition in positions and self._growing.get(partition) is growing:
                before = growing.map.end_source
                growing.map.advance(positions[partition])
                growing.changed |= growing.map.end_source != before
            if growing.changed and growing.map.segments:
                growing.changed = False
                growing.map.topic_id = topic_ids.get(partition, growing.map.topic_id)
                if growing.name is None:
                    growing.name = ChunkName(growing.generation, self._began_ms, self._numbers)
                    self._numbers += 1
                yield partition, growing, growing.name

    def store_again(self, partition: TopicPartition, growing: OpenChunk) -> None:
        """Storing the chunk failed: store it again."""
        self.settle()
        growing.changed = True
        self._touched[partition] = None
        if self._growing.get(partition) is not growing:
            self._full.append((partition, growing))
