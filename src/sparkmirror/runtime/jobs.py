"""Runs a flow's control-plane jobs on threads, in rounds: observe, plan, apply. Started by `runtime.run`.

Kafka sends no notice of a new topic, setting or ACL, so the jobs poll: often while that is cheap, and at least as often
as the configured intervals say.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from sparkmirror.clock import SYSTEM_CLOCK, Clock, to_the_second
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.flow.settings import LOOK_SECONDS, HeartbeatSettings
from sparkmirror.errors import SparkMirrorError, describe_unexpected
from sparkmirror.kafka.clients import open_admin
from sparkmirror.model import FlowName
from sparkmirror.sync.change import Round, Sync
from sparkmirror.sync.config_job import ConfigSync
from sparkmirror.sync.flow import flow_syncs, run_round
from sparkmirror.sync.heartbeat_job import HeartbeatJob
from sparkmirror.sync.offset_job import LOOK_SECONDS as OFFSETS_LOOK_SECONDS
from sparkmirror.sync.offset_job import CheckpointLatency, OffsetJob
from sparkmirror.sync.topic_job import TopicSync
from sparkmirror.telemetry.records import JobRecord, JobState

log = logging.getLogger(__name__)

_COST_SHARE = 0.02
_PAUSE_SECONDS_MAX = 60.0
_CHANGES_TOLD_MAX = 5
_BROKER_SECONDS_A_TOPIC = 0.001


def pause_seconds(
    cpu_seconds: float,
    round_seconds: float,
    seconds_max: float,
    look_seconds: float = LOOK_SECONDS,
    cost_share: float = _COST_SHARE,
) -> float:
    """The seconds to wait after a round: at least 5 s, long enough that rounds take 2 % of a core, and at most a
    minute. The round's `cpu_seconds` count, because on a busy machine or a long link rounds take long by waiting.
    The pause is at least as long as the round, `round_seconds`."""
    pause = max(min(cpu_seconds / cost_share, _PAUSE_SECONDS_MAX), round_seconds)
    return min(seconds_max, max(look_seconds, pause))


class Job:
    """Runs `work` until stopped, at least every `seconds_max`; a failure is reported once and tried again.

    `name` is the flow and the subject of the job; `report` is called after each round. Work that was done in part
    returns the failures, and has logged them.
    """

    def __init__(
        self,
        name: str,
        seconds_max: float,
        work: Callable[[], str | None],
        *,
        look_seconds: float = LOOK_SECONDS,
        cost_share: float = _COST_SHARE,
        close: Callable[[], None] = lambda: None,
        at_once: bool = False,
    ) -> None:
        """The first round comes after a pause too, if not `at_once`."""
        self.report: Callable[[JobRecord], None] = lambda _: None
        self._record = JobRecord(name.partition(" ")[2], "")
        self.name = name
        self._flow = name.partition(" ")[0]
        self._close = close
        self._is_to_close = False
        self._seconds_max = seconds_max
        self._look_seconds = look_seconds
        self._cost_share = cost_share
        self._at_once = at_once
        self._work = work
        self._stopping = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def report_to(self, report: Callable[[JobRecord], None], flow: FlowName) -> None:
        """Has `report` called after each round, for the status of `flow`. A job of another pair of clusters, such as
        heartbeats the other way, is named with it: two jobs of one name would replace each other's records."""
        self.report = report
        if self._flow != str(flow):
            self._record = replace(self._record, name=f"{self._record.name} of {self._flow}")

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, close: bool = False) -> None:
        """Asks the job to end and does not wait for a round under way. With `close` its connections are closed then,
        for a process that goes on."""
        self._is_to_close = close
        self._stopping.set()

    def _run(self) -> None:
        pause = 0.0 if self._at_once else self._pause(0.0, 0.0)
        while not self._stopping.wait(to_the_second(pause)):
            began, began_cpu, reason = time.monotonic(), time.thread_time(), ""
            try:
                reason = self._work() or ""
                self._recover()
            except SparkMirrorError as problem:
                reason = str(problem)
                self._tell(reason)
            except Exception as problem:  # A job that ended without a message would not be noticed.
                reason = describe_unexpected(problem)
                self._tell(reason)
            round_seconds = time.monotonic() - began
            pause = self._pause(time.thread_time() - began_cpu, 0.0 if reason else round_seconds)
            self._tell_round(reason, round_seconds, pause)
        if self._is_to_close:
            self._close()

    def _pause(self, cpu_seconds: float, round_seconds: float) -> float:
        return pause_seconds(cpu_seconds, round_seconds, self._seconds_max, self._look_seconds, self._cost_share)

    def _tell_round(self, reason: str, cost_seconds: float, pause: float) -> None:
        now_ms = time.time_ns() // 1_000_000
        self._record = replace(
            self._record,
            state=JobState.FAILED if reason else JobState.RUNNING,
            reason=reason,
            rounds=self._record.rounds + 1,
            failures=self._record.failures + bool(reason),
            cost_seconds=round(cost_seconds, 3),
            last_at_ms=now_ms,
            next_at_ms=now_ms + round(pause * 1000),
            failing_since_ms=(self._record.failing_since_ms or now_ms) if reason else None,
        )
        self.report(self._record)

    def _tell(self, sentence: str) -> None:
        """Logs the failure; `logs.handlers` counts repeats."""
        self._failing = True
        log.warning("%s: %s", self.name, sentence, extra={"event": "job-failed", "flow": self._flow})

    def _recover(self) -> None:
        if self._failing:
            self._failing = False
            log.info("%s: works again.", self.name, extra={"event": "job-works", "flow": self._flow})


