"""Stores what the writer records beside the data: positions in Connect's format and ours, and its task's status.

Composes small record batches for the ledger's partitions from acknowledged positions only (invariant 3); in
transactions from those that are reached when all that was sent is acknowledged, which is awaited before the commit. A
position waits while a ledger partition that it goes to still has the last lot, or refuses; all other positions go on.
Owned by `pipeline.produce.produce_task`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from sparkmirror.batch.piece import Span
from sparkmirror.batch.records import NO_TIMESTAMP, Record, encode_batch
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.ledger import connect, map_records, positions
from sparkmirror.ledger.copies import Mark
from sparkmirror.ledger.gaps import Gap
from sparkmirror.ledger.lineage import Extent, Lineage
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.topics import LedgerTopics
from sparkmirror.model import Connector, Position, TopicPartition
from sparkmirror.pipeline.produce.acked_position import Place
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.gap_notes import GapNotes
from sparkmirror.pipeline.produce.ledger_entries import Entry, LedgerHomes, Uncommitted, keep_all, lots_of
from sparkmirror.pipeline.produce.mapping import OffsetMapping
from sparkmirror.pipeline.produce.misplaced_notes import MisplacedNotes
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords
from sparkmirror.pipeline.produce.releases import Releases
from sparkmirror.pipeline.produce.reports import Report
from sparkmirror.policy.naming import HEARTBEATS_TOPIC

_REST_SECONDS: Final = 5.0
"""In transactions, a partition that moved no more for so long has its longer extent stored."""
_HEARTBEATS_SECONDS: Final = 5.0
"""So long the positions of heartbeats wait alone. A flush each second, of one heartbeat's position and a status record
that says so, costs an idle mirror more than the heartbeat: in the writer, and where the driver follows the ledger."""
_FEW_HEARTBEATS: Final = 20
"""Of each partition, in a rest of the ledger; a topic of a user's may have a name like those of heartbeats."""


@dataclass(frozen=True, slots=True)
class ProgressOptions:
    """Where positions and status go: the flow's internal topics on the target. `is_heartbeats` knows a topic of
    heartbeats by its name on the source."""

    connector: Connector
    topics: LedgerTopics
    flush_seconds: float
    is_heartbeats: Callable[[str], bool] = HEARTBEATS_TOPIC.__eq__


