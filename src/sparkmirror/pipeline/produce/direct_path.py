"""The direct path of small runs, from the board or a row into a produce request: for partitions where nothing waits, on
connections with room, at least once. All else is queued first. Owned by `pipeline.produce.produce_task`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

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
from sparkmirror.pipeline.produce.queued_records import Batch
from sparkmirror.pipeline.produce.ready_batches import Asked, ReadyBatch, ReadyBatches
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


class _Place(NamedTuple):
    """A buffer's place in a request."""

    request: _Request
    connection: ProduceConnection
    buffer: DirectBuffer


class _Gathered(NamedTuple):
    """A run whose batch compiled code makes, at the end of the turn."""

    place: _Place
    run: Announcement
    asked: Asked


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
        self._ready = ReadyBatches(peer, clock)
        self._gathered: list[_Gathered] = []
        self._by_python = self._joined_bytes = 0

    @property
    def is_open(self) -> bool:
        """Whether what comes now may be taken."""
        return not (self._peer is None or self._guarantee.transactional or self._drain.has_begun)

    def take_all(self, runs: Iterable[Announcement]) -> Iterator[Announcement]:
        """Gather the runs for requests. Gives back those that have to go the other way, when what came before them is
        sent."""
        is_open = self.is_open
        for run in runs:
            if is_open and self._take(run):
                continue
            yield from self._make()
            self.send()
            yield run
        yield from self._make()

    def _take(self, run: Announcement) -> bool:
        """Gather the run; False, and nothing is done, if it has to go the other way."""
        found = self._extents.find(run.slot)
        place = None if found is None else self._find_place(self._gate.buffers.get(found[0]), found[1], run)
        if place is None:
            return False
        if not (self._ready.is_loaded and place.buffer.may_be_made):
            self._by_python += 1
            return self._add(place, run)
        asked = place.buffer.asked(run)
        if run.records > 1 and run.size <= asked.joined_bytes_max:
            self._joined_bytes += run.size
        self._gathered.append(_Gathered(place, run, asked))
        return True

    def take_row(self, row: Delivery) -> bool:
        """As `_take`, of a row, which may come at any time; it opens its partition's extent in any case."""
        if row.kind != RUN:
            return False
        route, topic = self._extents.open(row), row.target_topic
        if not 0 < len(row.payload) <= _ROW_BYTES_MAX or not self.is_open:
            return False
        buffer = self._gate.buffers.get(row.partition) if row.partition else None
        if buffer is None or topic is None or not buffer.is_aimed_at(topic):
            return False
        run = _announcement_of(row)
        place = self._find_place(buffer, route, run)
        if place is None:
            return False
        return self._add(place, run) if row.lease is not None else self._add_inline(place, run, row.payload)

    def _find_place(self, buffer: PartitionBuffer | None, route: Route, run: Announcement) -> _Place | None:
        """The place of the run's batch, which is taken by that; None if the run has to go the other way. Where no batch
        comes of it, `send` must come before another run."""
        if not isinstance(buffer, DirectBuffer) or self._peer is None:
            return None
        if not buffer.is_next(run, route.leader_epoch, route.turns, self._guarantee.identity):
            return None
        if buffer.keeps_offsets and not buffer.goes_on_in(self._brokers.topic_id(buffer.target.topic)):
            return None
        connection = self._dispatch.connection_of(buffer)
        if connection is None:
            return None
        request = self._requests.get(connection)
        if request is None:
            if not connection.takes_more(self._clock.monotonic()):
                return None
            request = self._requests[connection] = _Request()
        elif request.size_bytes >= connection.pace.bytes_max or buffer in request.buffers:
            return None
        request.buffers.add(buffer)
        request.size_bytes += run.size
        return _Place(request, connection, buffer)

    def _make(self) -> Sequence[Announcement]:
        """Put batches of what was gathered into requests. Gives back the runs that have to go the other way, when all
        that was gathered is sent."""
        gathered, self._gathered, others = self._gathered, [], self._by_python
        if others:
            self._by_python = 0
            self._ready.note_others(others)
        if not gathered:
            return ()
        made, self._joined_bytes = self._ready.make([one.asked for one in gathered], self._joined_bytes), 0
        pairs = zip(gathered, made, strict=True)
        refused = [run for (place, run, _), ready in pairs if not self._add(place, run, ready)]
        if refused:
            self.send()
        return refused

    def _add(self, place: _Place, run: Announcement, ready: ReadyBatch | None = None) -> bool:
        """Put the batch of a run in the reader's memory into its place, made here unless it is `ready`."""
        if ready is not None:
            self._put(place, self.enter(place.buffer, run, ready))
            return True
        peer, size = self._peer, run.size
        assert peer is not None, "only a reader's memory is leased"
        free = self._gate.give_back_later(run.lease, size)
        if not self._hand_on(place, run, peer.slice(run.lease, size), free):
            return False
        self._task_metrics.leased_bytes += size
        return True

    def enter(self, buffer: DirectBuffer, run: Announcement, ready: ReadyBatch, now: float | None = None) -> Batch:
        """The batch of a run in the reader's memory that compiled code has made; at `now`, if it did so before."""
        batch = buffer.hand_on_made(run, ready, self._gate.give_back_later(run.lease, run.size), now)
        self._note(buffer, run)
        self._task_metrics.leased_bytes += run.size
        return batch

    def _add_inline(self, place: _Place, run: Announcement, inline: memoryview) -> bool:
        """As `_add`, of a run whose bytes came in its row."""
        if not self._hand_on(place, run, inline, self._gate.free_inline_later(run.size)):
            return False
        self._gate.inline_bytes += run.size
        return True

    def _hand_on(self, place: _Place, run: Announcement, data: memoryview, free: Callable[[], None]) -> bool:
        """Put the batch that the buffer makes into its place; False if it makes none."""
        batch = place.buffer.hand_on(run, data, free)
        if batch is None:
            return False
        self._note(place.buffer, run)
        self._put(place, batch)
        return True

    def note_distance(self, buffer: DirectBuffer) -> None:
        """Whether the partition's brokers are far."""
        if buffer.round_trip.is_far is not self._brokers.is_far:
            buffer.round_trip.note_distance(is_far=self._brokers.is_far)

    def _note(self, buffer: DirectBuffer, run: Announcement) -> None:
        self.note_distance(buffer)
        self._task_metrics.arrived(buffer, run)

    def _put(self, place: _Place, batch: Batch) -> None:
        request, connection, buffer = place
        request.parts.append((self._brokers.topic_key(connection, buffer.target.topic), buffer, batch))

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
