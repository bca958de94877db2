"""Compiled code takes an answer as Python does, or leaves it alone: two readers hear the same brokers.

One of them has compiled code. What both announce, ask, and tell in rows is compared after each answer, and where their
partitions stand whenever positions are brought back.
"""

import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.manual_clock import ManualClock

from sparkmirror.batch.header import CONTROL
from sparkmirror.batch.records import encode_batch
from sparkmirror.control.assignment import Assigned
from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire.link import Link
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.fetch import plain_answers
from sparkmirror.pipeline.fetch.connection import FetchConnection, FetchLimits, Frame
from sparkmirror.pipeline.fetch.partitions import Partitions
from sparkmirror.pipeline.fetch.plain_answers import PlainAnswers
from sparkmirror.pipeline.fetch.responses import FetchResponseReader
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.pipeline.relay.ring import Ring, RingPeer
from sparkmirror.pipeline.relay.schema import Row

TOPICS = {"orders": UUID(int=1 << 100), "wide": UUID(int=(1 << 127) + 5)}
EPOCH = 4
SESSION = 77
ABSURD = (1 << 31) - 1
WHERE = [TopicPartition("orders", 0), TopicPartition("orders", 3), TopicPartition("wide", 0), TopicPartition("wide", 1)]


class Told(NamedTuple):
    """What an answer says of a partition: batches of so many records each, and what is unusual."""

    batches: tuple[int, ...] = (1,)
    unusual: str = ""
    size: int = 5


UNUSUAL = [
    "error", "aborted", "nearer", "tagged", "hole", "epoch", "control", "old", "cut", "below", "open", "behind",
    "large", "no magic", "absurd",
]  # fmt: skip


def records_of(told: Told, offset: int) -> tuple[bytes, int]:
    """The bytes, and the next offset."""
    data = bytearray()
    at = offset + (2 if told.unusual == "hole" else -1 if told.unusual == "below" else 0)
    for count in (1, 1, 1) if told.unusual == "absurd" else told.batches:
        value = bytes(70_000) if told.unusual == "large" else bytes(told.size)
        made = bytearray(encode_batch([(None, value)] * count, base_offset=at, timestamp=1000 + at))
        made[12:16] = (EPOCH + (told.unusual == "epoch")).to_bytes(4, "big")
        made[22] |= CONTROL if told.unusual == "control" else 0
        made[16] = {"old": 1, "no magic": 9}.get(told.unusual, 2)
        if told.unusual == "absurd":  # so many records that no entry of the board can name them
            count = ABSURD
            made[23:27], made[57:61] = (count - 1).to_bytes(4, "big"), count.to_bytes(4, "big")
        data += made
        at += count
    if told.unusual == "cut" and told.batches:
        return bytes(data[:-1]), at - told.batches[-1]
    return bytes(data), at


def uvarint(number: int) -> bytes:
    return wire.encode_uvarint(number)


def answer(told: dict[int, Told], offsets: list[int], *, session: int = SESSION, throttle_ms: int = 0) -> bytes:
    """A fetch response v16."""
    topics: dict[str, list[bytes]] = {}
    for number, one in told.items():
        records, following = records_of(one, offsets[number])
        where, end = WHERE[number], following + 10
        readable = end - 5 if one.unusual == "open" else end
        aborted = uvarint(2) + struct.pack(">qqb", 9, 0, 0) if one.unusual == "aborted" else uvarint(0)
        nearer = 2 if one.unusual == "nearer" else -1
        end = following - (1 << 40) if one.unusual == "behind" else end
        entry = struct.pack(">ihqqq", where.partition, 6 if one.unusual == "error" else 0, end, readable, 0)
        entry += aborted + struct.pack(">i", nearer) + uvarint(len(records) + 1) + records
        tag = uvarint(1) + uvarint(1) + uvarint(2) + b"\0\0" if one.unusual == "tagged" else b"\0"
        topics.setdefault(where.topic, []).append(entry + tag)
    body = struct.pack(">ibihi", 1, 0, throttle_ms, 0, session) + uvarint(len(topics) + 1)
    for topic, entries in topics.items():
        body += TOPICS[topic].bytes + uvarint(len(entries) + 1) + b"".join(entries) + b"\0"
    return body + b"\0"


class Asked(NamedTuple):
    epoch: int
    bytes_max: int
    positions: set[tuple[bytes, int, int, int, int, int]]


