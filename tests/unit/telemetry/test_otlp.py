"""Metrics by OpenTelemetry: a receiver that decodes OTLP has what Prometheus has, by the standard variables."""

import logging
import math

import pytest
from tests.collector import Collector
from tests.unit.telemetry.test_metrics import flow_board, snapshot, told

from sparkmirror.errors import EnvironmentProblem, SparkMirrorError
from sparkmirror.telemetry import otlp
from sparkmirror.telemetry.exposition import expose

SHORT = {"OTEL_EXPORTER_OTLP_TIMEOUT": "3"}


def exporter(monkeypatch: pytest.MonkeyPatch, **variables: str) -> otlp.OtlpExporter:
    """OpenTelemetry's exporter reads the environment of the process."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return otlp.OtlpExporter(variables)


def test_a_receiver_gets_each_sample_that_prometheus_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = snapshot(flow_board())
    with Collector() as collector:
        exporter(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url).send([shown])
        found = collector.latest()
    known = {sample: value for sample, value in told(expose([shown])).items() if not math.isnan(value)}
    assert len(known) > 100
    assert found == pytest.approx(known)


def test_kinds_are_opentelemetrys(monkeypatch: pytest.MonkeyPatch) -> None:
    with Collector() as collector:
        exporter(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url).send([snapshot(flow_board())])
        (of_resource,) = collector.requests[0].resource_metrics
    by_name = {metric.name: metric for metric in of_resource.scope_metrics[0].metrics}
    cumulative = 2
    counter = by_name["sparkmirror_canary_sent_total"].sum
    assert counter.is_monotonic and counter.aggregation_temporality == cumulative
    histogram = by_name["sparkmirror_canary_latency_seconds"].histogram
    assert histogram.aggregation_temporality == cumulative
    (point,) = histogram.data_points
    assert not point.HasField("min") and not point.HasField("max"), "not known, and not zero"
    assert by_name["sparkmirror_lag_seconds"].WhichOneof("data") == "gauge"


def test_standard_variables_configure_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with Collector() as collector:
        exporter(
            monkeypatch,
            OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=f"{collector.url}/v1/metrics",
            OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20a-secret",
            OTEL_EXPORTER_OTLP_COMPRESSION="gzip",
            OTEL_SERVICE_NAME="eu-mirror",
            OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=prod",
        ).send([snapshot(flow_board())])
        (headers,) = collector.headers
        (of_resource,) = collector.requests[0].resource_metrics
    assert headers["authorization"] == "Bearer a-secret" and headers["Content-Encoding"] == "gzip"
    resource = {one.key: one.value.string_value for one in of_resource.resource.attributes}
    assert resource["service.name"] == "eu-mirror" and resource["deployment.environment.name"] == "prod"
    assert resource["service.instance.id"] and resource["service.version"]


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://collector:4318/v1/metrics"}, True),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, True),
        ({"OTEL_METRICS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, False),
        ({"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, False),
    ],
)
def test_it_is_wanted_where_the_environment_says_so(environ: dict[str, str], wanted: bool) -> None:
    assert otlp.is_wanted(environ) is wanted


def test_the_interval_is_opentelemetrys() -> None:
    assert otlp.interval_seconds({}) == 60
    assert otlp.interval_seconds({"OTEL_METRIC_EXPORT_INTERVAL": "5000"}) == 5
    assert otlp.interval_seconds({"OTEL_METRIC_EXPORT_INTERVAL": "soon"}) == 60
    assert otlp.interval_seconds({"OTEL_METRIC_EXPORT_INTERVAL": "0"}) == 60


def test_a_receiver_that_refuses_or_is_away_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    shown = [snapshot(flow_board())]
    with Collector() as collector:
        collector.status = 401
        sender = exporter(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, **SHORT)
        with pytest.raises(SparkMirrorError, match="did not take the metrics: HTTP status 401"):
            sender.send(shown)
        collector.status = 200
        sender.send(shown)
        assert collector.latest()
    with pytest.raises(SparkMirrorError, match=f"{collector.url} did not take the metrics: Connection refused"):
        sender.send(shown)
    assert caplog.records == [], "the reason is in the sentence, and said nowhere else"


def test_another_protocol_and_a_missing_package_are_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnvironmentProblem, match=r"by http/protobuf, not by grpc"):
        otlp.OtlpExporter({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    monkeypatch.setattr(otlp, "_PACKAGE", "opentelemetry.exporter.otlp.proto.not_there.metric_exporter")
    with pytest.raises(EnvironmentProblem, match="not installed") as missing:
        otlp.OtlpExporter({})
    assert "sparkmirror[otel]" in missing.value.hint
