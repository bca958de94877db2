"""Compiled code takes a reader's turns as Python does: two readers hear the same brokers, as in `test_plain_answers`.

One of them has its connection read, answered and asked by compiled code alone.
"""

import selectors
import socket
import struct
import time
from collections.abc import Iterator
from threading import Thread
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.pipeline.connected_sockets import connected_sockets
from tests.unit.pipeline.fetch import test_plain_answers
from tests.unit.pipeline.fetch.test_plain_answers import (
    EPOCH,
    SESSION,
    TOPICS,
    UNUSUAL,
    WHERE,
    Asked,
    End,
    Told,
    answer,
    answers,
    play,
    read_request,
)

from sparkmirror.batch import fetch_turns
from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.wire.link import Link
from sparkmirror.pipeline.fetch import connection as fetch_connection
from sparkmirror.pipeline.fetch import plain_answers, plain_turns
from sparkmirror.pipeline.fetch.connection import FetchConnection, FetchLimits
from sparkmirror.pipeline.fetch.partitions import Partitions
from sparkmirror.pipeline.fetch.plain_answers import PlainAnswers
from sparkmirror.pipeline.fetch.plain_turns import PlainTurns
from sparkmirror.pipeline.fetch.responses import FetchResponseReader
from sparkmirror.pipeline.relay import board
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.pipeline.relay.ring import Ring, RingPeer
from sparkmirror.pipeline.relay.schema import Row

_BYTES_MAX: Final = 8 << 20
_SECONDS: Final = 0.01


class TurningEnd(End):
    """A reader whose turns are taken by compiled code where they can be."""

    def __init__(self, *, compiled: bool, rest_seconds: float = 0.0, ring_bytes: int = 1 << 20) -> None:
        super().__init__(compiled=compiled, ring_bytes=ring_bytes)
        self.connection.close()
        self.theirs.close()
        ours, self.theirs = connected_sockets()
        link = Link(ours, "b:1", {1: (12, 16)}, "me")
        link.round_trip_seconds = 0.001
        limits = FetchLimits(rest_seconds=rest_seconds)
        self.connection = FetchConnection(link, self.ring, limits)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.ring.wake_reader, selectors.EVENT_READ, "wake")
        self.selector.register(ours, selectors.EVENT_READ, 1)
        self.turns = PlainTurns(self.ring, self.plain, self.selector, limits)
        self.compiled = compiled

    def take_turns(self, seconds: float = _SECONDS) -> list[int] | None:
        return self.turns.take({1: self.connection}, _BYTES_MAX, time.monotonic() + seconds)

    def ask(self) -> Asked:
        if not self.connection.waiting:
            return super().ask()
        return read_request(self.theirs.recv(1 << 16))

    def hear(self, body: bytes) -> tuple[list[Announcement], list[Row]]:
        """Compiled code first, as much as it takes; then as ever."""
        self.theirs.sendall(struct.pack(">i", len(body)) + body)
        before = self.ring.announcer.announced
        if self.compiled:
            here, deadline = self.take_turns(), time.monotonic() + 10
            while here == [] and self.connection.session.epoch == self._epoch and time.monotonic() < deadline:
                here = self.take_turns()
            self.taken += self.connection.session.epoch != self._epoch and here == []
        if self.connection.session.epoch == self._epoch:
            deadline, frame = time.monotonic() + 10, None
            while frame is None and time.monotonic() < deadline:
                frame = self.connection.receive()
            assert frame is not None
            if self.plain.take(1, self.connection, frame):
                assert self.ring.announcer.announced >= before
            else:
                self.plain.settle()
                self.response_reader.take_frame(1, self.connection, frame, self.partitions)
        self._epoch = self.connection.session.epoch
        return self.given()

    _epoch = 0

    def given(self) -> tuple[list[Announcement], list[Row]]:
        rows = self.response_reader.take_rows()
        for _ in rows:
            self.ring.note_given()
        announced = self.writer.listener.take(1 << 30)
        for lease in [*(one.lease for one in announced), *(row.lease for row in rows if row.lease is not None)]:
            self.writer.give_back(lease)
        said = [(one, bytes(self.writer.slice(one.lease, one.size))) for one in announced]
        self.writer.publish()
        self.ring.collect()
        self.records = [data for _, data in said]
        plain = [one._replace(fetched_at_ms=0, lease=0) for one in announced]
        return plain, [row._replace(fetched_at=0, lease=None) for row in rows]

    def close(self) -> None:
        super().close()
        self.selector.close()


