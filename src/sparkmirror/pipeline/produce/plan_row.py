"""The plan row as the writing end reads it; the counterpart of `pipeline.fetch.partitions.plan_row`."""

from dataclasses import dataclass
from typing import Final, Self

from sparkmirror.control.assignment import Assigned
from sparkmirror.control.command_decoding import StoredAssigned
from sparkmirror.decoding import decode
from sparkmirror.pipeline.relay.ring import RingAddress

_BYTES_MAX: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class PlanRow:
    """Who the task is, where its reader's ring lies, and the partitions that are new, each with its slot.

    `producer_task` is the number in the producer's transactional id where that is not the task's own, and `spare` has
    number, producer id and epoch of a second one.
    """

    task: int
    run: str
    epoch: int
    generation: int
    producer_id: int
    producer_epoch: int
    ring: RingAddress
    offsets_partitions: int
    partitions: tuple[tuple[Assigned, int], ...]
    producer_task: int | None = None
    spare: tuple[int, int, int] | None = None

    @property
    def transactional_task(self) -> int:
        return self.task if self.producer_task is None else self.producer_task

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Of a task with any number of partitions. Raises ProtocolError."""
        row = decode(payload, _Stored, "A plan row", bytes_max=_BYTES_MAX)
        return cls(
            row.task,
            row.run,
            row.epoch,
            row.generation,
            *row.producer,
            row.ring,
            row.offsets_partitions,
            tuple((item.assigned(), item.slot) for item in row.partitions),
            row.producer_task,
            row.spare,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredPartition(StoredAssigned):
    slot: int


@dataclass(frozen=True, slots=True)
class _Stored:
    task: int
    run: str
    epoch: int
    generation: int
    producer: tuple[int, int]
    ring: RingAddress
    offsets_partitions: int
    partitions: tuple[_StoredPartition, ...]
    producer_task: int | None = None
    spare: tuple[int, int, int] | None = None
