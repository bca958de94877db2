"""Turns of compiled code over two connections, with partitions of three topics that share their numbers."""

import selectors
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread
from typing import Final

import pytest
from tests.unit.pipeline.connected_sockets import connected_sockets
from tests.unit.pipeline.produce.direct_task import PRODUCER, Assembled, OneLeader
from tests.unit.pipeline.produce.known_producer import known

from sparkmirror.batch.header import parse_header
from sparkmirror.batch.records import encode_batch
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire.link import Link
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.arrivals import Arrivals
from sparkmirror.pipeline.produce.connection import ProduceConnection
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.produce.plain_turns import PlainTurns
from sparkmirror.pipeline.relay.board import Announcement

WHERE: Final = [
    TopicPartition("orders", 0),
    TopicPartition("wide", 1),
    TopicPartition("orders", 1),
    TopicPartition("wide", 0),
    TopicPartition("a.much.longer.name", 0),
    TopicPartition("wide", 2),
]
LEADERS: Final = [1, 1, 2, 1, 2, 2]


class TwoLeaders(OneLeader):
    """Each leads some of the partitions."""

    def of(self, partition: TopicPartition) -> int:
        for where, leader in zip(WHERE, LEADERS, strict=True):
            if partition == TopicPartition(f"A.{where.topic}", where.partition):
                return leader
        return 1


