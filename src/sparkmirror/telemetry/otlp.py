"""Sends the metrics of `telemetry.metrics` to an OpenTelemetry collector, by OTLP over HTTP.

OpenTelemetry's own environment variables configure it, and its exporter (the extra `otel`) encodes and sends. Called by
`runtime.otlp`.
"""

import importlib
import logging
import math
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final

from sparkmirror import __version__
from sparkmirror.errors import EnvironmentProblem, SparkMirrorError
from sparkmirror.telemetry.exposition import BUCKETS_MS
from sparkmirror.telemetry.metrics import LABELS_OF_ALL, METRICS, Metric, list_samples
from sparkmirror.telemetry.snapshot import FlowSnapshot

_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_METRICS_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
_EXPORTER: Final = "OTEL_METRICS_EXPORTER"
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL: Final = "http/protobuf"
_INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"
_INTERVAL_MS: Final = 60_000.0
_DEFAULT_ENDPOINT: Final = "http://localhost:4318"
_PACKAGE: Final = "opentelemetry.exporter.otlp.proto.http.metric_exporter"
_START_UNKNOWN: Final = 0
"""OTLP's word for it. A flow's counters go back to its run, which another process may have begun."""
_SYSTEM_REASON: Final = re.compile(r"\[Errno -?\d+\] ([^'\")]+)")


def is_wanted(environ: Mapping[str, str]) -> bool:
    """Whether OpenTelemetry's variables ask for metrics by OTLP: they name an address, or the exporter `otlp`."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporters = [name.strip() for name in environ.get(_EXPORTER, "").split(",") if name.strip()]
    return "otlp" in exporters if exporters else bool(_address(environ, ""))


def interval_seconds(environ: Mapping[str, str]) -> float:
    """The seconds between two exports: OTEL_METRIC_EXPORT_INTERVAL, or OpenTelemetry's minute where it is no number."""
    try:
        interval_ms = float(environ.get(_INTERVAL) or _INTERVAL_MS)
    except ValueError:
        interval_ms = _INTERVAL_MS
    return (interval_ms if interval_ms > 0 else _INTERVAL_MS) / 1000


def _address(environ: Mapping[str, str], default: str = _DEFAULT_ENDPOINT) -> str:
    return environ.get(_METRICS_ENDPOINT, "").strip() or environ.get(_ENDPOINT, "").strip() or default


class OtlpExporter:
    """Sends snapshots to the address of the environment. Used by one thread."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        """Raises EnvironmentProblem where the extra is not installed, or another protocol is asked for."""
        _check(environ)
        self._address = _address(environ)
        self._exporter = importlib.import_module(_PACKAGE).OTLPMetricExporter()
        resources = importlib.import_module("opentelemetry.sdk.resources")
        own = {"service.name": "sparkmirror", "service.version": __version__}
        own["service.instance.id"] = f"{socket.gethostname()}:{os.getpid()}"
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES count more.
        self._resource = resources.Resource(own).merge(resources.OTELResourceDetector().detect())

    def send(self, snapshots: Sequence[FlowSnapshot]) -> None:
        """Sends all metrics of the flows; tries again for OTEL_EXPORTER_OTLP_TIMEOUT. Raises SparkMirrorError."""
        try:
            with _noting() as reasons:
                result = self._exporter.export(metrics_data(snapshots, self._resource))
        except OSError as problem:  # what its versions before 1.45 pass on
            raise SparkMirrorError(f"{self._address} did not take the metrics: {_reason(str(problem))}") from None
        if result.name != "SUCCESS":
            why = reasons[-1] if reasons else "it did not answer in time"
            raise SparkMirrorError(f"{self._address} did not take the metrics: {why}")

    def close(self) -> None:
        self._exporter.shutdown()


def _check(environ: Mapping[str, str]) -> None:
    asked = next((environ[name].strip() for name in _PROTOCOLS if environ.get(name, "").strip()), _PROTOCOL)
    if asked != _PROTOCOL:
        hint = f"Set {_PROTOCOLS[0]}={_PROTOCOL}, and the collector's port for it, which is 4318 as a rule."
        raise EnvironmentProblem(f"Metrics go out by {_PROTOCOL}, not by {asked}.", hint)
    try:
        is_there = find_spec(_PACKAGE) is not None
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        raise EnvironmentProblem("OpenTelemetry's exporter is not installed.", "pip install 'sparkmirror[otel]'")


@contextmanager
def _noting() -> Iterator[list[str]]:
    """The exporter gives its reasons to a logger alone; they come into a list in place of the error output."""
    reasons: list[str] = []

    class _Noted(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "due to timeout" not in record.msg:
                reasons.append(_reason(record.getMessage()))

    logger, handler = logging.getLogger(_PACKAGE), _Noted()
    logger.addHandler(handler)
    before, logger.propagate = logger.propagate, False
    try:
        yield reasons
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def _reason(text: str) -> str:
    """The system's reason, as in `Connection refused`, or the HTTP status and its reason."""
    if found := _SYSTEM_REASON.search(text):
        return found[1].strip()
    if found := re.search(r"code: (\d+), reason: (.*)", text):
        return f"HTTP status {found[1]} {found[2]}".strip()
    if found := re.search(r"Transient error (.*) encountered while", text):
        return found[1]
    return text


