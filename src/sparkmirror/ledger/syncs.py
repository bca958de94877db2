"""MirrorMaker's offset syncs: decides which to write, and translates offsets by them alone; pure.

`OffsetSyncStore` follows that of connect-mirror 4.3 rule for rule: 64 syncs a partition, dense where new, sparse where
old. `ledger.translate` uses it for offsets that a MirrorMaker mirrored before SparkMirror took over.

`OffsetSyncWriter` of connect-mirror 4.3 judges record by record; here whole stretches of constant distance are judged
at once, which gives the same syncs for `sync.offset_job`. What it sends late or drops while ten syncs are unanswered is
dropped here too.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from sparkmirror.ledger.mirror_records import OffsetSync
from sparkmirror.ledger.offset_map import OffsetMap
from sparkmirror.model import TopicPartition

SLOTS: Final = 64
NOT_COVERED: Final = -1


class OffsetSyncStore:
    """Syncs of all partitions. `reading_to_end` replays MirrorMaker's start without checkpoints: only the newest stay.

    Set it to False once the topic's end is reached.
    """

    def __init__(self, *, reading_to_end: bool = False) -> None:
        self.reading_to_end = reading_to_end
        self._syncs: dict[TopicPartition, list[OffsetSync]] = {}

    def add(self, sync: OffsetSync) -> None:
        slots = self._syncs.get(sync.partition)
        if slots is None or self.reading_to_end or sync.upstream < slots[0].upstream:
            self._syncs[sync.partition] = [sync] * SLOTS
        else:
            self._syncs[sync.partition] = _updated(slots, sync)

    def translate(self, partition: TopicPartition, upstream: int) -> int | None:
        """The downstream offset: a sync's own if it is exact, else the one after the last sync before.

        None without any sync of the partition, NOT_COVERED where the oldest is later.
        """
        slots = self._syncs.get(partition)
        if slots is None:
            return None
        for sync in slots:
            if sync.upstream <= upstream:
                return sync.downstream + (sync.upstream < upstream)
        return NOT_COVERED


def _updated(old: list[OffsetSync], sync: OffsetSync) -> list[OffsetSync]:
    """`OffsetSyncStore.updateExistingSyncs`: each slot keeps its sync or takes one that fits from a nearer slot."""
    slots = list(old)
    slots[0] = candidate = sync
    replacement = 0
    for current in range(1, SLOTS):
        previous = current - 1
        while True:
            offered = old[replacement]
            fits = (
                _is_dense(slots[previous], offered, previous, current)
                and _is_sparse(slots[previous], offered, previous)
                and (current == SLOTS - 1 or _is_sparse(offered, slots[current + 1], current))
            )
            if fits:
                candidate = offered
            skip = offered is old[replacement + 1] or not _is_sparse(slots[previous], offered, previous)
            if fits or skip:
                replacement += 1
            if not (replacement < current and skip):
                break
        if _is_dense(slots[previous], slots[current], previous, current):
            break
        slots[current] = candidate
    return slots


def _is_dense(nearer: OffsetSync, farther: OffsetSync, i: int, j: int) -> bool:
    """Invariant B: no more than 2^j - 2^i between slots i and j. Java's sums wrap around."""
    bound = _int64(farther.upstream + (1 << j) - (1 << i))
    return bound < 0 or nearer.upstream <= bound


def _is_sparse(nearer: OffsetSync, farther: OffsetSync, i: int) -> bool:
    """Invariant C: at least 2^(i-2) between neighbours, unless both are the same sync."""
    if nearer is farther:
        return True
    bound = _int64(farther.upstream + (1 << max(i - 2, 0)))
    return bound >= 0 and nearer.upstream >= bound


def _int64(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


PENDING_MAX: Final = 10
"""The most syncs of one partition in one round; the newest stay."""


@dataclass(slots=True)
class _Emission:
    """One partition: the last record seen, the last one that was due, what is due, and what waits for a flush."""

    upstream: int = -1
    downstream: int = -1
    synced_downstream: int = -1
    pending: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=PENDING_MAX))
    delayed: tuple[int, int] | None = None


class SyncEmitter:
    """Decides for one flow. `lag_max` is `offset.lag.max`: at 0 every record is due."""

    def __init__(self, lag_max: int) -> None:
        self._lag_max = lag_max
        self._emissions: dict[TopicPartition, _Emission] = {}
        self._seen: dict[TopicPartition, int] = {}

    def resume(self, partition: TopicPartition, upstream: int) -> None:
        """A sync for `upstream` is in the topic already: records up to it are not looked at again."""
        self._seen[partition] = max(upstream + 1, self._seen.get(partition, 0))

    def add(self, partition: TopicPartition, first: int, records: int, downstream: int) -> None:
        """Consecutive records from `first` on, written from `downstream` on, were acknowledged."""
        state = self._emissions.setdefault(partition, _Emission())
        starts = state.synced_downstream == -1 or first - state.upstream != 1 or downstream < state.downstream
        due = downstream if starts else max(downstream, state.synced_downstream + 1 + self._lag_max)
        end = downstream + records
        dues = range(due, end, self._lag_max + 1)
        for at in dues[-PENDING_MAX:]:
            state.pending.append((first + at - downstream, at))
            state.synced_downstream = at
        state.upstream, state.downstream = first + records - 1, end - 1
        last = (state.upstream, state.downstream)
        state.delayed = None if state.synced_downstream == end - 1 else last

    def follow(self, partition: TopicPartition, found: OffsetMap) -> None:
        """All records that the map has learned of since the last call, or since the last sync there was."""
        seen = self._seen.get(partition, 0)
        if found.end_source < seen:
            seen = 0  # The source's offsets began again.
        seen = max(seen, found.newest_ranges(PENDING_MAX))  # Each is due: they leave nothing pending of those before.
        for first, records, downstream in found.stretches(seen):
            self.add(partition, first, records, downstream)
        self._seen[partition] = found.end_source

    def take(self, *, flushed: bool) -> list[OffsetSync]:
        """The syncs to write now; after a flush of positions the last record of each partition is among them."""
        found: list[OffsetSync] = []
        for partition, state in self._emissions.items():
            if flushed and state.delayed is not None:
                state.pending.append(state.delayed)
                state.delayed = None
            found += [OffsetSync(partition, upstream, downstream) for upstream, downstream in state.pending]
            state.pending.clear()
        return found

    def give_back(self, syncs: Iterable[OffsetSync]) -> None:
        """Syncs that `take` gave were not written: they are due again, before later ones."""
        for partition, unwritten in groupby(syncs, key=lambda sync: sync.partition):
            state = self._emissions[partition]
            places = [(sync.upstream, sync.downstream) for sync in unwritten]
            state.pending = deque([*places, *state.pending], maxlen=PENDING_MAX)
