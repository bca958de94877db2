"""What a running mirror says: who it is about, in text and in JSON, and the same failure once, then counted."""

import json
import logging
import os
import socket
import sys

import pytest

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.logs import handlers
from sparkmirror.logs.events import LogEvent, Repeats
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.runtime.jobs import Job
from sparkmirror.runtime.progress import StateChanges
from sparkmirror.stored_json import encode
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.records import FlowRecord, FlowState, PartitionState, encode_key

FLOW, ORDERS = FlowName("A", "B"), TopicPartition("orders", 3)
log = logging.getLogger("sparkmirror.test")


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_json_says_what_a_sentence_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    handlers.log_to_stderr("json")
    log.warning("%s %s: %d offsets are\ngone.", FLOW, ORDERS, 7, extra={"event": "gap"})
    log.info("ready")
    first, second = map(json.loads, said(capsys))
    assert list(first) == ["time", "level", "flow", "topic", "partition", "event", "message"]
    assert first.pop("time").endswith("+00:00")
    assert first == {
        "level": "WARNING",
        "flow": "A->B",
        "topic": "orders",
        "partition": 3,
        "event": "gap",
        "message": "A->B orders-3: 7 offsets are\ngone.",
    }
    assert [second[field] for field in ("flow", "topic", "partition", "event")] == [None, None, None, "test_handlers"]


def test_a_workers_sentence_reaches_the_driver_whole_and_with_its_flow(capsys: pytest.CaptureFixture[str]) -> None:
    handlers.log_to_driver(FLOW)
    log.warning("%s: set aside\n  hint: raise max.message.bytes", ORDERS)
    (line,) = said(capsys)
    reader = object.__new__(handlers.JvmLogReader)
    handlers.log_to_stderr("text")
    reader._take(line)
    told = said(capsys)
    assert told[0].split(" ", 1)[1] == "WARNING A->B orders-3: set aside"
    assert told[1] == "  hint: raise max.message.bytes"
    handlers.log_to_stderr("json")
    reader._take(line)
    about = json.loads(said(capsys)[0])
    assert (about["flow"], about["topic"], about["partition"]) == ("A->B", "orders", 3)


def test_sparks_chatter_stays_out_and_explains_a_jvm_that_did_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    reader = handlers.JvmLogReader(debug=False)
    for line in ("WARN TaskSetManager: Lost task", "sparkmirror-says {torn", "Traceback (most recent call last):"):
        reader._take(line)
    assert said(capsys) == []
    assert len(reader.last_lines) == 3


def failure(offset: int, at_ms: int = 0, level: int = logging.WARNING) -> LogEvent:
    return LogEvent(at_ms, level, "x", f"refused at {offset}", "A->B", "orders", 3, "refused at %d")


def test_the_same_failure_is_said_once_and_then_counted() -> None:
    repeats = Repeats()
    assert repeats.take(failure(1), 0.0) == [failure(1)]
    assert [one for second in range(1, 60) for one in repeats.take(failure(second), float(second))] == []
    (again,) = repeats.due(60.0)
    assert (again.message, again.figures) == ("refused at 59 (again, 59 times in 60 s)", {"times": 59})
    for second in range(61, 660):
        assert repeats.take(failure(0), float(second)) == []
    assert [one.message for one in repeats.due(660.0)] == ["refused at 0 (again, 599 times in 10 min)"]
    assert repeats.due(1260.0) == [], "it has not come again"
    assert repeats.take(failure(5), 1261.0) == [failure(5)], "and is news"


def test_what_is_about_another_partition_or_only_information_is_not_counted() -> None:
    repeats = Repeats()
    other = LogEvent(0, logging.WARNING, "x", "refused at 1", "A->B", "orders", 4, "refused at %d")
    told = failure(1, level=logging.INFO)
    assert [repeats.take(one, 0.0) for one in (failure(1), other, told, told)] == [
        [failure(1)],
        [other],
        [told],
        [told],
    ]


def test_nobody_listening_is_no_reason_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        def write(self, text: str) -> None:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

    for speak in (handlers.log_to_stderr, handlers.log_to_driver):
        speak()
        monkeypatch.setattr(sys, "stderr", Gone())
        log.warning("%s: refused", ORDERS)
        handlers.write_due_repeats()
        handlers.write_all_repeats()


def test_what_was_counted_is_said_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    handlers.log_to_stderr("json")
    for offset in (1, 2, 3):
        log.warning("%s: refused at %d", ORDERS, offset)
        log.warning("%s: gap at %d", ORDERS, offset, extra={"event": "gap"})
    handlers.write_all_repeats()
    told = [json.loads(line) for line in said(capsys)]
    assert [one["message"] for one in told if one["event"] == "gap"] == [f"orders-3: gap at {at}" for at in (1, 2, 3)]
    refused = [one for one in told if one["event"] != "gap"]
    assert [one.get("times") for one in refused] == [None, 2]
    assert refused[1]["message"].startswith("orders-3: refused at 3 (again, 2 times in ")


