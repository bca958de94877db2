"""What `sparkmirror status` says of a flow: its state, each partition's state and lag, and one line for all."""

import json
from typing import Any

import pytest

from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.histogram import Histogram
from sparkmirror.telemetry.records import PartitionState
from sparkmirror.views.flow_page import FlowPage, PartitionPlace, list_places, list_unplaced, render_page
from sparkmirror.views.table import page_lines

NOW_MS = 1_800_000_000_000
ORDERS = [TopicPartition("orders", number) for number in range(4)]
FLOW = {
    "run": "r1", "state": "RUNNING", "host": "here", "pid": 7, "version": "1", "started_at_ms": NOW_MS - 60_000,
    "records": 5000, "bytes": 9,
}  # fmt: skip


def told(board: StatusBoard, key: list[Any], value: dict[str, Any], age_ms: int = 4000) -> None:
    board.take(json.dumps(key).encode(), json.dumps({"run": "r1"} | value).encode(), NOW_MS - age_ms)


def board_of(flow: dict[str, Any] = FLOW, **age: int) -> StatusBoard:
    board, latency = StatusBoard("A"), Histogram()
    latency.add(20, 100)
    told(board, ["flow", "A", "here:7"], flow, **age)
    told(
        board,
        ["task", "A", 0],
        {
            "epoch": 1, "records_per_second": 12.0, "records": 900, "behind_since_ms": NOW_MS - 5000,
            "failed": {"orders-1": "a record is too large"}, "retry_at_ms": {"orders-1": NOW_MS + 30_000},
            "faults": {"orders-2": "the source refuses to be read"}, "paused": ["orders-3"],
            "recent_latency": latency.as_json(),
        },
        **age,
    )  # fmt: skip
    first = {"task": 0, "epoch": 1, "offset": 100, "end": 105, "behind_since_ms": NOW_MS - 5000}
    told(board, ["partition", "A", "orders", 0], first | {"records_per_second": 12.0}, **age)
    told(board, ["job", "A", "topics"], {"state": "FAILED", "reason": "B does not answer", "rounds": 3, "failures": 1})
    told(board, ["job", "A", "offsets"], {"state": "RUNNING", "rounds": 30})
    return board


def page(ends: dict[TopicPartition, int], board: StatusBoard | None = None, problem: str = "") -> FlowPage:
    board = board or board_of()
    places = list_places(board, dict.fromkeys(ORDERS, 100), ends)
    gaps = (Gap(ORDERS[0], "retention", 10, 60, "went on", NOW_MS - 60_000),)
    return FlowPage(FlowName("A", "B"), NOW_MS, board, places, problem, (), gaps)


def lines_of(found: FlowPage, *, whole: bool = False) -> list[str]:
    return page_lines(render_page(found, whole=whole))


def test_each_partition_has_its_state_and_its_lag() -> None:
    places = page({where: 100 + 10 * where.partition for where in ORDERS}).places
    assert [place.state for place in places] == [
        PartitionState.RUNNING,
        PartitionState.FAILED,
        PartitionState.WAITING,
        PartitionState.PAUSED,
    ]
    assert [place.lag_records for place in places] == [0, 10, 20, 30]
    assert [place.lag_seconds(NOW_MS) for place in places] == [0.0, None, None, None]


def test_a_page_says_how_many_tasks_run_and_why() -> None:
    """Each process that has some decides for those that it has."""
    board = board_of()
    for task, sizing in enumerate(["2 of at most 4: behind; no more by cores", "1 of at most 4: close at the start"]):
        held = ["its rate limits"] if task else []
        told(board, ["task", "A", task], {"epoch": 1, "sizing": sizing, "held_by": held})
    lines = lines_of(page(dict.fromkeys(ORDERS, 105), board))
    assert [line for line in lines if "tasks:" in line] == [
        "  tasks: 1 of at most 4: close at the start; held back by its rate limits",
        "  tasks: 2 of at most 4: behind; no more by cores",
    ]  # fmt: skip