class Both(test_plain_answers.Both):
    """The two readers, of which one has its turns taken."""

    def __init__(self) -> None:
        super().__init__(TurningEnd)

    def hear(self, body: bytes) -> tuple[list[Announcement], list[Row]]:
        heard = super().hear(body)
        one, other = (end.records for end in self.ends if isinstance(end, TurningEnd))
        assert one == other
        return heard

    def settle(self) -> None:
        settled, other = (end.settle() for end in self.ends)
        rows, others = ([row._replace(fetched_at=0, max_timestamp=0) for row in told[1]] for told in (settled, other))
        assert (settled[0], rows) == (other[0], others)

    @property
    def turning(self) -> TurningEnd:
        """The one that has compiled code."""
        end = self.ends[1]
        assert isinstance(end, TurningEnd)
        return end


@pytest.fixture
def both() -> Iterator[Both]:
    made = Both()
    yield made
    made.close()


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(st.tuples(answers, st.booleans()), min_size=1, max_size=8), others=st.sampled_from([0, 1]))
def test_whatever_a_broker_answers_both_say_ask_and_tell_the_same(
    steps: list[tuple[dict[int, Told], bool]], others: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_turns, "_OTHERS", others)
        play(Both(), steps, others)


def test_plain_answers_are_taken_announced_and_followed_by_the_next_question(both: Both) -> None:
    for turn in range(1, 4):
        announced, rows = both.hear(answer({0: Told((2,)), 2: Told((1, 1))}, both.offsets))
        assert [(one.slot, one.records) for one in announced] == [(0, 2), (2, 2)]
        assert rows == []
        assert {position[3] for position in both.ask().positions} == {101 + 2 * turn}
        assert both.taken == turn
    both.settle()


@pytest.mark.parametrize("unusual", UNUSUAL)
def test_what_is_unusual_is_left_to_python(unusual: str, both: Both) -> None:
    both.hear(answer({1: Told()}, both.offsets))
    both.ask()
    assert both.taken == 1
    both.hear(answer({0: Told(), 1: Told((2, 1), unusual)}, both.offsets))
    assert both.taken == 1 + (unusual in ("hole", "cut"))
    both.settle()


def test_many_turns_are_taken_by_one_call_while_the_broker_answers() -> None:
    """The writer takes what is announced meanwhile; each record comes once, in order."""
    end = TurningEnd(compiled=True, rest_seconds=0.001)
    end.ask()
    end.hear(answer({number: Told() for number in range(4)}, [one.offset for one in end.fetch_states]))
    end.ask()
    end.plain._others[1] = 0
    rounds, offsets, heard = 50, [one.offset for one in end.fetch_states], list[Announcement]()

    def serve() -> None:
        for number in range(rounds):
            body = answer({number % 4: Told((1, 2))}, offsets)
            data = struct.pack(">i", len(body)) + body
            middle = number * 3 % len(data)
            for part in (data[:middle], data[middle:]):
                end.theirs.sendall(part)
                time.sleep(0.001)
            asked = read_request(end.theirs.recv(1 << 16))
            offsets[number % 4] += 3
            assert [position[3] for position in asked.positions] == [offsets[number % 4]]

    broker = Thread(target=serve)
    broker.start()
    deadline = time.monotonic() + 30
    while broker.is_alive() and time.monotonic() < deadline:
        if end.take_turns(0.1) == []:
            frame = None
        else:  # in the middle of an answer
            frame = end.connection.receive()
        if frame is not None:
            assert end.plain.take(1, end.connection, frame)
            assert end.plain.ask(1, _BYTES_MAX)
        heard += end.given()[0]
    broker.join(10)
    assert not broker.is_alive()
    assert [(one.slot, one.records) for one in heard] == [(number % 4, 3) for number in range(rounds)]
    for slot in range(4):
        own = [one for one in heard if one.slot == slot]
        assert [one.first_offset for one in own[1:]] == [one.next_offset for one in own[:-1]]
    end.plain.settle()
    assert [one.offset for one in end.fetch_states] == offsets
    assert len(end.ring._regions) == 0
    end.close()


