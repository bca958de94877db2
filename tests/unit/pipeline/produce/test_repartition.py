"""A run of one source partition becomes batches for the partitions of a topic that has another number of them."""

from uuid import UUID

import pytest
from tests.flows import flow_of
from tests.manual_clock import ManualClock

from sparkmirror.batch.header import Codec, parse_header
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.batch.rewrite import Limits
from sparkmirror.model import Cluster, Topic, TopicPartition
from sparkmirror.pipeline.produce.delivery import Bundle, Delivery
from sparkmirror.pipeline.produce.repartition import NO_TOPIC, NOT_SHOWN, Repartition, spread

WHERE = TopicPartition("orders", 2)


def run(batches: list[bytes], first_offset: int, next_offset: int) -> Delivery:
    payload = memoryview(bytearray(b"".join(batches)))
    return Delivery("run", WHERE, "orders", first_offset, next_offset, 0, 0, 0, payload, None)


def test_a_run_that_begins_inside_a_batch_brings_the_records_from_its_position_on() -> None:
    first = encode_batch([Record(at, at, b"k", f"{at}".encode()) for at in range(10)], Codec.ZSTD)
    second = encode_batch([Record(10, 10, b"k", b"10")], Codec.ZSTD, base_offset=10)
    pieces = spread(run([first, second], 7, 11), TopicPartition("orders", 0), 4)
    ((target, piece),) = pieces
    assert [record.value for record in decode_records(bytes(piece.data))] == [b"7", b"8", b"9", b"10"]
    assert target.topic == "orders"
    assert [(span.first_offset, span.records) for span in piece.spans] == [(7, 4)]


def test_batches_are_of_the_size_and_the_codec_and_have_the_times_that_are_asked_for() -> None:
    batch = encode_batch([Record(at, 100 * at, b"k", bytes(300)) for at in range(10)])
    limits = Limits(1000, Codec.LZ4, 500)
    pieces = [piece for _, piece in spread(run([batch], 0, 10), TopicPartition("orders", 0), 3, limits=limits)]
    headers = [parse_header(piece.data, 0) for piece in pieces]
    assert all(one.codec is Codec.LZ4 and one.total_bytes <= 1000 for one in headers)
    records = [record for piece in pieces for record in decode_records(bytes(piece.data))]
    assert [record.timestamp for record in records] == [min(100 * at, 500) for at in range(10)]


def test_records_without_a_key_stay_together_and_move_on_with_the_next_run() -> None:
    batch = encode_batch([Record(at, at, None, b"v") for at in range(5)])
    homes = [spread(run([batch], 0, 5), TopicPartition("orders", turn), 3) for turn in range(4)]
    assert [[target.partition for target, _ in pieces] for pieces in homes] == [[0], [1], [2], [0]]


OLD, NEW = UUID(int=1), UUID(int=2)


class Clusters:
    """Stands for both clusters' admins: how many partitions the topic has on each, 0 for none shown."""

    def __init__(self) -> None:
        self.partitions = {"A": 4, "B": 3}
        self._alias = ""

    def of(self, cluster: Cluster) -> "Clusters":
        self._alias = cluster.alias
        return self

    def list_topics(self, names: list[str]) -> dict[str, Topic]:
        count = self.partitions[self._alias]
        return {name: Topic(name, NEW, count, 1) for name in names if count}


class Desk:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clusters = Clusters()
        self.clock = ManualClock()
        self.topic_id: UUID | None = None
        self.repartition = Repartition(flow_of("partitioning = key"), self.clock)
        monkeypatch.setattr(self.repartition, "_admins", self.clusters)

    def bundle(self, after_seconds: float = 0.0) -> Bundle | None:
        self.clock.now += after_seconds
        batch = encode_batch([Record(0, 0, b"k", b"v")])
        return self.repartition.bundle(run([batch], 0, 1), topic_id=lambda _: self.topic_id)


def test_nothing_is_decided_while_either_cluster_does_not_show_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """That the source does not show it says nothing about its number of partitions."""
    desk = Desk(monkeypatch)
    for alias, reason in (("A", NOT_SHOWN), ("B", NO_TOPIC)):
        desk.clusters.partitions = {"A": 4, "B": 3, alias: 0}
        for pause in (3.0, 0.5):
            made = desk.bundle(pause)
            assert made is not None and made.problem.startswith(reason)
    desk.clusters.partitions = {"A": 4, "B": 3}
    made = desk.bundle(3.0)
    assert made is not None and made.pieces and not made.problem


def test_the_decision_holds_until_the_target_topic_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(monkeypatch)
    desk.clusters.partitions = {"A": 4, "B": 4}
    assert desk.bundle() is None, "as many: it passes as it is"
    desk.clusters.partitions["B"] = 6
    for desk.topic_id in (None, OLD, None, OLD):
        assert desk.bundle(10.0) is None
    desk.topic_id = NEW
    made = desk.bundle(10.0)
    assert made is not None and made.pieces
