"""MirrorMaker's own translation, from offset syncs alone: what it knows where no offset map reaches; pure.

Rule for rule `OffsetSyncStore` of connect-mirror 4.3: 64 syncs a partition, dense where new, sparse where old. Used by
`ledger.translate` for offsets that a MirrorMaker mirrored before SparkMirror took over.
"""

from typing import Final

from sparkmirror.ledger.mirror_records import OffsetSync
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
