"""What a ledger's reader makes of an offsets topic that has grown, in any order of its partitions, or was cut."""

from collections.abc import Sequence
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.log_offsets import LogOffsets
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.ledger import connect
from sparkmirror.ledger import reader as module
from sparkmirror.ledger.copies import HEADER, Mark
from sparkmirror.ledger.positions import PositionRecord, encode_key, encode_producer, encode_value, producer_key
from sparkmirror.ledger.reader import LedgerReader
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Cluster, Connector, Position, TopicPartition
from sparkmirror.policy.partitioner import murmur2_partition

OURS = Connector.of_dedicated_mode("A")
TOPICS = ledger_topics("A")
ORDERS = TopicPartition("orders", 3)
KEY = connect.encode_key(OURS, ORDERS)
HOME, ELSEWHERE = murmur2_partition(KEY, 8), murmur2_partition(KEY, 8) - 1


class Tail:
    """Gives the records, all at once."""

    def __init__(self, records: Sequence[TailRecord]) -> None:
        self.records = list(records)

    def read_to_end(self, _seconds: float) -> list[TailRecord]:
        return self.records

    def read_to(self, ends: dict[TopicPartition, int], *_: object) -> list[TailRecord]:
        return self.records

    def close(self) -> None:
        pass


def stored(at: int, next_offset: int, mark: Mark | None) -> TailRecord:
    headers = () if mark is None else ((HEADER, mark.header()[1]),)
    value = connect.encode_value(next_offset)
    return TailRecord(TopicPartition(TOPICS.offsets, at), 0, -1, KEY, value, headers)


@pytest.mark.parametrize(
    ("records", "is_said"),
    [
        ([stored(ELSEWHERE, 100, Mark(4, 9)), stored(HOME, 500, Mark(5, 1))], False),
        ([stored(ELSEWHERE, 500, Mark(5, 2)), stored(HOME, 100, Mark(5, 1))], False),
        ([stored(ELSEWHERE, 100, None), stored(HOME, 500, None)], True),
        ([stored(ELSEWHERE, 100, Mark(5, 2)), stored(HOME, 500, None)], True),
    ],
    ids=["ours", "ours, written late to the old partition", "MirrorMaker's", "MirrorMaker's after ours"],
)
def test_the_newest_of_two_positions_counts(
    records: list[TailRecord], is_said: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    partitions = [TopicPartition(TOPICS.offsets, at) for at in range(8)] + [TopicPartition(TOPICS.positions, 0)]
    monkeypatch.setattr(module, "_partitions", lambda *_, is_ours_needed: partitions)
    for order in permutations(records):
        made: Any = Tail(order)
        monkeypatch.setattr(module, "open_tail", lambda *_, made=made: made)
        with LedgerReader(Cluster("B", {}), TOPICS, OURS) as reader:
            assert {where: position.offset for where, position in reader.read_to_end().items()} == {ORDERS: 500}
    assert ("has grown" in caplog.text) is is_said


def test_positions_that_connects_topic_has_lost_are_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    home, key = TopicPartition(TOPICS.positions, 0), encode_key("A", ORDERS)
    value = encode_value(PositionRecord(Position(20), generation=1, task=0))
    monkeypatch.setattr(module, "_partitions", lambda *_, is_ours_needed: [home])
    monkeypatch.setattr(module, "open_tail", lambda *_: Tail([TailRecord(home, 0, -1, key, value, ())]))
    target: Any = SimpleNamespace(newest_ends=lambda _: SimpleNamespace(of=lambda _: 1))
    with LedgerReader(Cluster("B", {}), TOPICS, OURS) as reader:
        for _ in range(2):
            assert reader.read_through(target) == {ORDERS: Position(20)}
    (said,) = [record.getMessage() for record in caplog.records]
    assert "has no position of 1 partitions (orders-3, …)" in said
    assert TOPICS.offsets in said and TOPICS.positions in said


def test_of_two_producers_that_are_read_at_once_the_first_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that begin at the same time store one each: both must write with the same."""
    home, key = TopicPartition(TOPICS.positions, 0), producer_key("A")
    records = [TailRecord(home, at, -1, key, encode_producer(one), ()) for at, one in enumerate((1003, 1004))]
    monkeypatch.setattr(module, "_partitions", lambda *_, is_ours_needed: [home])
    monkeypatch.setattr(module, "open_tail", lambda *_: Tail(records))
    with LedgerReader(Cluster("B", {}), TOPICS, OURS) as reader:
        reader.read_to_end()
        assert (reader.view.offsets_producer, reader.view.last_offsets_producer) == (1003, 1004)


@pytest.mark.parametrize(
    ("start", "hint"),
    [
        (17, f"A transaction is open in {TOPICS.positions}-0 from offset 17 on"),
        (None, "Check that all its brokers are up"),
    ],
)
def test_a_ledger_in_which_a_transaction_stays_open_is_named(
    start: int | None, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that comes back without a marker leaves the transaction open for ever."""
    home = TopicPartition(TOPICS.positions, 0)

    class Silent(Tail):
        def read_to(self, ends: dict[TopicPartition, int], *_: object) -> list[TailRecord]:
            assert ends == {home: 20}
            raise ClusterUnreachable("Cluster B: 3 offsets could not be read.", "Check that all its brokers are up.")

    made: Any = Silent([])
    target: Any = SimpleNamespace(newest_ends=lambda partitions: LogOffsets("B", dict.fromkeys(partitions, 20)))
    monkeypatch.setattr(module, "_partitions", lambda *_, is_ours_needed: [home])
    monkeypatch.setattr(module, "open_tail", lambda *_: made)
    monkeypatch.setattr(module, "open_transactions", lambda _, partitions: dict.fromkeys(partitions, start))
    with LedgerReader(Cluster("B", {}), TOPICS, OURS) as reader, pytest.raises(ClusterUnreachable) as raised:
        reader.read_through(target)
    assert raised.value.hint.startswith(hint)
    assert raised.value.args[0] == "Cluster B: 3 offsets could not be read."
