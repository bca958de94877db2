"""A batch is written once whatever a broker answers: sent again with its number, to a new leader, in smaller parts."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.manual_clock import ManualClock

from sparkmirror.batch.header import parse_header
from sparkmirror.batch.piece import Piece, Span
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.errors import ClusterError, ClusterUnreachable, RecordTooLarge
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.settings import client_settings
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire import leader_search
from sparkmirror.kafka.wire.data_requests import ProducedPartition, ProduceResponse
from sparkmirror.kafka.wire.lookup import ClusterView
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.records import batch_producer
from sparkmirror.records.batch_producer import Appended, BatchProducer

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
SETTINGS = client_settings(Cluster("kafka", {"bootstrap.servers": "b:1"}), "records")
Answers = Callable[[TopicPartition, int], int | Exception]


class Broker:
    """Notes what it is sent, and answers as it is asked to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[tuple[TopicPartition, int, int, list[bytes | None]]] = []
        self.answers: Answers = lambda *_: 0
        self.looked_up = 0
        self.leaders: list[int] = []
        self.producers = 0
        self.clock = ManualClock()
        self._sent: list[tuple[TopicPartition, bytes]] = []
        self._answer = ProduceResponse(0, [])
        monkeypatch.setattr(batch_producer, "dial", lambda *_: self._link())
        monkeypatch.setattr(leader_search, "look_up", self._look_up)
        monkeypatch.setattr(batch_producer, "fresh_producer", self._fresh)
        monkeypatch.setattr(wire, "encode_produce", self._encode)
        monkeypatch.setattr(wire, "decode_produce", lambda *_: self._answer)

    def producer(self, delivery_seconds: float) -> BatchProducer:
        return BatchProducer(SETTINGS, delivery_seconds, clock=self.clock)

    def _link(self) -> Any:
        return SimpleNamespace(
            version=lambda *_: 12, correlation=0, client_id="x", post=lambda _: None, close=lambda: None,
            collect=self._collect, reauthenticate_at=float("inf"), socket=SimpleNamespace(settimeout=lambda _: None),
        )  # fmt: skip

    def _look_up(self, _settings: object, topics: Iterable[str], *_: object) -> ClusterView:
        self.looked_up += 1
        topics = set(topics) & {"t"}
        leaders = {A: self.leaders.pop() if self.leaders else 1, B: 1} if topics else {}
        return ClusterView({1: ("b", 1)}, leaders, sizes=dict.fromkeys(topics, 2))

    def _fresh(self, _settings: object) -> ProducerIdentity:
        self.producers += 1
        return ProducerIdentity(self.producers, 0)

    def _encode(self, items: Any, *, timeout_ms: int, transactional_id: str | None) -> list[bytes]:
        assert transactional_id is None
        self._sent = [(TopicPartition(one.topic_key, one.partition), bytes(one.records)) for one in items]
        return [b""]

    def _collect(self) -> bytes:
        parts = []
        for where, data in self._sent:
            header = parse_header(data, 0)
            values = [one.value for one in decode_records(data)]
            self.taken.append((where, header.producer_id, header.base_sequence, values))
            answer = self.answers(where, len(self.taken))
            if isinstance(answer, Exception):
                raise answer
            parts.append(ProducedPartition(where.topic, where.partition, answer, 100, ""))
        self._answer = ProduceResponse(0, parts)
        return b""


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    return Broker(monkeypatch)


def piece(*values: bytes) -> Piece:
    data = bytearray(encode_batch([Record(0, 0, None, value) for value in values]))
    return Piece(data, (Span(0, len(values)),), len(values))


def test_sequence_numbers_count_the_records_of_each_partition(broker: Broker) -> None:
    producer = broker.producer(5)
    assert producer.size_of("t") == 2
    producer.send({A: piece(b"1", b"2"), B: piece(b"x")})
    producer.send({A: piece(b"3")})
    producer.flush()
    assert broker.taken == [(A, 1, 0, [b"1", b"2"]), (B, 1, 0, [b"x"]), (A, 1, 2, [b"3"])]
    assert producer.appended == {A: Appended(3, 100, 102), B: Appended(1, 100, 101)}
    assert broker.looked_up == 1


def test_a_batch_whose_answer_was_lost_is_sent_again_with_its_number(broker: Broker) -> None:
    broker.answers = lambda _, count: ConnectionResetError("away") if count == 1 else 46
    producer = broker.producer(5)
    producer.send({A: piece(b"1")})
    producer.flush()
    assert broker.taken == [(A, 1, 0, [b"1"])] * 2
    assert producer.appended[A].records == 1
    assert broker.looked_up == 2, "its leader may be another one"


def test_a_batch_whose_answer_is_read_late_is_tried_as_long_as_any(broker: Broker) -> None:
    """Rows may come slowly: what was sent last is looked at when the next are there."""
    broker.answers = lambda _, count: 6 if count < 3 else 0
    producer = broker.producer(5)
    producer.send({A: piece(b"1")})
    broker.clock.now += 600
    producer.send({A: piece(b"2")})
    producer.flush()
    assert [values for *_, values in broker.taken] == [[b"1"]] * 3 + [[b"2"]]