class Progress:
    """Remembers what is stored, and turns changes into record batches for the ledger's buffers."""

    def __init__(
        self,
        options: ProgressOptions,
        task: int,
        offsets_partitions: int,
        run: str = "",
        *,
        in_transactions: bool = False,
        lost: Callable[[Gap], None] = lambda _: None,
        marks_from: int = 0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`lost` is called with each gap once it is stored. `marks_from` is the mark of an earlier attempt's last
        position, 0 where there was none."""
        self._clock = clock
        self._options, self._task, self._run = options, task, run
        # A later attempt of the same generation continues behind an earlier one, also if the clock was put back.
        began_ms = max(clock.time_ns() // 1_000_000, marks_from // 1_000 + 1)
        self._sequence = began_ms * 1_000
        # What the ledger holds, or will once what is open is acknowledged.
        self._stored: dict[TopicPartition, Place] = {}
        self._extents: dict[TopicPartition, Extent | None] = {}
        self._releases = Releases()
        self.moved: dict[TopicPartition, None] = {}
        """Partitions whose position may differ from the stored one. Buffers add themselves."""
        connector = options.connector
        self.gaps = GapNotes(connector.source_alias, run, clock, lost, in_transactions=in_transactions)
        self._mapping = OffsetMapping(began_ms)
        self._unmapped: dict[TopicPartition, PartitionBuffer] = {}
        self._in_transactions = in_transactions
        self.uncommitted = Uncommitted()
        self._open, self._due_at = 0, 0.0
        self._homes = LedgerHomes(options.topics, connector, offsets_partitions)
        self._refusing: dict[TopicPartition, PartitionBuffer] = {}
        self.misplaced = MisplacedNotes(connector.source_alias, run, clock)
        self.buffers: dict[TopicPartition, PartitionBuffer] = {}

    def begin(self, generation: int) -> None:
        """What is taken on from here on belongs to this generation."""
        self._mapping.generation = generation

    def adopt(self, partition: TopicPartition) -> None:
        """Take a partition on. Its start is stored at once: an idle one that starts at the log's end would start at
        another end the next time (invariant 1)."""
        self._stored.pop(partition, None)
        self.moved[partition] = None
        self._releases.cancel(partition)
        self._mapping.close(partition)

    def release(self, partition: TopicPartition) -> None:
        """Store the partition's last position once more, marked as released: its next owner waits for that."""
        self._releases.begin(partition)
        self.moved[partition] = None
        self._mapping.close(partition)

    def store_again(self) -> None:
        """The ledger has lost what was stored, nobody knows how much: each position is stored once more, of partitions
        that the task has. At least once, a release that is under way comes to lie behind the loss."""
        self.moved.update(dict.fromkeys(self._stored))
        self._stored.clear()
        if self._in_transactions:
            self._releases.send_again()

    def turn(self, partition: TopicPartition) -> None:
        """The source's log was rewritten: a new chunk maps its offsets from here on."""
        self._mapping.close(partition)

    def cut(self, buffer: PartitionBuffer, source: int, target: int) -> None:
        """The target's log was cut, and source offset `source` goes to `target`, or behind it. The map says so before
        any position lies beyond: what it said before is of records that are gone."""
        self._mapping.cut(buffer.source, source, target, buffer.place.lineage.topic_id)
        self._unmapped[buffer.source] = buffer

    def map_batches(self, partition: TopicPartition, batches: Iterable[Batch], *, is_alone: bool = True) -> None:
        """Note where the records of acknowledged batches went, for the translation of offsets."""
        for batch in batches:
            self._mapping.add(partition, batch, is_alone=is_alone)

    def map_spans(self, partition: TopicPartition, spans: Iterable[tuple[int, Span]], lineage: Lineage) -> None:
        """As `map_batches`: spans that lie alone from those places of the target on."""
        for target, span in spans:
            self._mapping.add_spans(partition, target, (span,), lineage.topic_id)

    @property
    def is_heartbeats(self) -> Callable[[str], bool]:
        """Whether a topic of the source is one of heartbeats, by its name."""
        return self._options.is_heartbeats

    @property
    def flush_seconds(self) -> float:
        return self._options.flush_seconds

    @property
    def settled(self) -> bool:
        return self._open == 0

    def due(self, now: float) -> bool:
        """Where the positions' partition takes long, others are not kept waiting for it for more than an interval."""
        can_take = self._can_take(self._homes.positions)
        if can_take and self.misplaced.are_due:
            return True
        return now >= self._due_at + (0.0 if can_take else self._options.flush_seconds)

    def may_rest(self, buffers: Mapping[TopicPartition, PartitionBuffer], now: float) -> bool:
        """Whether nothing is to be stored but the positions of a few heartbeats, and others were lately."""
        if now >= self._due_at + _HEARTBEATS_SECONDS - self._options.flush_seconds:
            return False
        is_urgent = self.gaps.are_known or self.misplaced.are_due or self._releases.due or self._mapping.cuts
        if is_urgent or self._refusing:
            return False
        waiting = (*self.moved, *self._unmapped, *self._mapping.touched)
        return all(self._is_of_few_heartbeats(where, buffers) for where in waiting)

    def _is_of_few_heartbeats(self, where: TopicPartition, buffers: Mapping[TopicPartition, PartitionBuffer]) -> bool:
        buffer, stored = buffers.get(where), self._stored.get(where)
        if buffer is None or stored is None or stored.lineage != buffer.lineage:
            return False
        return buffer.acknowledged - stored.offset <= _FEW_HEARTBEATS and self._options.is_heartbeats(where.topic)

    def is_untrue(self, buffers: Iterable[PartitionBuffer]) -> bool:
        """Whether a position that was composed in the open transaction lies beyond what the target has, or is missing.
        `buffers` are those of source partitions whose data the transaction holds."""
        if self._releases.are_in_doubt:
            return True
        stored = ((self._stored.get(buffer.source), buffer.place) for buffer in buffers)
        return any(composed is None or composed.order > place.order for composed, place in stored)

    def lacks_map(self, buffers: Iterable[PartitionBuffer]) -> bool:
        """Whether a cut of the target's log came to be known when the positions of these were composed already, and no
        map that says so is under way."""
        return any(self._mapping.is_untold(buffer.source) for buffer in buffers)

    # Where the ledger itself is refused.

    def note_refusal(self, ledger: PartitionBuffer) -> bool:
        """The target does not take what goes to a ledger partition; whether positions depend on it. On the offset map
        those depend alone that lie beyond a cut of the target's log."""
        if ledger.target == self._homes.status:
            return False
        self._refusing[ledger.target] = ledger
        return ledger.target != self._homes.maps or bool(self._mapping.cuts)

    def obstacle(self, where: TopicPartition) -> str:
        """Why the position of a partition cannot be stored now; "" where it can."""
        if not self._refusing:
            return ""
        self._refusing = {home: box for home, box in self._refusing.items() if box.is_failed}
        _, own = self._homes.of_position(where)
        homes = [own, self._homes.positions]
        if self.gaps.has_any(where):
            homes.append(self._homes.gaps)
        if where in self._mapping.cuts:
            homes.append(self._homes.maps)
        reasons = [f"{home}: {self._refusing[home].reason}" for home in homes if home in self._refusing]
        return f"its position cannot be stored in {reasons[0]}" if reasons else ""

    def _can_take(self, home: TopicPartition) -> bool:
        """Whether a ledger partition has no lot under way, and is not refused."""
        buffer = self.buffers.get(home)
        return buffer is None or (buffer.idle and not buffer.is_failed)

    def _must_wait(self, where: TopicPartition, home: TopicPartition) -> bool:
        """Whether a position may not be composed yet: behind one that is under way, a gap that is not stored, or a map
        that does not say yet that the target's log was cut."""
        homes = self._homes
        if not self._can_take(home) or not self._can_take(homes.positions):
            return True
        goes_first = [homes.gaps] if self.gaps.is_open(where) else []
        if where in self._mapping.cuts:
            goes_first.append(homes.maps)
        return any(not self._in_transactions or not self._can_take(one) for one in goes_first)

    def _can_release(self) -> bool:
        """Whether a release can be stored that is due."""
        homes = ((where, self._homes.of_position(where)[1]) for where in self._releases.due)
        return any(not self._must_wait(where, home) for where, home in homes)

    # Composing.

    def commit(self) -> None:
        """The transaction that held what was composed is committed."""
        self.uncommitted.keep()

    def roll_back(self) -> None:
        """It is aborted: all of it is due again. A gap is unless its partition goes back before it."""
        for buffer in self.buffers.values():
            buffer.rewind()
        self.uncommitted.forget()

    def pick(self, buffers: Mapping[TopicPartition, PartitionBuffer]) -> Collection[PartitionBuffer]:
        """Those that `compose` has to look at; in transactions all: what was sent moves them too."""
        if self._in_transactions:
            return buffers.values()
        return [buffers[where] for where in self.moved if where in buffers]

    def compose(
        self, buffers: Collection[PartitionBuffer], generation: int, status: Sequence[Report] | None
    ) -> list[PartitionBuffer]:
        """Queue records for all that changed among the buffers that `pick` gave; returns the ledger buffers that now
        have something to send.

        Without a status, as in most transactions, offset maps wait for the next time too.
        """
        self._due_at = self._clock.monotonic() + self._options.flush_seconds
        lots: dict[TopicPartition, list[Entry]] = {}
        if found := self.gaps.take(can_take=self._can_take(self._homes.gaps)):
            lots[self._homes.gaps] = found
        if self.misplaced.are_due and self._can_take(self._homes.positions):
            lots.setdefault(self._homes.positions, []).extend(self.misplaced.take())
        composed = self._add_positions(lots, buffers, generation)
        self._add_maps(lots, composed, are_due=status is not None or not self._in_transactions)
        if status and not (found and not self._in_transactions) and self._can_take(self._homes.status):
            lots.setdefault(self._homes.status, []).extend(Entry(*report) for report in status)
        else:
            for report in status or ():
                report.forget()
        return [self._queue(target, entries) for target, entries in lots.items()]

    def _add_positions(
        self, lots: dict[TopicPartition, list[Entry]], buffers: Iterable[PartitionBuffer], generation: int
    ) -> list[PartitionBuffer]:
        """Returns the buffers whose positions can be stored now; the others are looked at again."""
        composed: list[PartitionBuffer] = []
        waiting: list[TopicPartition] = []
        for buffer in buffers:
            where = buffer.source
            place = buffer.reach if self._in_transactions else buffer.place
            is_stored, leaves = self._stored.get(where) == place, where in self._releases.due
            if (leaves or not is_stored or self._is_outgrown(buffer)) and not self._releases.has_left(where):
                key, home = self._homes.of_position(where)
                if self._must_wait(where, home):
                    if not is_stored:
                        self._stored.pop(where, None)
                    waiting.append(where)
                    continue
                released = leaves and (is_stored or self._in_transactions)
                self._add_position(lots, buffer, place.position, generation, key, home, released=released)
                self._stored[where] = place
                if leaves and not released:
                    waiting.append(where)
            composed.append(buffer)
        self.moved.clear()
        self.moved.update(dict.fromkeys(waiting))
        return composed

    def _is_outgrown(self, buffer: PartitionBuffer) -> bool:
        """Whether a position is to be stored again for its extent alone. In transactions it is composed before the
        target has said where the records went: it has the extent of before, or that of a topic that was made again
        since. A longer one is stored when the partition rests."""
        extent = buffer.extent
        stored = self._extents.get(buffer.source, extent)
        if not self._in_transactions or extent is None or stored == extent:
            return False
        is_other = stored is None or stored[:2] != extent[:2]
        return is_other or (buffer.idle and self._clock.monotonic() - buffer.progressed_at > _REST_SECONDS)

    def _add_position(
        self,
        lots: dict[TopicPartition, list[Entry]],
        buffer: PartitionBuffer,
        position: Position,
        generation: int,
        key: bytes,
        home: TopicPartition,
        *,
        released: bool,
    ) -> None:
        """At least once, a release goes alone, behind both records of its position: were one of several refused, the
        others would show it as stored, and it came again when another task has the partition."""
        options, where = self._options, buffer.source
        forget = partial(self._forget_position, where)
        if not released or self._in_transactions:
            self._sequence += 1
            headers = (
                (positions.LOG_HEADER.encode(), positions.encode_log(position)),
                Mark(generation, self._sequence).header(),
            )
            lots.setdefault(home, []).append(Entry(key, connect.encode_value(position.offset), forget, headers))
        self._extents[where] = buffer.extent
        more = buffer.extent, buffer.keeps_offsets, buffer.sequence, buffer.coming_end
        record = PositionRecord(position, generation, self._task, released, self._run, *more)
        ours = positions.encode_key(options.connector.source_alias, where), positions.encode_value(record)
        keep = partial(self._releases.keep, where) if released else None
        lots.setdefault(self._homes.positions, []).append(Entry(*ours, forget, keep=keep))
        if released:
            self._releases.send(where)

    def _add_maps(
        self, lots: dict[TopicPartition, list[Entry]], buffers: list[PartitionBuffer], *, are_due: bool
    ) -> None:
        are_due |= bool(self._mapping.cuts)
        if are_due or not self._in_transactions:
            self._unmapped.update({buffer.source: buffer for buffer in buffers})
        if not are_due or not self._can_take(self._homes.maps):
            return
        reached, self._unmapped = self._unmapped, {}
        positions = {where: buffer.acknowledged for where, buffer in reached.items()}
        topic_ids = {where: buffer.extent.topic_id for where, buffer in reached.items() if buffer.extent is not None}
        for where, chunk, name in self._mapping.changed(positions, topic_ids):
            key = map_records.encode_key(self._options.connector.source_alias, where, name)
            value = map_records.encode_chunk(chunk.map.as_chunk())
            forget = partial(self._mapping.store_again, where, chunk)
            entry = Entry(key, value, forget, keep=self._mapping.kept(where, chunk))
            lots.setdefault(self._homes.maps, []).append(entry)

    def _forget_position(self, where: TopicPartition) -> None:
        self._stored.pop(where, None)
        self.moved[where] = None
        self._releases.forget(where)

    def _queue(self, target: TopicPartition, entries: list[Entry]) -> PartitionBuffer:
        buffer = self.buffers.get(target)
        if buffer is None:
            buffer = self.buffers[target] = PartitionBuffer(target, target, 0, -1, is_ledger=True, clock=self._clock)
        # Brokers refuse records of the future: which those are must not depend on our clock. In the status topic the
        # time counts, and no position depends on what is refused there.
        timestamp = self._clock.time_ns() // 1_000_000 if target == self._homes.status else NO_TIMESTAMP
        if self._in_transactions:
            self.uncommitted.add(entries)
        for lot in lots_of(entries):
            first, following = buffer.position, buffer.position + len(lot)
            records = [Record(0, timestamp, entry.key, entry.value, entry.headers) for entry in lot]
            batch = encode_batch(records, base_offset=first)
            self._open += 1
            settle = partial(self._settle, buffer, following, lot)
            buffer.accept(QueuedRecords(memoryview(bytearray(batch)), first, following, settle))
        return buffer

    def _settle(self, buffer: PartitionBuffer, following: int, lot: list[Entry]) -> None:
        """Acknowledged, or given up by a target that refuses it: then all of it is composed again."""
        self._open -= 1
        if buffer.acknowledged < following:
            self.uncommitted.drop(lot)
            for entry in lot:
                entry.forget()
        elif not self._in_transactions:
            keep_all(lot)
            if buffer.target == self._homes.gaps or self._can_release():
                self._due_at = 0.0  # the positions behind the gap, the release behind its position
