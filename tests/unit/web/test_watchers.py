"""What the page shows while a cluster does not answer: that it does not, and what was known before."""

import time
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest
from tests.flows import flow_of

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.admin import Admin
from sparkmirror.model import Cluster, FlowName
from sparkmirror.telemetry import follower
from sparkmirror.telemetry.facts import Facts
from sparkmirror.telemetry.problems import Level
from sparkmirror.telemetry.records import FlowRecord, FlowState, TaskRecord, encode_record
from sparkmirror.telemetry.verdict import judge
from sparkmirror.web import watchers as watch
from sparkmirror.web.page_state import PageState

RUNNING = FlowRecord("run", FlowState.RUNNING, host="here", pid=7)
TASK = TaskRecord("run", 0, 1)


@pytest.fixture
def flow(monkeypatch: pytest.MonkeyPatch) -> FlowConfig:
    def refuse(cluster: Cluster, role: str) -> AbstractContextManager[Admin]:
        raise ClusterUnreachable(f"Cluster {cluster.alias} does not answer.", "Check that all its brokers are up.")

    monkeypatch.setattr(follower, "open_admin", refuse)
    return flow_of()


def test_a_flow_whose_target_is_away_says_so_and_is_looked_at_again(flow: FlowConfig) -> None:
    page_state = PageState()
    watcher = watch.FlowWatcher(flow, lambda: "run", page_state, watch.Headline(page_state, [flow.name]))
    watcher()
    watcher()
    told = page_state.since(0)
    assert told["parts"]["flow/A->B"]["state"] == "STARTING"
    verdict = told["parts"]["flow/A->B"]["verdict"]
    assert verdict["sentence"] == "A->B: cluster B: does not answer: Cluster B does not answer"
    assert (verdict["level"], told["parts"]["flow/A->B"]["lag_records"]) == ("red", None)
    assert told["parts"]["verdict"] == {"level": "red", "sentence": verdict["sentence"]}
    assert watcher.curves_of([0, 1]) == {}


def test_the_headline_of_a_page_waits_for_all_flows() -> None:
    """A watcher whose target does not answer takes its time."""
    page_state, well = PageState(), judge(Facts(flow=FlowName("A", "B"), now_ms=0, processes=(RUNNING,), tasks=(TASK,)))
    assert well.level is Level.GREEN
    headline = watch.Headline(page_state, [FlowName("A", "B"), FlowName("A", "C")])
    headline.tell(well)
    assert page_state.since(0)["parts"]["verdict"] == {"level": "unknown", "sentence": "A->C: it is starting"}
    headline.tell(replace(well, flow="A->C"))
    assert page_state.since(0)["parts"]["verdict"] == {"level": "green", "sentence": "All 2 flows are mirroring"}


def test_an_error_that_nobody_expects_does_not_leave_a_flow_green(
    flow: FlowConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job that runs the watcher logs it and tries again; the page would show what was read last."""
    page_state = PageState()
    watcher = watch.FlowWatcher(flow, lambda: "run", page_state, watch.Headline(page_state, [flow.name]))
    monkeypatch.setattr(watcher.follower, "_poll", lambda: False)
    key, value = encode_record("A", RUNNING)
    watcher.follower.board.take(key, value, time.time_ns() // 1_000_000)
    watcher.follower.board.take(*encode_record("A", TASK), time.time_ns() // 1_000_000)
    watcher()
    assert page_state.since(0)["parts"]["verdict"]["level"] == "green"

    def fail() -> bool:
        raise RuntimeError("dictionary changed size during iteration")

    monkeypatch.setattr(watcher.follower, "_poll", fail)
    with pytest.raises(RuntimeError):
        watcher()
    verdict = page_state.since(0)["parts"]["verdict"]
    assert verdict["level"] == "red" and "unexpected RuntimeError" in verdict["sentence"]
