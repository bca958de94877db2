"""Judges where the target's log has put the batches of a flow that keeps offsets: at their own offsets, or their
partition is held. Called by `pipeline.produce.produce_task`.

A log that has a batch of the same sequence numbers takes a batch for that one, whatever is in either: a process that
slept may have sent what it had read before the source lost it, or was cut. So what stands there is read back
(`pipeline.produce.read_back`), unless the answer says that it is what was sent.
"""

from sparkmirror.batch.header import latest_ms
from sparkmirror.kafka.errors import NO_ERROR
from sparkmirror.kafka.wire.data_requests import ProducedPartition
from sparkmirror.pipeline.produce.aligned_buffer import AlignedBuffer
from sparkmirror.pipeline.produce.aligned_gate import hold_misplaced
from sparkmirror.pipeline.produce.aligned_offsets import AlignedOffsets
from sparkmirror.pipeline.produce.answer_taker import AnswerTaker
from sparkmirror.pipeline.produce.answers import DUPLICATE_SEQUENCE
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.queued_records import Batch


class AlignedAnswers(AnswerTaker):
    """A batch that stands elsewhere is never acknowledged: no position lies beyond it, so that the next planner finds
    it in the log (`planning.offset_starts`). The ledger notes where it stands, should the source lose what tells."""

    def take(
        self, buffer: PartitionBuffer, batch: Batch, produced: ProducedPartition, now: float, came_at_ms: int = 0
    ) -> None:
        """As `AnswerTaker.take`."""
        if not isinstance(buffer, AlignedBuffer):
            super().take(buffer, batch, produced, now, came_at_ms)
        elif produced.error == DUPLICATE_SEQUENCE:
            self._lose(buffer, batch, "the log has these records, and does not say where")
        elif produced.error == NO_ERROR and produced.base_offset != _due(batch):
            buffer.give_up(batch)
            what = f"records of offset {_due(batch)} came to stand at offset {produced.base_offset} of {buffer.target}"
            why = "somebody else has written there, or the log was cut"
            self._effects.extend(hold_misplaced(buffer, produced.base_offset, f"{what}: {why}"))
        elif produced.error == NO_ERROR and _is_doubtful(batch, produced.append_time_ms):
            assert isinstance(self._guarantee, AlignedOffsets), "`pipeline.produce.assembly` puts them together"
            self._guarantee.read_back(buffer, batch, came_at_ms)
        else:
            super().take(buffer, batch, produced, now, came_at_ms)

    def _lose(self, buffer: PartitionBuffer, batch: Batch, reason: str) -> None:
        """No answer to the batch is due where its partition is held."""
        if isinstance(buffer, AlignedBuffer):
            buffer.give_up(batch)
        super()._lose(buffer, batch, reason)


def _is_doubtful(batch: Batch, append_time_ms: int) -> bool:
    """Whether the answer leaves open what stands there. It has a time where the topic gives records its own times, and
    where the log had a batch of these sequence numbers: that batch's, which is none where its records have none."""
    return append_time_ms >= 0 or latest_ms(batch.data) < 0


def _due(batch: Batch) -> int:
    return batch.spans[0].first_offset
