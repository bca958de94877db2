"""What the row thread hands to the sender thread: a run, or a range of records that transforms or a partitioner made.

Made by `pipeline.produce.writer`, `pipeline.produce.record_writer` and `pipeline.produce.repartition`, for
`pipeline.produce.produce_task`, `pipeline.produce.gate` and `pipeline.produce.routing`.
"""

from typing import TYPE_CHECKING, NamedTuple

from sparkmirror.model import NO_EPOCH, TopicPartition

if TYPE_CHECKING:
    from sparkmirror.batch.piece import Piece


class Delivery(NamedTuple):
    """A row for the sender: the schema's fields that it needs, with the bytes of the run as writable memory."""

    kind: str
    partition: TopicPartition | None
    target_topic: str | None
    first_offset: int
    next_offset: int
    records: int
    high_watermark: int
    max_timestamp: int
    payload: memoryview
    lease: int | None
    fetched_at_ms: int = 0
    leader_epoch: int = NO_EPOCH
    turns: int = 0


class Bundle(NamedTuple):
    """One range of a source partition (`delivery`, without payload) and the batches that its records became.

    Without batches the range was dropped as a whole. The reader counts `size_bytes` as outstanding until it is done,
    the writer `extra_bytes`, which the batches take beyond that; `problem` says why the range cannot be passed on.
    `is_mapped` says that the offset map is to have the records which stay in the partition that mirrors theirs.
    """

    delivery: Delivery
    size_bytes: int
    pieces: "tuple[tuple[TopicPartition, Piece], ...]" = ()
    problem: str = ""
    extra_bytes: int = 0
    is_mapped: bool = True


class MadeRange(NamedTuple):
    """As `Bundle`, of a flow all of whose records stay in the partition that mirrors theirs, where each becomes one
    record, or none."""

    delivery: Delivery
    size_bytes: int
    pieces: "tuple[Piece, ...]" = ()
    problem: str = ""
    extra_bytes: int = 0


Arrival = Delivery | Bundle | MadeRange
