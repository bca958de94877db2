"""What the parts of a sender want done beyond their own role. They put it into one queue, and
`pipeline.produce.produce_task` applies it, in one place, as soon as the part has returned: in order, but what an effect
asks for comes before the effects that wait behind it, as if the part had done it by itself.
"""

from collections import deque
from typing import NamedTuple

from sparkmirror.ledger.misplaced import Misplaced
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.queued_records import Batch


class Offer(NamedTuple):
    """The partition may have a batch to send."""

    buffer: PartitionBuffer


class BackOff(NamedTuple):
    """The partition sends nothing until the monotonic time `until`."""

    buffer: PartitionBuffer
    until: float


class Fail(NamedTuple):
    """Isolate the partition, and try it again later."""

    buffer: PartitionBuffer
    reason: str


class Hold(NamedTuple):
    """Isolate the partition for the rest of the run, for a cause that no retry removes."""

    buffer: PartitionBuffer
    reason: str


class NoteMisplaced(NamedTuple):
    """Store for all that come later that an offset of the target's log holds what does not belong there. `reason` is a
    clause for people."""

    buffer: PartitionBuffer
    found: Misplaced
    reason: str


class Settle(NamedTuple):
    """An answer that a failed partition waited for will not come, or has come."""

    buffer: PartitionBuffer


class Evict(NamedTuple):
    """The partition gives the reader's memory back."""

    buffer: PartitionBuffer


class InDoubt(NamedTuple):
    """The partition has failed, and the target may have batches of it that it did not acknowledge."""

    buffer: PartitionBuffer


class RefusePositions(NamedTuple):
    """The target refuses records of a ledger partition, on which positions depend."""

    ledger: PartitionBuffer


class Placed(NamedTuple):
    """The batch stands at `base_offset`, by more than its answer, which came at `came_at_ms`."""

    buffer: PartitionBuffer
    batch: Batch
    base_offset: int
    came_at_ms: int


class Advance(NamedTuple):
    """The target has acknowledged all before the partition's position, and these batches of it are to be mapped. Not
    `is_alone` where records of other source partitions may lie before them."""

    buffer: PartitionBuffer
    mapped: list[Batch]
    is_alone: bool = True


class Refuse(NamedTuple):
    """The target takes nothing for this partition of it: isolate all that goes there."""

    where: TopicPartition
    reason: str


class Absent(NamedTuple):
    """The coordinator does not know this target partition: its topic is gone, or not everywhere yet."""

    where: TopicPartition


class Speak(NamedTuple):
    """Use this transaction protocol, and this transactional id."""

    second_protocol: bool
    transactional_id: str


class Abort(NamedTuple):
    """The open transaction is given up, unless what was asked for before has ended it otherwise. `awaits_answers` if
    its partitions answer."""

    reason: str
    awaits_answers: bool = False


class Commit(NamedTuple):
    """The open transaction is committed."""


class RollBack(NamedTuple):
    """The open transaction is aborted: go back to the last commit."""


Effect = (
    Offer | BackOff | Fail | Hold | NoteMisplaced | Settle | Evict | InDoubt | RefusePositions | Placed | Advance
    | Refuse | Absent | Speak | Abort | Commit | RollBack
)  # fmt: skip
Effects = deque[Effect]
