"""A process that mirrors nothing here and writes heartbeats only: no Spark is started. Called by `engine.start`.

MirrorMaker's documentation runs one process per cluster; with a one-way file `primary->backup` the process of
`primary` has the heartbeats of `backup->primary` to write and nothing else.
"""

import logging

from sparkmirror.config.flows import MirrorConfig
from sparkmirror.engine.jobs import heartbeat_jobs
from sparkmirror.engine.page import Page
from sparkmirror.engine.stop_request import StopRequest
from sparkmirror.web.health import Health

log = logging.getLogger(__name__)

_TICK_SECONDS = 1.0


def write_heartbeats(config: MirrorConfig, stop: StopRequest) -> int:
    """Write the heartbeats of `config` until `stop`; returns the exit status.

    A cluster that does not answer is reported and tried again, as in a process with flows.
    """
    health = Health()
    jobs = heartbeat_jobs(config.heartbeats)
    with Page(config, health):
        for job in jobs:
            job.start()
        log.info("Only heartbeats are written: %s.", ", ".join(str(beat.flow) for beat in config.heartbeats))
        while not stop.wait(_TICK_SECONDS):
            health.beat()
        for job in jobs:
            job.stop(close=True)
    return 0