def test_a_page_shows_what_does_not_run_with_the_reason_and_the_next_try() -> None:
    lines = lines_of(page(dict.fromkeys(ORDERS, 105)))
    assert lines[0] == "RED A->B: orders-1: a record is too large; and 4 more problems"
    assert lines[1] == (
        "  RUNNING, 4 partitions, lag 20 (5.0 s), 1 FAILED, 1 WAITING, 1 PAUSED, 1 gap, 50 offsets gone"
    )
    assert lines[2] == (
        "  12 records/s; latency p50 20 ms, p99 20 ms, p99.9 20 ms; last reported 4.0 s ago by process 7 on here"
    )
    assert lines[3:6] == [
        "  RED orders-1: a record is too large, next try in 30 s",
        "    sparkmirror retry FILE --topic orders --partition 1", "    see docs/operating.md#how-it-stands",
    ]  # fmt: skip
    gap = "  AMBER 1 gap that nobody has acknowledged, 50 offsets gone, since 2027-01-15T07:59:00+00:00"
    at = lines.index(gap)
    assert lines[at + 1] == "    sparkmirror gaps FILE --acknowledge"
    table = lines[18:]
    assert [line.split()[:2] for line in table[:4]] == [
        ["topic", "partition"],
        *(["orders", str(at)] for at in (1, 2, 3)),
    ]
    assert table[1].endswith("a record is too large (next try in 30 s)")
    assert [line.split()[0] for line in table[4:]] == ["job", "topics"]
    assert table[5].endswith("B does not answer")


def test_a_whole_page_shows_those_that_run_too() -> None:
    lines = lines_of(page(dict.fromkeys(ORDERS, 105)), whole=True)
    assert lines[19].split() == ["orders", "0", "RUNNING", "100", "105", "5", "5.0"]
    assert [line.split()[0] for line in lines[23:]] == ["task", "0", "job", "offsets", "topics"]


def test_the_lag_of_a_task_is_not_known_while_that_of_one_of_its_partitions_is_not() -> None:
    board = board_of()
    found = page(dict.fromkeys(ORDERS, 105), board)
    assert found.as_json()["tasks"][0]["lag"] is None, "of paused and waiting ones nobody asks where they end"
    assert lines_of(found, whole=True)[24].split()[:5] == ["0", "1", "0", "-", "900"]
    told(board, ["task", "A", 0], {"epoch": 1, "lag_records": 5})
    assert page(dict.fromkeys(ORDERS, 105), board).as_json()["tasks"][0]["lag"] == 5


def test_a_partition_without_a_position_is_shown_and_its_lag_is_not_known() -> None:
    """The ledger may refuse what a task stores, and what it has may be unreadable."""
    board = board_of()
    told(board, ["partition", "A", "fresh", 0], {"task": 0, "epoch": 1, "offset": 7, "end": 9})
    told(board, ["partition", "A", "former", 0], {"run": "r0", "task": 0, "epoch": 1, "offset": 7, "end": 9})
    told(board, ["partition", "A", "unread", 0], {"task": 0, "epoch": 1, "offset": None, "state": "FAILED"})
    offsets = dict.fromkeys(ORDERS, 100)
    unplaced = list_unplaced(board, offsets)
    assert unplaced == {TopicPartition("fresh", 0), TopicPartition("unread", 0)}
    known = dict.fromkeys(ORDERS, 100) | {TopicPartition("fresh", 0): 9}
    places = list_places(board, offsets, dict.fromkeys(unplaced) | known)
    found = FlowPage(FlowName("A", "B"), NOW_MS, board, places)
    assert (found.lag_records, len(found.places)) == (None, 6)


def test_a_process_that_was_killed_is_silent_and_mirrors_nothing() -> None:
    found = page(dict.fromkeys(ORDERS, 105), board_of(age_ms=60_000))
    assert lines_of(found)[0].startswith("RED A->B: the flow: process 7 on here was killed, or cannot reach B: ")
    assert lines_of(found)[1].startswith("  SILENT, 4 partitions, ")
    assert lines_of(found)[2].startswith("  0 records/s; ")
    stopped = page(dict.fromkeys(ORDERS, 105), board_of(FLOW | {"state": "STOPPED"}, age_ms=60_000))
    assert stopped.as_json()["state"] == "STOPPED"


def test_a_query_that_is_started_again_is_reported_with_its_reason() -> None:
    found = page({}, board_of(FLOW | {"state": "RESTARTING", "reason": "the disk is full"}))
    assert lines_of(found)[0].startswith(
        "RED A->B: the flow: the query failed and is started again: the disk is full; "
    )
    assert lines_of(found)[1].startswith("  RESTARTING, ")


def test_a_process_that_was_not_heard_of_for_long_enough_is_not_known_to_run() -> None:
    """It writes every three seconds: a rate of 20 s ago is no rate."""
    told_of = board_of(age_ms=20_000)
    told_of.trouble.failing.clear()
    found = FlowPage(FlowName("A", "B"), NOW_MS, told_of, ())
    assert any("nothing was heard of process 7 on here for 20 s" in line for line in lines_of(found))


