"""Notes of offsets that hold what does not belong there, as the ledger has them."""

from uuid import UUID

from sparkmirror.ledger import misplaced, positions
from sparkmirror.ledger.misplaced import Misplaced
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.ledger.view import LedgerView
from sparkmirror.model import NO_TOPIC_ID, Connector, Position, Topic, TopicPartition

WHERE = TopicPartition("orders", 3)
THERE, OTHER = UUID(int=2), UUID(int=3)
FOUND = Misplaced(THERE, 13)
KEY = misplaced.encode_key("A", WHERE, FOUND)


def test_each_offset_of_each_topic_has_a_note_of_its_own() -> None:
    view = LedgerView(Connector.of_dedicated_mode("A"))
    for found in (FOUND, Misplaced(THERE, 9), Misplaced(OTHER, 13)):
        view.take_ours(misplaced.encode_key("A", WHERE, found), misplaced.encode_value("a marker came twice", 5, "run"))
    view.take_ours(misplaced.encode_key("B", WHERE, Misplaced(THERE, 4)), misplaced.encode_value("of another flow", 5))
    assert set(view.misplaced[WHERE]) == {FOUND, Misplaced(THERE, 9), Misplaced(OTHER, 13)}
    view.take_ours(KEY, None)
    assert set(view.misplaced[WHERE]) == {Misplaced(THERE, 9), Misplaced(OTHER, 13)}
    assert not view.records and not view.starts and not view.problems


def test_a_note_that_cannot_be_read_counts() -> None:
    view = LedgerView(Connector.of_dedicated_mode("A"))
    view.take_ours(KEY, b"{")
    assert "cannot be read" in view.misplaced[WHERE][FOUND]


def test_no_other_key_is_taken_for_a_note() -> None:
    for key in (None, b"", b"[]", positions.encode_key("A", WHERE), positions.accepted_key("A", WHERE), KEY + b" "):
        assert misplaced.decode_key(key) is None
    assert misplaced.decode_key(KEY) == ("A", WHERE, FOUND)


def test_it_counts_in_the_log_that_the_target_has_and_not_below_the_position() -> None:
    record = PositionRecord(Position(13), 1, 0, is_aligned=True)
    there = Topic("A.orders", THERE, 4, 1)
    assert FOUND.counts(None, there, 14) and FOUND.counts(record, there, 14)
    assert FOUND.counts(record, None, 14) and FOUND.counts(record, Topic("A.orders", NO_TOPIC_ID, 4, 1), 14)
    assert not FOUND.counts(record, there, 13), "the log ends before it"
    assert not FOUND.counts(record, Topic("A.orders", OTHER, 4, 1), 14)
    assert not FOUND.counts(PositionRecord(Position(14), 1, 0, is_aligned=True), there, 15)
