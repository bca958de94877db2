"""The direct path of small runs, from the board or a row into a produce request: for partitions where nothing waits, on
connections with room, at least once. All else is queued first. Owned by `pipeline.produce.produce_task`.
"""

from typing import Final

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.pipeline.produce.brokers import Brokers
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.connection import Part, ProduceConnection
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.produce.direct_buffer import DirectBuffer
from sparkmirror.pipeline.produce.dispatch import Dispatch
from sparkmirror.pipeline.produce.drain import Drain
from sparkmirror.pipeline.produce.gate import SequenceGate
from sparkmirror.pipeline.produce.guarantee import Guarantee
from sparkmirror.pipeline.produce.open_extents import OpenExtents, Route
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.pipeline.relay.ring import RingPeer
from sparkmirror.pipeline.relay.schema import RUN

_ROW_BYTES_MAX: Final = 64 << 10
"""Of a run in a row: larger ones come where much waits, which is packed and paced."""
_NO_SLOT: Final = -1
_NO_LEASE: Final = -1


class _Request:
    """What goes out over one connection: one batch of each buffer."""

    __slots__ = ("buffers", "parts", "size_bytes")

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.buffers: set[PartitionBuffer] = set()
        self.size_bytes = 0


class DirectPath:
    """Gathers what announcements and small rows of one turn bring; `send` must come before anything else is done."""

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
        """Whether what comes now may be taken."""
        return not (self._peer is None or self._guarantee.transactional or self._drain.has_begun)

    def take(self, run: Announcement) -> bool:
        """Gather the run's batch for a request; False, and nothing is done, if it has to go the other way. Only while
        the path `is_open`."""
        found = self._extents.find(run.slot)
        return found is not None and self._gather(self._gate.buffers.get(found[0]), found[1], run, None)

    def take_row(self, row: Delivery) -> bool:
        """As `take`, of a row, which may come at any time; it opens its partition's extent in any case."""
        if row.kind != RUN:
            return False
        route, topic = self._extents.open(row), row.target_topic
        if not 0 < len(row.payload) <= _ROW_BYTES_MAX or not self.is_open:
            return False
        buffer = self._gate.buffers.get(row.partition) if row.partition else None
        if buffer is None or topic is None or not buffer.is_aimed_at(topic):
            return False
        return self._gather(buffer, route, _announcement_of(row), row.payload if row.lease is None else None)

    def _gather(
        self, buffer: PartitionBuffer | None, route: Route, run: Announcement, inline: memoryview | None
    ) -> bool:
        """`inline` has the bytes of a run that are not in the reader's memory."""
        if not isinstance(buffer, DirectBuffer) or self._peer is None:
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
        return self._add(request, connection, buffer, run, inline)

    def _add(
        self,
        request: _Request,
        connection: ProduceConnection,
        buffer: DirectBuffer,
        run: Announcement,
        inline: memoryview | None,
    ) -> bool:
        if buffer.round_trip.is_far is not self._brokers.is_far:
            buffer.round_trip.note_distance(is_far=self._brokers.is_far)
        key = self._brokers.topic_key(connection, buffer.target.topic)
        size = run.size
        if inline is None:
            assert self._peer is not None, "only a reader's memory is leased"
            data, free = self._peer.slice(run.lease, size), self._gate.give_back_later(run.lease, size)
        else:
            data, free = inline, self._gate.free_inline_later(size)
        batch = buffer.hand_on(run, data, free)
        if batch is None:
            return False
        if inline is None:
            self._task_metrics.leased_bytes += size
        else:
            self._gate.inline_bytes += size
        self._task_metrics.arrived(buffer, run)
        request.parts.append((key, buffer, batch))
        request.buffers.add(buffer)
        request.size_bytes += size
        return True

    def send(self) -> None:
        """One request for each connection."""
        if self._requests:
            requests, self._requests = self._requests, {}
            for connection, request in requests.items():
                if request.parts:
                    self._dispatch.send(connection, request.parts)


def _announcement_of(row: Delivery) -> Announcement:
    lease = _NO_LEASE if row.lease is None else row.lease
    return Announcement(
        _NO_SLOT, row.records, len(row.payload), 0, row.first_offset, row.next_offset, lease,
        row.max_timestamp, row.high_watermark, row.fetched_at_ms,
    )  # fmt: skip
