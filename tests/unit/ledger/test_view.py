"""The fold of ledger records into positions."""

from sparkmirror.ledger import connect, positions
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import Connector, Position, TopicPartition

ORDERS = TopicPartition("orders", 0)
MM2 = Connector.of_dedicated_mode("A")
KEY = connect.encode_key(MM2, ORDERS)
OUR_KEY = positions.encode_key("A", ORDERS)


def ours(offset: int, epoch: int = 3) -> bytes:
    return positions.encode_value(PositionRecord(Position(offset, epoch), generation=1, task=0))


def test_the_last_value_of_a_key_wins() -> None:
    view = LedgerView(MM2)
    for next_offset in (10, 30, 20):
        assert view.take_connect(KEY, connect.encode_value(next_offset)) == ORDERS
    assert view.positions == {ORDERS: Position(20)}


def test_epoch_and_id_are_used_only_while_both_records_agree() -> None:
    view = LedgerView(MM2)
    view.take_connect(KEY, connect.encode_value(10))
    assert view.take_ours(OUR_KEY, ours(10)) == ORDERS
    assert view.positions == {ORDERS: Position(10, 3)}
    view.take_connect(KEY, connect.encode_value(50))
    assert view.positions == {ORDERS: Position(50)}
    assert view.records[ORDERS].position.offset == 10


def test_a_tombstone_deletes_the_position() -> None:
    view = LedgerView(MM2)
    view.take_connect(KEY, connect.encode_value(10))
    view.take_ours(OUR_KEY, ours(10))
    assert view.take_connect(KEY, None) == ORDERS
    assert view.positions == {}
    assert view.position(ORDERS) is None
    view.take_ours(OUR_KEY, None)
    assert view.records == {}


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
    view.take_connect(KEY, b'{"offset":"ten"}')
    assert view.positions == {other: Position(7)}
    assert "orders-0" in view.problems[ORDERS]
    view.take_connect(KEY, connect.encode_value(11))
    assert view.positions == {other: Position(7), ORDERS: Position(11)}
    assert view.problems == {}


def test_a_damaged_record_of_ours_leaves_connects_in_force() -> None:
    view = LedgerView(MM2)
    view.take_connect(KEY, connect.encode_value(10))
    view.take_ours(OUR_KEY, ours(10))
    view.take_ours(OUR_KEY, b"garbage")
    assert view.positions == {ORDERS: Position(10)}
