"""How a mirror begins: with Spark's JVM, which takes longest, while the rest of the program is only being imported.

Called by the verbs that run mirrors, and by `runtime.run_until`.
"""

import logging
import os
import tempfile
from functools import partial
from pathlib import Path

from sparkmirror.config.flow.flows import MirrorConfig
from sparkmirror.logs.handlers import speak_as_driver
from sparkmirror.runtime.options import RunOptions
from sparkmirror.spark.jvm import Launch
from sparkmirror.stop_request import StopRequest, stop_signals
from sparkmirror.telemetry.jmx_port import HINT, find_open_port, jmx_options

log = logging.getLogger(__name__)


def run_mirror(config: MirrorConfig, options: RunOptions) -> int:
    """Run all flows until stopped (or, with `once`, until their ends); returns the exit status.

    Raises SparkMirrorError when the mirror cannot start.
    """
    speak_as_driver(options.log_format or config.status.log_format)
    with stop_signals() as stop, tempfile.TemporaryDirectory(prefix="sparkmirror-") as scratch:
        return run_with(config, options, stop, Path(scratch))


def run_with(config: MirrorConfig, options: RunOptions, stop: StopRequest, scratch: Path) -> int:
    """As `run_mirror`, until `stop`; `scratch` is for Spark's own files. Without a flow only its jobs are done."""
    if not config.flows:
        from sparkmirror.runtime.jobs_alone import run_jobs

        return run_jobs(config, stop)
    from sparkmirror.spark.session import launch_context

    jmx = jmx_options(os.environ)
    if (port := find_open_port(jmx)) is not None:
        log.warning("%s; %s.", port.sentence, HINT, extra={"event": "open-port"})
    tasks = sum(flow.tasks_max for flow in config.flows)
    is_lean = all(flow.lease_ring_bytes and not flow.transforms.steps for flow in config.flows)
    launch = Launch(
        partial(launch_context, tasks, scratch, options.cluster, jmx=jmx, is_lean=is_lean, debug=options.debug)
    )

    from sparkmirror.runtime.run import MirrorRun

    return MirrorRun(config, options, stop, scratch, launch).run()
