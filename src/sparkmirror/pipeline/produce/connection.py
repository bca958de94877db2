"""Producing over one bulk connection: requests out by scatter and gather, answers in order. Owned by
`pipeline.produce.produce_task`.

A broker serves one request of a connection at a time, so the sender keeps several of these per broker. Near a broker
five requests under way keep it busy, and those that wait grow fuller. Far from it five would be too few: a partition
whose batch comes a moment late would wait for a round trip. The partition buffer counts the five batches of a partition
that idempotence allows.
"""

import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from math import inf
from typing import Final, NamedTuple

from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire.data_requests import Buffer, ProducedPartition, TopicKey
from sparkmirror.kafka.wire.link import FAR_SECONDS, Link
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.pace import RequestPace
from sparkmirror.pipeline.produce.queued_records import Batch

_LENGTH = struct.Struct(">i")
_SO_TIMESTAMPNS: Final = 35
"""Linux (socket(7)): the kernel notes when what is read has come, as a timespec; Python has no name for it."""
_STAMP = struct.Struct("@qq")
_STAMP_SPACE: Final = socket.CMSG_SPACE(_STAMP.size)
_NEAR_REQUESTS_MAX: Final = 5
_FAR_REQUESTS_MAX: Final = 64
_ANSWER_BYTES_MAX: Final = 64 << 20
_BUFFERS_MAX: Final = 512
"""The most buffers of one `sendmsg`; the kernel's limit is 1,024."""


class Dialect(NamedTuple):
    """The form of produce requests: their versions, and their transactional id."""

    versions: tuple[int, int] = wire.PRODUCE_VERSIONS
    transactional_id: str | None = None


PLAIN: Final = Dialect()

Part = tuple[TopicKey, PartitionBuffer, Batch]
"""What a request carries for one partition, with the key of its topic."""
NumberedPart = tuple[TopicKey, int, PartitionBuffer, Batch]
"""And with the number of that partition."""
BatchKey = int | tuple[TopicKey, int]
"""The number of a partition, and the key of its topic where a request has several."""


class Request(NamedTuple):
    """One that is not answered yet: what it carries. `topic` is the key of its only topic."""

    sent_at: float
    topic: TopicKey | None
    batches: dict[BatchKey, tuple[PartitionBuffer, Batch]]

    @classmethod
    def of(cls, sent_at: float, parts: Sequence[NumberedPart]) -> "Request":
        """By topic and partition of each batch."""
        topic = parts[0][0]
        one: dict[BatchKey, tuple[PartitionBuffer, Batch]] = {}
        for key, partition, buffer, batch in parts:
            if key != topic:
                break
            one[partition] = (buffer, batch)
        else:
            return cls(sent_at, topic, one)
        return cls(sent_at, None, {(key, partition): (buffer, batch) for key, partition, buffer, batch in parts})


class Answer(NamedTuple):
    """A request's batches, each with what the broker says of it; `arrived_at_ms` is when that came, in ms since 1970, 0
    where the kernel does not say."""

    parts: list[tuple[PartitionBuffer, Batch, ProducedPartition]]
    throttle_ms: int
    arrived_at_ms: int = 0


