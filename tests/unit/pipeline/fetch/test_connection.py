"""Receiving over a socket pair: into the ring where there is room, into private memory where there never is."""

import resource
import selectors
import socket
import time
from collections.abc import Iterator
from uuid import UUID

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse
from tests.manual_clock import ManualClock

from sparkmirror.batch.header import Codec
from sparkmirror.batch.records import encode_batch
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.control.commands import Command, Stop, encode_command
from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.background import Background, Outcome
from sparkmirror.kafka.settings import client_settings
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire.data_requests import FetchPosition
from sparkmirror.kafka.wire.link import Link
from sparkmirror.kafka.wire.lookup import ClusterView, Span
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.pipeline.fetch.command_tail import DIAL_KEY, CommandTail, Dialled
from sparkmirror.pipeline.fetch.connection import FetchConnection, FetchLimits, Frame
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.pipeline.relay.private_memory import PrivateMemory
from sparkmirror.pipeline.relay.regions import FILLING_SECONDS
from sparkmirror.pipeline.relay.ring import RING_BYTES_MIN, Ring, RingPeer

VERSION = 12
LONE_BATCH_BYTES_MAX = 128 << 20
Topic = FetchResponse.FetchableTopicResponse
Sockets = tuple[Link, socket.socket]


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    ours, brokers = socket.socketpair()
    brokers.settimeout(60)
    yield Link(ours, "broker:9092", {wire.FETCH: (4, VERSION)}, "sparkmirror"), brokers
    ours.close()
    brokers.close()


@pytest.fixture
def ring() -> Iterator[Ring]:
    ring = Ring(RING_BYTES_MIN)
    yield ring
    ring.close()


def answer(
    records: bytes, *, error: int = 0, session_id: int = 9, throttle_ms: int = 0, topic: str = "orders"
) -> bytes:
    partition = Topic.PartitionData(
        partition_index=0,
        error_code=error,
        high_watermark=-1,
        log_start_offset=-1,
        aborted_transactions=None,
        records=records,
    )
    response = FetchResponse(
        version=VERSION,
        throttle_time_ms=throttle_ms,
        error_code=0,
        session_id=session_id,
        responses=[Topic(topic=topic, partitions=[partition])],
    )
    return framed(response)


def no_news(error: int = 0) -> bytes:
    """What a broker answers after the longest wait, or where it refuses the whole fetch."""
    return framed(FetchResponse(version=VERSION, throttle_time_ms=0, error_code=error, session_id=9, responses=[]))


def framed(response: FetchResponse) -> bytes:
    response.with_header(correlation_id=1)
    encoded = response.encode(header=True)
    return len(encoded).to_bytes(4, "big") + encoded


def request_at(brokers: socket.socket) -> FetchRequest:
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        received = brokers.recv(1 << 16)
        assert received, "the connection was closed"
        data += received
    return FetchRequest.decode(data[4:], version=VERSION, header=True)


def ask(connection: FetchConnection, offset: int) -> None:
    connection.send({("orders", 0): FetchPosition("orders", 0, offset, -1, 1 << 20)})


def receive_all(connection: FetchConnection, brokers: socket.socket, data: bytes) -> Frame:
    """Feed a response in pieces that a socket takes."""
    frame = None
    while data:
        brokers.sendall(data[:50_000])
        data = data[50_000:]
        assert frame is None
        frame = connection.receive()
    assert frame is not None
    return frame


def test_a_response_lands_in_the_ring_byte_by_byte_or_at_once(sockets: Sockets, ring: Ring) -> None:
    link, brokers = sockets
    connection = FetchConnection(link, ring, FetchLimits())
    ask(connection, 5)
    assert connection.waiting
    (topic,) = request_at(brokers).topics
    assert (topic.topic, topic.partitions[0].fetch_offset) == ("orders", 5)
    data = answer(b"records", throttle_ms=60_000)
    for byte in data[:-1]:
        brokers.sendall(bytes([byte]))
        assert connection.receive() is None
    frame = receive_all(connection, brokers, data[-1:])
    assert not connection.waiting
    assert frame.region is not None
    assert ring.slice(frame.region, len(frame.buffer)) == frame.buffer == data[4:]
    (fetched,) = connection.decode(frame).partitions
    assert frame.buffer[fetched.start : fetched.stop] == b"records"
    assert connection.asked(fetched, 5)
    assert not connection.asked(fetched, 4), "the reader was sent elsewhere meanwhile"
    assert connection.not_before > 0


