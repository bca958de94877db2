"""What is true of a history, whatever the mirror says: every record that the source ever had, and what became of it."""

from dataclasses import dataclass, field
from enum import Enum
from uuid import UUID

from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import TopicPartition


class Outcome(Enum):
    """Of the transaction that a record was written in, if any."""

    PLAIN, OPEN, COMMITTED, ABORTED = range(4)


@dataclass(slots=True)
class Written:
    """One record of the source. `rank` counts over all logs that the partition has had; `is_over_cut` says that it lies
    in a log that was cut before: once it is deleted, unread, the brokers no longer tell of either. `may_be_read` says
    that a consumer of committed records could read it at some time, `may_be_passed` that it could pass it as aborted,
    before its marker was lost by a cut."""

    value: bytes
    rank: int
    topic_id: UUID
    offset: int
    is_over_cut: bool = False
    is_truncated: bool = False
    is_compacted: bool = False
    outcome: Outcome = Outcome.PLAIN
    may_be_read: bool = True
    may_be_passed: bool = False

    def settle(self, outcome: Outcome) -> None:
        """Its transaction has ended, or is open again."""
        self.outcome = outcome
        self.may_be_read |= outcome is Outcome.COMMITTED
        self.may_be_passed |= outcome is Outcome.ABORTED


@dataclass(slots=True)
class PartitionTruth:
    """`lost_on_target` are values that the target had and lost by no fault of the mirror. `is_blind` says that the log
    turned while the ledger's position told no log: nobody can know what is missing."""

    records: dict[bytes, Written] = field(default_factory=dict)
    source_losses: int = 0
    truncations: int = 0
    target_losses: int = 0
    is_blind: bool = False
    cuts: list[tuple[int, frozenset[Gap]]] = field(default_factory=list)
    """Where the target's log was cut by unclean elections, each with the losses that the ledger knew then."""
    is_unmapped: bool = False
    """Whether another program mirrored behind a cut of the target's log, of which no map of ours tells."""
    lost_on_target: set[bytes] = field(default_factory=set)


class Truth:
    """By source partition."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, PartitionTruth] = {}
        self._count = 0

    def of(self, where: TopicPartition) -> PartitionTruth:
        return self.partitions.setdefault(where, PartitionTruth())

    def next_value(self, where: TopicPartition) -> bytes:
        self._count += 1
        return b"%d/%06d" % (where.partition, self._count)

    def write(self, where: TopicPartition, value: bytes, topic_id: UUID, offset: int, outcome: Outcome) -> None:
        found = self.of(where).records
        found[value] = Written(
            value, len(found), topic_id, offset, is_over_cut=self.of(where).truncations > 0, outcome=outcome,
            may_be_read=outcome is Outcome.PLAIN,
        )  # fmt: skip
