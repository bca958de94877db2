"""What is true of a history, whatever the mirror says: every record that the source ever had, and what became of it."""

from dataclasses import dataclass, field
from enum import Enum
from uuid import UUID

from sparkmirror.model import TopicPartition


class Outcome(Enum):
    """Of the transaction that a record was written in, if any."""

    PLAIN, OPEN, COMMITTED, ABORTED = range(4)


@dataclass(slots=True)
class Written:
    """One record of the source. `rank` counts over all logs that the partition has had; `is_over_cut` says that it lies
    in a log that was cut before: once it is deleted, unread, the brokers no longer tell of either. `may_be_read` says
    that a consumer of committed records could read it at some time, `may_be_passed` that it could pass it as aborted,
    before its marker was lost by a cut. `at` is when it was written."""

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
    at: float = 0.0

    def settle(self, outcome: Outcome) -> None:
        """Its transaction has ended, or is open again."""
        self.outcome = outcome
        self.may_be_read |= outcome is Outcome.COMMITTED
        self.may_be_passed |= outcome is Outcome.ABORTED


NEVER = float("inf")
CUT, DELETED, MADE_AGAIN = "cut", "deleted", "made again"
"""What a source's log may lose records by."""
_DISORDER_SECONDS = 5.0
"""What was under way when a log of the target lost its end, or is a new one, came to stand by then."""


@dataclass(slots=True)
class PartitionTruth:
    """`logs` are the ids of the source's topic, the last one as it is now, and `truncations` are of that one. In logs
    of `blind` nobody can know what is missing: they turned while the ledger's position told no log. `lost_on_target`
    are values that the target had and lost by no fault of the mirror."""

    records: dict[bytes, Written] = field(default_factory=dict)
    logs: list[UUID] = field(default_factory=list)
    source_losses: set[str] = field(default_factory=set)
    truncations: int = 0
    blind: set[UUID] = field(default_factory=set)
    is_unseen: bool = False
    """Whether the next log of the source comes unseen, since the position tells none."""
    target_losses: int = 0
    whole_to: float = NEVER
    settled_at: float = -NEVER
    """Below `whole_to` no loss has touched the target's log that is there now, and what the source has had since
    `settled_at` comes behind all losses: NEVER until something is appended behind the last one."""
    is_unmapped: bool = False
    """Whether another program mirrored behind a cut of the target's log, of which no map of ours tells."""
    lost_on_target: set[bytes] = field(default_factory=set)

    @property
    def is_blind(self) -> bool:
        return self.blind.intersection(self.logs[-1:]) != set()

    def begin_log(self, topic_id: UUID) -> None:
        """The source's topic is made: nothing that a cut of the former log has left open is open in this one."""
        self.logs.append(topic_id)
        self.truncations = 0
        if self.is_unseen:
            self.blind.add(topic_id)
        self.is_unseen = False

    def is_in_order(self, one: Written, offset: int) -> bool:
        """Whether no loss of the target's log explains that a record stands before an earlier one."""
        return offset < self.whole_to or one.at > self.settled_at

    def lose_target(self, end: int) -> None:
        """The target's log ends at `end` now, or is another one, which is empty."""
        self.target_losses += 1
        self.whole_to, self.settled_at = min(self.whole_to, end), NEVER

    def lose_order(self, offset: int) -> None:
        """What stands at `offset` and behind has lost its marker: the next one may commit what was aborted."""
        self.whole_to = min(self.whole_to, offset)

    def append_on_target(self, now: float) -> None:
        self.settled_at = min(self.settled_at, now + _DISORDER_SECONDS)


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

    def write(
        self, where: TopicPartition, value: bytes, topic_id: UUID, offset: int, outcome: Outcome, at: float
    ) -> None:
        truth = self.of(where)
        found = truth.records
        found[value] = Written(
            value, len(found), topic_id, offset, is_over_cut=truth.truncations > 0, outcome=outcome,
            may_be_read=outcome is Outcome.PLAIN, at=at,
        )  # fmt: skip