@pytest.mark.parametrize("size", [2, 4, 30, -1])
def test_the_beginning_of_an_answer_is_left_to_python(size: int, both: Both) -> None:
    """Where the turns are over before the rest has come."""
    body = answer({0: Told((2,))}, both.offsets)
    data = struct.pack(">i", len(body)) + body
    end = both.turning
    end.theirs.sendall(data[:size])
    assert end.take_turns(0.2) == ([] if size == 4 else [1])
    assert end.connection.conversation(_BYTES_MAX, time.monotonic()) is None
    end.theirs.sendall(data[size:])
    frame = None
    while frame is None:
        frame = end.connection.receive()
    assert bytes(frame.buffer) == body
    assert end.plain.take(1, end.connection, frame)
    announced, _ = end.given()
    assert [(one.slot, one.records) for one in announced] == [(0, 2)]
    end.plain.settle()
    assert len(end.ring._regions) == 0


def test_an_answer_that_is_too_large_for_the_arena_is_left_to_python(both: Both) -> None:
    wide = {0: Told((60,), size=3000), 1: Told((1,))}
    announced, _ = both.hear(answer(wide, both.offsets))
    assert both.taken == 0
    assert len(announced) <= 2
    both.ask()
    assert both.turning.take_turns() is None, "the next ones are left to Python, too"
    both.settle()


def test_a_request_that_the_socket_does_not_take_whole_is_sent_to_its_end() -> None:
    end = TurningEnd(compiled=True)
    end.ask()
    end.hear(answer({number: Told() for number in range(4)}, [one.offset for one in end.fetch_states]))
    end.ask()
    end.plain._others[1] = 0
    end.connection.link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    end.theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    filler = bytes(1 << 10)
    sent, full = 0, 0
    while full < 5:  # also when TCP has moved on
        try:
            sent, full = sent + end.connection.link.socket.send(filler), 0
        except BlockingIOError:
            full += 1
            time.sleep(0.02)
    body = answer({number: Told() for number in range(4)}, [one.offset for one in end.fetch_states])
    end.theirs.sendall(struct.pack(">i", len(body)) + body)
    assert end.take_turns() == [1]
    assert end.connection.owes
    got, is_read = bytearray(), False

    def read() -> None:
        while len(got) < sent + 4 or len(got) < sent + 4 + int.from_bytes(got[sent : sent + 4]):
            got.extend(end.theirs.recv(1 << 16))

    broker = Thread(target=read)
    broker.start()
    end.connection.receive()
    broker.join(10)
    is_read = not broker.is_alive()
    assert is_read
    assert {position[3] for position in read_request(bytes(got[sent:])).positions} == {102}
    end.close()


def test_turns_end_at_once_when_something_else_comes_or_the_broker_goes_away(both: Both) -> None:
    end = both.turning
    end.ring.wake()
    began = time.monotonic()
    assert end.take_turns(5.0) == []
    end.ring.drain_wake()
    end.theirs.shutdown(socket.SHUT_WR)
    assert end.take_turns(5.0) == []
    with pytest.raises(ConnectionResetError):
        end.connection.receive()
    assert time.monotonic() - began < 4


def test_a_broker_that_has_nothing_to_say_is_not_silent_before_its_time(both: Both) -> None:
    """Nothing happens in the turns, which is not to be taken for a silence since ever."""
    end = both.turning
    asked_at = time.monotonic()
    assert end.take_turns() == []
    assert not end.connection.is_silent(asked_at + 1, 5.0)
    assert end.connection.is_silent(asked_at + 10, 5.0)


@pytest.mark.parametrize("what", ["half an answer", "far", "another size", "no listener", "nothing asked"])
def test_compiled_code_takes_no_turn_where_it_would_not_know_what_to_do(what: str, both: Both) -> None:
    end, bytes_max = both.turning, _BYTES_MAX
    match what:
        case "half an answer":
            end.connection._filled = 2
        case "far":
            end.connection.link.round_trip_seconds = 0.1
        case "another size":
            bytes_max -= 1
        case "no listener":
            end.ring.announcer._words[board._LISTENS] = 0
        case "nothing asked":
            end.connection._asked.clear()
    assert end.turns.take({1: end.connection}, bytes_max, time.monotonic() + 5) is None
    assert len(end.ring._regions) == 0


