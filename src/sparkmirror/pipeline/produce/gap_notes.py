"""Gaps of source partitions on their way to the ledger. Pure; owned by `pipeline.produce.progress`."""

from collections.abc import Callable
from functools import partial
from uuid import UUID

from sparkmirror.clock import Clock
from sparkmirror.ledger import gaps
from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.acked_position import FoundGap, Order
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.ledger_entries import Entry


class GapNotes:
    """A gap goes to the ledger once its partition has got so far, before any position beyond it (invariant 1)."""

    def __init__(
        self, source_alias: str, run: str, clock: Clock, lost: Callable[[Gap], None], *, in_transactions: bool
    ) -> None:
        """`lost` is called with each gap once it is stored."""
        self._source_alias, self._run, self._clock = source_alias, run, clock
        self._lost = lost
        self._in_transactions = in_transactions
        self._gapped: dict[TopicPartition, PartitionBuffer] = {}
        self._open: set[TopicPartition] = set()

    def add(
        self,
        buffer: PartitionBuffer,
        cause: str,
        expected: int,
        resumed: int,
        action: str,
        topic_id: UUID,
        beyond: Order | None,
    ) -> None:
        """The partition's log is not where it was left. `beyond` is as `FoundGap` has it."""
        at_ms = self._clock.time_ns() // 1_000_000
        gap = Gap(buffer.source, cause, expected, resumed, action, at_ms, topic_id, self._run)
        buffer.find_gap(FoundGap(gap, beyond))
        self._gapped[buffer.source] = buffer

    @property
    def are_known(self) -> bool:
        """Whether the ledger lacks a gap of any partition."""
        return bool(self._gapped)

    def has_any(self, where: TopicPartition) -> bool:
        """Whether the ledger lacks a gap of the partition."""
        buffer = self._gapped.get(where)
        return buffer is not None and bool(buffer.gaps)

    def is_open(self, where: TopicPartition) -> bool:
        """Whether a gap that the partition has reached is not stored, or under way."""
        return where in self._open

    def awaits(self, buffer: PartitionBuffer) -> bool:
        """Whether a loss is to be stored before the offsets that it has left are filled: a process that comes later
        goes on behind them, and never meets it."""
        return buffer.source in self._open or any(self._is_due(buffer, found) for found in buffer.gaps)

    def take(self, *, can_take: bool) -> list[Entry]:
        """Those that their partitions have reached, if the ledger can take them now."""
        if can_take:
            self._open.clear()
        taken: list[Entry] = []
        for where, buffer in list(self._gapped.items()):
            due = [found for found in buffer.gaps if self._is_due(buffer, found)]
            if due:
                self._open.add(where)
            if due and can_take:
                taken += self._take_of(buffer, due)
            if not buffer.gaps:
                del self._gapped[where]
        return taken

    def _is_due(self, buffer: PartitionBuffer, found: FoundGap) -> bool:
        if found.beyond is None:
            return buffer.quiet
        if buffer.keeps_offsets and buffer.settled and buffer.acknowledged >= found.gap.expected:
            return True
        return found.is_met((buffer.reach if self._in_transactions else buffer.place).order)

    def _take_of(self, buffer: PartitionBuffer, due: list[FoundGap]) -> list[Entry]:
        buffer.take_gaps(due)
        return [self._entry(buffer, found) for found in due]

    def _entry(self, buffer: PartitionBuffer, found: FoundGap) -> Entry:
        gap = found.seen_from(buffer.acknowledged)
        forget, keep = partial(self._return, buffer, found), partial(self._lost, gap)
        return Entry(
            gaps.encode_key(self._source_alias, gap),
            gaps.encode_value(gap),
            forget,
            keep=keep,
            holds=partial(buffer.has_met, found),
        )

    def _return(self, buffer: PartitionBuffer, found: FoundGap) -> None:
        buffer.return_gap(found)
        self._gapped[buffer.source] = buffer
