"""Starts a mirror: Spark's JVM, which takes longest, starts while the rest of the program is being imported.

Called by the verbs that run mirrors; `run_until` ends a mirror when a condition, checked on a thread, is reached.
"""

import logging
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from sparkmirror.config.flow.flows import MirrorConfig
from sparkmirror.errors import ClusterUnreachable, SparkMirrorError
from sparkmirror.logs.handlers import log_to_stderr
from sparkmirror.runtime.options import RunOptions
from sparkmirror.spark.fork_server import ForkServer
from sparkmirror.spark.gateway import JvmOptions, start_early
from sparkmirror.spark.jvm import Launch
from sparkmirror.stop_request import StopRequest, stop_signals
from sparkmirror.telemetry.jmx_port import HINT, find_open_port, jmx_options

log = logging.getLogger(__name__)


def run_mirror(config: MirrorConfig, options: RunOptions) -> int:
    """Run all flows until stopped (or, with `once`, until their ends); returns the exit status.

    Raises SparkMirrorError when the mirror cannot start.
    """
    log_to_stderr(options.log_format or config.status.log_format)
    with stop_signals() as stop, tempfile.TemporaryDirectory(prefix="sparkmirror-") as scratch:
        return run_with(config, options, stop, Path(scratch))


def run_with(config: MirrorConfig, options: RunOptions, stop: StopRequest, scratch: Path) -> int:
    """Runs the mirror until `stop`, as `run_mirror` does; `scratch` is for Spark's own files. Without a flow only its
    jobs run."""
    if not config.flows:
        from sparkmirror.runtime.jobs_alone import run_jobs

        return run_jobs(config, stop)
    jmx = jmx_options(os.environ)
    if (port := find_open_port(jmx)) is not None:
        log.warning("%s; %s.", port.sentence, HINT, extra={"event": "open-port"})
    decodes = any(flow.transforms.steps for flow in config.flows)
    is_lean = not decodes and all(flow.lease_ring_bytes for flow in config.flows)
    jvm = JvmOptions(is_lean=is_lean, decodes=decodes, jmx=jmx)
    with ExitStack() as cleanup:
        launch = _launch(config, options, scratch, jvm, cleanup)

        from sparkmirror.runtime.run import MirrorRun

        return MirrorRun(config, options, stop, scratch, launch).run()


def _launch(config: MirrorConfig, options: RunOptions, scratch: Path, jvm: JvmOptions, cleanup: ExitStack) -> Launch:
    """The JVM first: it takes longest. Then the server that forks Spark's Python processes, while this process has one
    thread; and only then threads."""
    started, server = None, None
    if options.cluster is None and threading.active_count() == 1:
        server = ForkServer.prepare(scratch)
        started = start_early(scratch, jvm, debug=options.debug)
        if started is not None:
            cleanup.callback(started.give_up)
    if server is not None:
        cleanup.callback(server.close)
        server.fork(decodes=jvm.decodes)
    # Behind the JVM's start, and on this thread: where two threads import kafka-python, one of them fails.
    from sparkmirror.kafka.reach import find_unreachable
    from sparkmirror.spark.cluster import count_slots
    from sparkmirror.spark.session import launch_context

    reach = partial(_name_unreachable, config, find_unreachable)
    threading.Thread(target=reach, name="sparkmirror-reach", daemon=True).start()

    python = server.python if server is not None else None
    return Launch(
        partial(
            launch_context, count_slots(config.flows), scratch, options.cluster,
            options=jvm, started=started, python=python, debug=options.debug,
        )
    )  # fmt: skip


def _name_unreachable(config: MirrorConfig, find_unreachable: Callable[..., Sequence[SparkMirrorError]]) -> None:
    """While the mirror waits for the first cluster that does not answer, the log names all that do not."""
    for problem in find_unreachable(config.sides):
        log.warning("%s It is asked for ten seconds: it may be starting.", problem.args[0])


_LOOK_SECONDS = 2.0


def run_until(config: MirrorConfig, options: RunOptions, is_reached: Callable[[], bool]) -> bool:
    """Runs the mirror until the condition is reached; False when the mirror was asked to stop before. Raises what the
    mirror raises, and what `is_reached` raises unless a cluster is away for a while."""
    log_to_stderr()
    with stop_signals() as stop, tempfile.TemporaryDirectory(prefix="sparkmirror-") as scratch:
        watch = _Watch(is_reached, stop)
        watch.start()
        try:
            run_with(config, options, stop, Path(scratch))
        finally:
            watch.end()
        if watch.problem is not None:
            raise watch.problem
        return watch.is_reached


class _Watch:
    """Looks every two seconds."""

    def __init__(self, look: Callable[[], bool], stop: StopRequest) -> None:
        self._look = look
        self._stop = stop
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sparkmirror-until", daemon=True)
        self.is_reached = False
        self.problem: SparkMirrorError | None = None

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """The stop request is closed after this: nothing may set it then."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            try:
                self.is_reached = self._look()
            except ClusterUnreachable:
                continue
            except SparkMirrorError as problem:
                self.problem = problem
            if self.is_reached or self.problem is not None:
                self._stop.set()
                return