def tell(board: StatusBoard, number: int, state: PartitionState, reason: str = "", offset: int = 5) -> None:
    told = {"run": "run", "task": 0, "epoch": 1, "state": state, "reason": reason, "offset": offset}
    value = encode(told | {"retry_at_ms": 90_000 if reason else None})
    assert board.take(encode_key("partition", "A", "orders", number), value)


def test_each_change_of_state_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    handlers.log_to_stderr("json")
    board, changes = StatusBoard("A", "run"), StateChanges(FLOW)
    failed, running = PartitionState.FAILED, PartitionState.RUNNING
    for state, offset in ((running, 5), (failed, 5), (running, 5), (failed, 5), (running, 6)):
        board.processes = {f"{socket.gethostname()}:{os.getpid()}": FlowRecord("run", FlowState.RUNNING)}
        reason = "a record is too large.\n  hint" if state is PartitionState.FAILED else ""
        tell(board, 3, state, reason, offset)
        changes.tell(board)
    told = [json.loads(line) for line in said(capsys)]
    assert [(one["event"], one["message"]) for one in told] == [
        ("flow-running", "A->B: RUNNING."),
        ("partition-failed", "A->B orders-3: FAILED: a record is too large."),
        ("partition-running", "A->B orders-3: RUNNING again."),
    ]
    assert told[1]["retry_at"] == "1970-01-01T00:01:30+00:00"
    assert all(one["flow"] == "A->B" for one in told)


def test_each_process_that_shares_a_flow_has_a_state_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """One that is starting for long, beside one that runs, is no change at each of their beats."""
    handlers.log_to_stderr()
    board, changes = StatusBoard("A", "run"), StateChanges(FLOW)
    own, other = f"{socket.gethostname()}:{os.getpid()}", "there:2"
    board.processes = {own: FlowRecord("run", FlowState.RUNNING)}
    for at_ms in range(4):
        state = FlowState.STARTING if at_ms < 3 else FlowState.RUNNING
        changes.tell(board)
        board.processes[other] = FlowRecord("run", state, at_ms=at_ms)
    changes.tell(board)
    assert [one.partition("INFO ")[2] for one in said(capsys)] == ["A->B: RUNNING.", f"A->B: RUNNING in {other}."]


def test_thousands_that_change_at_once_are_some_names_and_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    handlers.log_to_stderr()
    board, changes = StatusBoard("A", "run"), StateChanges(FLOW)
    for at in range(2000):
        tell(board, at, PartitionState.WAITING)
    changes.tell(board)
    told = said(capsys)
    assert len(told) == 11
    assert told[-1].endswith("A->B: 1990 more partitions: WAITING for the source.")
    tell(board, 7, PartitionState.RUNNING)
    assert list(board.take_news()) == [TopicPartition("orders", 7)], "what was told of is not looked at again"


def test_a_job_says_that_it_works_again(capsys: pytest.CaptureFixture[str]) -> None:
    handlers.log_to_stderr("json")
    rounds = iter([ClusterUnreachable("B is away"), ClusterUnreachable("B is away"), None, None])

    def work() -> None:
        problem = next(rounds, None)
        if problem is not None:
            raise problem
        job.stop()

    job = Job("A->B offsets", 0.01, work, look_seconds=0.01)
    job.start()
    job._thread.join(60)
    told = [json.loads(line) for line in said(capsys)]
    assert [(one["event"], one["flow"], one["message"]) for one in told] == [
        ("job-failed", "A->B", "A->B offsets: B is away"),
        ("job-works", "A->B", "A->B offsets: works again."),
    ]


def test_progress_is_a_line_for_people_and_figures_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    handlers.log_to_stderr()
    handlers.log_progress("A->B: 7 records", FLOW, {"records": 7})
    handlers.log_to_stderr("json")
    handlers.log_progress("A->B: 7 records", FLOW, {"records": 7})
    line, event = said(capsys)
    assert line == "A->B: 7 records"
    assert (json.loads(event)["event"], json.loads(event)["records"], json.loads(event)["flow"]) == (
        "progress",
        7,
        "A->B",
    )


def test_what_others_named_and_said_is_written_so_that_a_terminal_does_not_obey(
    capsys: pytest.CaptureFixture[str],
) -> None:
    handlers.log_to_stderr("text")
    log.warning("%s: %s", FLOW, "bad\x1b[2Jname\r\u202e\n12:00:00 INFO forged, see http://me:pa55@host/x")
    first, second = said(capsys)
    assert first.endswith("A->B: bad\\x1b[2Jname\\r\\u202e")
    assert second == "  12:00:00 INFO forged, see http://[hidden]@host/x"
    handlers.log_to_stderr("json")
    log.warning("%s: %s", FLOW, "bad\x1b[2J at http://me:pa55@host/x")
    (line,) = said(capsys)
    assert "\x1b" not in line and "pa55" not in line
