"""The gate of a flow that keeps offsets: a source's log that goes back holds its partition, since the target's log
cannot. Owned by `pipeline.produce.produce_task`."""

from dataclasses import replace

from sparkmirror.batch.unpacking import Unpacking
from sparkmirror.control.assignment import Assigned
from sparkmirror.errors import SparkMirrorError
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.ledger.misplaced import Misplaced
from sparkmirror.model import is_another_topic
from sparkmirror.pipeline.produce.aligned_buffer import AlignedBuffer
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.produce.effects import Hold, NoteMisplaced
from sparkmirror.pipeline.produce.gate import SequenceGate

REBUILD = "delete the topic there, and the mirror makes it again from the beginning"


def hold_misplaced(buffer: AlignedBuffer, offset: int, clause: str) -> tuple[NoteMisplaced, Hold]:
    """Its target's log has something else at `offset` than the source had there, as `clause` says."""
    found = Misplaced(buffer.append.topic_id, offset)
    return NoteMisplaced(buffer, found, clause), Hold(buffer, f"{clause}; {REBUILD}")


class AlignedGate(SequenceGate):
    """Its buffers are `AlignedBuffer`s where the planner has found the end of the target's log; other topics of the
    flow do not keep their offsets."""

    def _make_buffer(self, assigned: Assigned, slot: int) -> PartitionBuffer:
        if assigned.append is None:
            return super()._make_buffer(assigned, slot)
        packing = replace(self._packing, keeps_offsets=True)
        own, moved = Unpacking(self._budget), self._progress.moved
        return AlignedBuffer(
            assigned.partition, None, assigned.stands_at.offset, slot, packing=packing, moved=moved, unpacking=own,
            clock=self._clock,
        )  # fmt: skip

    def _restart(self, buffer: PartitionBuffer, assigned: Assigned) -> None:
        super()._restart(buffer, assigned)
        if isinstance(buffer, AlignedBuffer):
            assert assigned.append is not None, "a topic keeps its offsets for as long as a task runs"
            buffer.aim(assigned.append.topic, self._limits.of(assigned.append.topic))
            buffer.append_from(assigned.append)
            if assigned.extent is not None:  # a log that was adopted, of which the ledger knows nothing
                self._progress.moved[buffer.source] = None

    def _turn(self, buffer: PartitionBuffer, delivery: Delivery, turned: Lineage) -> None:
        """Raises SparkMirrorError where the target may not have what the source has lost."""
        if not buffer.keeps_offsets:
            super()._turn(buffer, delivery, turned)
            return
        reached = max(buffer.position, buffer.acknowledged)
        is_another = is_another_topic(buffer.lineage.topic_id, turned.topic_id)
        if delivery.next_offset >= reached and not is_another:
            super()._turn(buffer, delivery, turned)
            return
        if delivery.next_offset >= buffer.acknowledged and not is_another:
            raise SparkMirrorError(  # what was not sent yet is dropped, and what was is compared
                f"{buffer.source} is read again by a new attempt of the task: its log was cut at offset "
                f"{delivery.next_offset}, after it was read up to {reached}"
            )
        what = "is another one now" if is_another else f"goes on at offset {delivery.next_offset}"
        has = f"the target has up to offset {buffer.acknowledged}"
        reason = f"the source's log {what}, and {has}: offsets cannot be kept"
        self._effects.append(Hold(buffer, f"{reason}; {REBUILD}"))
