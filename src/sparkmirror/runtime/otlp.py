"""Exports a running mirror's metrics by OpenTelemetry, if the environment asks for that (`telemetry.otlp`).

The data path is not involved: a thread reads the status topic every two seconds, and sends the metrics at
OpenTelemetry's interval. Called by `runtime.run`.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from sparkmirror.errors import EnvironmentProblem
from sparkmirror.runtime.jobs import Job
from sparkmirror.runtime.running_flow import RunningFlow
from sparkmirror.telemetry.follower import FlowFollower
from sparkmirror.telemetry.otlp import OtlpExporter, interval_seconds, is_wanted
from sparkmirror.telemetry.scrape import FlowScrape

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 2.0


@contextmanager
def exporting_metrics(flows: Sequence[RunningFlow], environ: Mapping[str, str]) -> Iterator[None]:
    """Exports the flows' metrics while the block runs, where that is wanted. Where it cannot be done the log says why,
    and the mirror runs without."""
    exporter = _open(environ)
    if exporter is None:
        yield
        return
    keeper = _Keeper(flows, exporter, interval_seconds(environ))
    pause = min(_LOOK_SECONDS, interval_seconds(environ))
    job = Job("all OpenTelemetry", pause, keeper, look_seconds=pause, cost_share=0.2, close=keeper.close)
    job.start()
    try:
        yield
    finally:
        job.stop(close=True)


def _open(environ: Mapping[str, str]) -> OtlpExporter | None:
    if not is_wanted(environ):
        return None
    try:
        return OtlpExporter(environ)
    except EnvironmentProblem as problem:
        log.warning("OpenTelemetry gets no metrics. %s", problem, extra={"event": "no-export"})
        return None


class _Keeper:
    """Reads the flows' status records, and sends their metrics when it is time. Called by one thread."""

    def __init__(self, flows: Sequence[RunningFlow], exporter: OtlpExporter, interval_seconds: float) -> None:
        self._exporter = exporter
        self._interval_seconds = interval_seconds
        self._due_at = time.monotonic()
        self._scrapes = [
            FlowScrape(FlowFollower(running.flow, "otlp"), running.checkpoints.spreads, running.reporter.why_unwritten)
            for running in flows
        ]

    def __call__(self) -> None:
        """Raises SparkMirrorError where the collector did not take the metrics: the next interval tries again."""
        for scrape in self._scrapes:
            scrape.follower.poll()
        if time.monotonic() >= self._due_at:
            self._due_at = time.monotonic() + self._interval_seconds
            self._exporter.send([scrape.look() for scrape in self._scrapes])

    def close(self) -> None:
        self._exporter.close()
        for scrape in self._scrapes:
            scrape.follower.close()
