"""A reader of two brokers, of which one stops in the middle of an answer: the other's records go on."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from uuid import UUID

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse

from sparkmirror.batch.records import encode_batch
from sparkmirror.control.assignment import Assigned, TaskPlan
from sparkmirror.kafka.settings import client_settings
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire import leaders
from sparkmirror.kafka.wire.link import Link
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.pipeline.fetch.connection import FetchLimits
from sparkmirror.pipeline.fetch.reader import TaskReader
from sparkmirror.pipeline.fetch.reader_options import ReaderOptions
from sparkmirror.pipeline.relay.ring import RING_BYTES_MIN, RingPeer
from sparkmirror.pipeline.relay.schema import FAULT, RUN

VERSION = 12
STOPS, FLOWS = 1, 2
BATCH_BYTES = RING_BYTES_MIN // 2 + 1000
"""Two of them do not fit into the ring."""


class Broker(threading.Thread):
    """Answers each fetch of its partition with one large batch; one that `stops` sends half of the second, and the rest
    of it when `goes_on` is set."""

    def __init__(self, number: int, *, stops: bool) -> None:
        super().__init__(daemon=True)
        self.ours, self._theirs = socket.socketpair()
        self._number = number
        self._stops = stops
        self.answered = 0
        self.goes_on = threading.Event()

    def run(self) -> None:
        try:
            while (asked := self._asked()) is not None:
                self._answer(asked)
        except OSError:
            """The reader has closed the connection."""

    def _asked(self) -> int | None:
        size = self._theirs.recv(4, socket.MSG_WAITALL)
        if len(size) < 4:
            return None
        body = self._theirs.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
        request = FetchRequest.decode(body, version=VERSION, header=True)
        changed = [partition.fetch_offset for topic in request.topics for partition in topic.partitions]
        return changed[0] if changed else self.answered

    def _answer(self, offset: int) -> None:
        data = frame(self._number, offset)
        at = len(data) // 2 if self._stops and offset == 1 else len(data)
        self._theirs.sendall(data[:at])
        if at < len(data):
            self.goes_on.wait(60)
            self._theirs.sendall(data[at:])
        self.answered = offset + 1


def frame(number: int, offset: int) -> bytes:
    Topic = FetchResponse.FetchableTopicResponse
    batch = encode_batch([(None, bytes([offset % 256]) * BATCH_BYTES)], base_offset=offset)
    partition = Topic.PartitionData(
        partition_index=number, error_code=0, high_watermark=offset + 1, last_stable_offset=offset + 1,
        log_start_offset=0, aborted_transactions=None, records=batch,
    )  # fmt: skip
    response = FetchResponse(
        version=VERSION, throttle_time_ms=0, error_code=0, session_id=9,
        responses=[Topic(topic="orders", partitions=[partition])],
    )  # fmt: skip
    response.with_header(correlation_id=1)
    encoded: bytes = response.encode(header=True)
    return len(encoded).to_bytes(4, "big") + encoded


@contextmanager
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[TaskReader, RingPeer, dict[int, Broker]]]:
    brokers = {number: Broker(number, stops=number == STOPS) for number in (STOPS, FLOWS)}
    for broker in brokers.values():
        broker.start()

    def dial(host: str, *_: object, **__: object) -> Link:
        return Link(brokers[int(host)].ours, host, {wire.FETCH: (4, VERSION)}, "sparkmirror")

    monkeypatch.setattr(leaders, "dial", dial)
    topic_id = UUID(int=1)
    where = {number: TopicPartition("orders", number) for number in brokers}
    plan = TaskPlan(
        0, "run", 1, 1, 120.0, tuple(Assigned(one, 0, topic_id=topic_id) for one in where.values()), 7, 0,
        {number: (str(number), 9092) for number in brokers}, {one: number for number, one in where.items()}, 0, 25,
    )  # fmt: skip
    settings = client_settings(Cluster("A", {"bootstrap.servers": "localhost:1"}), "test")
    options = ReaderOptions(settings, FetchLimits(), RING_BYTES_MIN, lambda _: True)
    with closing(TaskReader(plan, options)) as reader, closing(RingPeer(reader._ring.address)) as writer:
        yield reader, writer, brokers
    for broker in brokers.values():
        broker.goes_on.set()


def test_while_one_broker_stands_in_its_answer_the_others_records_go_on_and_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    came: dict[int, list[int]] = {STOPS: [], FLOWS: []}
    began = time.monotonic()
    with reading(monkeypatch) as (reader, writer, brokers):
        for rows in reader.batches():
            for row in rows:
                assert row.kind != FAULT or not row.payload, row.payload
                if row.kind == RUN and row.lease is not None:
                    assert row.partition is not None and row.first_offset is not None
                    data = bytes(writer.slice(row.lease, row.bytes))
                    assert data[-100:-1] == bytes([row.first_offset % 256]) * 99
                    came[row.partition].append(row.first_offset)
                    writer.give_back(row.lease)
            writer.publish()
            if len(came[FLOWS]) >= 50:
                brokers[STOPS].goes_on.set()
            if len(came[STOPS]) > 5:
                break
            assert time.monotonic() - began < 60, came
    for offsets in came.values():
        assert offsets == list(range(len(offsets))), "in order, each once"
