"""What a canary makes of probes that arrive, come twice, are overtaken, or are somebody else's."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.manual_clock import ManualClock

from sparkmirror.config.flow.flows import FlowConfig, load_config
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.tail import TailRecord
from sparkmirror.model import TopicPartition
from sparkmirror.sync import canary_job
from sparkmirror.sync.canary_job import CLOCK_TOPIC, CanaryJob
from sparkmirror.telemetry.board import StatusBoard

HOME = TopicPartition("A.sparkmirror-canary-B", 0)


class Clusters:
    """Both sides: what is written to the source is held until a test lets it arrive."""

    def __init__(self, *_: object) -> None:
        self.target = self.to_source = self.to_target = self
        self.probes: list[bytes] = []
        self.arriving: list[TailRecord] = []
        self.board = StatusBoard("A")

    def list_topics(self, names: Any) -> dict[str, None]:
        return dict.fromkeys(names)

    def await_end(self, partition: TopicPartition) -> int:
        assert partition == HOME
        return 40

    def seek(self, partition: TopicPartition, offset: int) -> None:
        assert (partition, offset) == (HOME, 40), "what earlier runs have left is not read"

    def write(self, topic: str, records: list[tuple[bytes, bytes]]) -> None:
        ((key, value),) = records
        if topic == "sparkmirror-canary-B":
            self.probes.append(value)
        else:
            assert self.board.take(key, value)

    def read_clock(self, topic: str) -> float:
        assert topic == CLOCK_TOPIC
        return 0.25

    def poll(self, _: float) -> list[TailRecord]:
        arrived, self.arriving = self.arriving, []
        return arrived

    def let_arrive(self, *values: bytes) -> None:
        self.arriving += [TailRecord(HOME, 0, 0, None, value) for value in values]


@pytest.fixture
def flow(tmp_path: Path) -> FlowConfig:
    file = tmp_path / "canary.properties"
    lines = ["clusters = A, B", "A.bootstrap.servers = a:1", "B.bootstrap.servers = b:1", "A->B.enabled = true"]
    file.write_text("\n".join([*lines, "topics = orders", "canary.interval.seconds = 1"]))
    return load_config(file).flows[0]


@pytest.fixture
def clusters(flow: FlowConfig, monkeypatch: pytest.MonkeyPatch) -> Clusters:
    both = Clusters()
    monkeypatch.setattr(canary_job, "_Opened", lambda *_: both)
    monkeypatch.setattr(CanaryJob, "_follow", lambda job, _: (both.seek(job._home, 40), both)[1])
    return both


class HastyClock(ManualClock):
    """Goes on by 0.3 s whenever it is read."""

    def monotonic(self) -> float:
        self.now += 0.3
        return self.now


def new_job(flow: FlowConfig) -> CanaryJob:
    return CanaryJob(flow, HastyClock())


def test_the_topic_of_the_probes_is_mirrored_although_the_file_does_not_name_it(flow: FlowConfig) -> None:
    assert flow.canary_topic == "sparkmirror-canary-B"
    assert flow.should_replicate(flow.canary_topic)
    assert not flow.should_replicate("sparkmirror-canary-C")


def test_probes_arrive_once_and_those_that_are_overtaken_are_lost(flow: FlowConfig, clusters: Clusters) -> None:
    job = new_job(flow)
    for _ in range(4):
        job()
    first, second, third, _ = clusters.probes
    assert json.loads(second)["n"] == 1
    foreign = json.dumps({"canary": "another", "n": 3}).encode()
    clusters.let_arrive(first, first, foreign, b"no JSON", third)
    job()
    state = clusters.board.canary
    assert state is not None
    assert (state.sent, state.arrived, state.lost) == (5, 2, 1)
    assert state.latency.count == 2
    assert state.oldest_sent_ms is not None
    assert (state.source_skew_seconds, state.target_skew_seconds) == (0.25, 0.25)


class Log(Clusters):
    """The target's log of the probes, which is read from where a reader has gone to."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[bytes] = []
        self.at = self.first = 40
        self.is_away = False

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def await_end(self, partition: TopicPartition) -> int:
        return self.first + len(self.log)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.at = offset

    def write(self, topic: str, records: list[tuple[bytes, bytes]]) -> None:
        if self.is_away and topic != "sparkmirror-canary-B":
            raise ClusterUnreachable("Cluster B does not answer.", "")
        super().write(topic, records)

    def poll(self, _: float) -> list[TailRecord]:
        found = [
            TailRecord(HOME, self.first + n, 0, None, value)
            for n, value in enumerate(self.log)
            if self.first + n >= self.at
        ]
        self.at = self.first + len(self.log)
        return found


@pytest.mark.parametrize("is_made_again", [False, True])
def test_probes_that_arrive_while_nobody_reads_are_not_lost(
    flow: FlowConfig, monkeypatch: pytest.MonkeyPatch, is_made_again: bool
) -> None:
    log = Log()
    monkeypatch.setattr(canary_job, "_Opened", lambda *_: log)
    monkeypatch.setattr(canary_job, "open_tail", lambda *_: log)
    job = new_job(flow)
    job()
    log.log.append(log.probes[0])
    job()
    log.is_away = True
    with pytest.raises(ClusterUnreachable):
        job()
    log.is_away = False
    log.log += log.probes[1:3]
    if is_made_again:
        log.log, log.first = [], 0
    job()
    log.log.append(log.probes[3])
    job()
    state = log.board.canary
    assert state is not None
    seen = 1 if is_made_again else 3
    assert (state.sent, state.arrived, state.lost) == (5, seen + 1, 0)
    assert state.latency.count == 2, "when the others arrived nobody saw"