class ProduceConnection:
    """One connection in a selector loop. `unanswered` holds what each request carried, oldest first."""

    def __init__(
        self, link: Link, request_seconds_max: float, dialect: Dialect = PLAIN, *, for_ledger: bool = False
    ) -> None:
        self.link = link
        self.version = link.version(wire.PRODUCE, dialect.versions)
        self._transactional_id = dialect.transactional_id
        self.by_id = self.version >= wire.TOPIC_ID_PRODUCE
        self.unanswered: deque[Request] = deque()
        self.not_before = 0.0
        self.pace = RequestPace(in_one=for_ledger)
        self.is_watched_for_room = False
        self._full_since = inf
        self._request_seconds_max = request_seconds_max
        self._out: deque[memoryview] = deque()
        self._in = bytearray(1 << 16)
        self._filled = 0
        self._is_tls = link.is_tls
        self._is_stamped = not self._is_tls and _stamp_arrivals(link.socket)
        self._arrived_at_ms = 0
        link.socket.setblocking(False)

    @property
    def has_room(self) -> bool:
        return len(self.unanswered) < self.requests_max

    @property
    def may_be_late(self) -> bool:
        """Whether answers may be read a moment after they have come: the kernel notes when that was, the broker is
        known to be near, and no half-written request waits."""
        return self._is_stamped and not self._out and self.link.round_trip_seconds < FAR_SECONDS

    def is_full_for(self, now: float) -> float:
        """For how many seconds as many requests have been under way as ever may be, whenever this was asked."""
        if len(self.unanswered) < self._requests_max:
            self._full_since = inf
            return 0.0
        self._full_since = min(self._full_since, now)
        return now - self._full_since

    @property
    def batches_a_request(self) -> int:
        """The most that one of the unanswered requests carries: one of each partition that was ready."""
        return max((len(request.batches) for request in self.unanswered), default=0)

    @property
    def _requests_max(self) -> int:
        return _FAR_REQUESTS_MAX if self.link.is_far else _NEAR_REQUESTS_MAX

    def takes_more(self, now: float) -> bool:
        """Whether a request may go out now."""
        return self.has_room and now >= self.not_before and now < self.link.reauthenticate_at

    @property
    def wants_to_write(self) -> bool:
        return bool(self._out)

    def overdue(self, now: float) -> bool:
        """Whether the oldest request has waited longer than a broker may take, throttle time not counted."""
        return (
            bool(self.unanswered) and now - max(self.unanswered[0].sent_at, self.not_before) > self._request_seconds_max
        )

    def carries(self, buffer: PartitionBuffer) -> bool:
        """Whether an unanswered request holds a batch of this buffer."""
        return any(owner is buffer for request in self.unanswered for owner, _ in request.batches.values())

    def send(self, items: Sequence[Part], timeout_ms: int) -> None:
        """Queue one request and write as much as the socket takes. Raises OSError when the connection is gone."""
        self.link.correlation += 1
        numbered = _numbered(items)
        parts = self._encode(self.link.correlation, numbered, timeout_ms)
        if self._is_tls:
            parts = [b"".join(parts)]  # `sendmsg` does not exist on TLS sockets
        self.unanswered.append(Request.of(time.monotonic(), numbered))
        self._write_first(parts)

    # What compiled code does over this connection (`pipeline.produce.plain_turns`).

    def is_plain(self, until: float) -> bool:
        """Whether compiled code may send and receive until then: nothing is under way, nor half-written or half-read,
        and no pause or renewal comes before that time."""
        is_empty = not (self.unanswered or self._filled) and self.may_be_late
        is_open = self.takes_more(time.monotonic()) and until < self.link.reauthenticate_at
        return is_empty and is_open and not self.pace.is_slow

    def request_head(self, timeout_ms: int) -> bytes:
        """A request as it begins, its length before it, up to the number of its topics."""
        header = wire.request_header(wire.PRODUCE, self.version, self.link.correlation, self.link.client_id)
        return b"".join(wire.frame(header, wire.produce_head(timeout_ms)))

    @property
    def requests_max(self) -> int:
        """The most requests that may be under way."""
        return min(self._requests_max, self.pace.requests_max)

    def note_sent(self, correlation: int, sent_at: float, items: Sequence[Part]) -> None:
        """A request of these batches has gone out, of that correlation, and is not answered."""
        self.link.correlation = correlation
        self.unanswered.append(Request.of(sent_at, _numbered(items)))

    def note_answered(self, correlation: int, seconds: float, sent_bytes: int) -> None:
        """A request of so many bytes of batches, of that correlation, was answered after so long."""
        self.link.correlation = correlation
        self.link.note_answer(seconds)
        if not self.pace.is_full:
            self.pace.note(sent_bytes, 0.0)

    def send_rest(self, correlation: int, items: Sequence[Part], timeout_ms: int, sent_bytes: int) -> None:
        """Send what is left of a request of which so many bytes went out. Raises OSError."""
        self._out.extend(map(memoryview, self._encode(correlation, _numbered(items), timeout_ms)))
        self._advance(sent_bytes)
        self.write()

    def take_back(self, received: bytes) -> None:
        """What was received, and is for `receive`; with the time when that comes to the rest of it."""
        self._in[: len(received)] = received
        self._filled = len(received)
        self._arrived_at_ms = 0

    def _encode(self, correlation: int, numbered: Sequence[NumberedPart], timeout_ms: int) -> list[Buffer]:
        header = wire.request_header(wire.PRODUCE, self.version, correlation, self.link.client_id)
        body = wire.encode_produce(
            [(key, partition, batch.data) for key, partition, _, batch in numbered],
            transactional_id=self._transactional_id,
            timeout_ms=timeout_ms,
        )
        return wire.frame(header, *body)

    def _write_first(self, parts: Sequence[Buffer]) -> None:
        """Write the request whose parts these are, behind what is left of others. As a rule the socket takes all of it
        at once. Raises OSError."""
        out = self._out
        sent = 0
        if not out and not self._is_tls and len(parts) <= _BUFFERS_MAX:
            try:
                sent = self.link.socket.sendmsg(parts)
            except BlockingIOError:
                sent = 0
            if sent == sum(map(len, parts)):
                return
        out.extend(map(memoryview, parts))
        self._advance(sent)
        self.write()

    def write(self) -> None:
        """Write until the socket is full or nothing is left. Raises OSError."""
        out = self._out
        sock = self.link.socket
        try:
            while out:
                if self._is_tls:
                    self._advance(sock.send(out[0]))
                else:
                    buffers = list(islice(out, _BUFFERS_MAX))
                    sent = sock.sendmsg(buffers)
                    if len(buffers) == len(out) and sent == sum(map(len, buffers)):
                        out.clear()
                    else:
                        self._advance(sent)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return

    def _advance(self, sent: int) -> None:
        out = self._out
        while sent:
            size = len(out[0])
            if sent < size:
                out[0] = out[0][sent:]
                return
            out.popleft()
            sent -= size

    def receive(self) -> Iterator[Answer]:
        """Complete answers one by one.

        Raises OSError or ProtocolError after the answers that came before the trouble: a broker that shuts down still
        answers, and what it answered is not in `unanswered` any more.
        """
        more = True
        while True:
            while (frame := self._take_frame()) is not None:
                yield self._match(frame)
            if not more:
                return
            more = self._read_some()

    def _read_some(self) -> bool:
        """Read once; whether there may be more. A plain socket that gave less than was asked for is empty."""
        self._make_room()
        room = memoryview(self._in)[self._filled :]
        try:
            received = self._receive_stamped(room) if self._is_stamped else self.link.socket.recv_into(room)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        if not received:
            raise ConnectionResetError(f"broker {self.link.address} closed the connection")
        self._filled += received
        return self._is_tls or received == len(room)

    def _receive_stamped(self, room: memoryview) -> int:
        received, ancillary, _, _ = self.link.socket.recvmsg_into([room], _STAMP_SPACE)
        self._arrived_at_ms = 0
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) == _STAMP.size:
                seconds, nanoseconds = _STAMP.unpack(data)
                self._arrived_at_ms = seconds * 1000 + nanoseconds // 1_000_000
        return received

    def _make_room(self) -> None:
        if self._filled >= len(self._in) // 2:
            self._in.extend(bytes(len(self._in)))

    def _take_frame(self) -> memoryview | None:
        if self._filled < 4:
            return None
        (size,) = _LENGTH.unpack_from(self._in)
        if not 4 <= size <= _ANSWER_BYTES_MAX:
            raise ProtocolError(f"broker {self.link.address} announced a produce answer of {size} bytes")
        stop = 4 + size
        if self._filled < stop:
            return None
        frame = memoryview(bytes(self._in[4:stop]))
        self._in[: self._filled - stop] = self._in[stop : self._filled]
        self._filled -= stop
        return frame

    def _match(self, frame: memoryview) -> Answer:
        if not self.unanswered:
            raise ProtocolError(f"broker {self.link.address} answered a request that was not sent")
        request = self.unanswered[0]
        throttle_ms, produced = 0, None
        if request.topic is not None:
            produced = wire.decode_plain_produce(frame, request.topic, len(request.batches))
        if produced is None:
            throttle_ms, produced = wire.decode_produce(self.version, frame)
        parts = self._parts(request, produced)
        self.unanswered.popleft()
        now = time.monotonic()
        self.link.note_answer(now - request.sent_at)
        pause_seconds = throttle_ms / 1000
        if pause_seconds or not self.pace.is_full:
            self.pace.note(sum([len(batch.data) for _, batch, _ in parts]), pause_seconds)
        if pause_seconds:
            self.not_before = now + pause_seconds
        return Answer(parts, throttle_ms, self._arrived_at_ms)

    def _parts(
        self, request: Request, answered: Sequence[ProducedPartition]
    ) -> list[tuple[PartitionBuffer, Batch, ProducedPartition]]:
        left = dict(request.batches)
        parts: list[tuple[PartitionBuffer, Batch, ProducedPartition]] = []
        topic = request.topic
        for produced in answered:
            answered_topic, partition = produced[:2]
            key = partition if answered_topic == topic else (answered_topic, partition)
            found = left.pop(key, None)
            if found is None:
                break
            parts.append((*found, produced))
        if left or len(parts) != len(answered):
            raise ProtocolError(f"broker {self.link.address} answered for other partitions than it was asked")
        return parts

    def close(self) -> list[tuple[PartitionBuffer, Batch]]:
        """Drop the connection; returns what was never answered."""
        self.link.close()
        lost = [pair for request in self.unanswered for pair in request.batches.values()]
        self.unanswered.clear()
        self._out.clear()
        return lost


def _numbered(items: Sequence[Part]) -> list[NumberedPart]:
    return [(key, buffer.target.partition, buffer, batch) for key, buffer, batch in items]


def _stamp_arrivals(sock: socket.socket) -> bool:
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True
