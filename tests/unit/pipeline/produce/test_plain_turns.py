"""Compiled code sends what Python sends, and what it leaves behind is as if Python had: two writers hear the same.

One of them takes its turns by compiled code. What the broker gets, and, after each turn, where partitions and requests
stand, what is counted and what of the reader's memory is in use is compared.
"""

import selectors
import socket
import struct
import time
from collections.abc import Iterator
from threading import Thread
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels import load_kernels
from tests.unit.pipeline.produce.direct_task import PARTITIONS, Task

from sparkmirror.batch import produce_turns
from sparkmirror.batch.header import parse_header
from sparkmirror.batch.produce_turn_rows import RUN_BYTES_MAX
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.pipeline.produce.arrivals import Arrivals
from sparkmirror.pipeline.produce.plain_turns import PlainTurns
from sparkmirror.pipeline.relay import board

_SECONDS: Final = 0.02
"""How long compiled code waits for more than there is."""


class Request(NamedTuple):
    """A request as the broker reads it: by partition its batch."""

    correlation: int
    batches: dict[int, bytes]


def read_requests(data: bytes) -> tuple[list[Request], bytes]:
    """Those that are whole, and what is left."""
    requests: list[Request] = []
    while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4]):
        size = int.from_bytes(data[:4])
        requests.append(_read_request(data[4 : 4 + size]))
        data = data[4 + size :]
    return requests, data


def _read_request(frame: bytes) -> Request:
    api, version, correlation, name = struct.unpack_from(">hhih", frame)
    at = 10 + name + 1
    assert (api, version, frame[at - 1]) == (0, 12, 0)
    assert frame[at : at + 7] == wire.produce_head(30_000)
    topics, at = frame[at + 7] - 1, at + 8
    batches: dict[int, bytes] = {}
    for _ in range(topics):
        size, at = frame[at] - 1, at + 1
        assert frame[at : at + size] == b"A.orders"
        count, at = frame[at + size] - 1, at + size + 1
        for _ in range(count):
            partition = int.from_bytes(frame[at : at + 4])
            size, at = _uvarint(frame, at + 4)
            assert partition not in batches
            batches[partition] = frame[at : at + size - 1]
            at += size
        at += 1
    assert at == len(frame) - 1 and frame[at] == 0
    return Request(correlation, batches)


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return number, at


def answer(
    request: Request, bases: int | dict[int, int], *, error: int = 0, throttle_ms: int = 0, message: bytes = b"\1\0\0",
    correlation: int | None = None, partitions: list[int] | None = None, topic: bytes = b"A.orders",
) -> bytes:  # fmt: skip
    """The broker's answer v12, its length before it; the batches have one place, or each its own."""
    named = list(request.batches) if partitions is None else partitions
    body = struct.pack(">ib", request.correlation if correlation is None else correlation, 0)
    body += b"\2" + wire.encode_topic_key(topic.decode()) + wire.encode_uvarint(len(named) + 1)
    for partition in named:
        base = bases if isinstance(bases, int) else bases[partition]
        body += struct.pack(">ihqqq", partition, error, base, -1, 0) + message
    body += b"\0" + struct.pack(">i", throttle_ms) + b"\0"
    return struct.pack(">i", len(body)) + body


