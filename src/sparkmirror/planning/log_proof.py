"""Reads what lies above a stored position on both clusters, for flows that keep offsets: the flow must have written it,
and it must stand where the source has it. Called by `planning.offset_starts`; `planning.log_comparison` compares.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from sparkmirror.errors import ClusterUnreachable, SparkMirrorError
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.batch_owners import LogParted, OwnedBatch, OwnerReader, read_owners
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.model import TopicPartition
from sparkmirror.planning.log_comparison import Common, are_same_at, first_difference, first_parting
from sparkmirror.policy.fillers import SEQUENCES, Hole

_LATE: Final = "the target's records from offset {} on were appended twice, or late"


class NotIdentical(SparkMirrorError):
    """The target's log is not the flow's copy of the source's; a clause. They differ at `offset`, if that is known."""

    def __init__(self, message: str, hint: str = "", offset: int | None = None) -> None:
        super().__init__(message, hint)
        self.offset = offset


class Foreign(NotIdentical):
    """Something else has written to it, which may have the source's offsets too."""


@dataclass(frozen=True, slots=True)
class LogProof:
    """The two clusters of a flow; `is_committed` is the source's isolation level, `filler_ids` are the producer ids of
    the flow's fillers in the partition."""

    source: ClientSettings
    target: ClientSettings
    is_committed: bool
    producer_id: int
    filler_ids: frozenset[int] = frozenset()

    def prove(
        self,
        where: TopicPartition,
        remote: TopicPartition,
        known: Lineage,
        read: Hole,
        there: "Expected",
        source_end: int,
        common: Common,
    ) -> Lineage:
        """The lineage of the source's log at `read.stop`, which was `known` at `read.first`.

        The target is read from a batch before `there` on, which may lie before `read.first`: what is between the source
        has no longer. What the logs have in `common` is counted. Raises NotIdentical, and ClusterError where a log
        cannot be read.
        """
        passed = _Passed(known)
        epoch = known.up_to(read.first).leader_epoch  # one that begins there may never have had a record
        source = passed.note(
            read_owners(self.source, where, *read, is_committed=self.is_committed, epoch=epoch), read.first
        )
        batches = read_owners(self.target, remote, max(there.offset - 1, there.begins), read.stop)
        lost = Hole(there.offset, read.first)
        with closing(OwnerReader(self.target, remote)) as again:
            fills = partial(OwnedBatch.takes_up, filler_ids=self.filler_ids, is_aborted=again.is_aborted)
            own = self._note_sequence(require_own(batches, self.producer_id, there, fills), there.offset, common)
            self._require_same(source, require_placed(own, lost, self.filler_ids), common, read.first)
        return self._read_behind(where, passed, max(passed.reached, read.first), read.stop, source_end)

    @staticmethod
    def _require_same(source: Iterator[OwnedBatch], target: Iterator[OwnedBatch], common: Common, begins: int) -> None:
        try:
            found = first_difference(source, target, common, begins)
            deque(target, maxlen=0)
            deque(source, maxlen=0)
        except ClusterUnreachable:
            deque(target, maxlen=0)  # a source that is silent at an offset may never have had it
            raise
        except LogParted as parted:
            raise NotIdentical(f"the source's log was cut below what the target has: {parted}") from parted
        if found is not None:
            raise NotIdentical(f"the target has something else at offset {found} than its source", offset=found)

    def _note_sequence(self, batches: Iterable[OwnedBatch], first: int, common: Common) -> Iterator[OwnedBatch]:
        """From offset `first` on: what lies before is behind the sequence number that the ledger has."""
        for batch in batches:
            if _is_own(batch, self.producer_id) and batch.first >= first:
                common.next_sequence, common.next_offset = _next_sequence(batch), batch.stop
            yield batch

    def _read_behind(
        self, where: TopicPartition, passed: "_Passed", reached: int, stop: int, source_end: int
    ) -> Lineage:
        """Of a log that ends within a hole of its source the epoch is that of what follows there: the one before may
        end where the hole begins."""
        if reached < stop < source_end:
            batch = next(read_owners(self.source, where, reached, source_end), None)
            if batch is not None:
                return passed.lineage.read(batch.header.partition_leader_epoch, reached)
        return passed.lineage

    def compare(
        self,
        where: TopicPartition,
        remote: TopicPartition,
        known: Lineage,
        offsets: Hole,
        source_end: int,
        common: Common,
    ) -> Lineage:
        """As `prove`, of records that anybody may have written on the target."""
        passed = _Passed(known)
        source, target = (
            read_owners(settings, place, *offsets, is_committed=self.is_committed)
            for settings, place in ((self.source, where), (self.target, remote))
        )
        noted, placed = passed.note(source, offsets.first), self._require_placed_own(target)
        found = first_parting(noted, placed, is_committed=self.is_committed, common=common, begins=offsets.first)
        if found is not None:
            raise NotIdentical(f"the target has something else at offset {found} than its source")
        deque(placed, maxlen=0)  # also behind all that the source still has
        deque(noted, maxlen=0)
        return self._read_behind(where, passed, max(passed.reached, offsets.first), offsets.stop, source_end)

    def _require_placed_own(self, batches: Iterable[OwnedBatch]) -> Iterator[OwnedBatch]:
        """The batches. Raises NotIdentical at one of the flow's that was meant for a former log."""
        for batch in batches:
            if _is_own(batch, self.producer_id) and _is_ahead(batch):
                raise NotIdentical(_LATE.format(batch.first))
            yield batch

    def is_same_at(self, where: TopicPartition, remote: TopicPartition, offset: int) -> bool:
        """Whether both logs have a record at this offset, and the same one, or neither is to have one
        (`log_comparison.are_same_at`). Raises ClusterError, but not where the source is silent: it may have nothing
        there any more."""
        target = read_owners(self.target, remote, offset, offset + 1)
        source = read_owners(self.source, where, offset, offset + 1, is_committed=self.is_committed)
        try:
            return are_same_at(offset, [*islice(source, 1)], [*islice(target, 1)], self.filler_ids)
        except ClusterUnreachable:
            return False

    def has_filled(self, remote: TopicPartition, *offsets: int) -> bool:
        """Whether the batches that hold these offsets are the flow's empty records, or the next ones where compaction
        has removed those: all have the same key. Raises ClusterError."""
        stop = max(offsets) + 1
        firsts = (islice(read_owners(self.target, remote, at, stop), 1) for at in set(offsets))
        return all(are_start_fillers(first, self.producer_id) for first in firsts)

    def has_just_filled(self, remote: TopicPartition, *offsets: int) -> bool:
        """As `has_filled`, of what this process has appended: the broker may have compressed it otherwise. A log tells
        a batch by its sequence numbers alone, and may have taken it for another one, with records."""
        stop = max(offsets) + 1
        found = [next(read_owners(self.target, remote, at, stop), None) for at in set(offsets)]
        return all(one is not None and one.may_fill_start and one.producer_id == self.producer_id for one in found)


