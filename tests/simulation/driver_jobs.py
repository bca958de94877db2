"""The jobs of a mirror's driver: topics, their settings and ACLs, offset syncs, checkpoints, group offsets, heartbeats.

The jobs are the product's, in simulated threads; the few lines of `runtime/leader_jobs.py` are played here.
"""

from collections.abc import Sequence

from tests.simulation.scheduler import World

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.flow.settings import HeartbeatSettings
from sparkmirror.errors import SparkMirrorError
from sparkmirror.runtime.jobs import FlowSync, Job, offset_jobs
from sparkmirror.sync.flow import begin_flow
from sparkmirror.sync.offset_job import CheckpointLatency
from sparkmirror.telemetry.records import JobRecord


class DriverJobs:
    """Of the flow that this process leads."""

    def __init__(self, world: World, flow: FlowConfig, heartbeats: Sequence[HeartbeatSettings]) -> None:
        self._world = world
        self._flow = flow
        self._heartbeats = heartbeats
        self._jobs: list[Job] = []
        self.rounds: list[tuple[float, str]] = []
        """Of the job that keeps topics, settings and ACLs in step: when each ended, and why it failed, if it did."""

    def prepare(self) -> None:
        """What a start does before the first record; who runs a mirror starts it again where that fails."""
        while True:
            try:
                begin_flow(self._flow)
            except SparkMirrorError as problem:
                self._world.tell(f"the first round of topics fails: {problem}")
                self._world.sleep(1.0)
            else:
                return

    def poll(self, *, is_led: bool) -> None:
        """Called by a thread of the driver: starts and stops jobs as the lead comes and goes."""
        if is_led and not self._jobs:
            self._jobs = self._start()
        elif not is_led:
            self.end()

    @property
    def run_now(self) -> bool:
        return bool(self._jobs)

    def end(self) -> None:
        for job in self._jobs:
            job.stop(close=True)
        self._jobs = []

    def _start(self) -> list[Job]:
        flow, sync = self._flow, FlowSync(self._flow)
        assert sync.seconds_max is not None
        topics = Job(
            f"{flow.name} topics", sync.seconds_max, sync, look_seconds=sync.look_seconds, cost_share=1.0,
            close=sync.close,
        )  # fmt: skip
        jobs = [topics, *offset_jobs(flow, self._heartbeats, CheckpointLatency())]
        for job in jobs:
            job.report = self._hear
            job.start()
        return jobs

    def _hear(self, told: JobRecord) -> None:
        """A job lives on after an error that is none of the project's, and only says so."""
        if told.name == "topics":
            self.rounds.append((self._world.now, told.reason))
        if told.reason:
            self._world.tell(f"the job of {told.name} says: {told.reason}")
        if told.reason.startswith("unexpected "):
            self._world.wrongs.append(f"the job of {told.name}: {told.reason}")
