"""Producing over a socket pair: what is answered is kept, what is not comes back to be sent again."""

import select
import socket
import time
from collections.abc import Iterator, Sequence

import pytest
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from sparkmirror.batch.records import encode_batch
from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire.link import Link
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.connection import ProduceConnection
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords

VERSION = 12
Topic = ProduceResponse.TopicProduceResponse


@pytest.fixture
def pair() -> Iterator[tuple[ProduceConnection, socket.socket]]:
    ours, brokers = socket.socketpair()
    brokers.settimeout(60)
    link = Link(ours, "broker:9092", {wire.PRODUCE: (9, VERSION)}, "sparkmirror")
    connection = ProduceConnection(link, request_seconds_max=5.0)
    yield connection, brokers
    connection.close()
    brokers.close()


def ready(partition: int, records: int = 1, topic: str = "orders") -> tuple[str, PartitionBuffer, Batch]:
    """A partition buffer of a topic with one batch handed out."""
    buffer = PartitionBuffer(TopicPartition(topic, partition), TopicPartition(topic, partition), 0, -1)
    batch = encode_batch([(None, b"x" * 100)] * records)
    buffer.accept(QueuedRecords(memoryview(bytearray(batch)), 0, records, lambda: None))
    handed_out = buffer.next_batch(1000, 0)
    assert handed_out is not None
    return topic, buffer, handed_out


def answer(*partitions: int, throttle_ms: int = 0, topics: Sequence[str] = ("orders",)) -> bytes:
    """The same partitions of each topic."""
    each = [
        Topic.PartitionProduceResponse(index=p, error_code=0, base_offset=0, record_errors=[], error_message=None)
        for p in partitions
    ]
    responses = [Topic(name=topic, partition_responses=each) for topic in topics]
    response = ProduceResponse(version=VERSION, responses=responses, throttle_time_ms=throttle_ms)
    response.with_header(correlation_id=1)
    encoded = response.encode(header=True)
    return len(encoded).to_bytes(4, "big") + encoded


def answered_partitions(connection: ProduceConnection) -> list[list[int]]:
    return [[produced.partition for _, _, produced in one.parts] for one in connection.receive()]


