"""Makes deliveries of announcements: what those leave out, the partition's last run row said. Owned by
`pipeline.produce.produce_task`.

So Spark decides where the records of a partition go, also of those that do not pass through it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingPeer
from sparkmirror.pipeline.relay.schema import RUN


class Route(NamedTuple):
    """What the last run row of a partition said."""

    target_topic: str | None
    leader_epoch: int
    turns: int


class OpenExtents:
    """By the partitions' slots on the control page."""

    def __init__(self, peer: RingPeer | None) -> None:
        self._peer = peer
        self._partitions: dict[int, TopicPartition] = {}
        self._routes: dict[TopicPartition, Route] = {}

    def take_plan(self, plan: PlanRow) -> None:
        for assigned, slot in plan.partitions:
            if self._partitions.get(slot) != assigned.partition:  # taken on; what it had open in another slot is closed
                self._partitions[slot] = assigned.partition
                self._routes.pop(assigned.partition, None)

    def open(self, run: Delivery) -> Route:
        """A run row opens its partition's extent, whether or not the run is accepted."""
        route = Route(run.target_topic, run.leader_epoch, run.turns)
        if run.partition is not None:
            self._routes[run.partition] = route
        return route

    def find(self, slot: int) -> tuple[TopicPartition, Route] | None:
        """The partition in the slot, and its route if its extent is open."""
        where = self._partitions.get(slot)
        route = None if where is None else self._routes.get(where)
        return None if where is None or route is None else (where, route)

    @property
    def routes(self) -> Iterator[tuple[int, TopicPartition, Route]]:
        """Each open extent, by the slot of its partition."""
        for slot, where in self._partitions.items():
            if (route := self._routes.get(where)) is not None:
                yield slot, where, route

    def deliver(self, announced: Announcement) -> Delivery | None:
        """The announced run as if it had come in a row. None if a step of the user's in the query left out the row that
        opened the extent: the memory goes back, as that of rows that are left out."""
        peer = self._peer
        assert peer is not None, "announcements come over the control page"
        found = self.find(announced.slot)
        if found is None:
            peer.give_back(announced.lease)
            return None
        where, route = found
        return Delivery(
            RUN, where, route.target_topic, announced.first_offset, announced.next_offset, announced.records,
            announced.high_watermark, announced.max_timestamp, peer.slice(announced.lease, announced.size),
            announced.lease, announced.fetched_at_ms, route.leader_epoch, route.turns,
        )  # fmt: skip