def read_request(frame: bytes) -> Asked:
    size, api, version, _, name = struct.unpack_from(">ihhih", frame)
    assert (size, api, version) == (len(frame) - 4, 1, 16)
    at = 14 + name + 1
    _, _, bytes_max, _, session, epoch = struct.unpack_from(">iiibii", frame, at)
    assert session == (SESSION if epoch else 0)
    at += 21
    topics, at = frame[at] - 1, at + 1
    positions: set[tuple[bytes, int, int, int, int, int]] = set()
    seen: list[bytes] = []
    for _ in range(topics):
        topic_id, count, at = frame[at : at + 16], frame[at + 16] - 1, at + 17
        seen.append(topic_id)
        for _ in range(count):
            partition, current, offset, last, start, most = struct.unpack_from(">iiqiqi", frame, at)
            assert start == -1 and frame[at + 32] == 0
            positions.add((topic_id, partition, current, offset, last, most))
            at += 33
        assert frame[at] == 0
        at += 1
    assert len(set(seen)) == len(seen), "a topic is named once"
    assert frame[at:] == b"\1\1\0", "nothing is forgotten, no rack, no tagged field"
    return Asked(epoch, bytes_max, positions)


class End:
    """A reader of one broker."""

    def __init__(self, *, compiled: bool, ring_bytes: int = 1 << 20) -> None:
        self.ring = Ring(ring_bytes)
        self.writer = RingPeer(self.ring.address)
        self.writer.listener.listen()
        self.clock = ManualClock()
        self.response_reader = FetchResponseReader(self.ring, lambda _: None, self.clock)
        self.partitions = Partitions(1 << 20)
        ours, self.theirs = socket.socketpair()
        self.connection = FetchConnection(Link(ours, "b:1", {1: (12, 16)}, "me"), self.ring, FetchLimits())
        begins = [Assigned(where, 100, epochs=((EPOCH, 0),), topic_id=TOPICS[where.topic]) for where in WHERE]
        self.fetch_states = [self.partitions.add(one, 1) for one in begins]
        self.plain = PlainAnswers(self.ring, self.partitions, self.response_reader, self.clock)
        self.plain._is_loaded = True
        self.plain._others[1] = 0 if compiled else 1 << 60
        self.taken = 0

    def ask(self) -> Asked:
        if not self.plain.ask(1, 8 << 20):
            wanted = self.partitions.wanted(1, by_id=True, now=0.0)
            self.connection.send(wanted, 8 << 20, self.partitions.take_changes(1))
        return read_request(self.theirs.recv(1 << 16))

    def hear(self, body: bytes) -> tuple[list[Announcement], list[Row]]:
        frame = self.receive(body)
        if self.plain.take(1, self.connection, frame):
            self.taken += 1
        else:
            self.plain.settle()
            self.response_reader.take_frame(1, self.connection, frame, self.partitions)
        rows = self.response_reader.take_rows()
        for _ in rows:
            self.ring.note_given()
        announced = self.writer.listener.take(1 << 30)
        for lease in [*(one.lease for one in announced), *(row.lease for row in rows if row.lease is not None)]:
            self.writer.give_back(lease)
        self.writer.publish()
        self.ring.collect()
        return announced, rows

    def receive(self, body: bytes) -> Frame:
        """As much at a time as a socket takes."""
        left, frame = memoryview(struct.pack(">i", len(body)) + body), None
        while left:
            left = left[self.theirs.send(left[: 16 << 10]) :]
            frame = self.connection.receive()
        assert frame is not None
        return frame

    def settle(self) -> tuple[list[object], list[Row]]:
        self.plain.settle()
        states = [
            (one.offset, one.readable, one.node, one.fault, one.is_end_told, one.lineage, one.is_followed)
            for one in self.fetch_states
        ]
        return [*states, len(self.ring._regions)], sorted(self.response_reader.extents.take_rows(), key=str)

    def close(self) -> None:
        self.connection.close()
        self.theirs.close()
        self.writer.close()
        self.ring.close()