def receive_exactly(brokers: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        received = brokers.recv(size - len(data))
        assert received, "the connection was closed"
        data += received
    return data


def request_at(brokers: socket.socket) -> ProduceRequest:
    size = int.from_bytes(receive_exactly(brokers, 4), "big")
    return ProduceRequest.decode(receive_exactly(brokers, size), version=VERSION, header=True)


def test_a_request_arrives_whole_and_its_answer_finds_what_it_carried(
    pair: tuple[ProduceConnection, socket.socket],
) -> None:
    connection, brokers = pair
    items = [ready(3), ready(4)]
    connection.send(items, timeout_ms=1000)
    (topic,) = request_at(brokers).topic_data
    assert {p.index: bytes(p.records) for p in topic.partition_data} == {3: items[0][2].data, 4: items[1][2].data}
    assert connection.carries(items[0][1])
    brokers.sendall(answer(4, 3, throttle_ms=7))
    (answered,) = connection.receive()
    assert [(*part[:2], part[2].partition) for part in answered.parts] == [(*items[1][1:], 4), (*items[0][1:], 3)]
    assert answered.throttle_ms == 7
    assert not connection.carries(items[0][1])
    assert connection.has_room


def test_partitions_of_one_number_in_several_topics_are_distinguished(
    pair: tuple[ProduceConnection, socket.socket],
) -> None:
    connection, brokers = pair
    items = [ready(3, topic="orders"), ready(3, topic="payments"), ready(4, topic="payments")]
    connection.send(items[:2], timeout_ms=1000)
    brokers.sendall(answer(3, topics=("payments", "orders")))
    (answered,) = connection.receive()
    assert [part[:2] for part in answered.parts] == [items[1][1:], items[0][1:]]
    connection.send(items[2:], timeout_ms=1000)
    brokers.sendall(answer(4, topics=("orders",)))
    with pytest.raises(ProtocolError, match="other partitions"):
        list(connection.receive())
    assert connection.close() == [items[2][1:]]


def test_answers_that_come_byte_by_byte_or_many_at_once_are_distinguished(
    pair: tuple[ProduceConnection, socket.socket],
) -> None:
    connection, brokers = pair
    for partition in range(5):
        connection.send([ready(partition)], timeout_ms=1000)
    assert not connection.has_room
    first = answer(0)
    for byte in first[:-1]:
        brokers.sendall(bytes([byte]))
        assert list(connection.receive()) == []
    brokers.sendall(first[-1:] + answer(1) + answer(2) + answer(3)[:9])
    assert answered_partitions(connection) == [[0], [1], [2]]
    brokers.sendall(answer(3)[9:])
    assert answered_partitions(connection) == [[3]]
    assert [list(request.batches) for request in connection.unanswered] == [[4]]


def test_what_a_broker_answers_just_before_it_goes_is_not_lost(
    pair: tuple[ProduceConnection, socket.socket],
) -> None:
    """A broker that shuts down sends its last answers and closes: both are there when the socket is readable."""
    connection, brokers = pair
    answered, unanswered = ready(0), ready(1)
    connection.send([answered], timeout_ms=1000)
    connection.send([unanswered], timeout_ms=1000)
    brokers.sendall(answer(0))
    brokers.shutdown(socket.SHUT_WR)
    assert [[part[:2] for part in one.parts] for one in connection.receive()] == [[answered[1:]]]
    with pytest.raises(ConnectionResetError):  # the socket stays readable, so the loop comes again
        list(connection.receive())
    assert connection.close() == [unanswered[1:]]


@pytest.mark.parametrize("partitions", [(0,), (0, 1, 2), (0, 2), (0, 0)])
def test_an_answer_for_other_partitions_gives_the_whole_request_back(
    pair: tuple[ProduceConnection, socket.socket], partitions: tuple[int, ...]
) -> None:
    """Else a batch that no answer names would wait for ever, and its partition with it."""
    connection, brokers = pair
    items = [ready(0), ready(1)]
    connection.send(items, timeout_ms=1000)
    brokers.sendall(answer(*partitions))
    with pytest.raises(ProtocolError, match="other partitions"):
        list(connection.receive())
    assert connection.close() == [item[1:] for item in items]


def test_an_answer_nobody_asked_for_and_an_absurd_one_are_protocol_errors(
    pair: tuple[ProduceConnection, socket.socket],
) -> None:
    connection, brokers = pair
    brokers.sendall(answer(0))
    with pytest.raises(ProtocolError, match="not sent"):
        list(connection.receive())
    brokers.sendall(b"\x7f\xff\xff\xff")
    with pytest.raises(ProtocolError, match="2147483647 bytes"):
        list(connection.receive())


def test_a_full_socket_is_written_on_when_there_is_room_again(
    pair: tuple[ProduceConnection, socket.socket],
) -> None:
    connection, brokers = pair
    connection.link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    items = [ready(number, records=2000) for number in range(3)]
    connection.send(items, timeout_ms=1000)
    assert connection.wants_to_write
    received = b""
    while connection.wants_to_write:
        received += brokers.recv(1 << 20)
        connection.write()
    size = int.from_bytes(received[:4], "big")
    received += receive_exactly(brokers, size + 4 - len(received))
    request = ProduceRequest.decode(received[4:], version=VERSION, header=True)
    assert [bytes(p.records) for topic in request.topic_data for p in topic.partition_data] == [
        item[2].data for item in items
    ]


def test_a_request_is_overdue_by_the_oldest_of_the_connection(
    pair: tuple[ProduceConnection, socket.socket],
) -> None:
    connection, brokers = pair
    assert not connection.overdue(1e12)
    connection.send([ready(0)], timeout_ms=1000)
    sent_at = connection.unanswered[0].sent_at
    assert not connection.overdue(sent_at + 4.9)
    assert connection.overdue(sent_at + 5.1)
    brokers.sendall(answer(0))
    list(connection.receive())
    assert not connection.overdue(sent_at + 5.1)


def test_far_from_the_broker_more_requests_may_be_under_way(pair: tuple[ProduceConnection, socket.socket]) -> None:
    """Near it, five keep it busy, and what waits makes the next request fuller."""
    connection, _ = pair
    connection.link.note_answer(100.0)
    _exchange(pair, 6)
    assert connection.link.round_trip_seconds < 100, "the quickest answer tells the round trip"
    connection.link.round_trip_seconds = 1.0
    for partition in range(5):
        connection.send([ready(partition)], timeout_ms=1000)
    assert connection.has_room
    connection.link.note_answer(0.001)
    assert not connection.link.is_far
    assert not connection.has_room


def test_one_request_is_under_way_at_first_and_one_more_with_each_answer(
    pair: tuple[ProduceConnection, socket.socket],
) -> None:
    """Until the broker has answered nobody knows whether it has a quota, by which each request under way waits."""
    connection, _ = pair
    connection.send([ready(0)], timeout_ms=1000)
    assert not connection.has_room
    _answer_all(pair)
    connection.send([ready(0)], timeout_ms=1000)
    assert connection.has_room


def test_while_a_broker_asks_for_pauses_one_request_is_under_way_and_none_is_overdue_because_of_them(
    pair: tuple[ProduceConnection, socket.socket],
) -> None:
    connection, _ = pair
    _exchange(pair, 6)
    connection.send([ready(0)], timeout_ms=1000)
    connection.send([ready(1)], timeout_ms=1000)
    _answer_all(pair, throttle_ms=60_000, count=1)
    assert not connection.has_room
    sent_at = connection.unanswered[0].sent_at
    assert not connection.overdue(sent_at + 60)
    assert connection.overdue(sent_at + 70)


def _exchange(pair: tuple[ProduceConnection, socket.socket], requests: int) -> None:
    for _ in range(requests):
        pair[0].send([ready(0)], timeout_ms=1000)
        _answer_all(pair)


def _answer_all(
    pair: tuple[ProduceConnection, socket.socket], *, throttle_ms: int = 0, count: int | None = None
) -> None:
    connection, brokers = pair
    for request in list(connection.unanswered)[:count]:
        brokers.sendall(
            answer(*(buffer.target.partition for buffer, _ in request.batches.values()), throttle_ms=throttle_ms)
        )
        list(connection.receive())


def test_an_answer_that_is_read_late_says_when_it_came() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        brokers, _ = server.accept()
    link = Link(ours, "broker:9092", {wire.PRODUCE: (9, VERSION)}, "sparkmirror", round_trip_seconds=0.001)
    connection = ProduceConnection(link, request_seconds_max=5.0)
    assert connection.may_be_late
    arrived_at_ms, ends_at = 0, time.monotonic() + 60
    while not arrived_at_ms and time.monotonic() < ends_at:
        """A kernel begins to stamp packets some time after the first socket asks it to; until then nobody knows."""
        connection.send([ready(3)], timeout_ms=1000)
        sent_at_ms = time.time_ns() // 1_000_000
        brokers.sendall(answer(3))
        select.select([ours], [], [], 60)
        there_at_ms = time.time_ns() // 1_000_000
        while time.time_ns() // 1_000_000 <= there_at_ms + 1:
            """Until the clock shows another millisecond."""
        (found,) = connection.receive()
        arrived_at_ms = found.arrived_at_ms
    assert sent_at_ms <= arrived_at_ms <= there_at_ms
    connection.close()
    brokers.close()
