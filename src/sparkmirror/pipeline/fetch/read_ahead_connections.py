"""Fetches partitions that are far behind on a distant broker over connections of their own. Owned by
`pipeline.fetch.reader`.

A fetch session has one request under way: over a long link it brings one response a round trip. If the round trip is
long and the backlog large, a partition leaves its session and is read ahead (`pipeline.fetch.read_ahead`): its fetches
have no session and go over a few further connections, several on each, since a broker begins the next request of a
connection when it has written the answer before. When little is left, the partition goes back to the session.

Answers wait for their turn in private memory and are copied to the ring then, so a late answer never blocks the ring.
Requests under way and waiting answers together are bounded by the size of the ring (invariant 9).
"""

import selectors
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.background import Outcome
from sparkmirror.kafka.wire.data_requests import FetchPosition
from sparkmirror.kafka.wire.leaders import Leaders
from sparkmirror.kafka.wire.link import Link
from sparkmirror.pipeline.fetch.connection import FetchConnection, FetchLimits, Frame
from sparkmirror.pipeline.fetch.partitions import PartitionFetchState, Partitions
from sparkmirror.pipeline.fetch.read_ahead import FetchStep, Range, ReadAhead
from sparkmirror.pipeline.fetch.responses import FetchResponseReader
from sparkmirror.pipeline.relay.private_memory import PrivateMemory
from sparkmirror.pipeline.relay.ring import Ring

LANES_PER_BROKER: Final = 4
_CHASES_MAX: Final = 8
_REQUESTS_PER_LANE_MAX: Final = 8
_WINDOW_BYTES_WITHOUT_RING: Final = 16 << 20
_IDLE_SECONDS: Final = 30.0
_DIAL_SECONDS: Final = 1.0


@dataclass(slots=True, eq=False)
class ReadAheadConnection:
    """One connection with its unanswered requests, oldest first."""

    node: int
    connection: FetchConnection
    asked: deque[tuple[ReadAhead, Range]] = field(default_factory=deque)
    used_at: float = 0.0

    @property
    def outstanding_bytes(self) -> int:
        return sum(one.bytes_max for _, one in self.asked)


