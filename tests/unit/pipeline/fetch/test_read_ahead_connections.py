"""Answers of read-ahead connections that are none: what was asked is asked again, and the reader says why it waits."""

import selectors
import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse

from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.background import Outcome
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire.link import Link
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.fetch.connection import FetchLimits
from sparkmirror.pipeline.fetch.partitions import Partitions
from sparkmirror.pipeline.fetch.read_ahead_connections import ReadAheadConnections
from sparkmirror.pipeline.fetch.responses import FetchResponseReader
from sparkmirror.pipeline.relay.ring import Ring

VERSION = 12
BROKER = 1


class Lane:
    """One connection; `asked` are the offsets from which the broker was asked on it."""

    def __init__(self) -> None:
        ours, self._brokers = socket.socketpair()
        self._brokers.setblocking(False)
        self.link = Link(ours, "broker:9092", {wire.FETCH: (4, VERSION)}, "sparkmirror")
        self.link.note_answer(0.5)

    def asked(self) -> list[int]:
        try:
            data = self._brokers.recv(1 << 16)
        except BlockingIOError:
            return []
        found: list[int] = []
        while data:
            size = 4 + int.from_bytes(data[:4], "big")
            request = FetchRequest.decode(data[4:size], version=VERSION, header=True)
            found.append(request.topics[0].partitions[0].fetch_offset)
            data = data[size:]
        return found

    def send(self, frame: bytes) -> None:
        self._brokers.sendall(len(frame).to_bytes(4, "big") + frame)

    def close(self) -> None:
        self._brokers.close()
        self.link.close()


class Field:
    """A partition of 100 MB that is read ahead over two connections."""

    def __init__(self) -> None:
        self.ring = Ring(8 << 20)
        self.selector = selectors.DefaultSelector()
        self.response_reader = FetchResponseReader(self.ring, lambda _: None)
        partitions = Partitions(1 << 20)
        self.fetch_state = partitions.add(Assigned(TopicPartition("orders", 0), 0), BROKER)
        self.fetch_state.readable, self.fetch_state.bytes_per_offset, self.fetch_state.batch_bytes = 10**6, 100.0, 1e3
        leaders: Any = SimpleNamespace(addresses={BROKER: ("broker", 9092)}, dial=lambda *_, **__: True)
        self.connections = ReadAheadConnections(
            leaders, 30.0, FetchLimits(), 0, self.ring, self.response_reader, partitions, self.selector, lambda: True
        )
        self.lanes = [Lane(), Lane()]
        for number, lane in enumerate(self.lanes):
            self.connections.take_link(BROKER, number, Outcome(("lane", BROKER, number), lane.link, None))
        self.connections.recruit(BROKER, self.lanes[0].link)

    def asked(self) -> list[int]:
        """Have the reader ask for what it wants; the offsets from which it asks."""
        self.connections.poll(time.monotonic())
        return [offset for lane in self.lanes for offset in lane.asked()]

    def answer(self, frame: bytes) -> list[str]:
        """Answer the first request of the first connection; the faults that are reported."""
        self.lanes[0].send(frame)
        for key, _ in self.selector.select(0):
            self.connections.receive(key.data)
        return [(row.payload or b"").decode() for row in self.response_reader.take_rows()]

    def close(self) -> None:
        self.connections.close()
        for lane in self.lanes:
            lane.close()
        self.selector.close()
        self.ring.close()


@pytest.fixture
def field() -> Iterator[Field]:
    made = Field()
    yield made
    made.close()


def answer(*topics: str, error: int = 0, throttle_ms: int = 0) -> bytes:
    Topic = FetchResponse.FetchableTopicResponse
    nothing = Topic.PartitionData(
        partition_index=0, error_code=0, high_watermark=-1, log_start_offset=-1, aborted_transactions=None, records=b""
    )
    response = FetchResponse(
        version=VERSION, throttle_time_ms=throttle_ms, error_code=error, session_id=0,
        responses=[Topic(topic=topic, partitions=[nothing]) for topic in topics],
    )  # fmt: skip
    response.with_header(correlation_id=1)
    encoded: bytes = response.encode(header=True)
    return encoded


def test_a_throttled_range_is_asked_for_again(field: Field) -> None:
    assert 0 in field.asked()
    assert field.answer(answer(throttle_ms=100)) == []
    assert 0 in field.asked()


def test_a_broker_that_refuses_a_range_is_reported_and_not_asked_at_once_again(field: Field) -> None:
    assert 0 in field.asked()
    assert field.answer(answer(error=-1)) == ["broker 1 of the source refuses the whole fetch: UNKNOWN"]
    assert field.asked() == []
    assert not field.fetch_state.is_chased, "it goes back to its session"
    assert not field.fetch_state.may_read(time.monotonic()), "and rests"


@pytest.mark.parametrize(("frame", "reason"), [(b"no answer", "fetch"), (answer("payments"), "another partition")])
def test_a_range_whose_answer_cannot_be_one_is_asked_for_over_another_connection(
    field: Field, frame: bytes, reason: str
) -> None:
    lost = set(field.asked())
    (said,) = field.answer(frame)
    assert reason in said
    again = field.asked()
    assert 0 in again, "nothing behind it can be taken before it has come"
    assert len(again) == len(set(again)) and set(again) < lost, "the other connection's ranges stay asked for"