def test_before_a_task_has_reported_nobody_knows_the_lag() -> None:
    """Millions of records may wait on the source: 0 would mean that all is mirrored."""
    board = StatusBoard("A")
    told(board, ["flow", "A", "here:7"], FLOW)
    found = FlowPage(FlowName("A", "B"), NOW_MS, board, ())
    assert (found.lag_records, found.as_json()["lag"], found.as_json()["lag_seconds"]) == (None, None, None)
    assert not any("lag 0" in line for line in lines_of(found))


def test_a_flow_that_stopped_when_all_was_mirrored_does_not_say_since_when_it_is_behind() -> None:
    board = board_of()
    told(board, ["task", "A", 0], {"epoch": 1, "partitions": 1})
    told(board, ["partition", "A", "orders", 0], {"task": 0, "epoch": 1, "offset": 100, "end": 100})
    places = list_places(board, {ORDERS[0]: 100}, {ORDERS[0]: 1100})
    found = FlowPage(FlowName("A", "B"), NOW_MS, board, places).as_json()
    assert (found["lag"], found["lag_seconds"]) == (1000, None)


def test_the_rate_is_that_of_the_run_that_is_shown() -> None:
    """What partitions did in a run before is none."""
    board = board_of()
    told(board, ["flow", "A", "here:8"], FLOW | {"run": "r2", "pid": 8}, 1000)
    told(board, ["task", "A", 0], {"run": "r2", "epoch": 1, "partitions": 4}, 1000)
    assert board.partitions[ORDERS[0]].records_per_second == 12.0
    assert page(dict.fromkeys(ORDERS, 105), board).records_per_second == 0.0


def test_without_the_source_the_lag_is_unknown_and_it_is_said_why() -> None:
    found = page({}, problem="the lag is not known: cluster A does not answer")
    lines = lines_of(found, whole=True)
    assert "lag unknown" in lines[1]
    assert "  AMBER A: the lag is not known: cluster A does not answer" in lines
    shown = found.as_json()
    assert (shown["lag"], shown["records"], shown["latency_ms"]["p99"]) == (None, 5000, 20.5)
    assert shown["partitions"][1] == {
        "topic": "orders",
        "partition": 1,
        "state": "FAILED",
        "offset": 100,
        "identical_offsets": False,
        "parted_at": None,
        "filling": None,
        "end": None,
        "lag": None,
        "lag_seconds": None,
        "records_per_second": None,
        "latency_ms": None,
        "reason": "a record is too large",
        "retry_at": "2027-01-15T08:00:30+00:00",
    }


def test_what_a_continuous_comparison_found_is_shown_with_the_flow() -> None:
    board = board_of()
    told(board, ["verify", "A"], {"verdict": "equal", "records": 4900, "rounds": 2})
    found = page(dict.fromkeys(ORDERS, 105), board)
    assert "  compared 4.0 s ago: equal, 4,900 records, round 2" in lines_of(found)
    assert found.as_json()["verify"]["verdict"] == "equal"
    assert page({}).as_json()["verify"] is None


def test_a_flow_that_never_ran_says_so() -> None:
    never = FlowPage(FlowName("A", "B"), NOW_MS, StatusBoard("A"), ())
    assert lines_of(never, whole=True) == ["UNKNOWN A->B: no run has reported"]
    assert never.as_json()["reported_at"] is None


def test_while_the_target_does_not_answer_all_but_what_the_source_tells_is_unknown() -> None:
    places = tuple(PartitionPlace(where, None, None, 150) for where in ORDERS)
    found = FlowPage(FlowName("A", "B"), NOW_MS, StatusBoard("A"), places, target_problem="Cluster B is away.")
    lines = lines_of(found, whole=True)
    assert lines[:2] == [
        "RED A->B: cluster B: does not answer: Cluster B is away",
        "  state, lag and rate are unknown; A has 4 partitions to mirror",
    ]
    assert lines[-1].split() == ["orders", "3", "unknown", "-", "150", "-", "-"]
    shown = found.as_json()
    assert [shown[name] for name in ("state", "lag", "records", "gaps", "records_per_second")] == [None] * 5
    assert (shown["partitions"][0]["state"], shown["partitions"][0]["end"]) == (None, 150)
    nothing = FlowPage(FlowName("A", "B"), NOW_MS, StatusBoard("A"), (), "Cluster A is away.", target_problem="B too.")
    assert lines_of(nothing)[1] == "  state, lag and rate are unknown; Cluster A is away."
    assert nothing.lag_records is None


