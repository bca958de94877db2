"""How often jobs look, and what they say."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from tests.flows import config_of, flow_of
from tests.manual_clock import ManualClock

from sparkmirror.errors import ClusterUnreachable
from sparkmirror.runtime import jobs
from sparkmirror.runtime.jobs import FlowSync, Job, pause_seconds
from sparkmirror.runtime.jobs_alone import report_failures
from sparkmirror.sync.change import Plan
from sparkmirror.sync.config_job import ConfigSync
from sparkmirror.sync.offset_job import CheckpointLatency
from sparkmirror.sync.topic_job import TopicSync
from sparkmirror.telemetry.records import JobRecord, JobState


@pytest.mark.parametrize(
    ("cpu_seconds", "round_seconds", "seconds_max", "pause"),
    [
        (0.0, 0.0, 600.0, 5.0),
        (0.05, 0.1, 600.0, 5.0),
        (0.05, 1.0, 600.0, 5.0),
        (1.0, 1.0, 600.0, 50.0),
        (3.0, 3.0, 600.0, 60.0),
        (0.5, 90.0, 600.0, 90.0),
        (60.0, 60.0, 30.0, 30.0),
        (0.0, 0.0, 1.0, 1.0),
    ],
    ids=[
        "free",
        "cheap",
        "cheap, though the machine is busy or a cluster far",
        "costly",
        "at most a minute",
        "or the round",
        "never rarer than configured",
        "as often as configured",
    ],
)
def test_jobs_look_often_while_that_is_cheap(
    cpu_seconds: float, round_seconds: float, seconds_max: float, pause: float
) -> None:
    assert pause_seconds(cpu_seconds, round_seconds, seconds_max) == pause


def test_a_round_that_mostly_waits_is_soon_followed_by_the_next() -> None:
    often = threading.Event()
    rounds: list[None] = []

    def wait() -> None:
        rounds.append(time.sleep(0.05))
        if len(rounds) == 20:
            often.set()

    job = Job("a->b topics", 600.0, wait, look_seconds=0.01)
    job.start()
    assert often.wait(60), "rounds of 0.05 s of waiting were followed by pauses of seconds"
    job.stop()
    job._thread.join(60)


def test_a_job_with_work_left_over_begins_at_once() -> None:
    begun = threading.Event()
    job = Job("a->b topics", 600.0, begun.set, look_seconds=600.0, at_once=True)
    job.start()
    assert begun.wait(60)
    job.stop()
    job._thread.join(60)


def test_work_that_was_done_in_part_counts_as_failed_since_its_first_round() -> None:
    told: list[JobRecord] = []
    over = threading.Event()

    def work() -> str:
        return "group billing is not synced" if len(told) < 3 else ""

    def report(record: JobRecord) -> None:
        told.append(record)
        if len(told) == 5:
            over.set()

    job = Job("a->b offsets", 600.0, work, look_seconds=0.01, at_once=True)
    job.report = report
    job.start()
    assert over.wait(60)
    job.stop()
    job._thread.join(60)
    assert [one.state for one in told[:5]] == [JobState.FAILED] * 3 + [JobState.RUNNING] * 2
    assert {one.failing_since_ms for one in told[:3]} == {told[0].last_at_ms}
    assert told[0].reason == "group billing is not synced" and told[4].failing_since_ms is None


def test_heartbeats_both_ways_have_records_of_their_own() -> None:
    """A file of one flow writes heartbeats the other way, too; where the mirror may only read there, those fail."""
    told: dict[str, JobState] = {}
    over = threading.Event()

    def refuse() -> str:
        over.set()
        return "A refuses: TOPIC_AUTHORIZATION_FAILED"

    flow = flow_of().name
    pairs = [
        Job(f"{pair} heartbeats", 600.0, work, at_once=True) for pair, work in (("B->A", refuse), ("A->B", lambda: ""))
    ]
    for job in pairs:
        job.report_to(lambda record: told.update({record.name: record.state}), flow)
        job.start()
        assert job is not pairs[0] or over.wait(60)
    for job in pairs:
        job.stop()
        job._thread.join(60)
    assert told == {"heartbeats": JobState.RUNNING, "heartbeats of B->A": JobState.FAILED}


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ([], ["A->B offsets", "A->B heartbeats", "B->A heartbeats"]),
        (["emit.checkpoints.enabled = false"], ["A->B offsets", "A->B heartbeats", "B->A heartbeats"]),
        (
            ["emit.checkpoints.enabled = false", "emit.offset-syncs.enabled = false"],
            ["A->B heartbeats", "B->A heartbeats"],
        ),
        (["emit.heartbeats.enabled = false"], ["A->B offsets"]),
    ],
)
def test_the_jobs_of_a_flow_are_those_that_are_switched_on(lines: list[str], wanted: list[str]) -> None:
    config = config_of(*lines)
    made = jobs.offset_jobs(config.flows[0], config.heartbeats, CheckpointLatency())
    assert [job.name for job in made] == wanted


class Desk:
    """A flow's syncs, whose plans take CPU time by a clock of our own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cpu_seconds: dict[type, float]) -> None:
        self.clock, self.rounds, self.warnings = ManualClock(), list[type](), dict[type, str]()
        self.is_away = False
        self.syncs = [self.sync(kind, seconds) for kind, seconds in cpu_seconds.items()]
        monkeypatch.setattr(jobs, "open_admin", self.open_admin)
        monkeypatch.setattr(jobs, "flow_syncs", lambda *_, **__: self.syncs)

    @contextmanager
    def open_admin(self, *_: Any) -> Iterator[None]:
        yield

    def sync(self, kind: type, cpu_seconds: float) -> Any:
        desk = self

        class Told(kind):
            def __init__(self) -> None:
                pass

            def plan(self) -> Plan:
                if desk.is_away:
                    raise ClusterUnreachable("B is away.")
                desk.rounds.append(kind)
                desk.clock.now += cpu_seconds
                desk.clock.cpu += cpu_seconds
                return Plan(warnings=tuple(text for about, text in desk.warnings.items() if about is kind))

            def apply(self, plan: Plan) -> Sequence[str]:
                raise AssertionError(plan)

        return Told()