def test_without_shared_memory_no_turn_is_taken() -> None:
    end = TurningEnd(compiled=True, ring_bytes=0)
    end.ask()
    end.hear(answer({number: Told() for number in range(4)}, [one.offset for one in end.fetch_states]))
    end.ask()
    end.plain._others[1] = 0
    assert end.take_turns(5.0) is None
    end.close()


def test_a_connection_to_a_broker_that_leads_nothing_hinders_no_turn(both: Both) -> None:
    end = both.turning
    ours, theirs = socket.socketpair()
    idle = FetchConnection(Link(ours, "b:2", {1: (12, 16)}, "me"), end.ring, FetchLimits())
    end.selector.register(ours, selectors.EVENT_READ, 2)
    body = answer({0: Told()}, both.offsets)
    end.theirs.sendall(struct.pack(">i", len(body)) + body)
    assert end.turns.take({1: end.connection, 2: idle}, _BYTES_MAX, time.monotonic() + 0.05) == []
    assert [one.slot for one in end.given()[0]] == [0]
    assert end.selector.get_key(ours).data == 2
    idle.close()
    theirs.close()


def test_an_unusual_answer_leaves_the_next_ones_of_its_broker_to_python(both: Both) -> None:
    end = both.turning
    body = answer({0: Told((2, 1), "control")}, both.offsets)
    end.theirs.sendall(struct.pack(">i", len(body)) + body)
    assert end.take_turns(0.2) == [1]
    assert end.plain._others[1] > 0
    assert end.take_turns() is None, "the answer is here"


def test_a_pause_follows_a_small_answer_and_a_longer_one_what_the_writer_has_not_taken() -> None:
    end = TurningEnd(compiled=True, rest_seconds=0.05)
    end.ask()
    end.hear(answer({number: Told() for number in range(4)}, [one.offset for one in end.fetch_states]))
    end.connection.go_on(end.connection.conversation(_BYTES_MAX, 0.0)._replace(asks_at=0.0), _BYTES_MAX, 0.0)  # type: ignore[union-attr]
    end.ask()
    end.plain._others[1] = 0
    body = answer({0: Told()}, [one.offset for one in end.fetch_states])
    end.theirs.sendall(struct.pack(">i", len(body)) + body)
    end.connection._answered_at = time.monotonic()
    assert end.take_turns(0.02) == []
    assert not end.connection.waiting
    assert end.take_turns(0.06) == []
    assert not end.connection.waiting, "the writer has not taken what was announced"
    assert end.given()[0]
    assert end.take_turns(0.06) == []
    assert end.connection.waiting
    end.close()


def test_compiled_code_knows_how_the_board_and_the_pauses_are_made() -> None:
    assert fetch_turns._ENTRIES == board.ENTRIES
    assert (fetch_turns._ANNOUNCED_WORD, fetch_turns._HEARD_WORD) == (board._ANNOUNCED, board._HEARD)
    ours = fetch_turns._LITTLE_BYTES, fetch_turns._SPARSE_RESTS, fetch_turns._UNTAKEN_MAX
    theirs = fetch_connection._LITTLE_BYTES, fetch_connection._SPARSE_RESTS, fetch_connection._UNTAKEN_MAX
    assert ours == theirs
    assert fetch_turns._PATIENCE_NS == fetch_connection._PATIENCE_SECONDS * 1e9
    assert len(WHERE) == 4 and SESSION


