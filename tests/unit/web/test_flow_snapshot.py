"""What the page shows of a flow, by what its status topic says."""

import json
from typing import Any

from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.stored_json import encode
from sparkmirror.telemetry.board import FlowStatus, StatusBoard
from sparkmirror.telemetry.facts import gather, list_held
from sparkmirror.telemetry.pace import Pace
from sparkmirror.telemetry.records import encode_key
from sparkmirror.telemetry.verdict import judge
from sparkmirror.web.flow_snapshot import (
    Brakes,
    PartitionTable,
    flow_part,
    gap_row,
    lags_of,
    partition_rows,
    works_part,
)
from sparkmirror.web.page_state import PageState

FLOW = FlowName("A", "B")
NOW = 1_700_000_000_000


def board_of(*partitions: dict[str, object], run: str = "r") -> StatusBoard:
    board = StatusBoard("A")
    task = {
        "run": run,
        "epoch": 1,
        "records": 70,
        "bytes": 900,
        "lag_records": 5,
        "partitions": 2,
        "behind_since_ms": NOW,
    }
    board.take(encode_key("task", "A", 0), encode(task), NOW)
    for number, told in enumerate(partitions):
        value = {"run": run, "task": 0, "epoch": 1, "offset": 10, "end": 15, **told}
        board.take(encode_key("partition", "A", "orders", number), encode(value), NOW)
    return board


def part_of(board: StatusBoard, now_ms: int = NOW, **more: Any) -> dict[str, Any]:
    facts = gather(FLOW, board, now_ms, **more)
    return flow_part(facts, judge(facts), board, Pace(12.0))


def tell_process(board: StatusBoard, pid: int = 1, state: str = "RUNNING", reason: str = "") -> None:
    told = {"run": "r", "state": state, "reason": reason, "host": "h", "pid": pid, "started_at_ms": NOW - 500_000 - pid}
    board.take(encode_key("flow", "A", f"h:{pid}"), encode(told), NOW)


def test_a_flow_shows_its_sums_and_how_many_partitions_are_in_which_state() -> None:
    failed = {"state": "FAILED", "reason": "too large", "retry_at_ms": NOW + 5000}
    board = board_of({}, failed, {"state": "PAUSED"})
    tell_process(board)
    part = part_of(board)
    assert part["counts"] == {"PAUSED": 1, "WAITING": 0, "FAILED": 1}
    assert (part["records"], part["lag_records"], part["behind_since_ms"]) == (70, None, NOW), "one is paused"
    assert (part["name"], part["state"]) == ("A->B", "RUNNING")
    assert part["verdict"]["level"] == "red" and part["records_per_second"] == 12.0
    assert json.loads(json.dumps(part)) == part


def test_what_no_record_reports_is_unknown_and_so_is_what_an_earlier_run_reported() -> None:
    never, earlier = part_of(StatusBoard("A")), part_of(board_of({}), is_starting=True)
    for part in (never, earlier):
        assert (part["state"], part["verdict"]["level"]) == ("STARTING", "unknown")
        assert part["lag_records"] is part["records_per_second"] is None


def test_a_target_that_does_not_answer_leaves_nothing_known_but_that() -> None:
    board = board_of({})
    tell_process(board)
    part = part_of(board, target_problem="no broker of B answers")
    assert (part["verdict"]["level"], part["lag_records"], part["records_per_second"]) == ("red", None, None)
    assert part["verdict"]["sentence"] == "A->B: cluster B: does not answer: no broker of B answers"


def test_of_processes_that_share_a_flow_the_worst_one_is_reported() -> None:
    board = board_of({})
    for pid, state, reason in ((1, "RUNNING", ""), (2, "RESTARTING", "it failed"), (3, "STOPPED", "")):
        tell_process(board, pid, state, reason)
    part = part_of(board)
    assert (part["state"], part["processes"], part["started_at_ms"]) == ("RESTARTING", 2, NOW - 500_002)
    assert "it failed" in part["verdict"]["sentence"]
    later = part_of(board, NOW + 60_000)
    assert (later["state"], later["processes"], later["verdict"]["level"]) == ("SILENT", 0, "red")


def test_a_partition_is_a_row_with_its_reason_and_its_lag_where_the_end_is_known() -> None:
    board = board_of({"state": "FAILED", "reason": "too large", "retry_at_ms": 7}, {"end": None})
    rows = partition_rows(board.partitions.values(), list_held(board))
    row = rows[TopicPartition("orders", 0)]
    assert row[:5] == ("orders", 0, "FAILED", 10, 15) and row[-4:] == ("too large", 7, False, None)
    assert lags_of(board.partitions.values()) == {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): None}


def test_partitions_that_keep_their_offsets_are_counted_without_those_that_failed() -> None:
    board = board_of({"keeps_offsets": True}, {"keeps_offsets": True, "state": "FAILED"}, {})
    rows = partition_rows(board.partitions.values(), list_held(board))
    part = part_of(board)
    assert (part["identical"], part["unclear"]) == (1, 0)
    assert [row[-2] for _, row in sorted(rows.items())] == [True, False, False]