def test_a_leader_that_has_moved_is_looked_up(broker: Broker) -> None:
    broker.answers = lambda where, count: 6 if where == A and count < 3 else 0
    producer = broker.producer(5)
    producer.send({A: piece(b"1"), B: piece(b"x")})
    producer.flush()
    assert [where for where, *_ in broker.taken] == [A, B, A]
    assert broker.looked_up == 2


@pytest.mark.parametrize("code", [7, 19, 20])
def test_a_leader_without_replicas_is_looked_up(broker: Broker, code: int) -> None:
    """It may be cut off from the others, of which one leads by now."""
    broker.answers = lambda _, count: code if count < 3 else 0
    producer = broker.producer(5)
    producer.send({A: piece(b"1")})
    producer.flush()
    assert (len(broker.taken), broker.looked_up) == (3, 3)


def test_a_leader_without_an_address_is_looked_up(broker: Broker) -> None:
    """A Metadata answer may name a leader that is not in its list of brokers: that was a KeyError in the task."""
    broker.leaders = [9, 9]
    producer = broker.producer(5)
    producer.send({A: piece(b"1"), B: piece(b"x")})
    producer.flush()
    assert [where for where, *_ in broker.taken] == [B, A]
    broker.leaders = [9] * 100
    late = broker.producer(0)
    with pytest.raises(ClusterUnreachable, match="the leader of t-0, broker 9, has no address"):
        late.send({A: piece(b"1")})
        late.flush()


def test_a_producer_that_brokers_no_longer_know_begins_again(broker: Broker) -> None:
    producer = broker.producer(5)
    producer.send({A: piece(b"1"), B: piece(b"x")})
    producer.flush()
    broker.answers = lambda where, count: 59 if where == A and count == 3 else 0
    producer.send({A: piece(b"2"), B: piece(b"y")})
    producer.flush()
    assert broker.taken[2:] == [(A, 1, 1, [b"2"]), (B, 1, 1, [b"y"]), (A, 2, 0, [b"2"])]


def test_a_batch_that_is_too_large_goes_in_parts(broker: Broker) -> None:
    broker.answers = lambda _, count: 10 if count in (1, 2) else 0
    producer = broker.producer(5)
    producer.send({A: piece(b"1", b"2", b"3", b"4")})
    producer.flush()
    assert [(sequence, values) for _, _, sequence, values in broker.taken] == [
        (0, [b"1", b"2", b"3", b"4"]), (0, [b"1", b"2"]), (0, [b"1"]), (1, [b"2"]), (2, [b"3", b"4"])
    ]  # fmt: skip
    assert producer.appended[A].records == 4
    broker.answers = lambda *_: 10
    producer.send({A: piece(b"1")})
    with pytest.raises(RecordTooLarge, match="t-0 does not take a record of"):
        producer.flush()


def test_what_a_broker_refuses_is_an_error_that_says_why(broker: Broker) -> None:
    broker.answers = lambda *_: 32
    producer = broker.producer(5)
    producer.send({A: piece(b"1")})
    with pytest.raises(ClusterError, match=r"Records cannot be written to t-0: .*InvalidTimestamp \(32\)"):
        producer.flush()


def test_what_nobody_takes_in_time_is_an_error_with_the_last_reason(broker: Broker) -> None:
    broker.answers = lambda *_: 19
    producer = broker.producer(0)
    producer.send({A: piece(b"1")})
    with pytest.raises(ClusterUnreachable, match=r"did not take records of t-0 in 0 s: .*NotEnoughReplicas"):
        producer.flush()


def test_a_topic_that_is_not_there_is_an_error(broker: Broker) -> None:
    """It is looked for a little, by a few questions."""
    began = broker.clock.now
    with pytest.raises(ClusterError, match="records cannot go to topic u: UNKNOWN_TOPIC_OR_PARTITION"):
        broker.producer(5).size_of("u")
    assert 2.0 < broker.clock.now - began < 2.2
    assert broker.looked_up < 50


def test_a_batch_in_doubt_is_not_sent_in_parts(broker: Broker) -> None:
    """The first answer was lost, and then the topic's limit was lowered."""
    broker.answers = lambda _, count: ConnectionResetError("away") if count == 1 else 10
    producer = broker.producer(5)
    producer.send({A: piece(b"1", b"2")})
    with pytest.raises(ClusterError, match=r"no longer takes a batch of .* and may have taken it when"):
        producer.flush()


def test_no_new_producer_id_while_a_batch_is_in_doubt(broker: Broker) -> None:
    """B's answer may have been that it is written: under another id it would be written again."""
    broker.answers = lambda where, count: {1: 59, 2: 20, 3: 59}.get(count, 0)
    producer = broker.producer(5)
    producer.send({A: piece(b"1"), B: piece(b"x")})
    producer.flush()
    assert broker.taken == [
        (A, 1, 0, [b"1"]), (B, 1, 0, [b"x"]), (A, 1, 0, [b"1"]), (B, 1, 0, [b"x"]), (A, 2, 0, [b"1"])
    ]  # fmt: skip