class TwoBrokers:
    """A reader whose partitions two brokers lead, and which has heard the first answers of both."""

    def __init__(self) -> None:
        self.ring = Ring(1 << 20)
        self.writer = RingPeer(self.ring.address)
        self.writer.listener.listen()
        self.response_reader = FetchResponseReader(self.ring, lambda _: None)
        self.partitions = Partitions(1 << 20)
        self.nodes = {number: 1 + number % 2 for number in range(4)}
        begins = [Assigned(where, 100, epochs=((EPOCH, 0),), topic_id=TOPICS[where.topic]) for where in WHERE]
        self.fetch_states = [self.partitions.add(one, self.nodes[number]) for number, one in enumerate(begins)]
        self.plain = PlainAnswers(self.ring, self.partitions, self.response_reader)
        self.plain._is_loaded = True
        self.selector = selectors.DefaultSelector()
        limits = FetchLimits(rest_seconds=0.0)
        self.turns = PlainTurns(self.ring, self.plain, self.selector, limits)
        self.connections: dict[int, FetchConnection] = {}
        self.theirs: dict[int, socket.socket] = {}
        for node in (1, 2):
            ours, self.theirs[node] = connected_sockets()
            link = Link(ours, f"b:{node}", {1: (12, 16)}, "me")
            link.round_trip_seconds = 0.001
            self.connections[node] = connection = FetchConnection(link, self.ring, limits)
            self.selector.register(ours, selectors.EVENT_READ, node)
            self.ask(node)
            self.say(node, {number: Told() for number in range(4) if self.nodes[number] == node})
            frame, deadline = None, time.monotonic() + 10
            while frame is None and time.monotonic() < deadline:
                frame = connection.receive()
            assert frame is not None
            self.response_reader.take_frame(node, connection, frame, self.partitions)
            self.ask(node)
        for _ in self.response_reader.take_rows():
            self.ring.note_given()

    def ask(self, node: int) -> Asked:
        wanted = self.partitions.wanted(node, by_id=True, now=0.0)
        self.connections[node].send(wanted, _BYTES_MAX, self.partitions.take_changes(node))
        return read_request(self.theirs[node].recv(1 << 16))

    def say(self, node: int, told: dict[int, Told]) -> None:
        body = answer(told, [one.offset for one in self.fetch_states])
        self.theirs[node].sendall(struct.pack(">i", len(body)) + body)

    def take(self, seconds: float) -> list[int] | None:
        return self.turns.take(self.connections, _BYTES_MAX, time.monotonic() + seconds)

    def close(self) -> None:
        for node, connection in self.connections.items():
            connection.close()
            self.theirs[node].close()
        self.selector.close()
        self.writer.close()
        self.ring.close()


@pytest.fixture
def two() -> Iterator[TwoBrokers]:
    made = TwoBrokers()
    yield made
    made.close()


def test_answers_of_two_brokers_are_taken_in_one_call_and_each_is_asked_for_its_own(two: TwoBrokers) -> None:
    two.say(1, {0: Told((2,)), 2: Told((1, 1))})
    two.say(2, {3: Told((3,))})
    assert two.take(0.3) == []
    heard = two.writer.listener.take(1 << 30)
    assert sorted((one.slot, one.records) for one in heard) == [(0, 2), (2, 2), (3, 3)]
    asked = {node: read_request(two.theirs[node].recv(1 << 16)) for node in (1, 2)}
    where = {node: {(one[0], one[1]): one[3] for one in asked[node].positions} for node in (1, 2)}
    ids = {number: (TOPICS[WHERE[number].topic].bytes, WHERE[number].partition) for number in range(4)}
    assert where == {1: {ids[0]: 103, ids[2]: 103}, 2: {ids[3]: 104}}
    two.plain.settle()
    assert [one.offset for one in two.fetch_states] == [103, 101, 103, 104]
    assert {key.data for key in two.selector.get_map().values()} == {1, 2}


def test_an_unusual_answer_of_one_broker_leaves_the_half_answer_of_the_other_as_it_is(two: TwoBrokers) -> None:
    body = answer({3: Told((3,))}, [one.offset for one in two.fetch_states])
    whole = struct.pack(">i", len(body)) + body
    two.theirs[2].sendall(whole[:40])
    time.sleep(0.05)
    two.say(1, {0: Told((2, 1), "control")})
    here = two.take(0.5)
    assert here is not None and 1 in here
    assert two.plain._others == {1: plain_answers._OTHERS}, "the other broker said nothing unusual"
    frame = two.connections[1].receive()
    assert frame is not None
    two.theirs[2].sendall(whole[40:])
    other, deadline = None, time.monotonic() + 10
    while other is None and time.monotonic() < deadline:
        other = two.connections[2].receive()
    assert other is not None and bytes(other.buffer) == body
