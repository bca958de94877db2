"""Up to where a producer's records in a partition of the target are committed; pure.

Stored with a position that was written in a transaction (`ledger.positions`). Where a transaction lies open in the
partition that no coordinator knows any more, it tells whether that one was committed or aborted
(`pipeline.produce.left_open`).
"""

from typing import Final, NamedTuple

from sparkmirror.stored_json import Count, Number

_SEQUENCES: Final = 1 << 31


class CommittedEnd(NamedTuple):
    """All that the producer has written before this sequence number of this epoch is committed, or ended otherwise."""

    producer_id: Count
    epoch: Number
    sequence: Number

    def covers(self, epoch: int, following: int) -> bool:
        """Whether the producer's record before the sequence number `following` of that epoch is one of these. Sequence
        numbers begin again after 2^31, and no transaction has half as many."""
        if epoch != self.epoch:
            return epoch < self.epoch
        return (self.sequence - following) % _SEQUENCES < _SEQUENCES // 2
