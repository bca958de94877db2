"""The page as plain text."""

import re

from sparkmirror.model import FlowName
from sparkmirror.stored_json import encode
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.facts import gather
from sparkmirror.telemetry.pace import Pace
from sparkmirror.telemetry.records import encode_key
from sparkmirror.telemetry.verdict import judge
from sparkmirror.web.flow_snapshot import flow_part
from sparkmirror.web.page_state import PageState
from sparkmirror.web.plain import plain_page


def text_of(page_state: PageState) -> str:
    body, content_type = plain_page(page_state)
    assert content_type.startswith("text/plain")
    return body.decode()


def test_a_mirror_without_status_records_is_starting() -> None:
    assert text_of(PageState()) == "The mirror is starting.\n"


def test_it_says_where_offsets_are_identical() -> None:
    page_state, board = PageState(), StatusBoard("A")
    board.take(encode_key("partition", "A", "orders", 0), encode({"run": "r", "task": 0, "epoch": 1}), 5)
    told = {"run": "r", "task": 0, "epoch": 1, "keeps_offsets": True}
    for number in (1, 2):
        board.take(encode_key("partition", "A", "orders", number), encode(told), 5)
    facts = gather(FlowName("A", "B"), board, 5000)
    page_state.put("flow/A->B", flow_part(facts, judge(facts), board, Pace()))
    assert "  offsets are identical in 2 partitions" in text_of(page_state).splitlines()


def test_each_flow_has_a_line_and_below_it_what_does_not_run() -> None:
    page_state = PageState()
    board = StatusBoard("A")
    compared = {"verdict": "different", "records": 9, "differences": 1, "rounds": 1, "rounds_different": 1}
    board.take(encode_key("verify", "A"), encode(compared), 5)
    told = {"run": "r", "state": "RUNNING", "host": "h", "pid": 1, "started_at_ms": 1}
    board.take(encode_key("flow", "A", "h:1"), encode(told), 5)
    board.take(encode_key("task", "A", 0), encode({"run": "r", "epoch": 1, "lag_records": 3}), 5)
    facts = gather(FlowName("A", "B"), board, 5000)
    page_state.put("flow/A->B", flow_part(facts, judge(facts), board, Pace(1200.0)))
    rows = {
        number: (
            "orders",
            number,
            "FAILED" if number else "RUNNING",
            1,
            2,
            0.0,
            0.0,
            None,
            None,
            "A.orders",
            "too large",
            1,
        )
        for number in range(150)
    }
    page_state.replace_rows("partitions/A->B", rows)
    failure = {"level": "WARNING", "text": "A->B: it failed\x1b[2J", "times": 1}
    page_state.put("failures", [failure])
    lines = text_of(page_state).splitlines()
    assert lines[0] == "RED A->B: A and B were found to differ"
    assert lines[1] == "  RUNNING, 1,200 records/s, lag 3"
    assert lines[2:5] == [
        "  RED A and B were found to differ, since 1970-01-01T00:00:00+00:00", "    sparkmirror verify FILE",
        "    see docs/verify.md",
    ]  # fmt: skip
    assert re.match(r"  compared .* ago: DIFFERENT in 1 of 9 records, round 1; ", lines[5])
    del lines[1:6]
    assert lines[1].split() == ["topic", "partition", "state", "reason"]
    assert lines[2].split(maxsplit=3) == ["orders", "1", "FAILED", "too large"]
    assert lines[102] == "  and 49 more"
    assert lines[-1] == "  WARNING A->B: it failed\\x1b[2J"