def metrics_data(snapshots: Sequence[FlowSnapshot], resource: Any, metrics: Iterable[Metric] = METRICS) -> Any:
    """OpenTelemetry's `MetricsData` of the flows, with the names and labels of `/metrics`. What is not known (NaN
    there) has no data point. Counters and histograms are cumulative, without a start time."""
    export = importlib.import_module("opentelemetry.sdk.metrics.export")
    scope = importlib.import_module("opentelemetry.sdk.util.instrumentation").InstrumentationScope
    found = [one for metric in metrics if (one := _metric(export, metric, snapshots)) is not None]
    in_scope = export.ScopeMetrics(scope("sparkmirror", __version__), found, "")
    return export.MetricsData([export.ResourceMetrics(resource, [in_scope], "")])


def _metric(export: Any, metric: Metric, snapshots: Sequence[FlowSnapshot]) -> Any:
    read = _histogram_points if metric.histogram else _number_points
    points = [point for snapshot in snapshots for point in read(export, metric, snapshot)]
    if not points:
        return None
    cumulative = export.AggregationTemporality.CUMULATIVE
    if metric.histogram:
        data = export.Histogram(points, cumulative)
    elif metric.kind == "counter":
        data = export.Sum(points, cumulative, True)
    else:
        data = export.Gauge(points)
    return export.Metric(metric.name, metric.help, "", data)


def _number_points(export: Any, metric: Metric, snapshot: FlowSnapshot) -> Iterator[Any]:
    names, at_ns = (*LABELS_OF_ALL, *metric.labels), snapshot.now_ms * 1_000_000
    for labels, value in list_samples(metric, [snapshot]):
        if not math.isnan(value):
            yield export.NumberDataPoint(dict(zip(names, labels, strict=True)), _START_UNKNOWN, at_ns, value)


def _histogram_points(export: Any, metric: Metric, snapshot: FlowSnapshot) -> Iterator[Any]:
    """The buckets of `/metrics`, each without those below it, and the least and greatest left unknown."""
    assert metric.histogram is not None
    found = metric.histogram(snapshot)
    below = [found.below(limit_ms) for limit_ms in BUCKETS_MS]
    counts = [after - before for before, after in zip([0, *below], [*below, found.count], strict=True)]
    flow = dict(zip(LABELS_OF_ALL, (snapshot.flow.source, snapshot.flow.target), strict=True))
    bounds = [limit_ms / 1000 for limit_ms in BUCKETS_MS]
    at_ns, total = snapshot.now_ms * 1_000_000, found.total_ms / 1000
    yield export.HistogramDataPoint(flow, _START_UNKNOWN, at_ns, found.count, total, counts, bounds, None, None)
