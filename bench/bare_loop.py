"""The limit: fetch and produce in one selector loop, with nothing around it. One of the contestants.

No Spark, no progress kept, no idempotence, no retry, no leader change, no topic creation: what a mirror in Python could
reach at most. Batches go through as they are; only the base offset, which lies outside the checksum, becomes zero.
Run by `bench.contestants` as `bare_loop.py SOURCE TARGET TOPIC TARGET_TOPIC`, until SIGTERM. With a fifth argument it
runs in steady mode: batches that the source has stamped with its append time get that time as their records', since a
target refuses them as they are, and answers that brought records are counted in that file (eight bytes, native order).
"""

import mmap
import selectors
import socket
import struct
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sparkmirror.batch import crc as crc32c
from sparkmirror.batch.header import APPEND_TIME, ATTRIBUTES_AT
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.settings import ClientSettings, client_settings
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire.link import Link, dial
from sparkmirror.kafka.wire.lookup import ClusterView, look_up
from sparkmirror.model import Cluster, TopicPartition

CONNECTIONS_PER_BROKER = 2
# Two buffers a connection: one is filled while the other is drained. Larger ones fall out of the processor's cache.
BUFFERS = 2
PARTITION_BYTES_MAX = 2 << 20
RESPONSE_BYTES_MAX = 4 << 20
REQUESTS_IN_FLIGHT_MAX = 16
WAIT_MS = 500
# Linux takes 1,024 buffers a call.
SEND_BUFFERS_MAX = 1000
_BATCH_LENGTH = struct.Struct(">i")
_BASE_OFFSET = struct.Struct(">q")
_OVERHEAD_BYTES = 12
_LENGTH_AT = 8
_LAST_DELTA_AT = 23
_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_CRC_AT = 17
_ATTRIBUTES = struct.Struct(">h")
_TIMES = struct.Struct(">qq")
_TIMES_AT = 27


class Lease:
    """A buffer that holds one fetch response until the last of its batches is acknowledged."""

    __slots__ = ("memory", "unacknowledged")

    def __init__(self) -> None:
        self.memory = bytearray(RESPONSE_BYTES_MAX + (1 << 20))
        self.unacknowledged = 0


@dataclass(slots=True)
class Lane:
    """One partition on its way: where fetching stands, and the batches that wait for a produce request."""

    partition: int
    offset: int
    batches: deque[tuple[memoryview, Lease]] = field(default_factory=deque)


class Frames:
    """Cuts a stream of small answers into frames."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._rest = b""

    def read(self) -> Iterator[memoryview]:
        """The frames that are whole by now."""
        received = self._socket.recv(1 << 16)
        if not received:
            raise ConnectionResetError("the target broker closed the connection")
        data = memoryview(self._rest + received)
        while len(data) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
            if end > len(data):
                break
            yield data[_LENGTH.size : end]
            data = data[end:]
        self._rest = bytes(data)


class LargeFrame:
    """Receives one frame after another into memory that is given for each."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._head = bytearray(_LENGTH.size)
        self._wanted = memoryview(self._head)
        self._filled = 0
        self._in_body = False

    def read(self, memory: bytearray) -> memoryview | None:
        """The next whole frame, at the start of `memory`, or None until more has come."""
        if not self._in_body:
            if not self._fill():
                return None
            (size,) = _LENGTH.unpack(self._head)
            if size > len(memory):
                raise SparkMirrorError(f"A fetch response of {size} bytes is larger than it was asked to be.")
            self._wanted, self._filled, self._in_body = memoryview(memory)[:size], 0, True
        if not self._fill():
            return None
        frame = self._wanted
        self._wanted, self._filled, self._in_body = memoryview(self._head), 0, False
        return frame

    def _fill(self) -> bool:
        try:
            while self._filled < len(self._wanted):
                count = self._socket.recv_into(self._wanted[self._filled :])
                if not count:
                    raise ConnectionResetError("the source broker closed the connection")
                self._filled += count
        except BlockingIOError:
            return False
        return True


