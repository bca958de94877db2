"""The status topic, folded: sums over tasks and epochs, and which run is the latest."""

import json
from typing import Any

import pytest

from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.stored_json import encode
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.facts import gather
from sparkmirror.telemetry.histogram import Histogram
from sparkmirror.telemetry.records import encode_key

ZERO = dict.fromkeys(
    (
        "records", "bytes", "lag_records", "partitions", "retries", "gaps", "lost_records",
        "throttled_ms", "source_throttled_ms", "limited_ms",
    ),
    0,
)  # fmt: skip


def report(run: str = "r1", task: int = 0, epoch: int = 1, alias: str = "A", **counts: Any) -> tuple[bytes, bytes]:
    value = {**ZERO, "run": run, "task": task, "epoch": epoch, "failed": {}, "faults": {}, "problem": "", **counts}
    return json.dumps(["task", alias, task]).encode(), json.dumps(value).encode()


def test_pauses_are_summed_over_tasks_and_finished_epochs() -> None:
    board = StatusBoard("A", "r1")
    for record in (
        report(source_throttled_ms=100, limited_ms=5),
        report(task=1, source_throttled_ms=10, throttled_ms=7),
        report(epoch=2, source_throttled_ms=1),
        report(run="r2", source_throttled_ms=1000),
    ):
        board.take(*record)
    status = board.status()
    assert (status.source_throttled_ms, status.throttled_ms, status.limited_ms) == (111, 7, 5)


def test_the_latest_run_is_the_one_that_reported_last() -> None:
    strange = [(b"", None), (b"[1]", b"{}"), (json.dumps(["task", "A", 0]).encode(), None), (None, b"x")]
    assert not any(StatusBoard("A").take(*record) for record in strange)
    board = StatusBoard("A")
    for record in (report("r1", records=7), report("r2", records=1), report("r3", alias="B"), *strange):
        board.take(*record)
    assert (board.run, board.status().records) == ("r2", 1)


def test_what_stands_still_is_named_with_its_reason_and_its_next_try_by_all_tasks() -> None:
    board = StatusBoard("A", "r1")
    failed = {"orders-1": "too large"}
    board.take(*report(failed=failed, retry_at_ms={"orders-1": 17}, paused=["orders-0"]))
    board.take(*report(task=1, paused=["audit-0"]))
    status = board.status()
    assert (status.failed, status.retry_at_ms) == (failed, {"orders-1": 17})
    assert status.paused == ("audit-0", "orders-0")


def test_a_partition_whose_record_was_removed_is_not_shown_any_more() -> None:
    board = StatusBoard("A", "r1")
    key = encode_key("partition", "A", "orders", 1)
    waits = {"run": "r1", "task": 0, "epoch": 1, "state": "WAITING", "reason": "error 3", "offset": 7}
    board.take(key, encode(waits))
    assert TopicPartition("orders", 1) in board.partitions
    assert not board.take(encode_key("partition", "B", "orders", 1), None), "another flow's"
    assert board.take(key, None)
    assert not board.partitions
    assert board.take_news() == {}
    assert not board.take(key, None)


def test_a_task_that_is_not_run_any_more_counts_with_what_it_has_done_and_stands_for_no_partition() -> None:
    board = StatusBoard("A", "r1")
    board.take(*report(records=5, partitions=3, lag_records=2))
    board.take(*report(task=1, records=7, partitions=3, lag_records=9))
    assert not board.take(encode_key("task", "B", 1), None), "another flow's"
    assert board.take(encode_key("task", "A", 1), None)
    board.take(*report(epoch=2, records=1, partitions=6))
    status = board.status()
    assert (status.records, status.partitions, status.lag_records, status.tasks) == (13, 6, 0, 1)
    board.take(*report(task=1, epoch=3, records=2, partitions=2))
    assert board.status().records == 15


