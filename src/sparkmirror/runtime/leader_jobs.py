"""Runs the jobs of the flows that this process leads. The process with a flow's first task leads it.

One process keeps topics, settings, ACLs, offsets, groups and heartbeats in step; when the lead moves, the jobs move
with it. Called by `runtime.run`.
"""

from collections.abc import Mapping, Sequence

from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig
from sparkmirror.config.flow.settings import HeartbeatSettings
from sparkmirror.model import FlowName
from sparkmirror.operations.right_checks import LOOK_SECONDS as RIGHTS_LOOK_SECONDS
from sparkmirror.operations.right_checks import RightsJob
from sparkmirror.runtime.jobs import FlowSync, Job, offset_jobs
from sparkmirror.runtime.running_flow import RunningFlow
from sparkmirror.sync.canary_job import CanaryJob
from sparkmirror.sync.change import Round
from sparkmirror.sync.fencing_job import LOOK_SECONDS as FENCING_LOOK_SECONDS
from sparkmirror.sync.fencing_job import FencingJob
from sparkmirror.sync.source_group import SourceGroup

_CANARY_SECONDS = 0.1
"""The pause between rounds of the canary, which wait for arrivals all through their interval."""


class LeaderJobs:
    """Starts and stops jobs as the lead of flows comes and goes."""

    def __init__(self, config: MirrorConfig, groups: Mapping[FlowName, SourceGroup]) -> None:
        self._groups = groups
        self._heartbeats = {flow.name: _heartbeats_of(config, flow) for flow in config.flows}
        self._told: dict[FlowName, Round] = {}
        self._urgent: set[FlowName] = set()
        self._unfenced: set[FlowName] = set()
        self._jobs: dict[FlowName, list[Job]] = {}

    def note_unfenced(self, flow: FlowConfig) -> None:
        """The flow's target can have no coordinator of transactions now."""
        self._unfenced.add(flow.name)

    def note(self, flow: FlowConfig, first: Round, *, are_more: bool) -> None:
        """Note a flow's first round, whose changes were logged, and whether topics are still missing."""
        self._told[flow.name] = first
        if are_more:
            self._urgent.add(flow.name)

    def begin(self, flows: Sequence[RunningFlow]) -> None:
        """Before the queries begin: start the jobs of flows that lack topics."""
        self.poll([running for running in flows if running.flow.name in self._urgent])

    def poll(self, flows: Sequence[RunningFlow]) -> None:
        """Start and stop jobs as leads have moved; called now and then."""
        for running in flows:
            name = running.flow.name
            if running.is_led and name not in self._jobs:
                self._jobs[name] = self._start(running)
            elif not running.is_led and name in self._jobs:
                for job in self._jobs.pop(name):
                    job.stop(close=True)

    def led(self, flows: Sequence[FlowConfig]) -> list[FlowConfig]:
        """The flows whose jobs run here."""
        return [flow for flow in flows if flow.name in self._jobs]

    def end(self) -> None:
        """The process ends: begin no further round."""
        for jobs in self._jobs.values():
            for job in jobs:
                job.stop()

    def _start(self, running: RunningFlow) -> list[Job]:
        jobs, flow = [], running.flow
        sync = FlowSync(flow, self._told.pop(flow.name, None))
        if sync.seconds_max is not None:
            name, look_seconds = f"{flow.name} topics", sync.look_seconds
            # Each sync of it has its own pace.
            jobs.append(
                Job(
                    name, sync.seconds_max, sync, look_seconds=look_seconds, cost_share=1.0, close=sync.close,
                    at_once=flow.name in self._urgent,
                )
            )  # fmt: skip
        if group := self._groups.get(flow.name):
            jobs.append(Job(f"{flow.name} group", flow.progress_group_commit_interval_ms / 1000, group))
        if interval := flow.canary_interval_seconds:
            canary = CanaryJob(flow)
            name = f"{flow.name} canary"
            jobs.append(Job(name, interval, canary, look_seconds=_CANARY_SECONDS, cost_share=1e6, close=canary.close))
        if flow.name in self._unfenced:
            fencing = FencingJob(flow, lambda: running.run)
            jobs.append(Job(f"{flow.name} fencing", FENCING_LOOK_SECONDS, fencing, at_once=True))
        jobs += offset_jobs(flow, self._heartbeats[flow.name], running.checkpoints)
        for job in jobs:
            job.report_to(running.reporter.tell_job, flow.name)
        rights = RightsJob(flow, self._heartbeats[flow.name])
        jobs.append(Job(f"{flow.name} permissions", RIGHTS_LOOK_SECONDS, rights, look_seconds=RIGHTS_LOOK_SECONDS))
        for job in jobs:
            job.start()
        return jobs


def _heartbeats_of(config: MirrorConfig, flow: FlowConfig) -> list[HeartbeatSettings]:
    """The flow's own heartbeats; with the first flow of a file also those of pairs of clusters that mirror nothing."""
    names = {one.name for one in config.flows}
    is_first = flow is config.flows[0]
    return [beat for beat in config.heartbeats if beat.flow == flow.name or (is_first and beat.flow not in names)]
