"""What the row thread hands to the sender thread. Made by `pipeline.produce.writer`, for `pipeline.produce.sender` and
`pipeline.produce.gate`."""

from typing import NamedTuple

from sparkmirror.model import NO_EPOCH, TopicPartition


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
