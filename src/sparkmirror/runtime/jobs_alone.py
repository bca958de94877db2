"""Runs a process that only writes heartbeats and checkpoints, without Spark. Called by `runtime.start`.

MirrorMaker's documentation runs one process per cluster; with a one-way file `primary->backup` the process of `primary`
writes the heartbeats of `backup->primary` and nothing else. A MirrorCheckpointConnector or a MirrorHeartbeatConnector
may also run where another MirrorMaker mirrors the topics.
"""

import logging
from collections.abc import Sequence
from functools import partial

from sparkmirror.config.flow.flow_choice import name_others
from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig
from sparkmirror.runtime.jobs import Job, heartbeat_jobs, offset_jobs
from sparkmirror.runtime.page import Page
from sparkmirror.stop_request import StopRequest
from sparkmirror.sync.offset_job import CheckpointLatency
from sparkmirror.telemetry.problems import first_line
from sparkmirror.telemetry.records import JobRecord, JobState
from sparkmirror.web.health import Health

log = logging.getLogger(__name__)

_TICK_SECONDS = 1.0


def run_jobs(config: MirrorConfig, stop: StopRequest) -> int:
    """Write the heartbeats and checkpoints of `config` until `stop`; returns the exit status.

    A cluster that does not answer is reported and tried again, as in a process with flows.
    """
    health = Health()
    jobs = [*heartbeat_jobs(config.heartbeats), *checkpoint_jobs(config.checkpoints)]
    with Page(config, health):
        not_ready = report_failures(jobs)
        for job in jobs:
            job.start()
        log.info("Only %s are written.", name_others(config.heartbeats, config.checkpoints))
        while not stop.wait(_TICK_SECONDS):
            health.beat(tuple(sorted(not_ready.copy().values())))
        health.stopping()
        for job in jobs:
            job.stop(close=True)
    return 0


def report_failures(jobs: Sequence[Job]) -> dict[str, str]:
    """A sentence for each job whose last round failed, or that has not ended one, by the job's name; the jobs, which
    have not been started, keep it up to date."""
    found = {job.name: f"{job.name}: no round has ended yet" for job in jobs}

    def note(job: Job, record: JobRecord) -> None:
        if record.state is JobState.FAILED:
            found[job.name] = f"{job.name}: {first_line(record.reason)}"
        else:
            found.pop(job.name, None)

    for job in jobs:
        job.report = partial(note, job)
    return found


def checkpoint_jobs(flows: Sequence[FlowConfig]) -> list[Job]:
    """One job for each pair whose topics another program mirrors."""
    return [job for flow in flows for job in offset_jobs(flow, (), CheckpointLatency())]
