"""A partition buffer whose target's log has taken a batch of the producer just now: five may be under way."""

from sparkmirror.pipeline.produce.buffer import PartitionBuffer


def known(buffer: PartitionBuffer, producer_id: int, producer_epoch: int) -> PartitionBuffer:
    buffer._in_flight.identify(producer_id, producer_epoch)
    buffer._in_flight.become_known()
    buffer.progressed_at = buffer._clock.monotonic()
    return buffer
