"""Up to where a producer's records in a partition of the target are committed; pure.

Stored with a position that was written in a transaction (`ledger.positions`). Where a transaction lies open in the
partition that no coordinator knows any more, it tells whether that one was committed or aborted
(`pipeline.produce.left_open`, `planning.left_behind`).
"""

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from sparkmirror.stored_json import Count, Number

if TYPE_CHECKING:
    from sparkmirror.kafka.wire.open_transactions import OpenTransaction

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


class Verdict(Enum):
    """Of a partition of the target."""

    CLEAN = "nothing is open"
    ABORTED = "what is open was aborted"
    COMMITTED = "what is open was committed"
    UNKNOWN = "whether what is open was committed is not known"


def judge(found: "OpenTransaction | None", producer_id: int, end: CommittedEnd | None) -> Verdict:
    """What the transaction is that a leader has found open, by what is committed there."""
    if found is None:
        return Verdict.CLEAN
    if end is None or end.producer_id != producer_id or found.last_sequence < 0:
        return Verdict.UNKNOWN
    return Verdict.COMMITTED if end.covers(found.epoch, found.last_sequence + 1) else Verdict.ABORTED
