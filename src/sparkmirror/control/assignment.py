"""The assignment of partitions to tasks: `Assigned`, a partition with its start, and `TaskPlan`; pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, NamedTuple, Self
from uuid import UUID
from zlib import crc32

from msgspec import Meta

from sparkmirror.ledger.committed_end import CommittedEnd
from sparkmirror.ledger.lineage import Extent, StoredEpochs
from sparkmirror.model import NO_TOPIC_ID, Epochs, Position, TopicPartition
from sparkmirror.policy.producer_memory import DAY_MS
from sparkmirror.policy.rates import RateLimit
from sparkmirror.stored_json import Count, Number, Offset, TopicName

if TYPE_CHECKING:
    from sparkmirror.control.commands import Pause, Resume, Share, Throttle


class Append(NamedTuple):
    """How a flow that keeps offsets appends to a partition: its producer id, the next sequence number there, and the
    target's topic with its id, which a hole before the first record is filled in. What is meant for this log is not for
    a later one of that name. `memory_ms` is how long the log knows a producer (`policy.producer_memory`)."""

    producer_id: Count
    sequence: Number
    topic: TopicName
    topic_id: UUID = NO_TOPIC_ID
    memory_ms: Count = DAY_MS


@dataclass(frozen=True, slots=True)
class Assigned:
    """A source partition handed to a task: where to start, and where to end when the run is bounded.

    `restarted_from` is set when the topic was found recreated: where the ledger stands in the old log, which holds
    until the gap between the two is taken. `extent` is how far the target's log must reach, by the ledger; `found` is
    set when it does not, and says how far it does. `unknown` says why the start is unknown: the partition is then
    FAILED, and neither read nor stored. `append` is set for flows that keep offsets, which have an `extent` only where
    they adopt a log. `committed_end` is what was committed in the target's partition, by the ledger; None if unknown.
    """

    partition: TopicPartition
    offset: int
    epochs: Epochs = ()
    topic_id: UUID = NO_TOPIC_ID
    end: int | None = None
    restarted_from: Position | None = None
    extent: Extent | None = None
    found: Extent | None = None
    unknown: str = ""
    append: Append | None = None
    committed_end: CommittedEnd | None = None

    @property
    def stands_at(self) -> Position:
        """The position by the ledger, which the target has reached."""
        return self.restarted_from or Position(self.offset, self.epochs, self.topic_id)


@dataclass(frozen=True, slots=True)
class StoredAssigned:
    """An `Assigned` as a record of the command topic has it."""

    topic: TopicName
    partition: Number
    offset: Offset
    epochs: StoredEpochs
    id: UUID
    end: Offset | None
    restarted_from: tuple[Offset, StoredEpochs, UUID] | None
    extent: Extent | None
    found: Extent | None
    unknown: Annotated[str, Meta(max_length=10_000)] = ""
    append: Append | None = None
    committed: CommittedEnd | None = None

    @classmethod
    def of(cls, item: Assigned) -> Self:
        where, before = item.partition, item.restarted_from
        return cls(
            where.topic,
            where.partition,
            item.offset,
            item.epochs,
            item.topic_id,
            item.end,
            None if before is None else (before.offset, before.epochs, before.topic_id),
            item.extent,
            item.found,
            item.unknown,
            item.append,
            item.committed_end,
        )

    def assigned(self) -> Assigned:
        before = None if self.restarted_from is None else Position(*self.restarted_from)
        where, target = TopicPartition(self.topic, self.partition), (self.extent, self.found)
        return Assigned(
            where,
            self.offset,
            self.epochs,
            self.id,
            self.end,
            before,
            *target,
            unknown=self.unknown,
            append=self.append,
            committed_end=self.committed,
        )


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The plan of one Spark task for an epoch. Pickled into its input partition.

    `brokers` and `leaders` spare the task its first look-up; `commands_from` is the offset of the command topic from
    which it listens; `offsets_partitions` is the real size of the target's offsets topic; `seconds` is how long the
    epoch lasts, 0 for as long as bounded partitions have not ended. `limits` are the rates of the flow's file, and
    `topics` its partitions by topic, by which tasks share them; `orders` are the operator's so far. `share` is set
    where several processes may share the flow; `secret` is the planner's, see `control.admission`. `producer_task` is
    the number in the producer's transactional id where that is not the task's own, and `spare` has number, producer id
    and epoch of a second one. `release` are partitions among `assigned` that it is ordered to let go of, and no ledger
    shows that it has. `sizing` says why the flow has so many tasks, and `siblings` which ones its process runs in the
    epoch, this one among them. `marks_from` is what an attempt before this one has marked its last position with
    (`ledger.copies`); `attempt` counts those before.
    """

    task: int
    run: str
    epoch: int
    generation: int
    seconds: float
    assigned: tuple[Assigned, ...]
    producer_id: int
    producer_epoch: int
    brokers: Mapping[int, tuple[str, int]]
    leaders: Mapping[TopicPartition, int]
    commands_from: int
    offsets_partitions: int
    limits: tuple[RateLimit, ...] = ()
    orders: "tuple[Pause | Resume | Throttle, ...]" = ()
    topics: Mapping[str, int] = field(default_factory=dict)
    share: "Share | None" = None
    secret: bytes = field(default=b"", repr=False)
    producer_task: int | None = None
    spare: tuple[int, int, int] | None = None
    sizing: str = ""
    siblings: tuple[int, ...] = ()
    marks_from: int = 0
    attempt: int = 0
    release: tuple[TopicPartition, ...] = ()


Assignment = Mapping[int, frozenset[TopicPartition]]


def home_task(partition: TopicPartition, tasks: int) -> int:
    """The task among `tasks` whose holder is to mirror the partition, where processes share a flow.

    The same in every process, whatever other topics there are: partitions of a topic go to one task after another.
    """
    return (crc32(partition.topic.encode()) + partition.partition) % tasks