def test_a_task_of_which_its_siblings_speak_and_that_has_not_reported_makes_the_lag_unknown() -> None:
    board = StatusBoard("A")
    board.take(*report(siblings=[0, 1], partitions=1, lag_records=2), 5_000)
    board.take(*report(siblings=[0, 1], partitions=1, lag_records=3), 8_000)
    assert board.silent == {1: 5_000}
    flow = FlowName("A", "backup")
    assert gather(flow, board, 9_000).lag_records is None
    board.take(*report(task=1, siblings=[0, 1], partitions=1, lag_records=4), 9_000)
    assert not board.silent
    assert gather(flow, board, 9_000).lag_records == 7


def test_a_task_that_an_epoch_no_longer_has_is_not_waited_for() -> None:
    board = StatusBoard("A")
    board.take(*report(siblings=[0, 1]), 5_000)
    board.take(*report(epoch=2, siblings=[0]), 6_000)
    assert not board.silent
    board.take(*report(epoch=3, siblings=[0, 1]), 7_000)
    assert board.silent == {1: 7_000}
    board.take(*report("r2", siblings=[0]), 8_000)
    assert not board.silent, "another run has begun"


def test_sums_are_made_once_for_all_who_ask_until_a_task_reports_ends_or_another_run_begins() -> None:
    board = StatusBoard("A")
    board.take(*report(records=5))
    before = board.status()
    assert board.status() is before
    board.take(*report(records=6))
    assert board.status().records == 6
    board.take(encode_key("task", "A", 0), None)
    assert board.status().tasks == 0
    board.take(*report("r2", records=1))
    assert board.status().records == 1


def test_counters_do_not_go_down_where_a_compacted_topic_is_read_again() -> None:
    """Prometheus takes a counter that is lower for one that began again, and adds its value once more."""
    part = encode_key("partition", "A", "orders", 1)

    def moved(epoch: int, records: int) -> tuple[bytes, bytes]:
        value = {"run": "r1", "task": 0, "epoch": epoch, "offset": records, "records": records, "bytes": 2 * records}
        return part, encode(value)

    slow, fast = Histogram(), Histogram()
    slow.add(900, 40)
    fast.add(2, 5)
    first = report(records=40, retries=3, latency=slow.as_json())
    second = report(epoch=2, records=5, latency=fast.as_json())
    before, again = StatusBoard("A"), StatusBoard("A")
    for record in (first, moved(1, 40), second, moved(2, 5)):
        before.take(*record)
    for record in (second, moved(2, 5)):
        again.take(*record)
    again.keep_counts(before)
    for board in (before, again):
        for record in (report(epoch=2, records=7, latency=fast.as_json()), moved(2, 7), moved(3, 1)):
            board.take(*record)
    shown, wanted = again.status(), before.status()
    assert (shown.records, shown.retries, shown.epochs) == (wanted.records, wanted.retries, wanted.epochs) == (47, 3, 2)
    assert shown.latency.as_json() == wanted.latency.as_json()
    assert again.partitions[TopicPartition("orders", 1)].records == 48
    fresh = StatusBoard("A")
    fresh.take(*report("r2", records=1))
    fresh.keep_counts(before)
    assert fresh.status().records == 1, "another run counts from 0"
    again.keep_counts(again)
    assert again.status().records == 47


@pytest.mark.parametrize(
    ("states", "wanted"),
    [
        (["RUNNING", "STARTING"], "RUNNING"),
        (["RUNNING", "STOPPING"], "RUNNING"),
        (["RUNNING", "FAILED"], "RUNNING"),
        (["RUNNING", "RESTARTING"], "RESTARTING"),
        (["STARTING", "STOPPED"], "STARTING"),
        (["FAILED", "STOPPED"], "STOPPED"),
    ],
)
def test_the_state_of_a_flow_does_not_depend_on_which_process_wrote_last(states: list[str], wanted: str) -> None:
    board, seen = StatusBoard("A"), []
    for at in range(4):
        pid = at % 2
        value = {"run": "r1", "state": states[pid], "host": "here", "pid": pid}
        board.take(encode_key("flow", "A", f"here:{pid}"), encode(value), 1000 * at)
        seen.append(board.state_at(1000 * at))
    if wanted != "STOPPED":
        assert set(seen[1:]) == {wanted}
    assert seen[-1] == wanted
    silent = board.state_at(100_000)
    assert silent == ("SILENT" if "RUNNING" in states or "STARTING" in states else wanted)
