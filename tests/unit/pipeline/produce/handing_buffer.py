"""A buffer of a source partition whose target knows its producer, and all that two ways of sending must agree on."""

from typing import Final

from tests.unit.pipeline.produce.known_producer import known

from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.acked_position import Place
from sparkmirror.pipeline.produce.direct_buffer import DirectBuffer
from sparkmirror.pipeline.produce.limits import TopicLimits
from sparkmirror.pipeline.produce.packing import Packing
from sparkmirror.pipeline.produce.queued_records import Batch

PRODUCER: Final = ProducerIdentity(1000, 7)
EPOCH: Final = 4


def new_buffer(packing: Packing | None = None, limits: TopicLimits | None = None) -> DirectBuffer:
    """It begins at offset 40, in the leader epoch EPOCH."""
    buffer = DirectBuffer(TopicPartition("orders", 0), None, 40, 5, packing=packing or Packing())
    buffer.aim("A.orders", limits or TopicLimits())
    buffer.restart_at(Place(40, Lineage(epochs=((EPOCH, 0),))))
    known(buffer, *PRODUCER)
    return buffer


def seen(buffer: DirectBuffer, sent: Batch) -> tuple[object, ...]:
    """Of the batch, of the run that it is of, and of the buffer."""
    queued = sent.queued
    return (
        bytes(sent.data), sent.sequence, sent.spans, sent.records, sent.next_offset, sent.lineage, sent.waiting,
        queued.first_offset, queued.next_offset, queued.at, queued.left_bytes, queued.header, queued.leader_epoch,
        queued.open_batches, queued.handed_out, queued.fetched_at_ms,
        buffer.position, buffer.reach, buffer.place, buffer.sendable,
    )  # fmt: skip