@dataclass(slots=True)
class _Passed:
    """What was read of a source's log, up to the offset that was `reached`."""

    lineage: Lineage
    reached: int = 0

    def note(self, batches: Iterable[OwnedBatch], first: int) -> Iterator[OwnedBatch]:
        for batch in batches:
            self.lineage = self.lineage.read(batch.header.partition_leader_epoch, max(batch.first, first))
            self.reached = batch.stop
            yield batch


class Expected(NamedTuple):
    """Where a log goes on that `begins` somewhere before: the flow's next batch from `offset` on has this `sequence`
    number, if that is known."""

    offset: int
    sequence: int | None = None
    begins: int = 0


def require_own(
    batches: Iterable[OwnedBatch],
    producer_id: int,
    expected: Expected | None = None,
    fills: Callable[[OwnedBatch], bool] = lambda batch: batch.is_filler,
) -> Iterator[OwnedBatch]:
    """The batches. Raises Foreign at one that neither the flow wrote, nor `fills` offsets, and NotIdentical at one of
    the flow that was appended twice, or late: a log that has forgotten a producer takes any sequence number of it, and
    so does one that was cut. What lies before the `expected` offset may be adopted."""
    before: Expected | None = None
    for batch in batches:
        if expected is not None and batch.first >= expected.offset:
            before, expected = (before if expected.sequence is None else expected), None
        if _is_own(batch, producer_id):
            if _is_ahead(batch):
                raise NotIdentical(_LATE.format(batch.first))
            if before is not None and not _continues(before, batch):
                raise NotIdentical(_LATE.format(batch.first))
            before = Expected(batch.stop, _next_sequence(batch))
        elif (expected is None or batch.stop > expected.offset) and not fills(batch):
            raise Foreign(f"somebody else has written records to the target from offset {batch.first} on")
        yield batch


def require_placed(batches: Iterable[OwnedBatch], lost: Hole, filler_ids: Container[int]) -> Iterator[OwnedBatch]:
    """The batches. Raises NotIdentical at what takes up offsets, as the flow's fillers do, but is none of theirs, where
    the source has `lost` its records: what belongs there came to stand behind it, and nothing else shows that."""
    for batch in batches:
        is_lost = batch.first < lost.stop and batch.stop > lost.first
        if is_lost and batch.is_filler and batch.producer_id not in filler_ids:
            raise NotIdentical(
                f"somebody else has written a marker to the target at offset {batch.first}, and the source no longer "
                "has the record that belongs there"
            )
        yield batch


def _is_own(batch: OwnedBatch, producer_id: int) -> bool:
    return batch.producer_id == producer_id and not batch.header.is_control


def _next_sequence(batch: OwnedBatch) -> int:
    return (batch.header.base_sequence + batch.header.last_offset_delta + 1) % SEQUENCES


def _is_ahead(batch: OwnedBatch) -> bool:
    """Whether its sequence number is beyond its offset: numbers begin with an offset, and fillers take none. So it was
    meant for a higher one, in a log that was there before. Nobody knows where numbers have begun again meanwhile."""
    return batch.header.base_sequence > batch.first and batch.first < SEQUENCES


def _continues(before: Expected, batch: OwnedBatch) -> bool:
    """Between the two, fillers take offsets and no sequence numbers, and compaction may have removed batches. Who takes
    over a log that does not know the producer, and of which no position is stored, begins with the offset as the
    sequence number."""
    assert before.sequence is not None
    passed = (batch.header.base_sequence - before.sequence) % SEQUENCES
    return passed <= batch.first - before.offset or batch.header.base_sequence == batch.first % SEQUENCES


def are_start_fillers(batches: Iterable[OwnedBatch], producer_id: int) -> bool:
    """Whether all of the batches, and one at least, hold nothing but the flow's empty records."""
    kinds = [batch.fills_start and batch.producer_id == producer_id for batch in batches]
    return bool(kinds) and all(kinds)
