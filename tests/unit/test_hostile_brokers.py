"""Whatever a broker sends, a bulk connection ends with a named error or goes on: no crash, no hang, bounded memory.

Answers as Kafka's schemas encode them are cut, stretched, flipped and filled with extreme numbers, then fed to the
code that reads them in production. FUZZ_EXAMPLES sets how many of each (default 100).
"""

import os
import resource
import selectors
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import ListOffsetsResponse
from kafka.protocol.metadata import MetadataResponse
from kafka.protocol.producer import EndTxnResponse, InitProducerIdResponse
from tests.damage import damage
from tests.unit.kafka.wire.test_data_requests import fetch_answer, produce_answer

from sparkmirror.batch.records import encode_batch
from sparkmirror.control.assignment import Assigned
from sparkmirror.errors import ClusterError, ProtocolError, RecordTooLarge
from sparkmirror.kafka.background import Outcome
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.settings import client_settings
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire import lookup
from sparkmirror.kafka.wire.coordinator import EndTransaction, Initialize
from sparkmirror.kafka.wire.data_requests import FetchPosition
from sparkmirror.kafka.wire.link import Link, dial
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.pipeline.fetch.connection import FetchConnection, FetchLimits
from sparkmirror.pipeline.fetch.partitions import Partitions
from sparkmirror.pipeline.fetch.responses import FetchResponseReader
from sparkmirror.pipeline.produce.answers import describe, judge
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.connection import ProduceConnection
from sparkmirror.pipeline.produce.coordinator import KEY, Coordinator
from sparkmirror.pipeline.produce.queued_records import QueuedRecords
from sparkmirror.pipeline.relay.ring import Ring
from sparkmirror.pipeline.relay.schema import to_arrow

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "100"))
GROWTH_BYTES_MAX = 200 << 20
BATCHES = encode_batch([(b"k", b"v" * 30)] * 3) + encode_batch([(None, None)], base_offset=3)
FETCH_VERSION, PRODUCE_VERSION = 12, 12


@st.composite
def streams(draw: st.DrawFn, frames: st.SearchStrategy[bytes]) -> bytes:
    """A damaged answer on its way: mostly with the length that it has, now and then with a damaged one."""
    answer = draw(damage())(draw(frames))
    framed = len(answer).to_bytes(4, "big") + answer
    return draw(damage())(framed) if draw(st.integers(0, 3)) == 0 else framed


def quick(test: Callable[..., None]) -> Callable[..., None]:
    return settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))(test)


@pytest.fixture(autouse=True)
def bounded_memory() -> Any:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown << 10 < GROWTH_BYTES_MAX, f"grew by {grown >> 10} MB"


def deliver(data: bytes, versions: dict[int, tuple[int, int]]) -> Link:
    """Our end of a connection on which a broker has sent this and hung up."""
    ours, brokers = socket.socketpair()
    brokers.sendall(data)
    brokers.close()
    return Link(ours, "broker:9092", versions, "sparkmirror", features={"transaction.version": 2})


fetch_answers = st.sampled_from([bytes(fetch_answer(FETCH_VERSION, records)) for records in (BATCHES, b"", b"x" * 70)])


@quick
@given(streams(fetch_answers), st.integers(0, 6), st.none() | st.integers(0, 6))
def test_a_fetch_answer_gives_rows_or_a_named_error(data: bytes, offset: int, end: int | None) -> None:
    link = deliver(data, {wire.FETCH: (4, FETCH_VERSION)})
    ring = Ring(1 << 20)
    response_reader = FetchResponseReader(ring, lambda fetch_state: None)
    partitions = Partitions(1 << 20)
    fetch_state = partitions.add(Assigned(TopicPartition("orders", 3), offset, end=end), 1)
    try:
        connection = FetchConnection(link, ring, FetchLimits())
        connection.session.step({("orders", 3): FetchPosition("orders", 3, offset, -1, 1 << 20)})
        frame = connection.receive()
        assert frame is not None, "a broker that has hung up is noticed"
        response_reader.take_frame(1, connection, frame, partitions)
        rows = response_reader.take_rows()
        if rows:
            assert to_arrow(rows).num_rows == len(rows)
        assert fetch_state.offset >= min(offset, 0 if any(row.kind == "gap" for row in rows) else offset)
    except (OSError, ProtocolError) as named:
        assert str(named)
    finally:
        link.socket.close()
        ring.close()


@quick
@given(damage(), st.integers(0, 4))
def test_damaged_batches_are_sent_refused_or_split_but_never_break_the_sender(
    damaged: Callable[[bytes], bytes], position: int
) -> None:
    where = TopicPartition("orders", 0)
    buffer = PartitionBuffer(where, where, position, 0)
    data = memoryview(bytearray(damaged(BATCHES)))
    try:
        buffer.accept(QueuedRecords(data, position, 4, lambda: None))
        for _ in range(10):
            batch = buffer.next_batch(7, 0)
            if batch is None:
                break
            buffer.succeed(batch, 0)
    except (ProtocolError, RecordTooLarge) as named:
        assert str(named)


