"""Checks whether mirrored records are still on the target, where a topic may have been deleted or truncated.

Each partition's extent (`ledger.lineage`) grows with acknowledgements and is stored with its position. Before a start
the planner finds a log that ends below its extent; in mid-run an acknowledged offset that goes back shows it. Owned by
`pipeline.produce.produce_task`.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from sparkmirror.control.assignment import Assigned
from sparkmirror.ledger.lineage import TARGET_DELETED, Extent, judge
from sparkmirror.model import NO_TOPIC_ID
from sparkmirror.pipeline.produce.acked_position import ANYWHERE
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.progress import Progress
from sparkmirror.pipeline.produce.queued_records import Batch
from sparkmirror.policy.loss import CONTINUE, DONE, LossPolicy, what_next

_FRESH_SECONDS: Final = 1.0
"""An id that was asked for so shortly before a partition's first batch is taken for the topic's."""

log = logging.getLogger(__name__)


class TargetLogCheck:
    """Checks all partitions of a task. `topic_id` gives the id of the topic that is written to now, if it is known, and
    `knows_id_since` when it was asked for (`pipeline.produce.brokers`)."""

    def __init__(
        self,
        progress: Progress,
        policy: LossPolicy,
        topic_id: Callable[[str], UUID | None],
        knows_id_since: Callable[[str], float],
    ) -> None:
        self._progress = progress
        self._policy = policy
        self._topic_id = topic_id
        self._knows_id_since = knows_id_since

    def expect(self, buffer: PartitionBuffer, assigned: Assigned) -> str:
        """Check a partition that the task takes on. Returns a reason to hold it, if its log was cut back and the
        configuration holds such partitions; else ""."""
        buffer.extend(assigned.extent)
        if assigned.extent is None or assigned.found is None:
            return ""
        return self._lose(buffer, assigned.extent, assigned.found, assigned.stands_at.offset)

    def must_ask(self, buffer: PartitionBuffer, batch: Batch, base_offset: int, topic: str, now: float) -> bool:
        """Whether an acknowledgement tells too little: the log may be that of a topic that was made again, which takes
        batches by the former's name. The topic is then looked up, and the batch sent again: the broker, which has it,
        answers with the same place. Not asked where offsets are kept: there the place alone tells, and an answer to
        what was sent twice is doubted (`pipeline.produce.aligned_answers`).
        """
        extent = buffer.extent
        is_first = extent is None or not extent.end
        is_back = extent is not None and extent.topic == topic and base_offset < extent.end
        if base_offset < 0 or not (is_first or is_back):
            return False
        if not batch.id_due_at:
            batch.id_due_at = batch.sent_at - _FRESH_SECONDS if is_first else now
        return self._knows_id_since(topic) < batch.id_due_at

    def add(self, buffer: PartitionBuffer, landed: Iterable[Batch], topic: str) -> str:
        """Check acknowledged batches, in order, of the partition of `topic` that has the source's number. Returns a
        reason to hold the partition as `expect` does.

        An offset below an earlier acknowledged one shows that records are gone: for a batch that was written before,
        the answer has its first place, and no acknowledged batch is sent again. So does one that the marker of the last
        commit must have: the log was cut before that, and the marker stands where the last record was.
        """
        extent = buffer.extent
        reason = ""
        for batch in landed:
            base = batch.base_offset
            if base < 0 or buffer.is_held:
                continue
            if extent is None or not extent.end:
                extent = Extent(topic, self._topic_id(topic) or NO_TOPIC_ID, base)
            elif (base < extent.end or base == buffer.marker_at) and extent.topic == topic:
                known = extent._replace(end=max(extent.end, base + 1))
                found = Extent(topic, self._topic_id(topic) or extent.topic_id, base)
                reason = self._lose(buffer, known, found, batch.spans[0][0] if batch.spans else buffer.acknowledged)
                if reason:
                    return reason
                extent = found
            extent = Extent(topic, extent.topic_id, base + batch.records)
        buffer.extend(extent)
        return reason

    def _lose(self, buffer: PartitionBuffer, known: Extent, found: Extent, source: int) -> str:
        """Record the loss. If the configuration says to go on, the extent becomes what was found. The map gets the cut
        in any case: what comes from offset `source` on may be there already, and the next start finds a longer log.
        """
        cause = judge(known, found)
        if cause is None:
            return ""
        resumed = 0 if cause == TARGET_DELETED else found.end
        lost = known.end - resumed
        action = self._policy.of(buffer.source.topic)
        what = f"mirrored records are gone from the target ({cause}): the log of {known.topic} reached to offset"
        what = f"{what} {known.end} and goes on at {resumed}, {lost} are gone"
        log.warning("%s: %s.", buffer.source, what, extra={"event": "target-lost"})
        self._progress.gaps.add(buffer, cause, known.end, resumed, DONE[action], found.topic_id, ANYWHERE)
        self._progress.cut(buffer, source, resumed)
        if action != CONTINUE:
            return f"{what}; {what_next(action)}"
        buffer.extend(found)
        return ""