class Writer(Task):
    """A writer's loop, without its thread."""

    def __init__(self, *, compiled: bool) -> None:
        super().__init__()
        self.connection.link.round_trip_seconds = 0.001
        self.connection.version = 12
        for _ in range(5):
            self.connection.pace.note(1, 0.0)
        self.peer.listener.listen()
        self.arrivals = Arrivals(self.peer.listener)
        self.wake, self.wakes = socket.socketpair()
        self.plain = PlainTurns(self.peer, self.wake.fileno(), self.arrivals, self.parts)
        if compiled:
            self.plain.load()
        self.compiled = compiled
        self.turns = 0
        self.got = b""
        self.due: list[Request] = []
        self.batches_of: dict[int, list[bytes]] = {where.partition: [] for where in PARTITIONS}
        self.ends = dict.fromkeys(self.batches_of, 100)
        self.theirs.setblocking(False)
        self.hear()
        for where in PARTITIONS:  # their extents are known
            self.board(where.partition, 1)
        self.python_turn()
        (request,) = self.hear()
        self.due.clear()
        self.say(answer(request, 40))
        self.serve()

    def board(self, partition: int, first: int, batches: int = 1, *, row_batches: int = 0, **changed: int) -> None:
        """The reader announces a run."""
        made = self.announced(partition, first, batches)._replace(row_batches=row_batches, **changed)
        assert self.ring.announcer.announce(made)
        self.ring.call()

    def python_turn(self) -> None:
        while announced := self.arrivals.take_announced():
            self.task.take_announced(announced)
        self.task.send(time.monotonic())

    def serve(self) -> None:
        self.task.serve(self.connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
        self.task.send(time.monotonic())
        self.peer.publish()

    def turn(self, seconds: float = _SECONDS) -> None:
        """What is there; compiled first, where it can be."""
        if self.compiled:
            self.plain._is_active, self.plain._others = True, 0
            served = self.plain.take(time.monotonic() + seconds)
            if served is not None:
                self.turns += 1
                for connection in served:
                    self.task.serve(connection, selectors.EVENT_READ)
        self.python_turn()
        self.peer.publish()

    def hear(self) -> list[Request]:
        """What the broker has got since the last call."""
        try:
            while data := self.theirs.recv(1 << 20):
                self.got += data
        except BlockingIOError:
            pass
        requests, self.got = read_requests(self.got)
        for request in requests:
            for partition, batch in request.batches.items():
                self.batches_of[partition].append(batch)
        self.due += requests
        return requests

    def answer(self, how: str) -> None:
        """All requests, in order: those that are here in that way, others as a broker does that has no trouble."""
        self.serve()
        self.hear()
        odd = len(self.due)
        while self.due:
            self.say(self._answer(self.due.pop(0), how if odd > 0 else "ok"))
            odd -= 1
            if how == "late":  # within the next turn
                break
            self.serve()
            if how == "throttled":  # until the pause is over
                time.sleep(0.002)
                self.task.send(time.monotonic())
            self.hear()

    def _answer(self, request: Request, how: str) -> bytes:
        bases = dict(self.ends)
        if how == "error":
            return answer(request, -1, error=19)
        for partition, batch in request.batches.items():
            self.ends[partition] += parse_header(batch, 0).records_count
        match how:
            case "back":
                return answer(request, 3)
            case "throttled":
                return answer(request, bases, throttle_ms=1)
            case "a message":
                return answer(request, bases, message=b"\1\3no\0")
        return answer(request, bases)

    def say(self, data: bytes) -> None:
        self.theirs.sendall(data)

    @property
    def state(self) -> dict[str, Any]:
        metrics, buffers = self.parts.task_metrics, [self.parts.gate.buffers[where] for where in PARTITIONS]
        metrics.settle()
        mapping = self.parts.progress._mapping
        mapping.settle()
        return {
            "positions": [(one.position, one.acknowledged, one.lineage, one.extent, one.state) for one in buffers],
            "sequences": [(one._in_flight.next_sequence, one._in_flight.sending) for one in buffers],
            "under way": [[self.described(batch) for batch in one._in_flight.batches] for one in buffers],
            "unanswered": sorted(
                (box.source.partition, *self.described(batch))
                for request in self.connection.unanswered
                for box, batch in request.batches.values()
            ),
            "sent": self.batches_of,
            "counts": (metrics.records, metrics.bytes, metrics.batches, metrics.retries, metrics.refused_gaps),
            "timed": (metrics._latency.count, metrics._transit.count),
            "leased": (metrics.leased_bytes, self.leased),
            "heard": self.peer.listener.heard,
            "maps": {str(where): chunk.map.as_chunk() for where, chunk in mapping._growing.items()},
            "meters": {str(where): (one.records, one.bytes, one.end) for where, one in metrics.meters.items()},
        }

    def described(self, batch: Any) -> tuple[Any, ...]:
        return (batch.sequence, batch.records, batch.next_offset, batch.waiting, batch.acknowledged, bytes(batch.data))

    def close(self) -> None:
        super().close()
        for one in (self.wake, self.wakes):
            one.close()


class Both:
    """The two writers."""

    def __init__(self) -> None:
        self.writers = Writer(compiled=False), Writer(compiled=True)
        self.same()

    def same(self) -> None:
        one, other = (writer.state for writer in self.writers)
        assert one == other

    def board(self, partition: int, first: int, batches: int = 1, **more: int) -> None:
        for writer in self.writers:
            writer.board(partition, first, batches, **more)

    def turn(self) -> list[Request]:
        """What the broker gets in it of the one that has compiled code."""
        for writer in self.writers:
            writer.turn()
        _, heard = (writer.hear() for writer in self.writers)
        self.same()
        return heard

    def answer(self, how: str = "ok") -> None:
        for writer in self.writers:
            writer.answer(how)
        if how != "late":
            self.same()

    def close(self) -> None:
        for writer in self.writers:
            writer.close()


@pytest.fixture(autouse=True, scope="module")
def loaded_kernels() -> None:
    """Else Python might merge with them for the one writer, and without for the other."""
    load_kernels()


@pytest.fixture
def both() -> Iterator[Both]:
    made = Both()
    yield made
    made.close()


@pytest.fixture
def writer() -> Iterator[Writer]:
    made = Writer(compiled=True)
    yield made
    made.close()


kinds = st.sampled_from(["usual", "usual", "usual", "joined", "joined", "gap", "no slot", "damaged", "large", "again"])
turns = st.dictionaries(st.integers(0, 2), kinds, max_size=3)
answers = st.sampled_from(["none", "none", "ok", "ok", "ok", "late", "error", "back", "throttled", "a message"])


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(st.tuples(turns, answers), min_size=1, max_size=8))
def test_whatever_is_announced_and_answered_both_send_and_know_the_same(
    steps: list[tuple[dict[int, str], str]],
) -> None:
    both = Both()
    first = [2, 2, 2]
    try:
        for announced, answered in steps:
            for partition, kind in announced.items():
                first[partition] = announce(both, partition, kind, first[partition])
            for writer in both.writers:
                writer.turn()
                writer.hear()
            if answered != "none":
                both.answer(answered)
        for _ in range(3):
            both.answer()
            both.turn()
    finally:
        both.close()