class ProducePeer:
    """A connection to a target broker and the lanes it serves: one batch of each ready lane a request."""

    def __init__(self, link: Link, topic: wire.TopicKey, version: int) -> None:
        self.link = link
        self.lanes: list[Lane] = []
        self._topic = topic
        self._version = version
        self._answers = Frames(link.socket)
        self._in_flight: deque[list[Lease]] = deque()
        self._outgoing: deque[wire.Buffer] = deque()

    @property
    def blocked(self) -> bool:
        """Whether the socket's buffer is full, so that the loop must watch for writability."""
        return bool(self._outgoing)

    def on_readable(self) -> None:
        for frame in self._answers.read():
            self._acknowledge(frame)

    def send(self) -> None:
        """Hand all that is ready to the socket."""
        while len(self._in_flight) < REQUESTS_IN_FLIGHT_MAX:
            ready = [lane for lane in self.lanes if lane.batches]
            if not ready:
                break
            self._enqueue([(lane.partition, *lane.batches.popleft()) for lane in ready])
        self.flush()

    def flush(self) -> None:
        try:
            while self._outgoing:
                parts = list(self._outgoing)[:SEND_BUFFERS_MAX]
                self._drop(self.link.socket.sendmsg(parts))
        except BlockingIOError:
            return

    def _enqueue(self, taken: list[tuple[int, memoryview, Lease]]) -> None:
        header = wire.request_header(wire.PRODUCE, self._version, 0, "bare")
        items = [wire.ProduceItem(self._topic, partition, batch) for partition, batch, _ in taken]
        self._outgoing.extend(wire.frame(header, *wire.encode_produce(items)))
        self._in_flight.append([lease for _, _, lease in taken])

    def _drop(self, sent: int) -> None:
        while sent:
            first = self._outgoing.popleft()
            if len(first) > sent:
                self._outgoing.appendleft(memoryview(first)[sent:])
                return
            sent -= len(first)

    def _acknowledge(self, frame: memoryview) -> None:
        for produced in wire.decode_produce(self._version, frame).partitions:
            if produced.error:
                raise SparkMirrorError(f"The target refused a batch with error {produced.error}: {produced.message}")
        for lease in self._in_flight.popleft():
            lease.unacknowledged -= 1


class FetchPeer:
    """A connection to a source broker: one request under way as long as a buffer is free."""

    def __init__(
        self, link: Link, topic: wire.TopicKey, lanes: list[Lane], version: int, steady: "Steady | None"
    ) -> None:
        self.link = link
        self.waits = False
        self._steady = steady
        self._topic = topic
        self._lanes = {lane.partition: lane for lane in lanes}
        self._version = version
        self._response = LargeFrame(link.socket)
        self._leases = deque(Lease() for _ in range(BUFFERS))

    def fetch(self) -> None:
        """Ask for more, unless a request is under way or the next buffer's batches are not acknowledged yet."""
        if self.waits or self._leases[0].unacknowledged:
            return
        positions = [
            wire.FetchPosition(self._topic, lane.partition, lane.offset, -1, PARTITION_BYTES_MAX)
            for lane in self._lanes.values()
        ]
        body = wire.encode_fetch(
            self._version, session_id=0, session_epoch=-1, positions=positions,
            wait_ms=WAIT_MS, bytes_min=1, bytes_max=RESPONSE_BYTES_MAX, read_committed=False,
        )  # fmt: skip
        header = wire.request_header(wire.FETCH, self._version, 0, "bare")
        self.link.socket.sendall(b"".join(wire.frame(header, body)))
        self.waits = True

    def on_readable(self) -> None:
        frame = self._response.read(self._leases[0].memory)
        if frame is None:
            return
        self.waits = False
        lease = self._leases.popleft()
        self._leases.append(lease)
        for fetched in wire.decode_fetch(self._version, frame).partitions:
            if fetched.error:
                raise SparkMirrorError(f"The source refused to be read, with error {fetched.error}.")
            self._take(frame, fetched, lease)
        if self._steady is not None and lease.unacknowledged:
            self._steady.count()

    def _take(self, frame: memoryview, fetched: wire.FetchedPartition, lease: Lease) -> None:
        lane = self._lanes[fetched.partition]
        for start, stop, next_offset in whole_batches(frame, fetched.start, fetched.stop):
            _BASE_OFFSET.pack_into(frame, start, 0)
            if self._steady is not None:
                take_append_time(frame[start:stop])
            lane.batches.append((frame[start:stop], lease))
            lane.offset = next_offset
            lease.unacknowledged += 1