@dataclass(slots=True)
class _Paced:
    """One sync of a flow with its own pace: reading the settings of a thousand topics is expensive, listing topics is
    cheap."""

    sync: Sync
    look_seconds: float
    seconds_max: float
    clock: Clock
    due_at: float = 0.0
    last: Round | None = None

    def run(self) -> Round:
        began, began_cpu = self.clock.monotonic(), self.clock.thread_time()
        self.last = run_round(self.sync)
        ended = self.clock.monotonic()
        cpu_seconds = max(self.clock.thread_time() - began_cpu, self._others_seconds())
        self.due_at = ended + pause_seconds(cpu_seconds, ended - began, self.seconds_max, self.look_seconds)
        return self.last

    def _others_seconds(self) -> float:
        """The brokers' CPU time for sending the settings of all topics."""
        return self.sync.compared * _BROKER_SECONDS_A_TOPIC if isinstance(self.sync, ConfigSync) else 0.0


class FlowSync:
    """All sync jobs of one flow, over connections that stay open between rounds and are opened again after a failure.

    Called every few seconds; syncs that are due run.
    """

    def __init__(self, flow: FlowConfig, reported: Round | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        """`reported` is a round whose changes were logged."""
        self._flow = flow
        self._clock = clock
        self._syncs: list[_Paced] = []
        self._connections = ExitStack()
        self._told = set(_sentences(reported)) if reported else set()
        self._changed: set[str] = set()

    @property
    def seconds_max(self) -> float | None:
        """The shortest of the intervals in the file; None when the flow syncs nothing."""
        flow = self._flow
        intervals = [
            (flow.refresh_topics_enabled, flow.refresh_topics_interval_seconds),
            (flow.sync.configs_enabled, flow.sync.configs_interval_seconds),
            (flow.sync.acls_enabled, flow.sync.acls_interval_seconds),
        ]
        return min((float(seconds) for enabled, seconds in intervals if enabled), default=None)

    @property
    def look_seconds(self) -> float:
        """The seconds between two calls."""
        return self._flow.look_seconds if self._flow.refresh_topics_enabled else LOOK_SECONDS

    def close(self) -> None:
        """Ends the connections; the next round opens them again."""
        self._connections.close()
        self._syncs = []

    def __call__(self) -> None:
        """One round of the syncs that are due. Raises ClusterError if a cluster does not answer."""
        try:
            if not self._syncs:
                self._open()
            now = self._clock.monotonic()
            rounds = [paced.run() for paced in self._syncs if paced.due_at <= now]
        except SparkMirrorError:
            self.close()
            raise
        tell_changes(self._flow, rounds, self._changed)
        known = [paced.last for paced in self._syncs if paced.last is not None]
        self._changed = {change.sentence for one in known for change in one.plan.changes}
        sentences = {sentence for one in known for sentence in _sentences(one)}
        for sentence in sorted(sentences - self._told):
            log.warning("%s: %s", self._flow.name, sentence)
        self._told = sentences

    def _open(self) -> None:
        source = self._connections.enter_context(open_admin(self._flow.source, "sync"))
        target = self._connections.enter_context(open_admin(self._flow.target, "sync"))
        self._syncs = [self._pace(sync) for sync in flow_syncs(self._flow, source, target, first=False)]

    def _pace(self, sync: Sync) -> _Paced:
        flow = self._flow
        if isinstance(sync, TopicSync):
            return _Paced(sync, flow.look_seconds, float(flow.refresh_topics_interval_seconds), self._clock)
        is_settings = isinstance(sync, ConfigSync)
        seconds = flow.sync.configs_interval_seconds if is_settings else flow.sync.acls_interval_seconds
        return _Paced(sync, LOOK_SECONDS, float(seconds), self._clock)


def offset_jobs(flow: FlowConfig, heartbeats: Sequence[HeartbeatSettings], latency: CheckpointLatency) -> list[Job]:
    """Checkpoints, group offsets and offset syncs of the flow; heartbeats of the pairs of clusters given."""
    if not (flow.offsets.emit_checkpoints or flow.offsets.emit_syncs):
        return heartbeat_jobs(heartbeats)
    offsets = OffsetJob(flow, latency)
    job = Job(
        f"{flow.name} offsets",
        offsets.seconds_max,
        offsets,
        look_seconds=OFFSETS_LOOK_SECONDS,
        cost_share=0.5,
        close=offsets.close,
    )
    return [job, *heartbeat_jobs(heartbeats)]


def heartbeat_jobs(heartbeats: Sequence[HeartbeatSettings]) -> list[Job]:
    """One for each pair of clusters."""
    return [
        Job(
            f"{settings.flow} heartbeats",
            settings.interval_seconds,
            beat,
            look_seconds=settings.interval_seconds,
            close=beat.close,
        )
        for settings, beat in ((settings, HeartbeatJob(settings)) for settings in heartbeats)
    ]


def finish_offsets(flows: Sequence[FlowConfig], seconds_max: float) -> None:
    """Run a last round after the last record, so that groups can move at once; a cluster that does not answer delays no
    other flow."""
    wanted = [flow for flow in flows if flow.offsets.emit_checkpoints or flow.offsets.emit_syncs]
    threads = [threading.Thread(target=_last_round, args=(flow,), daemon=True) for flow in wanted]
    for thread in threads:
        thread.start()
    ends_at = time.monotonic() + seconds_max
    for thread in threads:
        thread.join(max(ends_at - time.monotonic(), 0))


def _last_round(flow: FlowConfig) -> None:
    job = OffsetJob(flow)
    try:
        job()
    except SparkMirrorError as problem:
        log.warning("%s: the last round of offsets failed: %s", flow.name, problem)
    finally:
        job.close()


def tell_changes(flow: FlowConfig, rounds: Sequence[Round], before: Collection[str] = ()) -> None:
    """Logs the changes: a sentence for each of the first few, without failures that were logged `before`."""
    for one in rounds:
        sentences = [change.sentence for change in one.plan.changes if change.sentence not in before]
        for sentence in sentences[:_CHANGES_TOLD_MAX]:
            log.info("%s: %s.", flow.name, sentence)
        if (more := len(sentences) - _CHANGES_TOLD_MAX) > 0:
            log.info("%s: and %d more.", flow.name, more)


def _sentences(one: Round) -> Sequence[str]:
    return (*one.plan.warnings, *one.failures)