@quick
@given(streams(st.just(bytes(produce_answer(PRODUCE_VERSION)))))
def test_a_produce_answer_is_judged_or_a_named_error(data: bytes) -> None:
    link = deliver(data, {wire.PRODUCE: (9, PRODUCE_VERSION)})
    connection = ProduceConnection(link, 5.0)
    try:
        for answer in connection.receive():
            for _, _, produced in answer.parts:
                assert judge(produced.error, is_head=True)
                assert describe(produced)
    except (OSError, ProtocolError) as named:
        assert str(named)
    finally:
        connection.close()


@given(st.integers(-(1 << 15), (1 << 15) - 1), st.booleans())
def test_every_error_code_has_a_verdict_and_a_sentence(code: int, is_head: bool) -> None:
    assert judge(code, is_head=is_head)
    assert f"({code})" in describe(wire.ProducedPartition("orders", 0, code, -1, ""))


def encoded(response: Any) -> bytes:
    response.with_header(correlation_id=1)
    return bytes(response.encode(header=True))


US = ProducerIdentity(7, 3)
CASES = [
    (
        EndTransaction("id", US, second_protocol=True),
        encoded(EndTxnResponse(version=5, throttle_time_ms=0, error_code=0, producer_id=7, producer_epoch=4)),
    ),
    (
        Initialize("id", 60_000, US),
        encoded(InitProducerIdResponse(version=5, throttle_time_ms=0, error_code=0, producer_id=7, producer_epoch=4)),
    ),
]


class NoWork:
    def submit(self, key: object, work: object) -> None:
        assert key == KEY


@quick
@given(st.sampled_from(CASES).flatmap(lambda case: st.tuples(st.just(case[0]), streams(st.just(case[1])))))
def test_a_coordinators_answer_is_definite_or_the_connection_is_opened_again(case: tuple[Any, bytes]) -> None:
    question, data = case
    with selectors.DefaultSelector() as selector:
        coordinator = Coordinator(None, "id", NoWork(), selector, 5.0)  # type: ignore[arg-type]
        ours, brokers = socket.socketpair()
        link = Link(ours, "broker:9092", {22: (0, 5), 26: (0, 5)}, "x", features={"transaction.version": 2})
        coordinator.take(Outcome(KEY, link, None))
        coordinator.ask(question)
        brokers.sendall(data)
        brokers.close()
        coordinator.serve()
        coordinator.serve()
        coordinator.close()
        ours.close()


WHERE = TopicPartition("orders", 3)
METADATA = encoded(
    MetadataResponse(
        version=12,
        throttle_time_ms=0,
        brokers=[MetadataResponse.MetadataResponseBroker(node_id=1, host="localhost", port=9092, rack=None)],
        cluster_id="c",
        controller_id=1,
        topics=[
            MetadataResponse.MetadataResponseTopic(
                error_code=0, name="orders", topic_id=UUID(int=5), is_internal=False,
                partitions=[
                    MetadataResponse.MetadataResponseTopic.MetadataResponsePartition(
                        error_code=0, partition_index=3, leader_id=1, leader_epoch=4,
                        replica_nodes=[1], isr_nodes=[1], offline_replicas=[],
                    )
                ],
            )
        ],
    )
)  # fmt: skip
OFFSETS = encoded(
    ListOffsetsResponse(
        version=6,
        throttle_time_ms=0,
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name="orders",
                partitions=[
                    ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse(
                        partition_index=3, error_code=0, timestamp=-1, offset=7, leader_epoch=1
                    )
                ],
            )
        ],
    )
)
QUESTIONS: list[tuple[Callable[[Link], object], bytes]] = [
    (partial(lookup._view, topics=["orders"]), METADATA),
    (partial(lookup._list_offset, where=WHERE, timestamp=-1), OFFSETS),
]


@quick
@given(st.sampled_from(QUESTIONS).flatmap(lambda case: st.tuples(st.just(case[0]), streams(st.just(case[1])))))
def test_a_look_up_has_an_answer_or_a_named_error(case: tuple[Callable[[Link], object], bytes]) -> None:
    question, data = case
    ours, brokers = socket.socketpair()
    link = Link(ours, "broker:9092", {3: (0, 12), 2: (0, 6)}, "x")
    brokers.sendall(data)
    brokers.shutdown(socket.SHUT_WR)
    try:
        with lookup.sensible_answers(link):
            assert question(link) is not None
    except (OSError, ProtocolError, ClusterError) as named:
        assert str(named)
    finally:
        ours.close()
        brokers.close()


@pytest.mark.parametrize(
    "greeting",
    [b"\x15\x03\x03\x00\x02\x02\x16", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff\xff\xff\xff", b"SSH-2.0-x\r\n"],
    ids=["TLS", "HTTP", "negative", "SSH"],
)
def test_a_port_that_is_no_brokers_is_reported_at_once_and_takes_no_memory(greeting: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            accepted, _ = server.accept()
            accepted.sendall(greeting)
            accepted.recv(1 << 16)
            threading.Event().wait(0.05)
            accepted.close()

        threading.Thread(target=greet, daemon=True).start()
        port = server.getsockname()[1]
        settings = client_settings(Cluster("A", {"bootstrap.servers": f"127.0.0.1:{port}"}), "test")
        began = time.monotonic()
        with pytest.raises(ProtocolError, match="announced an answer"):
            dial("127.0.0.1", port, settings)
        assert time.monotonic() - began < 25  # its own patience is 30 s
