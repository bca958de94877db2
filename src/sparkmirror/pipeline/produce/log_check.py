"""Whether mirrored records are still on the target: what a topic that was deleted or truncated there has taken along.

Each partition's extent (`ledger.lineage`) grows with acknowledgements and is stored with its position. The planner
finds before a start that a log does not reach so far, acknowledgements show it in mid-run: they come back. Owned by
`pipeline.produce.sender`.
"""

import logging
from collections.abc import Callable, Iterable
from uuid import UUID

from sparkmirror.control.assignment import Assigned
from sparkmirror.ledger.lineage import TARGET_DELETED, Extent, judge
from sparkmirror.model import NO_TOPIC_ID
from sparkmirror.pipeline.produce.acked_position import ANYWHERE
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.progress import Progress
from sparkmirror.pipeline.produce.queued_records import Batch
from sparkmirror.policy.loss import CONTINUE, DONE, LossPolicy, what_next

log = logging.getLogger(__name__)


class TargetLogCheck:
    """Judges for all partitions of a task. `topic_id` says which topic of a name is written to now, if it is known."""

    def __init__(self, progress: Progress, policy: LossPolicy, topic_id: Callable[[str], UUID | None]) -> None:
        self._progress = progress
        self._policy = policy
        self._topic_id = topic_id

    def expect(self, buffer: PartitionBuffer, assigned: Assigned) -> str:
        """The task takes a partition on. A reason to hold it, if its log was cut back and the file says so."""
        buffer.extent = assigned.extent
        if assigned.extent is None or assigned.found is None:
            return ""
        return self._lose(buffer, assigned.extent, assigned.found)

    def add(self, buffer: PartitionBuffer, landed: Iterable[Batch], topic: str) -> str:
        """Batches were acknowledged, in order, in the partition of `topic` that has the source's number. A reason to
        hold the partition, as `expect` gives.

        An offset below what was acknowledged before cannot be, unless what lay there is gone: a batch that is sent
        again and was written before is answered with the place that it has, and none is sent again once acknowledged.
        """
        extent = buffer.extent
        reason = ""
        for batch in landed:
            base = batch.base_offset
            if base < 0 or buffer.is_held:
                continue
            if extent is None or not extent.end:
                extent = Extent(topic, self._topic_id(topic) or NO_TOPIC_ID, base)
            elif base < extent.end and extent.topic == topic:
                found = Extent(topic, self._topic_id(topic) or extent.topic_id, base)
                reason = self._lose(buffer, extent, found)
                if reason:
                    return reason
                extent = found
            extent = Extent(topic, extent.topic_id, base + batch.records)
        buffer.extent = extent
        return reason

    def _lose(self, buffer: PartitionBuffer, known: Extent, found: Extent) -> str:
        """Records it, and goes on where the file says so: then the extent is what was found."""
        cause = judge(known, found)
        if cause is None:
            return ""
        resumed = 0 if cause == TARGET_DELETED else found.end
        lost = known.end - resumed
        action = self._policy.of(buffer.source.topic)
        what = f"mirrored records are gone from the target ({cause}): the log of {known.topic} reached to offset"
        what = f"{what} {known.end} and goes on at {resumed}, {lost} are gone"
        log.warning("%s: %s.", buffer.source, what, extra={"event": "target-lost"})
        self._progress.record_gap(buffer, cause, known.end, resumed, DONE[action], found.topic_id, ANYWHERE)
        if action != CONTINUE:
            return f"{what}; {what_next(action)}"
        buffer.extent = found
        return ""