def announce(both: Both, partition: int, kind: str, first: int) -> int:
    """The first offset of what follows."""
    if kind == "gap":
        both.board(partition, first + 3)
        return first
    if kind == "no slot":
        both.board(partition, first, slot=77)
        return first
    if kind == "again":
        both.board(partition, first - 1)
        return first
    batches = {"joined": 3, "large": 700}.get(kind, 1)
    both.board(partition, first, batches)
    if kind == "damaged":
        for writer in both.writers:
            lease = writer.ring._regions[-1].start
            writer.ring.slice(lease, 80)[20] ^= 0xFF  # its checksum
            writer.ring.slice(lease, 80)[16] = 2
    return first + batches


def test_many_turns_are_taken_by_one_call_while_the_reader_announces_and_the_broker_answers(writer: Writer) -> None:
    """Each record comes once, in order, with its sequence, and its memory goes back."""
    got: list[Request] = []
    rounds = 40

    def read() -> None:
        for number in range(rounds):
            for partition in range(3):
                writer.board(partition, 2 + 2 * number, 2)
            time.sleep(0.002)

    def serve_broker() -> None:
        base = 100
        while sum(len(request.batches) for request in got) < 3 * rounds:
            for request in writer.hear():
                got.append(request)
                writer.say(answer(request, base))
                base += 10
            time.sleep(0.0005)

    others = [Thread(target=read), Thread(target=serve_broker)]
    before = writer.state["sequences"]
    for other in others:
        other.start()
    deadline = time.monotonic() + 30
    while writer.state["positions"][2][1] < 2 + 2 * rounds and time.monotonic() < deadline:
        writer.turn(0.2)
        writer.serve()
    for other in others:
        other.join(30)
    state = writer.state
    assert [position[:2] for position in state["positions"]] == [(2 + 2 * rounds,) * 2] * 3
    assert 0 < writer.turns < rounds, "compiled code took many at once"
    assert state["leased"] == (0, 0)
    assert state["unanswered"] == []
    for partition in range(3):
        headers = [parse_header(request.batches[partition], 0) for request in got if partition in request.batches]
        begins = before[partition][0]
        assert [header.base_sequence for header in headers] == list(range(begins, begins + 2 * rounds, 2))
        assert all(header.records_count == 2 for header in headers)


