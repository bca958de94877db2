"""What a comparison says: verdicts, sentences, and a page on which no record can do harm."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.verify import plan
from sparkmirror.verify.difference import Difference, Seen, describe, render_bytes
from sparkmirror.verify.plan import Uncompared
from sparkmirror.verify.report import Compared, FlowReport, exit_status, render_html, render_report
from sparkmirror.views.table import page_lines

HERE, THERE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
RECORD = Seen(7, 1000, b"k", b"<script>alert(1)</script>\x00\n", ((b"<h>", None),)).as_json()


def report(counts: dict[str, int], **fields: Any) -> FlowReport:
    found = Compared(HERE, THERE, {"bytes": 1000, "identical_bytes": 900} | counts, **fields)
    return FlowReport(FlowName("A", "B"), (found,), seconds=2.0)


def said(one: FlowReport) -> str:
    return "\n".join(page_lines(render_report(one)))


def test_all_equal_is_one_sentence_and_status_0() -> None:
    found = report({"equal": 5000})
    assert said(found) == (
        "A->B: equal: 5,000 records of 1 partitions compared in 2.0 s, 2,500/s; 90 % of the bytes in identical batches"
    )
    assert exit_status([found]) == 0


def test_it_says_in_how_many_partitions_offsets_are_identical_where_all_is_equal() -> None:
    found = replace(report({"equal": 5000}), by_offset=4, identical=(2, 1))
    assert said(found).endswith("; offsets are identical in 2 partitions (of 1 it is not known)")
    assert "offsets" not in said(replace(found, identical=(0, 0))), "those that are compared are FAILED"
    assert "offsets are" not in said(replace(report({"equal": 10, "missing": 2}), by_offset=4, identical=(2, 1)))
    shown = found.as_json()
    assert [shown[name] for name in ("by_offset", "identical_offsets", "identical_offsets_unknown")] == [4, 2, 1]


def test_a_difference_shows_both_records_and_their_offsets() -> None:
    first = Difference("value", 7, 9, RECORD, None)
    found = report({"equal": 10, "different": 1, "missing": 2}, difference=first)
    assert exit_status([report({"equal": 1}), found]) == 1
    text = said(found)
    assert "DIFFERENT, 3 records" in text
    assert "orders-0: the first difference (value) is at upstream offset 7, downstream offset 9" in text
    assert r'value "<script>alert(1)</script>\x00\x0a", headers [<h>=null]' in text
    assert "target: no such record" in text


def test_what_may_differ_is_counted_and_is_no_difference() -> None:
    found = report({"equal": 10, "repeated": 3, "holes": 2, "lost": 5})
    assert found.verdict == "equal"
    assert "3 records are on the target twice" in said(found) and "see `sparkmirror gaps`" in said(found)


def test_what_could_not_be_compared_is_not_called_equal() -> None:
    nothing = report({"equal": 0}, uncompared=(Uncompared(HERE, 0, 100, plan.NO_MAP),))
    assert (nothing.verdict, exit_status([nothing])) == ("unproven", 4)
    assert f"100 source offsets were not compared: {plan.NO_MAP}" in said(nothing)
    older = report({"equal": 10}, uncompared=(Uncompared(HERE, 0, 100, plan.SOURCE_DELETED),))
    assert older.verdict == "equal"
    unread = report({"equal": 10}, problems=("Cluster A sends no more.",))
    assert unread.verdict == "unproven" and "orders-0: Cluster A sends no more." in said(unread)


def test_a_flow_that_has_mirrored_nothing_yet_is_not_called_equal() -> None:
    begun = FlowReport(FlowName("A", "B"), (), behind=5000, chosen=2)
    assert (begun.verdict, exit_status([begun])) == ("unproven", 4)
    assert "5,000 source offsets are not mirrored yet" in said(begun)
    empty = FlowReport(FlowName("A", "B"), (), chosen=2)
    assert empty.verdict == "equal", "there is no record on the source"


def test_a_page_holds_no_markup_of_a_record_and_fetches_nothing() -> None:
    page = render_html([report({"equal": 1, "different": 1}, difference=Difference("value", 7, 9, RECORD, RECORD))])
    assert "<script" not in page and "&lt;script&gt;" in page and "&lt;h&gt;" in page
    assert "http" not in page and "src=" not in page


def test_bytes_are_shown_as_text_where_they_are_and_cut() -> None:
    assert render_bytes(None) is None
    assert render_bytes("ä\\".encode()) == r"\xc3\xa4\x5c"
    assert render_bytes(b"x" * 1000) == "x" * 256 + "… (1,000 bytes)"


def test_a_json_report_names_everything_a_program_needs() -> None:
    as_json = report({"equal": 10, "missing": 1}, difference=Difference("missing", 7, 7, RECORD)).as_json()
    assert (as_json["verdict"], as_json["records"], as_json["differences"]) == ("different", 11, 1)
    assert as_json["partitions"][0]["first_difference"]["source"]["offset"] == 7


def test_a_difference_far_inside_a_value_is_shown_where_it_is() -> None:
    one, other = (Seen(7, 1000, None, b"x" * 1000 + end, ()) for end in (b"here", b"there"))
    assert describe([one], [other], with_time=True).detail == (
        'the values differ from byte 1,000 on; around it the source has "xxxxxxxxxxxxxxxxhere", '
        'the target "xxxxxxxxxxxxxxxxthere"'
    )


def test_the_examples_in_the_documentation_are_what_the_command_prints() -> None:
    page = (Path(__file__).parents[3] / "docs" / "verify.md").read_text()
    seven = tuple(
        Compared(TopicPartition("orders", at), THERE, {"equal": 14_000, "bytes": 100, "identical_bytes": 99})
        for at in range(7)
    )
    equal = FlowReport(FlowName("A", "B"), seven, seconds=4.1, chosen=7)
    ours, theirs = (Seen(7007, 1700000049049, b"k4", value, ((b"n", b"1"),)) for value in (b"49049", b"59049"))
    first = describe([ours], [theirs], with_time=True)
    counts = {"equal": 13_999, "different": 1, "bytes": 100, "identical_bytes": 93}
    different = FlowReport(FlowName("A", "B"), (Compared(HERE, THERE, counts, first),), seconds=1.2, chosen=1)
    for one in (equal, different):
        assert said(one) in page, said(one)
