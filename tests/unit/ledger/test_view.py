"""The fold of ledger records into positions."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from sparkmirror.ledger import connect, positions
from sparkmirror.ledger.copies import Mark
from sparkmirror.ledger.positions import (
    LOG_HEADER,
    Accepted,
    PositionRecord,
    Tenure,
    accepted_key,
    encode_accepted,
)
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Connector, Position, TopicPartition

ORDERS = TopicPartition("orders", 0)
MM2 = Connector.of_dedicated_mode("A")
KEY = connect.encode_key(MM2, ORDERS)
OUR_KEY = positions.encode_key("A", ORDERS)


def ours(offset: int, epoch: int = 3) -> bytes:
    return positions.encode_value(PositionRecord(Position(offset, ((epoch, 0),)), generation=1, task=0))


def test_the_last_value_of_a_key_wins() -> None:
    view = LedgerView(MM2)
    for next_offset in (10, 30, 20):
        assert view.take_connect(KEY, connect.encode_value(next_offset)) == ORDERS
    assert view.positions == {ORDERS: Position(20)}


def test_epoch_and_id_are_used_only_while_both_records_agree() -> None:
    view = LedgerView(MM2)
    view.take_connect(KEY, connect.encode_value(10))
    assert view.take_ours(OUR_KEY, ours(10)) == ORDERS
    assert view.positions == {ORDERS: Position(10, ((3, 0),))}
    view.take_connect(KEY, connect.encode_value(50))
    assert view.positions == {ORDERS: Position(50)}
    assert view.records[ORDERS].position.offset == 10


def test_what_a_writer_of_before_stores_when_it_wakes_does_not_take_the_position_back() -> None:
    view = LedgerView(MM2)
    view.take_ours(OUR_KEY, ours(20))
    view.take_connect(KEY, connect.encode_value(10), headers=_written(0))
    assert view.positions == {ORDERS: Position(20, ((3, 0),))}
    for headers in (_written(1), ()):
        view.take_connect(KEY, connect.encode_value(10), headers=headers)
        assert view.positions == {ORDERS: Position(10)}


def test_a_position_is_whole_though_a_writer_of_before_has_stored_another_late() -> None:
    view = LedgerView(MM2)
    view.take_ours(OUR_KEY, ours(20))
    view.take_connect(KEY, connect.encode_value(10), headers=_written(1))
    assert not view.is_whole(ORDERS), "ours may be on its way"
    view.take_connect(KEY, connect.encode_value(10), headers=_written(0))
    assert view.is_whole(ORDERS)


def _written(generation: int) -> Sequence[tuple[str, bytes]]:
    key, value = Mark(generation, 7).header()
    return ((key.decode(), value),)


def test_the_greatest_mark_counts_whatever_its_generation() -> None:
    """Each task has a generation of its own, and its clock may be behind."""
    view = LedgerView(MM2)
    for partition, mark in enumerate((Mark(6, 5_000_000), Mark(7, 1_000_000))):
        where = TopicPartition("orders", partition)
        name, value = mark.header()
        view.take_connect(connect.encode_key(MM2, where), connect.encode_value(1), headers=[(name.decode(), value)])
    assert view.last_sequence == 5_000_000


def test_a_position_is_whole_while_both_records_agree() -> None:
    view = LedgerView(MM2)
    assert not view.is_whole(ORDERS)
    view.take_ours(OUR_KEY, ours(10))
    assert not view.is_whole(ORDERS), "nothing of Connect's yet"
    view.take_connect(KEY, connect.encode_value(10))
    assert view.is_whole(ORDERS)
    view.take_ours(OUR_KEY, ours(20))
    assert not view.is_whole(ORDERS)


def test_a_log_that_connects_record_tells_counts_whatever_ours_says() -> None:
    view = LedgerView(MM2)
    view.take_ours(OUR_KEY, ours(10))
    ahead = Position(50, ((3, 0), (4, 40)))
    view.take_connect(KEY, connect.encode_value(50), "", [(positions.LOG_HEADER, positions.encode_log(ahead))])
    assert view.positions == {ORDERS: ahead}


def test_a_tombstone_deletes_the_position() -> None:
    view = LedgerView(MM2)
    view.take_connect(KEY, connect.encode_value(10))
    view.take_ours(OUR_KEY, ours(10))
    assert view.take_connect(KEY, None) == ORDERS
    assert view.positions == {}
    assert view.position(ORDERS) is None
    view.take_ours(OUR_KEY, None)
    assert view.records == {}


def test_where_connects_topic_has_lost_its_record_ours_counts() -> None:
    """The partition would begin by auto.offset.reset else: with `latest`, records were lost without a word."""
    view = LedgerView(MM2)
    view.take_ours(OUR_KEY, ours(20))
    assert view.without_connect == {ORDERS}
    assert view.positions == {ORDERS: Position(20, ((3, 0),))}
    assert not view.is_whole(ORDERS), "Connect's may be on its way"
    released = PositionRecord(Position(20, ((3, 0),)), generation=1, task=0, released=True)
    view.take_ours(OUR_KEY, positions.encode_value(released))
    assert view.is_whole(ORDERS), "a release comes behind Connect's, which is lost"
    view.take_connect(KEY, connect.encode_value(20))
    assert view.without_connect == set()
    view.take_connect(KEY, None)
    assert view.without_connect == set(), "somebody has deleted it"
    assert not view.is_whole(ORDERS)
    assert view.positions == {}


def test_other_flows_in_the_same_topics_are_not_seen() -> None:
    view = LedgerView(MM2)
    assert (
        view.take_connect(connect.encode_key(Connector.of_dedicated_mode("C"), ORDERS), connect.encode_value(10))
        is None
    )
    assert view.take_ours(positions.encode_key("C", ORDERS), ours(10)) is None
    assert view.take_connect(b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A"}]', b'{"offset":0}') is None
    assert (view.positions, view.records) == ({}, {})


def test_an_unreadable_position_is_a_problem_of_its_partition_alone_until_it_is_overwritten() -> None:
    view = LedgerView(MM2)
    other = TopicPartition("orders", 1)
    view.take_connect(KEY, connect.encode_value(10))
    view.take_connect(connect.encode_key(MM2, other), connect.encode_value(7))
    view.take_connect(KEY, b'{"offset":"ten"}', "topic offsets, partition 3, offset 12")
    assert view.positions == {other: Position(7)}
    assert view.problems[ORDERS].startswith("its position is unknown: topic offsets, partition 3, offset 12: ")
    view.take_connect(KEY, connect.encode_value(11))
    assert view.positions == {other: Position(7), ORDERS: Position(11)}
    assert view.problems == {}


@pytest.mark.parametrize(
    "value", [b"garbage", b'{"offset":7}', b'{"generation":-1,"task":0,"offset":7}', b"{" * 100_000]
)
def test_a_damaged_record_of_ours_leaves_position_and_generation_unknown(value: bytes) -> None:
    view = LedgerView(MM2)
    view.take_connect(KEY, connect.encode_value(10))
    view.take_ours(OUR_KEY, ours(10))
    view.take_ours(OUR_KEY, value, "topic positions, partition 0, offset 9")
    assert (view.positions, view.records, list(view.tenures())) == ({}, {}, [])
    assert "topic positions, partition 0, offset 9" in view.problems[ORDERS]
    assert "topic positions, partition 0, offset 9" in view.unknown_tenures[ORDERS]
    view.take_connect(KEY, connect.encode_value(11))
    assert view.positions == {}, "a position of Connect's does not tell what ours said"
    view.take_ours(OUR_KEY, None)
    assert view.positions == {ORDERS: Position(11)}
    assert (view.problems, view.unknown_tenures) == ({}, {})


@pytest.mark.parametrize("damage", [b'"offset":-1', b'"offset":9223372036854775807', b'"offset":1,"id":"none"'])
def test_a_record_of_which_the_writer_can_still_be_read_leaves_its_position_alone_unknown(damage: bytes) -> None:
    view = LedgerView(MM2)
    view.take_connect(KEY, connect.encode_value(10))
    view.take_ours(OUR_KEY, b'{"generation":7,"task":3,"run":"r",' + damage + b"}")
    assert view.positions == {}
    assert ORDERS in view.problems
    assert (list(view.tenures()), view.unknown_tenures) == ([Tenure(7, 3, "r")], {})


def test_a_key_that_is_spelled_otherwise_is_another_key() -> None:
    view = LedgerView(MM2)
    for key in (b'["A", "orders", 0]', b'["A","orders",0.0]', b'["A","orders",-1]', b"[" * 100_000, b"\xff", None):
        assert view.take_ours(key, b"garbage") is None
        assert view.take_connect(key, b"garbage") is None
    assert view.problems == {}


@pytest.mark.parametrize(
    "told", [b"", None, b"garbage", b'["no uuid",[]]', b'["%s",[[-1,2]]]' % str(UUID(int=7)).encode()]
)
def test_a_position_whose_log_cannot_be_read_is_unknown(told: bytes | None) -> None:
    view = LedgerView(MM2)
    view.take_connect(KEY, connect.encode_value(10), "topic offsets, partition 3, offset 12", ((LOG_HEADER, told),))
    assert view.positions == {}
    assert "topic offsets, partition 3, offset 12" in view.problems[ORDERS]
    view.take_connect(KEY, connect.encode_value(10), headers=(("another", told),))
    assert view.positions == {ORDERS: Position(10)}


def test_what_a_person_accepts_is_kept_beside_positions_until_it_is_taken_back_or_cannot_be_read() -> None:
    view, key, value = LedgerView(MM2), accepted_key("A", ORDERS), encode_accepted(Accepted(90, UUID(int=1), 5, "me"))
    assert view.take_ours(key, value) is None
    view.take_ours(accepted_key("B", ORDERS), value)
    assert view.accepted == {ORDERS: Accepted(90, UUID(int=1), 5, "me")}
    assert (view.records, view.positions, view.problems) == ({}, {}, {})
    view.take_ours(key, b"{")
    assert view.accepted == {}
    view.take_ours(key, value)
    view.take_ours(key, None)
    assert view.accepted == {}