def test_answers_that_are_not_here_when_the_time_is_over_are_left_to_python(both: Both) -> None:
    both.board(0, 2)
    both.board(1, 2, 2)
    (request,) = both.turn()
    assert set(request.batches) == {0, 1}
    assert both.writers[1].turns == 1
    assert both.writers[1].state["unanswered"] != []
    both.answer()
    assert [position[1] for position in both.writers[1].state["positions"]] == [3, 4, 2]


@pytest.mark.parametrize("how", ["error", "throttled", "a message", "back"])
def test_an_answer_that_is_not_usual_is_left_to_python(how: str, both: Both) -> None:
    both.board(0, 2)
    both.turn()
    both.answer(how)
    both.board(1, 2)
    both.turn()
    both.answer()


@pytest.mark.parametrize("size", [3, 20, -1])
def test_the_beginning_of_an_answer_is_left_to_python(size: int, writer: Writer) -> None:
    """It came within the turns, and its rest behind them."""
    said: list[bytes] = []

    def serve_broker() -> None:
        requests: list[Request] = []
        while not requests:
            requests = writer.hear()
        said.append(answer(requests[0], 90))
        writer.say(said[0][:size])

    broker = Thread(target=serve_broker)
    broker.start()
    writer.board(0, 2)
    writer.turn(0.1)
    broker.join(10)
    assert writer.turns == 1
    assert writer.connection._filled == len(said[0][:size])
    writer.say(said[0][size:])
    writer.serve()
    assert [position[1] for position in writer.state["positions"]] == [3, 2, 2]


def test_an_unusual_answer_within_the_turns_is_served_by_python(writer: Writer) -> None:
    """And so is what came behind it."""

    def serve_broker() -> None:
        requests: list[Request] = []
        while len(requests) < 2:
            requests += writer.hear()
        writer.say(answer(requests[0], 90, throttle_ms=1) + answer(requests[1], 95))

    broker = Thread(target=serve_broker)
    broker.start()
    writer.board(0, 2)
    later = Thread(target=lambda: (time.sleep(0.01), writer.board(1, 2)))
    later.start()
    deadline = time.monotonic() + 20
    while writer.state["positions"][1][1] < 3 and time.monotonic() < deadline:
        writer.turn(0.3)
        writer.serve()
    for one in (broker, later):
        one.join(10)
    state = writer.state
    assert [position[1] for position in state["positions"]] == [3, 3, 2]
    assert writer.parts.task_metrics.throttled_ms == 1
    assert state["unanswered"] == [] and state["leased"] == (0, 0)


@pytest.mark.parametrize("what", ["partitions", "topic", "correlation"])
def test_an_answer_to_something_else_breaks_the_connection_as_ever(what: str, writer: Writer) -> None:
    wrongs: dict[str, dict[str, Any]] = {
        "partitions": {"partitions": [0, 0]},
        "topic": {"topic": b"B.orders"},
        "correlation": {"correlation": 5},
    }
    wrong = wrongs[what]

    def serve_broker() -> None:
        requests: list[Request] = []
        while not requests:
            requests = writer.hear()
        writer.say(answer(requests[0], 90, **wrong))

    broker = Thread(target=serve_broker)
    broker.start()
    writer.board(0, 2)
    writer.board(1, 2)
    writer.turn(0.1)
    broker.join(10)
    writer.serve()
    acknowledged = [position[1] for position in writer.state["positions"]]
    if what == "correlation":  # Python does not look at it
        assert acknowledged == [3, 3, 2]
    else:
        assert acknowledged == [2, 2, 2]
        assert writer.parts.task_metrics.retries == 2
        assert not writer.parts.dispatch.connections


