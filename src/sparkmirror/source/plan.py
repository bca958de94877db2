"""Which task reads which partition: pure, sticky, balanced. Called by `source.planner`.

Also the two nouns that travel to the tasks: `Assigned`, a partition with its start, and `TaskPlan`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import TYPE_CHECKING
from uuid import UUID
from zlib import crc32

from sparkmirror.ledger.extent import Extent
from sparkmirror.model import NO_TOPIC_ID, Epochs, Position, TopicPartition
from sparkmirror.policy.rates import RateLimit

if TYPE_CHECKING:
    from sparkmirror.source.commands import Pause, Resume, Share


@dataclass(frozen=True, slots=True)
class Assigned:
    """A source partition handed to a task: where to start, and where to end when the run is bounded.

    `restarted_from` is set when the topic was found recreated: where the ledger stands in the old log, which holds
    until the gap between the two is taken. `extent` is how far the target's log must reach, by the ledger; `found` is
    set when it does not, and says how far it does.
    `unknown` says why nobody knows where to start: the partition is FAILED, and neither read nor stored.
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

    @property
    def stands_at(self) -> Position:
        """The position by the ledger, which the target has reached."""
        return self.restarted_from or Position(self.offset, self.epochs, self.topic_id)


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What one Spark task gets at the start of an epoch. Pickled into its input partition.

    `brokers` and `leaders` spare the task its first look-up; `commands_from` is the offset of the command topic from
    which it listens; `offsets_partitions` is the real size of the target's offsets topic; `seconds` is how long the
    epoch lasts, 0 for as long as bounded partitions have not ended. `limits` are the flow's rates, and `topics` its
    partitions by topic, by which tasks share them; `orders` are the operator's pauses and resumes so far. `share` is
    set where several processes may share the flow; `secret` is the planner's, see `source.admission`.
    `producer_task` is the number in the producer's transactional id where that is not the task's own, and `spare` has
    number, producer id and epoch of a second one.
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
    orders: "tuple[Pause | Resume, ...]" = ()
    topics: Mapping[str, int] = field(default_factory=dict)
    share: "Share | None" = None
    secret: bytes = field(default=b"", repr=False)
    producer_task: int | None = None
    spare: tuple[int, int, int] | None = None


Assignment = Mapping[int, frozenset[TopicPartition]]


def home_task(partition: TopicPartition, tasks: int) -> int:
    """The task among `tasks` whose holder is to mirror the partition, where processes share a flow.

    The same in every process, whatever other topics there are: partitions of a topic go to one task after another.
    """
    return (crc32(partition.topic.encode()) + partition.partition) % tasks


def plan_assignment(
    partitions: Collection[TopicPartition],
    tasks: Collection[int],
    previous: Assignment,
    bytes_per_second: Mapping[TopicPartition, float],
) -> dict[int, frozenset[TopicPartition]]:
    """Give each partition to one of the `tasks`: kept where it was, new ones to the task with the least load.

    Load is the byte rate, and where rates are equal the number of partitions, so that tasks differ by at most one
    partition when nothing is known. Deterministic: the same input gives the same plan.
    """
    wanted = set(partitions)
    owned: dict[int, set[TopicPartition]] = {task: set() for task in sorted(tasks)}
    for task, kept in previous.items():
        if task in owned:
            owned[task] = set(kept) & wanted
    placed = set().union(*owned.values()) if owned else set()
    load = {task: fsum(bytes_per_second.get(tp, 0.0) for tp in owned[task]) for task in owned}
    for partition in sorted(wanted - placed, key=lambda tp: (-bytes_per_second.get(tp, 0.0), tp)):
        task = min(owned, key=lambda candidate: (load[candidate], len(owned[candidate]), candidate))
        owned[task].add(partition)
        load[task] += bytes_per_second.get(partition, 0.0)
    return {task: frozenset(members) for task, members in owned.items()}


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that changes its task: released by the one before the other may start."""

    partition: TopicPartition
    from_task: int
    to_task: int


def plan_moves(before: Assignment, after: Assignment) -> tuple[tuple[Move, ...], dict[int, list[TopicPartition]]]:
    """What must happen to get from one assignment to another: moves, and partitions that nobody has owned yet."""
    owner = {partition: task for task, members in before.items() for partition in members}
    moves: list[Move] = []
    fresh: dict[int, list[TopicPartition]] = {}
    for task, members in sorted(after.items()):
        for partition in sorted(members):
            old = owner.get(partition)
            if old is None:
                fresh.setdefault(task, []).append(partition)
            elif old != task:
                moves.append(Move(partition, old, task))
    return tuple(moves), fresh
