"""Fetching from one broker: an incremental fetch session (KIP-227) over one bulk connection.

`FetchConnection` asks and receives, straight into the ring. A session allows one request at a time; requests without
one may queue up on a connection, which a broker answers one by one. Called by `pipeline.fetch.reader` and
`pipeline.fetch.read_ahead_connections` for the source's brokers, and for the command topic.
"""

import ssl
import struct
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sparkmirror.batch.header import parse_header
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire.data_requests import FetchedPartition, FetchPosition, FetchResponse
from sparkmirror.kafka.wire.link import Link
from sparkmirror.pipeline.fetch.fetch_session import FetchSession, PartitionKey
from sparkmirror.pipeline.relay.private_memory import PrivateMemory, private_memory
from sparkmirror.pipeline.relay.ring import Ring

_NO_SESSION = -1
REST_SECONDS: Final = 0.0025
"""The pause after a small answer: the next answer brings what arrives meanwhile, for the cost of one request."""
HALF_REST_BYTES: Final = 8 << 10
"""Half the pause follows an answer of so many bytes, and the less the more it brings: its cost is of more records."""
_LITTLE_BYTES = 256 << 10
_AROUND_BYTES = 1 << 20
_PARTITION_BYTES = 256
_LONE_BATCH_BYTES_MAX = 128 << 20
"""By default brokers take no request of more than 100 MiB from a producer."""
_UNTAKEN_MAX = 1
"""With more batches of rows than this on their way through Spark, no further small answer is fetched."""
_PATIENCE_SECONDS = 0.1
_SPARSE_RESTS: Final = 3
"""No pause follows an answer that came so many pauses after the one before: the reader then wakes once an answer, to
take it and to ask for the next."""
_SEND_SECONDS = 5.0
_LENGTH = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Sizes in bytes and the longest wait for new data, as the consumer's `fetch.*` properties set them; and the pause
    after a small answer, of which half follows one of so many bytes."""

    bytes_max: int = 8 << 20
    partition_bytes_max: int = 2 << 20
    bytes_min: int = 1
    wait_ms: int = 500
    read_committed: bool = False
    rack: str = ""
    rest_seconds: float = REST_SECONDS
    half_rest_bytes: int = HALF_REST_BYTES


@dataclass(slots=True)
class Frame:
    """One whole response: its bytes, the ring region that holds them (None when it is private memory), and how many
    bytes of records were asked for."""

    buffer: memoryview
    region: int | None
    asked_bytes: int = 0


class Conversation(NamedTuple):
    """How far a connection is, where no part of an answer is here: whether one is due, since when, when the broker may
    be asked again, when its last answer came, until when it waits for the writer, and when something last happened.
    Monotonic times."""

    is_asked: bool
    asked_at: float
    asks_at: float
    answered_at: float
    patient_until: float
    active_at: float


class FetchConnection:
    """A bulk connection of one broker in a selector loop: `send`, then `receive` whenever the socket is readable."""

    def __init__(
        self, link: Link, ring: Ring | PrivateMemory, limits: FetchLimits, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.link = link
        self._clock = clock
        self.version = link.version(wire.FETCH, wire.FETCH_VERSIONS)
        self.by_id = self.version >= wire.TOPIC_ID_FETCH
        self.session = FetchSession()
        self._asked: deque[int] = deque()
        self.starved = False
        self.not_before = 0.0
        self._rests_until = 0.0
        self._patient_until = 0.0
        self._active_at = 0.0
        self._asked_at = 0.0
        self._answered_at = self._clock.monotonic()
        self._ring = ring
        self._limits = limits
        self._head = bytearray(4)
        self._filled = 0
        self._body: memoryview | None = None
        self._region: int | None = None
        self._is_aside = False
        self._owed = b""
        link.socket.setblocking(False)

    def send(
        self,
        wanted: Mapping[PartitionKey, FetchPosition],
        bytes_max: int = 0,
        changed: Collection[PartitionKey] | None = None,
    ) -> None:
        """Ask for these partitions, in an answer of at most `bytes_max` if given; `changed` is as in the session.

        The request is small and is written whole. Raises OSError when the connection is gone.
        """
        most = bytes_max or self._limits.bytes_max
        self.link.correlation += 1
        self.send_frame(self._encode(*self.session.step(wanted, changed), most), most)

    def send_alone(self, position: FetchPosition) -> None:
        """Ask for a range of one partition without a session; several such requests may be under way. Raises
        OSError."""
        most = position.bytes_max
        self.link.correlation += 1
        self.send_frame(self._encode(0, _NO_SESSION, [position], [], most), most)

    def _encode(
        self,
        session_id: int,
        session_epoch: int,
        positions: Sequence[FetchPosition],
        forgotten: Sequence[PartitionKey],
        bytes_max: int,
    ) -> bytes:
        limits = self._limits
        body = wire.encode_fetch(
            self.version,
            session_id=session_id,
            session_epoch=session_epoch,
            positions=positions,
            forgotten=forgotten,
            wait_ms=limits.wait_ms,
            bytes_min=limits.bytes_min,
            bytes_max=bytes_max,
            read_committed=limits.read_committed,
            rack=limits.rack,
        )
        return b"".join(wire.frame(self._header(), body))

    def _header(self) -> bytes:
        return wire.request_header(wire.FETCH, self.version, self.link.correlation, self.link.client_id)

    def frame_without_topics(self) -> tuple[bytes, int]:
        """A whole request of the session that names no partition, and where its number of topics stands."""
        whole = self._encode(self.session.id, self.session.epoch, (), (), self._limits.bytes_max)
        return whole, _LENGTH.size + len(self._header()) + wire.FETCH_TOPICS_AT

    def send_frame(self, frame: bytes | memoryview, bytes_max: int) -> None:
        """Send a whole request, for an answer of at most so many bytes, of the link's correlation. Raises OSError."""
        self._write(frame)
        self._active_at = now = self._clock.monotonic()
        self._asked_at = now if not self._asked else 0.0
        self._asked.append(bytes_max)

    def _write(self, request: bytes | memoryview) -> None:
        """As a rule the socket takes it at once; else wait for it."""
        sock = self.link.socket
        try:
            sent = sock.send(request)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            sent = 0
        if sent < len(request):
            sock.settimeout(_SEND_SECONDS)
            sock.sendall(memoryview(request)[sent:])
            sock.setblocking(False)

    @property
    def waiting(self) -> bool:
        """Whether an answer is due."""
        return bool(self._asked)

    @property
    def asks_at(self) -> float:
        """When the broker may be asked again: after its throttle time, and a moment after a small answer."""
        return max(self.not_before, self._rests_until)

    def rests(self, now: float) -> bool:
        """Whether the broker must not be asked yet. While earlier rows are still on their way through Spark, or
        announcements are not taken, another small answer would only queue behind them, and cost as much as a large
        one."""
        if now < self.asks_at:
            return True
        if now < self._patient_until and (self._ring.untaken > _UNTAKEN_MAX or self._ring.unheard):
            self._rests_until = now + self._limits.rest_seconds
            return True
        return False

    def is_silent(self, now: float, seconds: float) -> bool:
        """Whether no byte of a due answer came for `seconds`: the broker then counts as gone."""
        return self.waiting and not self.starved and now - self._active_at > seconds

    def receive(self) -> Frame | None:
        """Read what the socket has; the frame once it is complete, else None.

        Raises OSError when the connection is gone, ProtocolError for a frame that cannot be one.
        """
        self._active_at = self._clock.monotonic()
        if self._owed:
            owed, self._owed = self._owed, b""
            self._write(owed)
        try:
            if self._body is None and not self._begin():
                return None
            return self._fill()
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None

    def _begin(self) -> bool:
        while self._filled < 4:
            received = self.link.socket.recv_into(memoryview(self._head)[self._filled :])
            if not received:
                raise ConnectionResetError(f"broker {self.link.address} closed the connection")
            self._filled += received
        self._measure()
        (size,) = _LENGTH.unpack(self._head)
        if not 4 < size <= self._frame_bytes_max():
            asked = f", and was asked for {self._asked[0]}" if self._asked else ""
            raise ProtocolError(f"broker {self.link.address} announced a response of {size} bytes{asked}")
        return self._reserve(size)

    def _frame_bytes_max(self) -> int:
        """The largest plausible answer: the bytes asked for and their headers, or one batch, which comes whole at any
        size."""
        asked_bytes = self._asked[0] if self._asked else self._limits.bytes_max
        around_bytes = _AROUND_BYTES + _PARTITION_BYTES * self.session.partitions
        return min(max(asked_bytes + around_bytes, _LONE_BATCH_BYTES_MAX), wire.MAX_FRAME_BYTES)

    def _measure(self) -> None:
        if self._asked_at:
            self.link.note_answer(self._clock.monotonic() - self._asked_at)
            self._asked_at = 0.0

    def _reserve(self, size: int) -> bool:
        self._region = None
        if size <= self._ring.ring_bytes:
            self._region = self._ring.reserve(size, self)
            self.starved = self._region is None
            if self._region is None:
                return False
            self._body = self._ring.slice(self._region, size)
        else:
            self._body = private_memory(size)
        self._filled = 0
        return True

    def _fill(self) -> Frame | None:
        body = self._body
        assert body is not None
        sock = self.link.socket
        size = len(body)
        while self._filled < size:
            received = sock.recv_into(body[self._filled :])
            if not received:
                raise ConnectionResetError(f"broker {self.link.address} closed the connection")
            self._filled += received
        if self._is_aside:
            leased = self._come_back(body)
            if leased is None:
                return None
            body = leased
        self._body = None
        self._filled = 0
        asked_bytes = self._asked.popleft() if self._asked else 0
        self._note_answer(size)
        frame = Frame(body, self._region, asked_bytes)
        self._region = None
        return frame

    def _note_answer(self, size: int) -> None:
        """Decide whether a pause follows this answer."""
        now, rest_seconds = self._clock.monotonic(), self._limits.rest_seconds
        is_sparse = now - self._answered_at >= _SPARSE_RESTS * rest_seconds
        self._answered_at, self._patient_until = now, 0.0
        if size < _LITTLE_BYTES and not is_sparse:
            half_bytes = self._limits.half_rest_bytes
            pause_seconds = rest_seconds * half_bytes / (half_bytes + size)
            self._rests_until, self._patient_until = now + pause_seconds, now + _PATIENCE_SECONDS

    # What compiled code does over this connection (`pipeline.fetch.plain_turns`).

    def conversation(self, bytes_max: int, until: float) -> Conversation | None:
        """None where compiled code may not go on from here until then, asking for answers of so many bytes."""
        is_between = self._body is None and not self._filled and not self.starved
        is_due = len(self._asked) > 1 or any(asked != bytes_max for asked in self._asked)
        link = self.link
        if not is_between or is_due or self._owed or link.is_tls or link.is_far or until >= link.reauthenticate_at:
            return None
        times = self._asked_at, self.asks_at, self._answered_at, self._patient_until, self._active_at
        return Conversation(self.waiting, *times)

    def go_on(self, now: Conversation, bytes_max: int, shortest_seconds: float) -> None:
        """Compiled code has come so far; the quickest answer took `shortest_seconds`, 0 for none."""
        self._asked = deque([bytes_max] if now.is_asked else [])
        self._asked_at, self._answered_at, self._patient_until = now.asked_at, now.answered_at, now.patient_until
        self._rests_until, self._active_at = now.asks_at, now.active_at
        if shortest_seconds:
            self.link.note_answer(shortest_seconds)

    def take_back(self, head: bytes, body_bytes: int, body: memoryview) -> None:
        """What of an answer was received elsewhere: of its length, and, where `body_bytes` are to come, of these. They
        count as aside also beyond what the ring lends for that."""
        if not body_bytes:
            self._head[: len(head)], self._filled = head, len(head)
            return
        self._filled, self._asked_at = len(body), 0.0
        self._go_on_aside(body, body_bytes)

    def owe(self, request: bytes) -> None:
        """The end of a request that compiled code has not sent whole: `receive` sends it."""
        self._owed = request

    @property
    def owes(self) -> bool:
        return bool(self._owed)

    def make_way(self) -> None:
        """Go on receiving an answer outside the ring; it comes back there when it is whole."""
        assert self._body is not None and self._region is not None
        region = self._region
        self._go_on_aside(self._body[: self._filled], len(self._body))
        self._ring.lend(region, [])

    def _go_on_aside(self, received: memoryview, size: int) -> None:
        """Receive the rest of an answer of that size outside the ring, behind what is here."""
        elsewhere = private_memory(size)
        elsewhere[: len(received)] = received
        self._ring.aside_bytes += size
        self._body, self._region, self._is_aside = elsewhere, None, True

    def _come_back(self, whole: memoryview) -> memoryview | None:
        """The answer in the ring again; None while that has no room."""
        self._region = self._ring.reserve(len(whole))
        self.starved = self._region is None
        if self._region is None:
            return None
        leased = self._ring.slice(self._region, len(whole))
        leased[:] = whole
        self._forget_aside(whole)
        return leased

    def _forget_aside(self, body: memoryview) -> None:
        self._ring.aside_bytes -= len(body)
        self._is_aside = False

    def asked(self, fetched: FetchedPartition, offset: int) -> bool:
        """Whether the request behind this answer asked for `offset`: after a seek, an older answer would hide a gap."""
        return self.session.offset_of(fetched[:2]) == offset

    def decode(self, frame: Frame) -> FetchResponse:
        """Parse a frame and follow the session. Raises ProtocolError."""
        response = wire.decode_fetch(self.version, frame.buffer)
        if len(frame.buffer) > frame.asked_bytes > 0:
            self._check_size(response, frame)
        if response.throttle_ms:
            self.not_before = self._clock.monotonic() + response.throttle_ms / 1000
        self.session.accept(response)
        return response

    def _check_size(self, response: FetchResponse, frame: Frame) -> None:
        """An answer larger than asked for must be a single batch (KIP-74)."""
        filled = [fetched for fetched in response.partitions if fetched.stop > fetched.start]
        size = sum(fetched.stop - fetched.start for fetched in filled)
        if size <= frame.asked_bytes:
            return
        if len(filled) != 1 or parse_header(frame.buffer, filled[0].start).total_bytes < size:
            asked = f"and was asked for {frame.asked_bytes}"
            raise ProtocolError(f"broker {self.link.address} sent {size} bytes in several batches, {asked}")

    def close(self) -> None:
        """Drop the connection and give back a half-filled region."""
        if self._is_aside and self._body is not None:
            self._forget_aside(self._body)
        if self._region is not None:
            self._ring.lend(self._region, [])
            self._region = None
        self.link.close()