def test_new_topics_do_not_wait_for_the_settings_of_a_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that cost 0.6 s of CPU are compared every half a minute, topics looked for all the while."""
    desk = Desk(monkeypatch, {TopicSync: 0.01, ConfigSync: 0.6})
    sync = FlowSync(flow_of(), clock=desk.clock)
    looks = round(60 / sync.look_seconds)
    for _ in range(looks):
        sync()
        desk.clock.now += sync.look_seconds
    assert desk.rounds.count(TopicSync) == looks
    assert desk.rounds.count(ConfigSync) == 2


def test_brokers_are_asked_for_the_settings_of_a_thousand_topics_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the answers cost us counts, and what they cost the brokers: a millisecond a topic."""
    desk = Desk(monkeypatch, {TopicSync: 0.01, ConfigSync: 0.01})
    sync, desk.syncs[1].compared = FlowSync(flow_of(), clock=desk.clock), 1000
    for _ in range(round(120 / sync.look_seconds)):
        sync()
        desk.clock.now += sync.look_seconds
    assert desk.rounds.count(ConfigSync) == 3


def test_what_a_sync_has_warned_of_is_not_said_again_because_it_paused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(monkeypatch, {TopicSync: 0.0, ConfigSync: 0.6})
    desk.warnings[ConfigSync] = "The target does not know the setting x."
    sync = FlowSync(flow_of(), clock=desk.clock)
    for _ in range(24):
        sync()
        desk.clock.now += sync.look_seconds
    assert [record.message for record in caplog.records].count("A->B: The target does not know the setting x.") == 1


def test_after_a_failure_all_syncs_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(monkeypatch, {TopicSync: 0.0, ConfigSync: 0.6})
    sync = FlowSync(flow_of(), clock=desk.clock)
    sync()
    desk.is_away = True
    desk.clock.now += 2.5
    with pytest.raises(ClusterUnreachable):
        sync()
    desk.is_away = False
    sync()
    assert desk.rounds == [TopicSync, ConfigSync, TopicSync, ConfigSync]


def test_a_process_of_jobs_alone_is_ready_when_they_all_go_well() -> None:
    """Heartbeats that cannot be written are nobody's flow; the probe is who can say so."""
    outcomes = [""]
    quick = Job("A->B heartbeats", 600.0, lambda: outcomes[0], look_seconds=0.01, at_once=True)
    slow = Job("B->A heartbeats", 600.0, lambda: "", look_seconds=600.0)
    not_ready = report_failures([quick, slow])
    assert set(not_ready) == {"A->B heartbeats", "B->A heartbeats"}

    def until(wanted: set[str]) -> None:
        deadline = time.monotonic() + 40
        while set(not_ready.copy().values()) != wanted:
            assert time.monotonic() < deadline, not_ready
            time.sleep(0.01)

    quick.start()
    late = "B->A heartbeats: no round has ended yet"
    until({late})
    outcomes[0] = "Cluster B does not answer.\nhint: look"
    until({late, "A->B heartbeats: Cluster B does not answer"})
    outcomes[0] = ""
    until({late})
    quick.stop()
    quick._thread.join(60)
