"""Runs a mirror until something is reached, which is looked at on a thread beside it. Called by `cli.migrate`."""

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from sparkmirror.config.flow.flows import MirrorConfig
from sparkmirror.errors import ClusterUnreachable, SparkMirrorError
from sparkmirror.logs.handlers import speak_as_driver
from sparkmirror.runtime.options import RunOptions
from sparkmirror.runtime.start import run_with
from sparkmirror.stop_request import StopRequest, stop_signals

_LOOK_SECONDS = 2.0


def run_until(config: MirrorConfig, options: RunOptions, is_reached: Callable[[], bool]) -> bool:
    """Whether it was reached; False when the mirror was told to stop before.

    Raises what the mirror raises, and what `is_reached` raises but for a cluster that is away for a while.
    """
    speak_as_driver()
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
