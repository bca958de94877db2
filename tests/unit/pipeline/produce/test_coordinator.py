"""The coordinator's connection over a socket pair: passing trouble is asked again, definite answers come out."""

import selectors
import socket
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.background import Outcome
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.coordinator import AddPartitions, Answer, EndTransaction, Initialize
from sparkmirror.kafka.wire.link import Link
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce import coordinator as module
from sparkmirror.pipeline.produce.coordinator import KEY, Coordinator

ID = "A-mm2-MirrorSourceConnector-0"
US = ProducerIdentity(7, 3)
VERSIONS = {22: (0, 6), 24: (0, 5), 26: (0, 5)}
END = EndTransaction(ID, US, second_protocol=True)


class Work:
    """Stands for the background: remembers that the coordinator was looked for."""

    def __init__(self) -> None:
        self.submitted = 0

    def submit(self, key: object, work: Callable[[], Any]) -> None:
        assert key == f"{KEY} {ID}"
        self.submitted += 1


class Room:
    """A coordinator of ours, and the broker's end of its connection."""

    def __init__(self, second: bool = True) -> None:
        self.work = Work()
        self.selector = selectors.DefaultSelector()
        self.level = 2 if second else 1
        self.coordinator = Coordinator(None, ID, self.work, self.selector, 5.0)  # type: ignore[arg-type]
        self.broker: socket.socket | None = None

    def connect(self) -> None:
        ours, self.broker = socket.socketpair()
        self.broker.settimeout(60)
        link = Link(ours, "broker:9092", VERSIONS, "sparkmirror", features={"transaction.version": self.level})
        self.coordinator.take(Outcome(KEY, link, None))

    def request(self, kind: Any, version: int) -> Any:
        assert self.broker is not None
        size = int.from_bytes(self.broker.recv(4), "big")
        return kind.decode(self.broker.recv(size), version=version, header=True)

    def respond(self, response: Any, pieces: int = 1) -> Answer | None:
        """As the broker; the answer that comes out, if any."""
        assert self.broker is not None
        response.with_header(correlation_id=1)
        encoded = response.encode(header=True)
        data = len(encoded).to_bytes(4, "big") + encoded
        answer = None
        for at in range(pieces):
            self.broker.sendall(data[at * len(data) // pieces : (at + 1) * len(data) // pieces])
            answer = self.coordinator.serve()
        return answer

    def close(self) -> None:
        self.coordinator.close()
        if self.broker is not None:
            self.broker.close()
        self.selector.close()


@pytest.fixture
def room() -> Iterator[Room]:
    room = Room()
    room.connect()
    yield room
    room.close()


def ended(code: int = 0, epoch: int = 4) -> Any:
    return EndTxnResponse(version=5, throttle_time_ms=0, error_code=code, producer_id=7, producer_epoch=epoch)


def test_a_question_asked_before_the_coordinator_is_found_goes_out_when_it_is() -> None:
    room = Room()
    room.coordinator.ask(END)
    assert room.work.submitted == 1
    assert room.coordinator.second_protocol is None
    room.connect()
    assert room.coordinator.second_protocol is True
    asked = room.request(EndTxnRequest, 5)
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.committed) == (ID, 7, 3, True)
    assert room.respond(ended(), pieces=3) == Answer(0, ProducerIdentity(7, 4))
    assert not room.coordinator.busy
    room.close()


def test_the_first_protocol_ends_with_the_same_epoch_and_adds_partitions_by_itself() -> None:
    room = Room(second=False)
    room.connect()
    room.coordinator.ask(EndTransaction(ID, US, second_protocol=False))
    room.request(EndTxnRequest, 4)
    assert room.respond(EndTxnResponse(version=4, throttle_time_ms=0, error_code=0)) == Answer(0)
    orders, bills = TopicPartition("orders", 1), TopicPartition("bills", 0)
    room.coordinator.ask(AddPartitions(ID, US, (orders, bills)))
    asked = room.request(AddPartitionsToTxnRequest, 3)
    assert {topic.name: list(topic.partitions) for topic in asked.v3_and_below_topics} == {"orders": [1], "bills": [0]}
    assert room.respond(added({orders: 55, bills: 29})) == Answer(0, None, {orders: 55, bills: 29})
    room.coordinator.ask(AddPartitions(ID, US, (orders,)))
    room.request(AddPartitionsToTxnRequest, 3)
    assert room.respond(added({orders: 47})) == Answer(47, None, {orders: 47})
    room.close()


def added(codes: dict[TopicPartition, int]) -> Any:
    topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    partition = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult.AddPartitionsToTxnPartitionResult
    results = [
        topic(
            name=where.topic,
            results_by_partition=[partition(partition_index=where.partition, partition_error_code=code)],
        )
        for where, code in codes.items()
    ]
    return AddPartitionsToTxnResponse(version=3, throttle_time_ms=0, results_by_topic_v3_and_below=results)


def test_a_transaction_that_is_still_being_completed_is_asked_for_again_until_it_is(room: Room) -> None:
    room.coordinator.ask(Initialize(ID, 60_000, US))
    for _ in range(3):
        asked = room.request(InitProducerIdRequest, 5)
        assert (asked.producer_id, asked.producer_epoch, asked.transaction_timeout_ms) == (7, 3, 60_000)
        assert room.respond(initialized(51)) is None
        assert room.coordinator.busy
        room.coordinator.poll(room.coordinator.wake_at)
    room.request(InitProducerIdRequest, 5)
    assert room.respond(initialized(0)) == Answer(0, ProducerIdentity(8, 0))


def initialized(code: int) -> Any:
    return InitProducerIdResponse(
        version=5, throttle_time_ms=0, error_code=code, producer_id=8 if not code else -1, producer_epoch=0
    )


@pytest.mark.parametrize("code", [15, 16])
def test_a_coordinator_that_moved_is_found_again_and_asked_the_same(room: Room, code: int) -> None:
    room.coordinator.ask(END)
    room.request(EndTxnRequest, 5)
    assert room.respond(ended(code)) is None
    room.coordinator.poll(time.monotonic() + 1)
    assert room.work.submitted == 1
    room.connect()
    assert room.request(EndTxnRequest, 5).producer_epoch == 3
    assert room.respond(ended()) == Answer(0, ProducerIdentity(7, 4))


def test_a_connection_that_breaks_or_falls_silent_is_opened_again_and_the_question_repeated(room: Room) -> None:
    room.coordinator.ask(END)
    assert room.broker is not None
    room.broker.close()
    assert room.coordinator.serve() is None
    room.coordinator.poll(time.monotonic() + 1)
    room.connect()
    room.request(EndTxnRequest, 5)
    room.coordinator.poll(time.monotonic() + 6)
    room.coordinator.poll(time.monotonic() + 7)
    assert room.work.submitted == 2, "silence for longer than any broker may take"
    room.coordinator.take(Outcome(KEY, None, ClusterUnreachable("no broker answered")))
    assert room.coordinator.problem == "no broker answered"


def test_what_cannot_be_read_drops_the_connection(room: Room) -> None:
    room.coordinator.ask(END)
    assert room.broker is not None
    room.broker.sendall(b"\0\0\0\x06nonsen")
    assert room.coordinator.serve() is None
    room.coordinator.poll(time.monotonic() + 1)
    assert room.work.submitted == 1


def test_a_new_question_replaces_one_whose_answer_may_still_come(room: Room) -> None:
    room.coordinator.ask(END)
    room.coordinator.ask(Initialize(ID, 60_000, US))
    room.coordinator.poll(time.monotonic() + 1)
    room.connect()
    assert room.request(InitProducerIdRequest, 5).producer_epoch == 3


def test_the_coordinator_is_looked_for_at_another_server_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is cut off from the others names itself, however often it is asked."""
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(module, "find", lambda settings, _: asked.append(settings.bootstrap_servers))
    settings, works = ClientSettings("B", ("one:1", "two:1"), "test"), list[Callable[[], Any]]()
    work: Any = SimpleNamespace(submit=lambda _, work: works.append(work))
    coordinator = Coordinator(settings, ID, work, selectors.DefaultSelector(), 5.0)
    for second in range(3):
        coordinator.poll(float(second))
        works.pop()()
    assert asked == [("one:1", "two:1"), ("two:1", "one:1"), ("one:1", "two:1")]