def test_while_the_target_does_not_answer_nobody_knows_whether_offsets_are_identical() -> None:
    board = board_of({"keeps_offsets": True}, {"keeps_offsets": True, "state": "FAILED"}, {})
    part = part_of(board, target_problem="B does not answer")
    assert (part["identical"], part["unclear"]) == (0, 1)


def test_a_partition_that_is_being_filled_has_what_its_page_needs_to_say_how_far_and_whether_that_is_old() -> None:
    filling = [True, 0, 900, 300, 10.0]
    board = board_of({}, {"task": -1, "epoch": 0, "offset": 900, "end": 950, "filling": filling})
    rows = partition_rows(board.partitions.values(), list_held(board))
    assert rows[TopicPartition("orders", 1)][-1] == (*filling, "r", NOW)
    tell_process(board)
    assert (part_of(board)["filling"], part_of(board)["lag_records"]) == (1, 55)
    board.take(
        encode_key("partition", "A", "orders", 1), encode({"run": "r", "task": 0, "epoch": 1, "offset": 900}), NOW
    )
    assert part_of(board)["filling"] == 0


def test_what_holds_a_flow_back_is_reported_the_last_minute_by_cause() -> None:
    brakes = Brakes()
    for second in range(0, 200, 10):
        brakes.measure(float(second), FlowStatus(throttled_ms=100 * second, limited_ms=7))
    assert brakes.lately == {"source_throttled_ms": 0, "throttled_ms": 6000, "limited_ms": 0}
    brakes.measure(200.0, FlowStatus(throttled_ms=5))
    assert brakes.lately["throttled_ms"] == 0, "another run begins at nothing: its sums are no answer for the last"


def test_what_does_the_work_is_shown_by_its_last_words_and_what_is_not_known_is_none() -> None:
    board = board_of({})
    tell_process(board)
    job = {"run": "r", "state": "FAILED", "reason": "Traceback (most recent call last):\n  File x\nOSError: no space"}
    board.take(encode_key("job", "A", "offsets"), encode(job), NOW)
    board.take(encode_key("canary", "A"), encode({"run": "r", "sent": 3, "arrived": 2}), NOW)
    works = works_part(gather(FLOW, board, NOW))
    assert [(one["host"], one["state"]) for one in works["processes"]] == [("h", "RUNNING")]
    assert [(one["task"], one["lag_records"]) for one in works["tasks"]] == [(0, 5)]
    assert works["jobs"][0]["reason"] == "OSError: no space"
    assert works["canary"]["sent"] == 3 and works["canary"]["latency"]["p50"] is None
    silent = works_part(gather(FLOW, board, NOW + 60_000))
    assert silent["processes"][0]["state"] == "SILENT"


def test_of_many_partitions_only_those_that_changed_are_made_again_and_none_is_left_behind() -> None:
    page_state = PageState()
    table = PartitionTable(page_state, "partitions/A->B")

    def show(board: StatusBoard) -> dict[int, list[Any]]:
        """Rows that have changed, by partition; what all of it looks like is compared with a table made whole."""
        before = page_state.version
        table.show(board, list_held(board))
        told = page_state.since(0)["rows"]["partitions/A->B"]
        whole = partition_rows(board.partitions.values(), list_held(board))
        assert {row[2]: tuple(row[1:]) for row in told} == {where.partition: row for where, row in whole.items()}
        return {row[2]: row for row in page_state.since(before, page_state.life)["rows"].get("partitions/A->B", [])}

    def tell(board: StatusBoard, number: int, **more: Any) -> None:
        value = {"run": "r", "task": 0, "epoch": 1, "offset": 10, "end": 15, **more}
        board.take(encode_key("partition", "A", "orders", number), encode(value), NOW)

    board = board_of({}, {}, {})
    assert show(board).keys() == {0, 1, 2}
    assert show(board) == {}
    tell(board, 1, offset=12)
    assert show(board).keys() == {1}
    tell(board, 2, state="FAILED", reason="too large")
    assert show(board)[2][3] == "FAILED"
    board.take(encode_key("task", "A", 0), encode({"run": "r", "epoch": 1, "paused": ["orders-0"]}), NOW)
    assert show(board)[0][3] == "PAUSED", "its task says so, its own record is under way"
    board.take(encode_key("partition", "A", "orders", 0), None, NOW)
    tell(board, 3)
    assert show(board).keys() >= {3}, "one went as another came"
    assert show(board_of({}, run="r2")).keys() == {0}, "another board"


def test_gaps_are_rows_of_json() -> None:
    gap = Gap(TopicPartition("orders", 1), "retention", 5, 9, "continue", NOW)
    assert gap_row(gap) == ("orders", 1, "retention", 5, 9, 4, "continue", NOW, False)