def test_partitions_whose_offsets_are_identical_are_counted_and_those_of_which_that_is_unknown() -> None:
    board, ends = board_of(), dict.fromkeys(ORDERS, 100)
    known = dict(zip(ORDERS, (True, False, None, True), strict=True))
    found = FlowPage(FlowName("A", "B"), NOW_MS, board, list_places(board, ends, ends, known.__getitem__))
    assert "offsets are identical in 2 partitions (of 1 it is not known)" in "\n".join(lines_of(found))
    assert [one["identical_offsets"] for one in found.as_json()["partitions"]] == [True, False, None, True]
    assert "identical" not in "\n".join(lines_of(page(ends)))


def test_partitions_of_which_it_is_accepted_that_their_logs_part_are_counted() -> None:
    board, ends = board_of(), dict.fromkeys(ORDERS, 100)
    found = FlowPage(
        FlowName("A", "B"), NOW_MS, board, list_places(board, ends, ends, ORDERS[:1].__contains__, {ORDERS[1]: 70})
    )
    assert "in 1 partition it is accepted that they part" in "\n".join(lines_of(found))
    assert [one["parted_at"] for one in found.as_json()["partitions"]] == [None, 70, None, None]


def filling_board(*, age_ms: int = 4000, **more: Any) -> StatusBoard:
    board = board_of(age_ms=1000)
    start = {"task": -1, "epoch": 0, "offset": 2_000_000, "end": 2_000_050}
    told(
        board,
        ["partition", "A", "late", 0],
        start | {"filling": [True, 0, 2_000_000, 500_000, 100_000.0]} | more,
        age_ms,
    )
    told(board, ["partition", "A", "orders", 0], {"task": 0, "epoch": 1, "filling": [False, 100, 200, 150]}, age_ms)
    return board


def filling_page(board: StatusBoard) -> FlowPage:
    offsets = dict.fromkeys(ORDERS, 100) | board.begins()
    ends = dict.fromkeys(ORDERS, 105) | {TopicPartition("late", 0): 2_000_050}
    return FlowPage(FlowName("A", "B"), NOW_MS, board, list_places(board, offsets, ends))


def test_it_is_shown_how_far_a_start_and_a_hole_are_filled_and_what_comes_behind_a_start_counts_as_lag() -> None:
    found = filling_page(filling_board())
    assert "offsets are being filled in 2 partitions" in lines_of(found)[1]
    rows = [line.split() for line in lines_of(found) if line.split()[2:3] in (["start"], ["hole"])]
    assert rows == [
        ["late", "0", "start", "500,000", "2,000,000", "25.0", "%", "100,000", "15", "s"],
        ["orders", "0", "hole", "150", "200", "50.0", "%", "unknown", "unknown"],
    ]
    late, orders = (
        next(one for one in found.as_json()["partitions"] if one["topic"] == name) for name in ("late", "orders")
    )
    assert (late["offset"], late["lag"]) == (2_000_000, 50)
    assert late["filling"] == {
        "what": "start", "first": 0, "reached": 500_000, "wanted": 2_000_000, "percent": 25.0,
        "offsets_per_second": 100_000.0, "seconds_left": 15.0,
    }  # fmt: skip
    names = ("percent", "offsets_per_second", "seconds_left")
    assert [orders["filling"][name] for name in names] == [50.0, None, None]


@pytest.mark.parametrize(
    "board",
    [filling_board(age_ms=36_000), filling_board(run="r0"), filling_board()],
    ids=["nothing was reported lately", "by an earlier run", "its process is gone"],
)
def test_how_far_a_process_has_filled_that_does_not_answer_is_unknown_and_not_0(board: StatusBoard) -> None:
    if board.partitions[TopicPartition("late", 0)].at_ms == NOW_MS - 4000 and board.begins():
        told(board, ["flow", "A", "here:7"], FLOW | {"state": "STOPPED"}, 0)
    found = next(one for one in filling_page(board).as_json()["partitions"] if one["topic"] == "late")["filling"]
    assert found == {
        "what": "start", "first": 0, "reached": None, "wanted": 2_000_000, "percent": None, "offsets_per_second": None,
        "seconds_left": None,
    }  # fmt: skip
    assert "unknown" in next(line for line in lines_of(filling_page(board)) if line.split()[:1] == ["late"])
