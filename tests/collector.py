"""An OpenTelemetry receiver on loopback: takes OTLP over HTTP, decodes it by OpenTelemetry's own schema."""

import gzip
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from tests.loopback_server import LoopbackServer

Labels = tuple[tuple[str, str], ...]


class Collector(LoopbackServer):
    """A context manager. `requests` are those that it took, `headers` what each came with. Where `status` is not 200 it
    refuses them with that."""

    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        super().__init__(_Handler)

    def latest(self) -> dict[tuple[str, Labels], float]:
        """The samples of the last request, with the names of Prometheus' text format."""
        return dict(samples(self.requests[-1])) if self.requests else {}


def samples(request: ExportMetricsServiceRequest) -> Iterator[tuple[tuple[str, Labels], float]]:
    """A histogram becomes `_bucket` (with `le`), `_sum` and `_count`, as a collector writes it for Prometheus."""
    for of_resource in request.resource_metrics:
        for in_scope in of_resource.scope_metrics:
            for metric in in_scope.metrics:
                kind = metric.WhichOneof("data")
                for point in getattr(metric, kind).data_points:
                    labels = tuple(sorted((one.key, one.value.string_value) for one in point.attributes))
                    if kind != "histogram":
                        yield (metric.name, labels), getattr(point, point.WhichOneof("value"))
                        continue
                    below = 0
                    for bound, count in zip([*point.explicit_bounds, "+Inf"], point.bucket_counts, strict=True):
                        below += count
                        yield (f"{metric.name}_bucket", tuple(sorted((*labels, ("le", str(bound)))))), below
                    yield (f"{metric.name}_sum", labels), point.sum
                    yield (f"{metric.name}_count", labels), point.count


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert self.path == "/v1/metrics" and self.headers["Content-Type"] == "application/x-protobuf"
        if self.server.status == 200:
            self.server.headers.append(dict(self.headers))
            self.server.requests.append(ExportMetricsServiceRequest.FromString(body))
        answer = ExportMetricsServiceResponse().SerializeToString()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Says nothing."""