class Broker(Thread):
    """Reads requests and answers them, each partition's log from offset 100 on."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(daemon=True)
        self.sock = sock
        self.logs: dict[TopicPartition, list[bytes]] = {}
        self.requests = 0
        self.may_answer = Event()
        self.may_answer.set()

    def run(self) -> None:
        data = b""
        while piece := self._read():
            data += piece
            while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4]):
                stop = 4 + int.from_bytes(data[:4])
                said = self._take(data[4:stop])
                self.may_answer.wait(20)
                with suppress(OSError):
                    self.sock.sendall(struct.pack(">i", len(said)) + said)
                data = data[stop:]

    def _read(self) -> bytes:
        try:
            return self.sock.recv(1 << 16)
        except OSError:
            return b""

    def _take(self, frame: bytes) -> bytes:
        _, _, correlation, name = struct.unpack_from(">hhih", frame)
        at = 10 + name + 1 + 7
        topics, at = frame[at] - 1, at + 1
        said = struct.pack(">ib", correlation, 0) + wire.encode_uvarint(topics + 1)
        for _ in range(topics):
            size, at = frame[at] - 1, at + 1
            topic, at = frame[at : at + size].decode(), at + size
            count, at = frame[at] - 1, at + 1
            said += wire.encode_topic_key(topic) + wire.encode_uvarint(count + 1)
            for _ in range(count):
                partition, at = int.from_bytes(frame[at : at + 4]), at + 4
                size, shift = 0, 0
                while True:
                    size |= (frame[at] & 0x7F) << shift
                    shift, at = shift + 7, at + 1
                    if frame[at - 1] < 0x80:
                        break
                batch, at = frame[at : at + size - 1], at + size
                log = self.logs.setdefault(TopicPartition(topic, partition), [])
                base = 100 + sum(parse_header(one, 0).records_count for one in log)
                log.append(batch)
                said += struct.pack(">ihqqq", partition, 0, base, -1, 0) + b"\1\0\0"
            said, at = said + b"\0", at + 1
        self.requests += 1
        return said + struct.pack(">i", 0) + b"\0"


class Writer(Assembled):
    """A task of partitions that two brokers lead."""

    def __init__(self) -> None:
        super().__init__(WHERE, TwoLeaders())
        self.peer.listener.listen()
        self.arrivals = Arrivals(self.peer.listener)
        self.wake, self.wakes = socket.socketpair()
        self.plain = PlainTurns(self.peer, self.wake.fileno(), self.arrivals, self.parts)
        self.plain.load()
        self.connections: list[ProduceConnection] = []
        self.brokers: list[Broker] = []
        for node in (1, 2):
            ours, theirs = connected_sockets()
            connection = ProduceConnection(Link(ours, "broker:9092", {wire.PRODUCE: (9, 12)}, "sparkmirror"), 5.0)
            connection.link.round_trip_seconds = 0.001
            for _ in range(5):
                connection.pace.note(1, 0.0)
            self.parts.brokers._connections[node, 0] = connection
            self.parts.dispatch.open(connection)
            self.connections.append(connection)
            self.brokers.append(Broker(theirs))
            self.brokers[-1].start()
        for where in WHERE:
            payload = memoryview(bytearray(encode_batch([(b"k", b"row")], base_offset=0)))
            topic = f"A.{where.topic}"
            self.task.take(Delivery("run", where, topic, 0, 1, 1, 1, 5, payload, None, 9))
            known(self.parts.gate.buffers[where], *PRODUCER)
        self.task.send(time.monotonic())
        self.until(1)

    @property
    def acknowledged(self) -> list[int]:
        return [self.parts.gate.buffers[where].acknowledged for where in WHERE]

    def until(self, offset: int) -> None:
        """By Python, until all have come so far."""
        deadline = time.monotonic() + 20
        while min(self.acknowledged) < offset and time.monotonic() < deadline:
            for key, _ in self.selector.select(0.05):
                self.task.serve(key.data, selectors.EVENT_READ)
            self.task.send(time.monotonic())
        assert self.acknowledged == [offset] * len(WHERE)

    def board(self, slot: int, first: int, batches: int) -> None:
        data = b"".join(encode_batch([(b"k", b"%d" % at)], base_offset=at) for at in range(first, first + batches))
        lease = self.ring.reserve(len(data))
        assert lease is not None
        self.ring.slice(lease, len(data))[:] = data
        self.ring.lend(lease, [lease])
        made = Announcement(slot, batches, len(data), 0, first, first + batches, lease, 5, first + batches, 9)
        assert self.ring.announcer.announce(made)
        self.ring.call()

    def take(self, seconds: float) -> list[ProduceConnection] | None:
        self.plain._is_active, self.plain._others = True, 0
        return self.plain.take(time.monotonic() + seconds)

    def close(self) -> None:
        for connection, broker in zip(self.connections, self.brokers, strict=True):
            broker.may_answer.set()
            connection.close()
            broker.join(20)
            broker.sock.close()
        for one in (self.wake, self.wakes):
            one.close()
        self.selector.close()
        self.peer.close()
        self.ring.close()


@pytest.fixture
def writer() -> Iterator[Writer]:
    made = Writer()
    yield made
    made.close()


def test_each_batch_goes_to_its_broker_under_its_topic_and_all_answers_are_understood(writer: Writer) -> None:
    before = [broker.requests for broker in writer.brokers]
    for turn in range(3):
        for slot in range(len(WHERE)):
            writer.board(slot, 1 + 2 * turn, 2)
        assert writer.take(0.2) == []
    assert writer.acknowledged == [7] * len(WHERE)
    assert [broker.requests - some for broker, some in zip(writer.brokers, before, strict=True)] == [3, 3]
    for where, leader in zip(WHERE, LEADERS, strict=True):
        log = writer.brokers[leader - 1].logs[TopicPartition(f"A.{where.topic}", where.partition)]
        headers = [parse_header(batch, 0) for batch in log]
        assert [header.records_count for header in headers] == [1, 2, 2, 2]
        assert [header.base_sequence for header in headers[1:]] == [1, 3, 5]
    writer.peer.publish()
    writer.ring.collect()
    assert len(writer.ring._regions) == 0


def test_one_broker_that_does_not_answer_leaves_its_requests_alone_under_way(writer: Writer) -> None:
    writer.brokers[1].may_answer.clear()
    for slot in range(len(WHERE)):
        writer.board(slot, 1, 2)
    assert writer.take(0.1) == []
    assert [len(connection.unanswered) for connection in writer.connections] == [0, 1]
    assert writer.acknowledged == [3 if leader == 1 else 1 for leader in LEADERS]
    assert writer.take(0.1) is None, "an answer is due"
    writer.brokers[1].may_answer.set()
    writer.until(3)
    for slot in range(len(WHERE)):
        writer.board(slot, 3, 1)
    assert writer.take(0.2) == []
    writer.until(4)


def test_a_broker_that_goes_away_takes_its_own_requests_alone_with_it(writer: Writer) -> None:
    writer.brokers[0].may_answer.clear()
    writer.brokers[0].sock.shutdown(socket.SHUT_WR)
    for slot in range(len(WHERE)):
        writer.board(slot, 1, 2)
    assert writer.take(0.3) is not None
    for connection in writer.connections:
        writer.task.serve(connection, selectors.EVENT_READ)
    assert writer.parts.dispatch.connections == writer.connections[1:]
    deadline = time.monotonic() + 20
    while min(writer.acknowledged[slot] for slot in (2, 4, 5)) < 3 and time.monotonic() < deadline:
        writer.task.serve(writer.connections[1], selectors.EVENT_READ)
    assert writer.acknowledged == [1 if leader == 1 else 3 for leader in LEADERS]
    assert all(writer.parts.gate.buffers[WHERE[slot]].is_resending for slot in (0, 1, 3))