def test_a_full_ring_stops_the_reading_until_there_is_room(sockets: Sockets, ring: Ring) -> None:
    link, brokers = sockets
    connection = FetchConnection(link, ring, FetchLimits())
    held = ring.reserve(RING_BYTES_MIN)
    assert held is not None
    ask(connection, 0)
    brokers.sendall(answer(b"records"))
    assert connection.receive() is None
    assert connection.starved
    ring.lend(held, [])
    frame = connection.receive()
    assert frame is not None
    assert not connection.starved


def test_a_response_larger_than_the_ring_goes_to_private_memory(sockets: Sockets, ring: Ring) -> None:
    link, brokers = sockets
    connection = FetchConnection(link, ring, FetchLimits())
    ask(connection, 0)
    frame = receive_all(connection, brokers, answer(b"x" * (RING_BYTES_MIN + 1)))
    assert frame.region is None
    assert ring.reserve(RING_BYTES_MIN) is not None, "the ring was left alone"


HALF = RING_BYTES_MIN // 2


def half_answer(link: Link, brokers: socket.socket, ring: Ring) -> tuple[FetchConnection, bytes, bytes]:
    """A connection whose broker has stopped in the middle of its answer and was made to leave the ring; what has come,
    and what is still to come."""
    connection = FetchConnection(link, ring, FetchLimits())
    ask(connection, 5)
    data = answer(bytes(range(250)) * (HALF // 250))
    brokers.sendall(data[:1000])
    assert connection.receive() is None
    connection.make_way()
    return connection, data[:1000], data[1000:]


def test_a_half_answer_that_made_way_comes_back_when_it_is_whole(sockets: Sockets, ring: Ring) -> None:
    connection, before, rest = half_answer(*sockets, ring)
    held = ring.reserve(RING_BYTES_MIN)
    assert held is not None, "all of the ring is free for others"
    brokers = sockets[1]
    for at in range(0, len(rest), 50_000):
        assert not connection.starved
        brokers.sendall(rest[at : at + 50_000])
        assert connection.receive() is None
    assert connection.starved, "it is whole"
    assert not connection.is_silent(time.monotonic() + 1000, 1.0)
    assert connection.receive() is None
    ring.lend(held, [])
    frame = connection.receive()
    assert frame is not None and frame.region is not None
    assert not connection.starved
    assert ring.slice(frame.region, len(frame.buffer)) == frame.buffer == (before + rest)[4:]
    assert ring.aside_bytes == 0
    ring.lend(frame.region, [])
    ask(connection, 6)
    second = receive_all(connection, brokers, answer(b"records"))
    assert second.region is not None, "the next answer goes to the ring at once"


def test_a_half_answer_that_made_way_and_breaks_off_leaves_nothing_behind(sockets: Sockets, ring: Ring) -> None:
    connection, _, _ = half_answer(*sockets, ring)
    assert ring.aside_bytes > 0
    connection.close()
    assert ring.aside_bytes == 0
    assert ring.reserve(RING_BYTES_MIN) is not None


def test_another_brokers_answer_comes_past_one_that_stopped(sockets: Sockets) -> None:
    clock = ManualClock()
    ring = Ring(RING_BYTES_MIN, clock)
    link, brokers = sockets
    stopped = FetchConnection(link, ring, FetchLimits())
    ask(stopped, 5)
    brokers.sendall(answer(bytes(HALF))[:1000])
    assert stopped.receive() is None
    ours, others = socket.socketpair()
    other = FetchConnection(Link(ours, "other:9092", {wire.FETCH: (4, VERSION)}, "sparkmirror"), ring, FetchLimits())
    ask(other, 0)
    data = answer(bytes(HALF))
    others.sendall(data[:4])
    assert other.receive() is None and other.starved
    writer = RingPeer(ring.address)
    ring.set_waiting(True)
    assert not writer.reader_waits, "the writer could give back what it likes"
    clock.now += FILLING_SECONDS
    frame = receive_all(other, others, data[4:])
    assert frame.region is not None
    ring.lend(frame.region, [])
    writer.close()
    others.close()
    other.close()
    stopped.close()
    assert ring.aside_bytes == 0
    ring.close()


def test_a_connection_that_breaks_half_way_gives_its_region_back(sockets: Sockets, ring: Ring) -> None:
    link, brokers = sockets
    connection = FetchConnection(link, ring, FetchLimits())
    ask(connection, 0)
    brokers.sendall(answer(b"records")[:20])
    assert connection.receive() is None
    brokers.close()
    with pytest.raises(OSError):
        connection.receive()
    connection.close()
    assert ring.reserve(RING_BYTES_MIN) is not None


@pytest.mark.parametrize("size", [0, 4, -1, LONE_BATCH_BYTES_MAX + 1, wire.MAX_FRAME_BYTES])
def test_an_absurd_size_is_a_protocol_error(sockets: Sockets, ring: Ring, size: int) -> None:
    link, brokers = sockets
    connection = FetchConnection(link, ring, FetchLimits())
    brokers.sendall(size.to_bytes(4, "big", signed=True))
    with pytest.raises(ProtocolError, match=f"response of {size} bytes"):
        connection.receive()


def new_tail(offset: int, clock: Clock = SYSTEM_CLOCK) -> CommandTail:
    settings = client_settings(Cluster("B", {"bootstrap.servers": "localhost:1"}), "test")
    return CommandTail(settings, "orders", offset, Background(lambda: None), selectors.DefaultSelector(), clock)


def test_commands_are_followed_from_their_offset_by_one_poll_after_the_other(sockets: Sockets) -> None:
    link, brokers = sockets
    tail = new_tail(offset=11)
    tail.take_link(Outcome(DIAL_KEY, Dialled(link, UUID(int=0), 11), None))
    assert request_at(brokers).topics[0].partitions[0].fetch_offset == 11
    values = [encode_command(Stop("old")), b"of a later version", encode_command(Stop("run"))]
    brokers.sendall(answer(encode_batch([(None, value) for value in values], base_offset=10)))
    found: list[Command] = tail.take_commands()
    assert found == [Stop("run")], "what lies below the offset was for others"
    assert request_at(brokers).topics[0].partitions[0].fetch_offset == 13
    tail.drop()
    assert tail.connection is None


def test_commands_count_though_the_connection_breaks_before_the_next_poll(sockets: Sockets) -> None:
    """They are behind the offset that the next connection asks from."""
    link, brokers = sockets
    tail = new_tail(offset=11)
    tail.take_link(Outcome(DIAL_KEY, Dialled(link, UUID(int=0), 11), None))
    request_at(brokers)
    brokers.sendall(answer(encode_batch([(None, encode_command(Stop("run")))], base_offset=11)))
    link.socket.shutdown(socket.SHUT_WR)
    assert tail.take_commands() == [Stop("run")]
    assert tail.connection is None


def test_a_command_topic_cut_off_is_no_reason_to_ask_in_circles(sockets: Sockets) -> None:
    """The refusal does not say where the log begins: the connection is made again, and asks for that first."""
    link, brokers = sockets
    tail = new_tail(offset=11)
    tail.take_link(Outcome(DIAL_KEY, Dialled(link, UUID(int=0), 11), None))
    request_at(brokers)
    brokers.sendall(answer(b"", error=1))
    with pytest.raises(ConnectionError, match="no longer holds offset 11"):
        tail._receive([])
    brokers.setblocking(False)
    with pytest.raises(BlockingIOError):
        brokers.recv(1)


def test_a_leader_of_the_command_topic_that_may_be_cut_off_is_left_in_time(sockets: Sockets) -> None:
    """It answers in time, and has nothing: what is ordered meanwhile would go unheard."""
    link, brokers = sockets
    clock = ManualClock()
    tail = new_tail(offset=11, clock=clock)
    tail.take_link(Outcome(DIAL_KEY, Dialled(link, UUID(int=0), 11, 4), None))
    assert request_at(brokers).topics[0].partitions[0].current_leader_epoch == 4, "a broker of another one refuses"
    for _ in range(13):
        clock.now += 23
        tail.connect()
        assert tail.connection is not None
        brokers.sendall(no_news())
        assert tail.take_commands() == []
    clock.now += 2
    tail.connect()
    assert tail.connection is None


@pytest.mark.parametrize(("span", "offset"), [(Span(0, 20), 11), (Span(15, 20), 15), (Span(3, 8), 3)])
def test_an_order_is_read_again_only_where_the_log_has_lost_the_place(
    sockets: Sockets, monkeypatch: pytest.MonkeyPatch, span: Span, offset: int
) -> None:
    """A broker that leads no more refuses an offset, too."""
    link, brokers = sockets
    tail = new_tail(offset=11)
    tail.take_link(Outcome(DIAL_KEY, Dialled(link, UUID(int=0), 11), None))
    request_at(brokers)
    brokers.sendall(answer(b"", error=1))
    with pytest.raises(ConnectionError):
        tail._receive([])
    view = ClusterView({}, {}, {"orders": UUID(int=1)}, epochs={TopicPartition("orders", 0): 5})
    monkeypatch.setattr(tail._search, "span", lambda _: span)
    monkeypatch.setattr(tail._search, "dial", lambda _: (link, view))
    assert tail._dial() == Dialled(link, UUID(int=1), offset, 5)


def test_an_answer_takes_memory_as_it_comes_not_as_it_is_announced(sockets: Sockets, ring: Ring) -> None:
    link, brokers = sockets
    connection = FetchConnection(link, ring, FetchLimits())
    brokers.sendall(LONE_BATCH_BYTES_MAX.to_bytes(4, "big") + b"some")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert connection.receive() is None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_a_broker_that_had_little_rests_a_moment_and_one_that_had_much_is_asked_at_once(
    sockets: Sockets, ring: Ring
) -> None:
    link, brokers = sockets
    connection = FetchConnection(link, ring, FetchLimits(rest_seconds=5.0))
    ask(connection, 0)
    before = time.monotonic()
    receive_all(connection, brokers, answer(bytes(100)))
    pause = 5.0 * 8192 / (8192 + len(answer(bytes(100))))
    assert before + pause - 0.1 <= connection.asks_at < time.monotonic() + 5.0, "nearly as long as the flow says"
    more = FetchConnection(link, ring, FetchLimits(rest_seconds=5.0))
    ask(more, 0)
    receive_all(more, brokers, answer(bytes(50_000)))
    assert more.asks_at < time.monotonic() + 1.0, "it had more, of which the next answer costs as little"
    much = FetchConnection(link, ring, FetchLimits(rest_seconds=5.0))
    ask(much, 0)
    receive_all(much, brokers, answer(bytes(300_000)))
    assert much.asks_at == 0.0


@pytest.mark.parametrize("records", [b"", bytes(100)])
def test_answers_that_come_seldom_are_followed_by_the_next_request_at_once(
    sockets: Sockets, ring: Ring, records: bytes
) -> None:
    """A pause would wake the reader twice an answer, and merge nothing."""
    link, brokers = sockets
    clock = ManualClock()
    connection = FetchConnection(link, ring, FetchLimits(rest_seconds=0.05), clock=clock)
    ask(connection, 0)
    receive_all(connection, brokers, answer(records) if records else no_news())
    assert connection.rests(clock.now), "it answered at once: asked again at once, it might do so for ever"
    clock.now += 0.16
    ask(connection, 0)
    receive_all(connection, brokers, answer(records) if records else no_news())
    assert ring.announcer.announce(Announcement(0, 1, 1, 0, 0, 1, 0, -1, -1, 0))
    assert not connection.rests(clock.now), "nor does it wait until the writer has heard of this one"
    ask(connection, 0)
    receive_all(connection, brokers, answer(records) if records else no_news())
    assert connection.rests(clock.now), "the next came at once"


def test_a_broker_that_had_little_is_not_asked_while_what_came_before_is_on_its_way_to_the_writer(
    sockets: Sockets, ring: Ring
) -> None:
    link, brokers = sockets
    connection = FetchConnection(link, ring, FetchLimits(rest_seconds=0.05))
    writer = RingPeer(ring.address)
    ring.note_given()
    writer.note_taken(1)
    ask(connection, 0)
    receive_all(connection, brokers, answer(bytes(100)))
    rested = connection.asks_at
    assert not connection.rests(rested)
    ring.note_given()
    assert not connection.rests(rested), "one on its way is the rule"
    ring.note_given()
    assert connection.rests(rested)
    assert rested < connection.asks_at < rested + 0.06, "it is looked at again soon"
    assert connection.rests(rested), "and not before"
    writer.note_taken(1)
    assert not connection.rests(connection.asks_at)
    ring.note_given()
    assert not connection.rests(rested + 0.2), "whatever holds the writer up, the source is asked in the end"
    ask(connection, 5)
    receive_all(connection, brokers, answer(bytes(300_000)))
    assert not connection.rests(connection.asks_at), "one that had much is asked at once"
    writer.close()


def test_a_broker_that_had_little_is_not_asked_while_announcements_are_not_taken(sockets: Sockets, ring: Ring) -> None:
    link, brokers = sockets
    connection = FetchConnection(link, ring, FetchLimits(rest_seconds=0.05))
    writer = RingPeer(ring.address)
    ask(connection, 0)
    receive_all(connection, brokers, answer(bytes(100)))
    assert ring.announcer.announce(Announcement(0, 1, 1, 0, 0, 1, 0, -1, -1, 0))
    rested = connection.asks_at
    assert connection.rests(rested)
    assert writer.listener.take(0) is not None
    assert not connection.rests(connection.asks_at)
    writer.close()


def test_more_than_was_asked_for_is_taken_only_as_one_batch_alone(sockets: Sockets) -> None:
    """A batch comes whole however large it is (KIP-74); nothing else may be larger than asked for."""
    link, brokers = sockets
    large = encode_batch([(None, bytes(300_000))])
    small = encode_batch([(None, bytes(60_000))])
    limits = FetchLimits(bytes_max=100_000)

    def answered(records: bytes) -> int:
        connection = FetchConnection(link, PrivateMemory(), limits)
        ask(connection, 0)
        frame = receive_all(connection, brokers, answer(records))
        (fetched,) = connection.decode(frame).partitions
        return fetched.stop - fetched.start

    assert answered(large) == len(large)
    assert answered(small) == len(small)
    for records in (small + small, small + large, large + small):
        with pytest.raises(ProtocolError, match=f"sent {len(records)} bytes in several batches, .* asked for 100000"):
            answered(records)


def test_an_announced_size_beyond_what_was_asked_for_and_any_batch_is_refused_at_once(
    sockets: Sockets, ring: Ring
) -> None:
    link, brokers = sockets
    much = FetchConnection(link, ring, FetchLimits(bytes_max=256 << 20))
    ask(much, 0)
    brokers.sendall((200 << 20).to_bytes(4, "big"))
    assert much.receive() is None, "a person may ask for much"
    connection = FetchConnection(link, ring, FetchLimits())
    ask(connection, 0)
    brokers.sendall((200 << 20).to_bytes(4, "big"))
    with pytest.raises(ProtocolError, match=f"response of {200 << 20} bytes, and was asked for {8 << 20}"):
        connection.receive()


def test_commands_are_not_asked_for_in_circles_where_their_broker_refuses_the_whole_fetch(sockets: Sockets) -> None:
    link, brokers = sockets
    tail = new_tail(offset=5)
    tail.take_link(Outcome(DIAL_KEY, Dialled(link, UUID(int=0), 5), None))
    request_at(brokers)
    brokers.sendall(no_news(error=71))
    assert tail.take_commands() == []
    assert request_at(brokers).session_epoch == 0, "a session that is lost is opened again"
    brokers.sendall(no_news(error=-1))
    with pytest.raises(ConnectionError, match="error -1"):
        tail._receive([])
    tail.drop()


def test_a_batch_that_nobody_of_ours_wrote_does_not_hide_the_commands_behind_it(sockets: Sockets) -> None:
    link, brokers = sockets
    tail = new_tail(offset=10)
    tail.take_link(Outcome(DIAL_KEY, Dialled(link, UUID(int=0), 10), None))
    request_at(brokers)
    bomb = encode_batch([(None, bytes(20 << 20))], Codec.ZSTD, base_offset=10)
    brokers.sendall(answer(bomb + encode_batch([(None, encode_command(Stop("run")))], base_offset=11)))
    assert tail.take_commands() == [Stop("run")]
    assert request_at(brokers).topics[0].partitions[0].fetch_offset == 12
    tail.drop()