class Both:
    """The two ends, which have heard the first answers, whose rows opened all extents."""

    def __init__(self, kind: "type[End]" = End) -> None:
        self.ends = kind(compiled=False), kind(compiled=True)
        self.ask()
        self.hear(answer({number: Told() for number in range(4)}, self.offsets))
        self.ask()
        self.ends[1].plain._others[1] = 0

    @property
    def offsets(self) -> list[int]:
        """By the one that has positions at hand always."""
        return [one.offset for one in self.ends[0].fetch_states]

    @property
    def taken(self) -> int:
        """Answers that compiled code has taken."""
        return self.ends[1].taken

    def ask(self) -> Asked:
        asked, other = (end.ask() for end in self.ends)
        assert asked == other
        return asked

    def hear(self, body: bytes) -> tuple[list[Announcement], list[Row]]:
        heard, other = (end.hear(body) for end in self.ends)
        assert heard == other
        return heard

    def settle(self) -> None:
        settled, other = (end.settle() for end in self.ends)
        assert settled == other

    def close(self) -> None:
        for end in self.ends:
            end.close()


@pytest.fixture
def both() -> Iterator[Both]:
    made = Both()
    yield made
    made.close()


usual = st.builds(Told, st.lists(st.integers(1, 20), max_size=4).map(tuple), st.just(""), st.integers(0, 300))
any_told = usual | st.builds(Told, st.just((2, 1)), st.sampled_from(UNUSUAL), st.just(5))
answers = st.dictionaries(st.integers(0, 3), usual) | st.dictionaries(st.integers(0, 3), any_told)


@settings(max_examples=200, deadline=None)
@given(steps=st.lists(st.tuples(answers, st.booleans()), min_size=1, max_size=8), others=st.sampled_from([0, 1]))
def test_whatever_a_broker_answers_both_say_ask_and_tell_the_same(
    steps: list[tuple[dict[int, Told], bool]], others: int
) -> None:
    play(Both(), steps, others)


def play(both: Both, steps: list[tuple[dict[int, Told], bool]], others: int) -> None:
    """Answers, and whether positions are brought back behind each. After one that is not usual so many are left to
    Python."""
    before, plain_answers._OTHERS = plain_answers._OTHERS, others
    try:
        for told, is_settled in steps:
            both.hear(answer(told, both.offsets))
            if is_settled:
                both.settle()
            if all(one.node == 1 for one in both.ends[0].fetch_states):
                both.ask()
            else:
                break
        both.settle()
    finally:
        plain_answers._OTHERS = before
        both.close()


def test_plain_answers_are_taken_by_compiled_code_and_announced(both: Both) -> None:
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
    is_plain = unusual in ("hole", "cut", "large")
    assert both.taken == 1 + is_plain
    both.settle()


def test_an_answer_of_another_session_or_one_that_throttles_is_left_to_python(both: Both) -> None:
    both.hear(answer({0: Told()}, both.offsets, throttle_ms=20))
    both.ask()
    both.hear(answer({0: Told()}, both.offsets, session=SESSION + 1))
    assert both.taken == 0
    both.settle()


def test_an_answer_that_names_a_partition_twice_is_left_to_python(both: Both) -> None:
    body = bytearray(answer({0: Told((1,)), 1: Told((1,))}, [both.offsets[0]] * 2))
    place = body.index(struct.pack(">ih", 3, 0), 40)
    body[place : place + 4] = bytes(4)
    both.hear(bytes(body))
    assert both.taken == 0
    both.settle()


def test_what_is_said_of_a_partition_that_is_held_back_is_left_to_python(both: Both) -> None:
    for end in both.ends:
        end.fetch_states[1].held_by_order = True
        end.partitions.wanted(1, by_id=True, now=0.0)
        end.partitions.take_changes(1)
    both.hear(answer({0: Told()}, both.offsets))
    assert both.taken == 1
    both.hear(answer({1: Told()}, both.offsets))
    assert both.taken == 1
    both.settle()


def test_a_full_board_leaves_the_answer_to_python(both: Both) -> None:
    compiled = both.ends[1]
    compiled.ring.announcer.announced += 1021
    compiled.ring.announcer._words[0] += 1021  # the writer has not taken them
    body = answer({number: Told() for number in range(4)}, both.offsets)
    assert not compiled.plain.take(1, compiled.connection, compiled.receive(body))


@given(noise=st.binary(max_size=200), place=st.integers(0, 400))
@settings(max_examples=100, deadline=None)
def test_whatever_is_damaged_both_refuse_or_take_it_alike(noise: bytes, place: int) -> None:
    both = Both()
    try:
        body = bytearray(answer({0: Told((2,)), 2: Told((1,))}, both.offsets))
        body[place : place + len(noise)] = noise
        heard: list[object] = []
        for end in both.ends:
            try:
                heard.append(end.hear(bytes(body)))
            except ProtocolError as problem:
                heard.append(str(problem))
        assert heard[0] == heard[1]
    finally:
        both.close()
