"""Makes deliveries of announcements: what those leave out, the partition's last run row said. Owned by
`pipeline.produce.produce_task`.

So Spark decides where the records of a partition go, also of those that do not pass through it.
"""

from typing import NamedTuple

from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingPeer
from sparkmirror.pipeline.relay.schema import RUN


class _Route(NamedTuple):
    target_topic: str | None
    leader_epoch: int
    turns: int


class OpenExtents:
    """By the partitions' slots on the control page."""

    def __init__(self, peer: RingPeer | None) -> None:
        self._peer = peer
        self._partitions: dict[int, TopicPartition] = {}
        self._routes: dict[TopicPartition, _Route] = {}

    def take_plan(self, plan: PlanRow) -> None:
        self._partitions.update((slot, assigned.partition) for assigned, slot in plan.partitions)

    def open(self, run: Delivery) -> None:
        """A run row opens its partition's extent, whether or not the run is accepted."""
        if run.partition is not None:
            self._routes[run.partition] = _Route(run.target_topic, run.leader_epoch, run.turns)

    def deliver(self, announced: Announcement) -> Delivery | None:
        """The announced run as if it had come in a row. None if a step of the user's in the query left out the row that
        opened the extent: the memory goes back, as that of rows that are left out."""
        peer = self._peer
        assert peer is not None, "announcements come over the control page"
        where = self._partitions.get(announced.slot)
        route = None if where is None else self._routes.get(where)
        if route is None:
            peer.give_back(announced.lease)
            return None
        return Delivery(
            RUN, where, route.target_topic, announced.first_offset, announced.next_offset, announced.records,
            announced.high_watermark, announced.max_timestamp, peer.slice(announced.lease, announced.size),
            announced.lease, announced.fetched_at_ms, route.leader_epoch, route.turns,
        )  # fmt: skip
