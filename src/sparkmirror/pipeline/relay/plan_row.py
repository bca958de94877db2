"""What the JSON of plan and gap rows says: written by the reading end, read by the writing end."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self
from uuid import UUID

from msgspec import Struct, field

from sparkmirror.control.assignment import Assigned, TaskPlan
from sparkmirror.ledger.lineage import StoredEpochs
from sparkmirror.pipeline.relay.ring import RingAddress
from sparkmirror.pipeline.relay.schema import PLAN, Row
from sparkmirror.stored_json import decode, encode

_BYTES_MAX: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class PlanRow:
    """The task's identity, the address of its reader's ring, and the new partitions, each with its slot.

    `producer_task` is the number in the producer's transactional id where that is not the task's own, and `spare` has
    number, producer id and epoch of a second one. `sizing` says why the flow has so many tasks, `siblings` which ones
    its process runs. `marks_from` is what an attempt before this one has marked its last position with, and `attempt`
    counts those before.
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
    sizing: str = ""
    siblings: tuple[int, ...] = ()
    marks_from: int = 0
    attempt: int = 0

    @property
    def transactional_task(self) -> int:
        return self.task if self.producer_task is None else self.producer_task

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """Parse a plan row's payload, of any number of partitions. Raises ProtocolError."""
        return decode(payload, cls, "A plan row", bytes_max=_BYTES_MAX)


class GapRow(Struct, frozen=True):
    """Why the source goes on elsewhere, "" where nothing was lost; the log that it goes on in; and how often the log
    that ends here had been found rewritten.
    """

    cause: str
    id: UUID
    epochs: StoredEpochs
    from_turns: int = field(name="from")


def plan_row(plan: TaskPlan, generation: int, assigned: Iterable[tuple[Assigned, int]], ring: RingAddress) -> Row:
    """The row that opens the task's stream for the writer: the task's identity, the ring, and each partition's
    start."""
    told = PlanRow(
        task=plan.task,
        run=plan.run,
        epoch=plan.epoch,
        generation=generation,
        producer_id=plan.producer_id,
        producer_epoch=plan.producer_epoch,
        ring=ring,
        offsets_partitions=plan.offsets_partitions,
        partitions=tuple(assigned),
        producer_task=plan.producer_task,
        spare=plan.spare,
        sizing=plan.sizing,
        siblings=plan.siblings,
        marks_from=plan.marks_from,
        attempt=plan.attempt,
    )
    return Row(PLAN, payload=encode(told))
