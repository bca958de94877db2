"""What a transaction without its marker is taken for, and which partitions wait until it is ended."""

import pytest

from sparkmirror.kafka.wire.open_transactions import Looked, OpenTransaction
from sparkmirror.ledger.committed_end import CommittedEnd, Verdict, judge
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.left_open import LeftOpen

ORDERS, BILLS = (TopicPartition(topic, 0) for topic in ("orders", "bills"))
END = CommittedEnd(7, 4, 100)


@pytest.mark.parametrize(
    ("epoch", "last_sequence", "verdict"),
    [
        (3, 500, Verdict.COMMITTED),
        (4, 99, Verdict.COMMITTED),
        (4, 100, Verdict.ABORTED),
        (5, 0, Verdict.ABORTED),
        (4, -1, Verdict.UNKNOWN),
    ],
)
def test_what_lies_open_was_committed_where_it_ends_before_what_is(
    epoch: int, last_sequence: int, verdict: Verdict
) -> None:
    assert judge(OpenTransaction(10, epoch, last_sequence), 7, END) is verdict


@pytest.mark.parametrize("end", [None, CommittedEnd(8, 4, 100)])
def test_without_an_end_of_that_producer_nobody_knows(end: CommittedEnd | None) -> None:
    assert judge(OpenTransaction(10, 4, 99), 7, end) is Verdict.UNKNOWN
    assert judge(None, 7, end) is Verdict.CLEAN


def test_sequence_numbers_begin_again() -> None:
    end = CommittedEnd(7, 4, 5)
    assert end.covers(4, (1 << 31) - 10)
    assert end.covers(4, 5) and not end.covers(4, 6)


def _buffer(where: TopicPartition, end: CommittedEnd | None = END) -> PartitionBuffer:
    buffer = PartitionBuffer(where, where, 0, -1)
    buffer.know_committed_end(end)
    return buffer


def _look(left: LeftOpen, looked: Looked, *buffers: PartitionBuffer, now: float = 0.0) -> None:
    for buffer in buffers:
        left.hold_back(buffer)
    assert left.look_at <= now
    assert set(left.begin_look(now)) == {buffer.target for buffer in buffers}
    left.take(looked, 9, now)


def test_partitions_are_looked_at_together_and_once() -> None:
    left = LeftOpen()
    orders, bills = _buffer(ORDERS), _buffer(BILLS)
    _look(left, Looked(7, {ORDERS: None, BILLS: None}), orders, bills)
    assert left.is_clean(ORDERS) and left.is_clean(BILLS)
    assert left.look_at == float("inf")
    assert not left.wanted


def test_each_is_ended_as_it_was_decided() -> None:
    left = LeftOpen()
    found = Looked(7, {ORDERS: OpenTransaction(0, 4, 99), BILLS: OpenTransaction(0, 5, 0)})
    _look(left, found, _buffer(ORDERS), _buffer(BILLS))
    assert (left.next_lot(), left.lot) == (False, (BILLS,))
    left.clear_lot()
    assert (left.next_lot(), left.lot) == (True, (ORDERS,))
    left.clear_lot()
    assert not left.wanted
    assert not left.is_clean(ORDERS), "the leader is asked once more"


def test_after_an_aborted_transaction_nothing_open_is_not_enough() -> None:
    """A batch of it may be on its way; a marker of a newer epoch forbids it."""
    left, buffer = LeftOpen(), _buffer(ORDERS)
    left.note([buffer])
    _look(left, Looked(7, {ORDERS: None}), buffer)
    assert (left.next_lot(), left.lot) == (False, (ORDERS,))
    left.clear_lot()
    _look(left, Looked(7, {ORDERS: None}), buffer)
    assert left.is_clean(ORDERS)


def test_what_may_not_be_read_is_committed_and_not_asked_for_again_and_again() -> None:
    left, buffer = LeftOpen(), _buffer(ORDERS)
    left.note([buffer])
    _look(left, Looked(7, refused={ORDERS}), buffer)
    assert (left.next_lot(), left.lot) == (True, (ORDERS,))
    left.clear_lot()
    assert left.is_clean(ORDERS)


def test_what_does_not_end_is_looked_at_after_a_pause_and_given_up() -> None:
    """As by the word of a broker that leads no more, which gets no marker."""
    left, buffer, now = LeftOpen(), _buffer(ORDERS), 0.0
    looks = 0
    while now < 20.0 and not left.give_up(now, 15.0):
        left.hold_back(buffer)
        if now >= left.look_at:
            left.begin_look(now)
            left.take(Looked(7, {ORDERS: OpenTransaction(0, 4, 99)}), 9, now)
            assert left.next_lot()
            left.clear_lot()
            looks += 1
        now += 0.01
    assert 15.0 < now < 16.0 and left.is_stubborn(ORDERS)
    assert looks < 60
    _look(left, Looked(7, {ORDERS: None}), buffer, now=now + 1.0)
    assert left.is_clean(ORDERS) and not left.is_stubborn(ORDERS)


def test_a_partition_that_no_leader_answers_for_stays_unknown_until_it_is_given_up() -> None:
    left, buffer = LeftOpen(), _buffer(ORDERS)
    _look(left, Looked(7, problem="away"), buffer)
    assert not left.is_clean(ORDERS) and not left.wanted
    assert 0.0 < left.look_at < 1.0
    assert left.give_up(14.0, 15.0) == set()
    left.begin_look(15.0)
    left.fail_look(15.0)
    assert left.give_up(16.0, 15.0) == {ORDERS}
    assert left.look_at == float("inf")


def test_a_partition_whose_leader_was_in_doubt_is_looked_at_again() -> None:
    left, buffer = LeftOpen(), _buffer(ORDERS)
    _look(left, Looked(7, {ORDERS: None}), buffer)
    left.doubt([ORDERS])
    assert not left.is_clean(ORDERS)


@pytest.mark.parametrize("end", [None, CommittedEnd(8, 1, 5)])
def test_where_nothing_is_open_all_before_has_ended(end: CommittedEnd | None) -> None:
    """What is found open later is of the epoch that began here."""
    left, buffer = LeftOpen(), _buffer(ORDERS, end)
    _look(left, Looked(7, {ORDERS: None}), buffer)
    assert buffer.committed_end == CommittedEnd(7, 9, 0)
    assert judge(OpenTransaction(3, 9, 5), 7, buffer.committed_end) is Verdict.ABORTED
