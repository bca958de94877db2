"""What rounds of a continuous comparison leave on the status topic."""

from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.records import encode_key, encode_record
from sparkmirror.verify.difference import Difference
from sparkmirror.verify.job import fold_round
from sparkmirror.verify.report import Compared, FlowReport

HERE = TopicPartition("orders", 0)


def report(different: int) -> FlowReport:
    first = Difference("value", 7, 9) if different else None
    counts = {"equal": 100 - different, "different": different}
    return FlowReport(FlowName("A", "B"), (Compared(HERE, HERE, counts, first),), sample_percent=5.0)


def test_rounds_are_counted_and_the_last_one_is_reported() -> None:
    one = fold_round(None, report(0), 10)
    assert (one.verdict, one.rounds, one.rounds_different, one.records_in_all) == ("equal", 1, 0, 100)
    two = fold_round(one, report(3), 20)
    assert (two.verdict, two.rounds, two.rounds_different, two.records_in_all) == ("different", 2, 1, 200)
    assert two.first_difference == "orders-0 at upstream offset 7, downstream offset 9 (value)"
    three = fold_round(two, report(0), 30)
    assert (three.verdict, three.rounds_different) == ("equal", 1), "another sample need not see it again"
    assert (three.first_difference, three.different_at_ms) == (two.first_difference, 20)
    all_equal = fold_round(three, report(0), 40, covers_all=True)
    assert (all_equal.first_difference, all_equal.different_at_ms) == ("", None)
    assert fold_round(three, report(2), 40, covers_all=True).different_at_ms == 40


def test_the_board_shows_the_last_comparison_of_its_flow_whatever_ran_since() -> None:
    record = fold_round(None, report(1), 10)
    key, value = encode_record("A", record)
    board = StatusBoard("A")
    assert board.take(key, value)
    assert board.verified == record
    assert not board.take(encode_key("verify", "other"), value)
