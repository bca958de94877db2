"""The newest leader epoch that was seen of each partition, which a former leader does not have.

A broker that is cut off from the others, or has just woken up, still calls itself the leader. Each election raises the
epoch of the partition (KIP-320); a topic that is made again begins at 0 under another id, so an epoch belongs to an id.
Brokers of clusters without topic ids are believed. No I/O; owned by `kafka.wire.leaders`.
"""

from dataclasses import replace
from uuid import UUID

from sparkmirror.kafka.wire.lookup import ClusterView
from sparkmirror.model import NO_EPOCH, NO_TOPIC_ID


class LeaderEpochs:
    """What the look-ups of one loop have shown."""

    def __init__(self) -> None:
        self._newest: dict[tuple[UUID, int], int] = {}

    def copy(self) -> "LeaderEpochs":
        """For another thread."""
        copied = LeaderEpochs()
        copied._newest = dict(self._newest)
        return copied

    def sift(self, view: ClusterView) -> ClusterView:
        """The view without the leaders of epochs that are over; all others are noted."""
        former = set()
        for where, epoch in view.epochs.items():
            topic_id = view.topic_ids.get(where.topic, NO_TOPIC_ID)
            if topic_id == NO_TOPIC_ID or epoch == NO_EPOCH:
                continue
            if epoch < self._newest.get((topic_id, where.partition), NO_EPOCH):
                former.add(where)
            else:
                self._newest[topic_id, where.partition] = epoch
        if not former:
            return view
        leaders = {where: node for where, node in view.leaders.items() if where not in former}
        return replace(view, leaders=leaders, former=frozenset(former))