class ReadAheadConnections:
    """All read-aheads of a task and their connections. `has_credit` says whether rows may carry payload inline."""

    def __init__(
        self,
        leaders: Leaders,
        silence_seconds_max: float,
        limits: FetchLimits,
        receive_bytes: int,
        ring: Ring,
        response_reader: FetchResponseReader,
        partitions: Partitions,
        selector: selectors.BaseSelector,
        has_credit: Callable[[], bool],
    ) -> None:
        self._leaders = leaders
        self._silence_seconds_max = silence_seconds_max
        self._limits = limits
        self._receive_bytes = receive_bytes
        self._ring = ring
        self._response_reader = response_reader
        self._partitions = partitions
        self._selector = selector
        self._has_credit = has_credit
        self._window_bytes = ring.ring_bytes or _WINDOW_BYTES_WITHOUT_RING
        self._range_bytes_min = min(limits.partition_bytes_max, self._window_bytes // 8)
        self._lanes: dict[tuple[int, int], ReadAheadConnection] = {}
        self._read_aheads: dict[PartitionFetchState, ReadAhead] = {}
        self.starved = False

    def recruit(self, node: int, link: Link) -> None:
        """Called after a session's answer and before its next request: partitions that are far behind leave the
        session.

        They leave when a connection is open; until then the session goes on.
        """
        if not link.is_far or node not in self._leaders.addresses:
            return
        behind = [
            fetch_state for fetch_state in self._partitions if fetch_state.node == node and self._is_behind(fetch_state)
        ]
        if not behind:
            return
        self._dial(node)
        if any(lane.node == node for lane in self._lanes.values()):
            for fetch_state in behind[: _CHASES_MAX - len(self._read_aheads)]:
                fetch_state.is_chased = True
                self._read_aheads[fetch_state] = ReadAhead(
                    fetch_state, node, self._range_bytes_min, self._window_bytes // 4
                )

    def _is_behind(self, fetch_state: PartitionFetchState) -> bool:
        if fetch_state.is_chased or not fetch_state.may_read(time.monotonic()) or self._is_slowed(fetch_state):
            return False
        return (fetch_state.stop - fetch_state.offset) * fetch_state.bytes_per_offset >= 2 * self._range_bytes_min

    def _is_slowed(self, fetch_state: PartitionFetchState) -> bool:
        """Whether its rate limits leave too little for a read-ahead."""
        return fetch_state.grain_bytes(self._window_bytes) < 2 * self._range_bytes_min

    # Connections.

    def _dial(self, node: int) -> None:
        for number in range(LANES_PER_BROKER):
            if (node, number) not in self._lanes:
                key = ("lane", node, number)
                self._leaders.dial(key, node, pause_seconds=_DIAL_SECONDS, receive_bytes=self._receive_bytes)

    def take_link(self, node: int, number: int, outcome: Outcome) -> None:
        """Take a new connection. A failed dial is repeated by the next `recruit`; the session reports the reason."""
        if outcome.error is not None:
            return
        try:
            connection = FetchConnection(outcome.result, PrivateMemory(), self._limits)
        except ProtocolError:
            outcome.result.close()
            return
        lane = self._lanes[node, number] = ReadAheadConnection(node, connection, used_at=time.monotonic())
        self._selector.register(connection.link.socket, selectors.EVENT_READ, lane)

    def _drop(self, lane: ReadAheadConnection) -> None:
        """Close a connection that broke or is not needed; what is still in `asked` is asked for again."""
        if lane not in self._lanes.values():
            return
        self._lanes = {key: other for key, other in self._lanes.items() if other is not lane}
        self._selector.unregister(lane.connection.link.socket)
        lane.connection.close()
        for _, one in lane.asked:
            one.is_asked = False

    def _tend_lane(self, lane: ReadAheadConnection, now: float) -> None:
        is_over = now >= lane.connection.link.reauthenticate_at or now - lane.used_at > _IDLE_SECONDS
        if lane.connection.is_silent(now, self._silence_seconds_max) or (is_over and not lane.asked):
            self._drop(lane)

    # Read-aheads.

    @property
    def is_empty(self) -> bool:
        return not self._lanes and not self._read_aheads

    def poll(self, now: float) -> None:
        """Take the answers that are next in order, end read-aheads that are over, and send requests."""
        if self.is_empty:
            return
        for lane in list(self._lanes.values()):
            self._tend_lane(lane, now)
        self.starved = False
        for read_ahead in list(self._read_aheads.values()):
            if self._is_on(read_ahead, now):
                self._deliver(read_ahead)
            else:
                self._end(read_ahead)
        self._ask(now)

    def _is_on(self, read_ahead: ReadAhead, now: float) -> bool:
        fetch_state = read_ahead.fetch_state
        return (
            fetch_state.offset == read_ahead.position
            and fetch_state.node == read_ahead.node
            and not fetch_state.paused
            and not fetch_state.done
            and fetch_state.not_before <= now
            and not self._is_slowed(fetch_state)
            and self._partitions.get(fetch_state.partition) is fetch_state
            and any(lane.node == read_ahead.node for lane in self._lanes.values())
            and bool(read_ahead.ranges or self._is_worth_it(fetch_state))
        )

    def _is_worth_it(self, fetch_state: PartitionFetchState) -> bool:
        return (fetch_state.stop - fetch_state.offset) * fetch_state.bytes_per_offset >= self._range_bytes_min

    def _end(self, read_ahead: ReadAhead) -> None:
        read_ahead.restart()
        read_ahead.fetch_state.is_chased = False
        self._read_aheads.pop(read_ahead.fetch_state, None)

    def _deliver(self, read_ahead: ReadAhead) -> None:
        while True:
            step = read_ahead.judge()
            if step is FetchStep.TAKE:
                if not self._take(read_ahead):
                    self.starved = True
                    return
            elif step is FetchStep.PASS:
                read_ahead.took()
            elif step is FetchStep.RESTART:
                read_ahead.restart()
            elif step is FetchStep.WAIT:
                return
            else:
                if step is FetchStep.TELL:
                    first = read_ahead.ranges[0]
                    assert first.fetched is not None
                    self._response_reader.take_range(read_ahead.fetch_state, first.fetched, Frame(first.buffer, None))
                self._end(read_ahead)
                return

    def _take(self, read_ahead: ReadAhead) -> bool:
        """Copy the first range's new batches into the ring and make rows of them; False while the ring has no room."""
        fetched, data = read_ahead.trimmed()
        region = None
        if self._ring.peer and len(data) <= self._ring.ring_bytes:
            region = self._ring.reserve(len(data))
            if region is None:
                return False
            leased = self._ring.slice(region, len(data))
            leased[:] = data
            data = leased
        elif not self._has_credit():
            return False
        self._response_reader.take_range(read_ahead.fetch_state, fetched, Frame(data, region))
        read_ahead.took()
        return True

    # Questions and answers.

    def _ask(self, now: float) -> None:
        """Send requests until the window is full, one for each read-ahead in turn; each may have one in any case."""
        hungry = deque(self._read_aheads.values())
        outstanding = sum(read_ahead.outstanding_bytes for read_ahead in hungry)
        while hungry:
            read_ahead = hungry.popleft()
            if not read_ahead.fetch_state.may_read(now):
                continue
            if not read_ahead.must_ask and outstanding + read_ahead.range_bytes > self._window_bytes:
                continue
            lane = self._free_lane(read_ahead.node, now)
            one = read_ahead.next_range() if lane is not None else None
            if lane is None or one is None:
                continue
            self._send(lane, read_ahead, one, now)
            outstanding = sum(other.outstanding_bytes for other in self._read_aheads.values())
            hungry.append(read_ahead)

    def _free_lane(self, node: int, now: float) -> ReadAheadConnection | None:
        free: Iterable[ReadAheadConnection] = (
            lane
            for lane in self._lanes.values()
            if lane.node == node
            and len(lane.asked) < _REQUESTS_PER_LANE_MAX
            and max(lane.connection.not_before, 0.0) <= now < lane.connection.link.reauthenticate_at
        )
        return min(free, key=lambda lane: lane.outstanding_bytes, default=None)

    def _send(self, lane: ReadAheadConnection, read_ahead: ReadAhead, one: Range, now: float) -> None:
        key = read_ahead.fetch_state.key(lane.connection.by_id)
        lane.asked.append((read_ahead, one))
        lane.used_at = now
        try:
            epoch = read_ahead.fetch_state.current_epoch
            lane.connection.send_alone(FetchPosition(*key, one.start, one.last_epoch, one.bytes_max, epoch))
        except OSError:
            self._drop(lane)

    def receive(self, lane: ReadAheadConnection) -> None:
        """Take the complete answers of a connection whose socket is readable."""
        if lane not in self._lanes.values():
            return
        try:
            while (frame := lane.connection.receive()) is not None:
                self._answer(lane, frame)
        except OSError:
            self._drop(lane)
        except ProtocolError as problem:
            waiting = [read_ahead.fetch_state for read_ahead, one in lane.asked if not one.is_abandoned]
            self._response_reader.report(waiting, str(problem))
            self._drop(lane)

    def _answer(self, lane: ReadAheadConnection, frame: Frame) -> None:
        if not lane.asked:
            raise ProtocolError(f"broker {lane.connection.link.address} answered a request that was not sent")
        read_ahead, one = lane.asked[0]
        response = lane.connection.decode(frame)
        self._ring.note_throttled(response.throttle_ms)
        key = read_ahead.fetch_state.key(lane.connection.by_id)
        if not one.is_abandoned and any(fetched[:2] != key for fetched in response.partitions):
            raise ProtocolError(f"broker {lane.connection.link.address} answered for another partition than asked")
        lane.asked.popleft()
        if one.is_abandoned:
            return
        if response.error or not response.partitions:
            one.is_asked = False  # a broker that throttles us answers with nothing
            if response.error:
                self._response_reader.refuse(read_ahead.fetch_state, lane.node, response.error)
            return
        read_ahead.answer(one, response.partitions[0], frame.buffer)

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.connection.close()
        self._lanes.clear()
