"""What the page shows of a flow, by what its status topic says."""

import json

from sparkmirror.ledger.gaps import Gap
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.records import encode_key, encode_value
from sparkmirror.web.flow_snapshot import Pace, flow_part, gap_row, group_row, lags_of, partition_rows

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
    board.take(encode_key("task", "A", 0), encode_value(task), NOW)
    for number, told in enumerate(partitions):
        value = {"run": run, "task": 0, "epoch": 1, "offset": 10, "end": 15, **told}
        board.take(encode_key("partition", "A", "orders", number), encode_value(value), NOW)
    return board


def test_a_flow_shows_its_sums_and_how_many_partitions_are_in_which_state() -> None:
    failed = {"state": "FAILED", "reason": "too large", "retry_at_ms": NOW + 5000}
    board = board_of({}, failed, {"state": "PAUSED"})
    part = flow_part(FLOW, board, NOW, Pace(), [1, 2], [3], "")
    assert part["counts"] == {"RUNNING": 1, "PAUSED": 1, "WAITING": 0, "FAILED": 1}
    assert (part["records"], part["lag_records"], part["behind_since_ms"]) == (70, 5, NOW)
    assert (part["name"], part["state"], part["rates"], part["lags"]) == ("A->B", "RUNNING", [1, 2], [3])
    assert json.loads(json.dumps(part)) == part


def test_a_flow_that_nobody_has_told_of_is_starting_and_so_is_one_of_an_earlier_run() -> None:
    assert flow_part(FLOW, StatusBoard("A"), NOW, Pace(), [], [])["state"] == "STARTING"
    assert flow_part(FLOW, board_of({}), NOW, Pace(), [], [], is_starting=True)["state"] == "STARTING"


def test_of_processes_that_share_a_flow_the_one_that_is_worst_off_is_told() -> None:
    board = board_of({})
    for pid, state, reason in ((1, "RUNNING", ""), (2, "RESTARTING", "it failed"), (3, "STOPPED", "")):
        told = {"run": "r", "state": state, "reason": reason, "host": "h", "pid": pid, "started_at_ms": NOW - pid}
        board.take(encode_key("flow", "A", f"h:{pid}"), encode_value(told), NOW)
    part = flow_part(FLOW, board, NOW, Pace(), [], [])
    assert (part["state"], part["reason"], part["processes"]) == ("RESTARTING", "it failed", 2)
    assert part["started_at_ms"] == NOW - 2
    later = flow_part(FLOW, board, NOW + 60_000, Pace(), [], [])
    assert (later["state"], later["processes"]) == ("SILENT", 0)


def test_a_partition_is_a_row_with_its_reason_and_its_lag_where_the_end_is_known() -> None:
    board = board_of({"state": "FAILED", "reason": "too large", "retry_at_ms": 7}, {"end": None})
    rows = partition_rows(board.partitions.values())
    row = rows[TopicPartition("orders", 0)]
    assert row[:5] == ("orders", 0, "FAILED", 10, 15) and row[-2:] == ("too large", 7)
    assert lags_of(board.partitions.values()) == {TopicPartition("orders", 0): 5}


def test_a_pace_is_that_of_the_last_seconds_and_begins_anew_with_a_run() -> None:
    pace = Pace()
    for second in range(10):
        pace.measure(float(second), 1000 * second, 10 * second)
    assert (pace.records_per_second, pace.bytes_per_second) == (1000.0, 10.0)
    for second in range(10, 15):
        pace.measure(float(second), 9000, 90)
    assert pace.records_per_second == 0.0
    pace.measure(15.0, 50, 1)
    pace.measure(16.0, 150, 2)
    assert pace.records_per_second == 100.0


def test_groups_and_gaps_are_rows_of_json() -> None:
    checkpoint = Checkpoint("billing", TopicPartition("A.orders", 3), 100, 90)
    assert group_row(checkpoint, NOW, "orders") == ("billing", "A.orders", 3, 100, 90, NOW, "orders")
    gap = Gap(TopicPartition("orders", 1), "retention", 5, 9, "continue", NOW)
    assert gap_row(gap) == ("orders", 1, "retention", 5, 9, 4, "continue", NOW, False)