def whole_batches(frame: memoryview, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Each whole v2 batch of `frame[start:stop]`: first byte, byte after the last, offset after its last record."""
    length_of, offset_of = _BATCH_LENGTH.unpack_from, _BASE_OFFSET.unpack_from
    while stop - start >= _LAST_DELTA_AT + 4:
        end = start + length_of(frame, start + _LENGTH_AT)[0] + _OVERHEAD_BYTES
        if end > stop:
            return
        yield start, end, offset_of(frame, start)[0] + length_of(frame, start + _LAST_DELTA_AT)[0] + 1
        start = end


def take_append_time(batch: memoryview) -> None:
    """A batch with the source's append time becomes one whose records were created then, in place; others stay."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_AT)
    if not attributes & APPEND_TIME:
        return
    _, appended = _TIMES.unpack_from(batch, _TIMES_AT)
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, attributes & ~APPEND_TIME)
    _TIMES.pack_into(batch, _TIMES_AT, appended, appended)
    _CRC.pack_into(batch, _CRC_AT, crc32c.value(bytes(batch[ATTRIBUTES_AT:])))


class Steady:
    """What steady mode adds: the count of answers, in a file that the benchmark reads."""

    def __init__(self, file: Path) -> None:
        file.write_bytes(bytes(8))
        with file.open("r+b") as opened:
            self._answers = memoryview(mmap.mmap(opened.fileno(), 8)).cast("Q")

    def count(self) -> None:
        self._answers[0] += 1


class Loop:
    """All connections, one selector."""

    def __init__(self, fetchers: list[FetchPeer], producers: list[ProducePeer]) -> None:
        self._fetchers = fetchers
        self._producers = producers
        self._selector = selectors.DefaultSelector()
        self._watched: dict[ProducePeer, int] = {}

    def run(self) -> None:
        peers: list[FetchPeer | ProducePeer] = [*self._fetchers, *self._producers]
        for peer in peers:
            peer.link.socket.setblocking(False)
            self._selector.register(peer.link.socket, selectors.EVENT_READ, peer)
        while True:
            for fetcher in self._fetchers:
                fetcher.fetch()
            for key, events in self._selector.select():
                if events & selectors.EVENT_READ:
                    key.data.on_readable()
            for producer in self._producers:
                producer.send()
                self._watch(producer)

    def _watch(self, peer: ProducePeer) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.blocked else 0)
        if self._watched.get(peer, selectors.EVENT_READ) != events:
            self._watched[peer] = events
            self._selector.modify(peer.link.socket, events, peer)


def connect(source: str, target: str, topic: str, target_topic: str, counted: str = "") -> Loop:
    """Open the connections of a loop that copies `topic` from its first offset into `target_topic`, which exists.

    In steady mode where `counted` names a file.
    """
    steady = Steady(Path(counted)) if counted else None
    fetch_state, writing = (_settings(servers) for servers in (source, target))
    readable, writable = look_up(fetch_state, [topic]), look_up(writing, [target_topic])
    lanes = [Lane(where.partition, 0) for where in sorted(readable.leaders)]
    fetchers: list[FetchPeer] = []
    for address, some in _by_connection(readable, topic, lanes):
        link = dial(*address, fetch_state)
        version = link.version(wire.FETCH, wire.FETCH_VERSIONS)
        key = readable.topic_ids[topic].bytes if version >= wire.TOPIC_ID_FETCH else topic
        fetchers.append(FetchPeer(link, key, some, version, steady))
    producers: list[ProducePeer] = []
    for address, some in _by_connection(writable, target_topic, lanes):
        link = dial(*address, writing)
        version = link.version(wire.PRODUCE, wire.PRODUCE_VERSIONS)
        key = writable.topic_ids[target_topic].bytes if version >= wire.TOPIC_ID_PRODUCE else target_topic
        producers.append(ProducePeer(link, key, version))
        producers[-1].lanes = some
    return Loop(fetchers, producers)


def _settings(servers: str) -> ClientSettings:
    return client_settings(Cluster("bare", {"bootstrap.servers": servers}), "bare")


def _by_connection(view: ClusterView, topic: str, lanes: list[Lane]) -> list[tuple[tuple[str, int], list[Lane]]]:
    shares: dict[tuple[int, int], list[Lane]] = {}
    per_broker: dict[int, int] = {}
    for lane in lanes:
        leader = view.leaders[TopicPartition(topic, lane.partition)]
        nth = per_broker[leader] = per_broker.get(leader, -1) + 1
        shares.setdefault((leader, nth % CONNECTIONS_PER_BROKER), []).append(lane)
    return [(view.brokers[leader], some) for (leader, _), some in shares.items()]


if __name__ == "__main__":
    connect(*sys.argv[1:6]).run()
