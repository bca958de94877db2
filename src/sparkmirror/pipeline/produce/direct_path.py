"""The direct path of announced runs, from the board into a produce request: for partitions where nothing waits, on
connections with room, at least once. All else takes the way of rows. Owned by `pipeline.produce.produce_task`.
"""

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.pipeline.produce.brokers import Brokers
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.connection import Part, ProduceConnection
from sparkmirror.pipeline.produce.direct_buffer import DirectBuffer
from sparkmirror.pipeline.produce.dispatch import Dispatch
from sparkmirror.pipeline.produce.drain import Drain
from sparkmirror.pipeline.produce.gate import SequenceGate
from sparkmirror.pipeline.produce.guarantee import Guarantee
from sparkmirror.pipeline.produce.open_extents import OpenExtents
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.pipeline.relay.ring import RingPeer


class _Request:
    """What goes out over one connection: one batch of each buffer."""

    __slots__ = ("buffers", "parts", "size_bytes")

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.buffers: set[PartitionBuffer] = set()
        self.size_bytes = 0


class DirectPath:
    """Gathers what the announcements of one turn bring; `send` must come before anything else is done."""

    def __init__(
        self,
        peer: RingPeer | None,
        gate: SequenceGate,
        extents: OpenExtents,
        guarantee: Guarantee,
        brokers: Brokers,
        dispatch: Dispatch,
        drain: Drain,
        task_metrics: TaskMetrics,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._peer = peer
        self._gate = gate
        self._extents = extents
        self._guarantee = guarantee
        self._brokers = brokers
        self._dispatch = dispatch
        self._drain = drain
        self._task_metrics = task_metrics
        self._clock = clock
        self._requests: dict[ProduceConnection, _Request] = {}

    @property
    def is_open(self) -> bool:
        """Whether announcements that come now may be taken."""
        return not (self._peer is None or self._guarantee.transactional or self._drain.has_begun)

    def take(self, run: Announcement) -> bool:
        """Gather the run's batch for a request; False, and nothing is done, if it has to go the other way. Only while
        the path `is_open`."""
        found = self._extents.find(run.slot)
        if found is None or self._peer is None:
            return False
        where, route = found
        buffer = self._gate.buffers.get(where)
        if not isinstance(buffer, DirectBuffer):
            return False
        if not buffer.is_next(run, route.leader_epoch, route.turns, self._guarantee.identity):
            return False
        if buffer.keeps_offsets and not buffer.goes_on_in(self._brokers.topic_id(buffer.target.topic)):
            return False
        connection = self._dispatch.connection_of(buffer)
        if connection is None:
            return False
        request = self._requests.get(connection)
        if request is None:
            if not connection.takes_more(self._clock.monotonic()):
                return False
            request = self._requests[connection] = _Request()
        elif request.size_bytes >= connection.pace.bytes_max or buffer in request.buffers:
            return False
        return self._add(request, connection, buffer, run, self._peer)

    def _add(
        self, request: _Request, connection: ProduceConnection, buffer: DirectBuffer, run: Announcement, peer: RingPeer
    ) -> bool:
        if buffer.round_trip.is_far is not self._brokers.is_far:
            buffer.round_trip.note_distance(is_far=self._brokers.is_far)
        key = self._brokers.topic_key(connection, buffer.target.topic)
        free = self._gate.give_back_later(run.lease, run.size)
        batch = buffer.hand_on(run, peer.slice(run.lease, run.size), free)
        if batch is None:
            return False
        self._task_metrics.leased_bytes += run.size
        self._task_metrics.arrived(buffer, run)
        request.parts.append((key, buffer, batch))
        request.buffers.add(buffer)
        request.size_bytes += run.size
        return True

    def send(self) -> None:
        """One request for each connection."""
        if self._requests:
            requests, self._requests = self._requests, {}
            for connection, request in requests.items():
                if request.parts:
                    self._dispatch.send(connection, request.parts)
