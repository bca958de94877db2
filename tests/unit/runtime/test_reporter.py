"""What the driver tells of its flow and jobs: at once when a state changes, and how it ended in the end."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.config.flow.flows import FlowConfig, load_config
from sparkmirror.errors import ClusterUnreachable, SparkMirrorError
from sparkmirror.runtime import reporter as reporter_module
from sparkmirror.runtime.reporter import FlowReporter, reporting
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.records import FlowState, JobRecord, JobState, encode_key

WAIT_SECONDS = 60.0


class Topic:
    """The status topic; `down` has every write fail."""

    def __init__(self) -> None:
        self.board = StatusBoard("A")
        self.lots: list[list[tuple[bytes, bytes | None]]] = []
        self.down = False
        self.problem: Exception = ClusterUnreachable("B does not answer")
        self.written = threading.Condition()

    def __call__(self, *_: object) -> "Topic":
        return self

    def write(self, topic: str, records: list[tuple[bytes, bytes | None]]) -> None:
        assert topic == "mm2-sparkmirror-status.A.internal"
        with self.written:
            self.lots.append(records)
            self.written.notify_all()
            if self.down:
                raise self.problem
            for key, value in records:
                self.board.take(key, value, 1)

    def wait_for(self, state: FlowState) -> None:
        with self.written:
            there = self.written.wait_for(lambda: self.board.flow and self.board.flow.state is state, WAIT_SECONDS)
        assert there, f"{state} was not written"

    def wait_for_lots(self, count: int) -> None:
        with self.written:
            assert self.written.wait_for(lambda: len(self.lots) >= count, WAIT_SECONDS)

    def close(self) -> None:
        """As a publisher."""


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    made = Topic()
    monkeypatch.setattr(reporter_module, "Publisher", made)
    return made


@pytest.fixture
def reporter(tmp_path: Path, topic: Topic) -> Iterator[FlowReporter]:
    file = tmp_path / "told.properties"
    file.write_text("clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n")
    flow: FlowConfig = load_config(file).flows[0]
    yield FlowReporter(flow, "r1", "digest")


def test_states_are_reported_at_once_and_the_end_too(topic: Topic, reporter: FlowReporter) -> None:
    with reporting([reporter]):
        topic.wait_for(FlowState.STARTING)
        reporter.belong("r2")
        reporter.tell(FlowState.RUNNING)
        topic.wait_for(FlowState.RUNNING)
        reporter.tell(FlowState.RESTARTING, "the disk is full", 17)
        topic.wait_for(FlowState.RESTARTING)
        assert topic.board.flow is not None
        assert (topic.board.flow.reason, topic.board.flow.retry_at_ms) == ("the disk is full", 17)
        reporter.tell(FlowState.RUNNING)
        topic.wait_for(FlowState.RUNNING)
        reporter.count(300, 9000, set())
    told = topic.board.flow
    assert told is not None
    assert (told.state, told.run, told.restarts, told.records, told.digest) == (
        FlowState.STOPPED,
        "r2",
        1,
        300,
        "digest",
    )


def test_a_run_that_ends_with_an_error_is_failed_for_its_reason(topic: Topic, reporter: FlowReporter) -> None:
    with pytest.raises(SparkMirrorError), reporting([reporter]):
        raise SparkMirrorError("another instance has taken over", "Run it only once.")
    assert topic.board.flow is not None
    assert (topic.board.flow.state, topic.board.flow.reason) == (FlowState.FAILED, "another instance has taken over")


def test_a_job_that_fails_is_reported_at_once_others_with_the_next_word(topic: Topic, reporter: FlowReporter) -> None:
    with reporting([reporter]):
        reporter.tell(FlowState.RUNNING)
        topic.wait_for(FlowState.RUNNING)
        seen = len(topic.lots)
        reporter.tell_job(JobRecord("topics", "", JobState.FAILED, "A does not answer"))
        topic.wait_for_lots(seen + 1)
        reporter.tell_job(JobRecord("topics", "", JobState.FAILED, "A does not answer", rounds=2))
    assert topic.board.jobs["topics"].rounds == 2
    assert topic.board.jobs["topics"].run == "r1"


def test_what_could_not_be_written_is_written_later_and_said_once(
    topic: Topic, reporter: FlowReporter, caplog: pytest.LogCaptureFixture
) -> None:
    topic.down = True
    with reporting([reporter]):
        topic.wait_for_lots(1)
        reporter.tell(FlowState.RUNNING)
        topic.wait_for_lots(2)
        topic.down = False
    assert topic.board.flow is not None
    assert [record.message for record in caplog.records] == ["A->B: its status could not be written: B does not answer"]


def test_records_of_processes_of_earlier_runs_are_removed(topic: Topic, reporter: FlowReporter) -> None:
    watching = StatusBoard("A", "r1")
    old: dict[str, Any] = {"run": "r0", "state": "STOPPED"}
    key = encode_key("flow", "A", "there:7")
    watching.take(key, json.dumps(old).encode())
    assert watching.outdated == {key}
    with reporting([reporter]):
        reporter.count(0, 0, watching.outdated)
    assert watching.outdated == set()
    assert (key, None) in topic.lots[-1]


def test_an_error_that_nobody_expects_does_not_end_the_reports(topic: Topic, reporter: FlowReporter) -> None:
    """The process would seem to have been killed."""
    topic.down, topic.problem = True, RuntimeError("the client is confused")
    with reporting([reporter]):
        topic.wait_for_lots(1)
        reporter.tell(FlowState.RESTARTING)
        topic.wait_for_lots(2)
        assert reporter.why_unwritten() == "unexpected RuntimeError: the client is confused"
        topic.down = False
        reporter.tell(FlowState.RUNNING)
        topic.wait_for(FlowState.RUNNING)