def test_a_request_that_the_socket_does_not_take_whole_is_sent_to_its_end(writer: Writer) -> None:
    writer.connection.link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    writer.theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    first, got = 2, list[Request]()
    while not writer.connection.wants_to_write:
        for partition in range(3):
            writer.board(partition, first, 300)
        first += 300
        writer.turn()
    assert writer.turns
    deadline = time.monotonic() + 20
    while sum(len(request.batches) for request in got) < 3 and time.monotonic() < deadline:
        got += writer.hear()
        writer.serve()
    for request in got:
        writer.say(answer(request, 1000))
        writer.serve()
    assert writer.state["positions"][0][1] >= 302
    headers = [parse_header(request.batches[1], 0) for request in got]
    assert headers[0].records_count == 300


def test_a_broker_that_goes_away_has_its_batches_sent_again(writer: Writer) -> None:
    writer.theirs.shutdown(socket.SHUT_WR)
    writer.board(0, 2)
    writer.turn(0.1)
    writer.serve()
    assert not writer.parts.dispatch.connections
    assert writer.parts.gate.buffers[PARTITIONS[0]].is_resending
    assert writer.state["positions"][0][1] == 2


def test_what_waits_for_a_row_stays_on_the_board(both: Both) -> None:
    both.board(0, 2)
    both.board(1, 2, row_batches=1)
    both.board(2, 2)
    (request,) = both.turn()
    assert set(request.batches) == {0}
    for writer in both.writers:
        writer.arrivals.put([], 0)
    both.answer()
    for writer in both.writers:
        assert writer.arrivals.take_row() is None
    (request,) = both.turn()
    assert set(request.batches) == {1, 2}


def test_turns_end_when_this_process_calls_or_the_reader_waits_for_memory(writer: Writer) -> None:
    writer.wakes.send(b"\0")
    began = time.monotonic()
    writer.turn(5.0)
    writer.ring.set_waiting(True)
    writer.wake.recv(1)
    writer.board(0, 2)
    writer.turn(5.0)
    assert time.monotonic() - began < 4
    assert writer.turns == 2


def test_no_more_than_five_batches_of_a_partition_are_under_way(both: Both) -> None:
    for number in range(7):
        both.board(0, 2 + number)
        both.turn()
    assert [len(writer.due) for writer in both.writers] == [5, 5]
    both.answer()


def test_a_partition_that_comes_twice_in_a_turn_has_two_requests_in_order(both: Both) -> None:
    for writer in both.writers:
        writer.board(0, 2)
        writer.board(0, 3)
        writer.turn()
        batches = [request.batches[0] for request in writer.hear()]
        assert [parse_header(batch, 0).records_count for batch in batches] in ([1, 1], [2])


def test_a_run_that_is_large_goes_the_other_way(both: Both) -> None:
    batches = RUN_BYTES_MAX // 70
    both.board(0, 2, batches)
    heard = both.turn()
    assert heard


@pytest.mark.parametrize("what", ["rests", "unknown producer", "no extent", "drain", "something under way", "slow"])
def test_compiled_code_takes_no_turn_where_anything_else_may_be_due(what: str, writer: Writer) -> None:
    buffer = writer.parts.gate.buffers[PARTITIONS[0]]
    match what:
        case "rests":
            buffer.rest()
        case "unknown producer":
            buffer._in_flight.doubt()
        case "no extent":
            buffer.extend(None)
        case "drain":
            writer.parts.drain.begin()
        case "something under way":
            writer.board(1, 2)
            writer.python_turn()
        case "slow":
            writer.connection.pace.note(1, 0.5)
    followed = writer.plain._followed(time.monotonic())
    if what in ("drain", "something under way"):
        writer.plain._is_active, writer.plain._others = True, 0
        assert writer.plain.take(time.monotonic() + 0.01) is None
    elif what == "slow":
        assert not followed
    else:
        assert [one.buffer.source.partition for one in followed] == [1, 2]


def test_compiled_code_knows_how_the_board_is_made() -> None:
    assert produce_turns._ENTRIES == board.ENTRIES
    words = produce_turns._ANNOUNCED_WORD, produce_turns._HEARD_WORD, produce_turns._ENTRIES_WORD
    assert words == (board._ANNOUNCED, board._HEARD, board._ENTRIES_AT // 8)
    assert produce_turns._ENTRY_WORDS == board._ENTRY_BYTES // 8
