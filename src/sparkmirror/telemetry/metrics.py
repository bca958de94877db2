"""The table of metrics: name, kind, labels, meaning, and the function that reads the value; pure.

`telemetry.exposition` writes the metrics for Prometheus, `document` makes docs/metrics.md from the table, and tests
check the dashboard and the alerts in deploy/ against it. The first part has MirrorMaker 2's names, as Prometheus' JMX
exporter writes them in lower case; there `topic` is the name on the target.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from sparkmirror.telemetry.facts import list_fillings, list_held
from sparkmirror.telemetry.filling import Filling
from sparkmirror.telemetry.histogram import Histogram
from sparkmirror.telemetry.problems import Level
from sparkmirror.telemetry.records import FlowState, JobState, PartitionRecord, PartitionState, Spread
from sparkmirror.telemetry.snapshot import FlowSnapshot

Kind = Literal["counter", "gauge", "histogram", "untyped"]
"""MirrorMaker's counts are untyped, as the JMX exporter has them: their names do not end in `_total`."""
Labels = tuple[str, ...]
Sample = tuple[Labels, float]

_WINDOW_MS: Final = 60_000
_QUANTILES: Final = (("0.5", 0.5), ("0.99", 0.99), ("0.999", 0.999))


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `labels` follow `source` and `target`, which all metrics have; `read` yields the samples of one
    flow. A histogram has `histogram` instead, and its `read` yields nothing."""

    name: str
    kind: Kind
    labels: Labels
    help: str
    read: Callable[[FlowSnapshot], Iterable[Sample]] = field(repr=False)
    histogram: Callable[[FlowSnapshot], Histogram] | None = field(default=None, repr=False)


def list_samples(metric: Metric, snapshots: Iterable[FlowSnapshot]) -> Iterator[Sample]:
    """All samples of a metric that is no histogram, each with the values of all its labels."""
    for snapshot in snapshots:
        for labels, value in metric.read(snapshot):
            yield (snapshot.flow.source, snapshot.flow.target, *labels), value


# MirrorMaker 2's.


def _of_partitions(value: Callable[[PartitionRecord, int], float]) -> Callable[[FlowSnapshot], Iterator[Sample]]:
    def read(snapshot: FlowSnapshot) -> Iterator[Sample]:
        for record in snapshot.board.partitions.values():
            topic = record.target_topic or snapshot.remote_topic(record.topic)
            yield (topic, str(record.partition)), value(record, snapshot.now_ms)

    return read


def _spread(record: PartitionRecord, found: Spread, now_ms: int) -> Spread:
    """The spread, without least, greatest and mean where the record is older than their window."""
    return found if now_ms - record.at_ms <= _WINDOW_MS else Spread(found.last_ms)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


_PLACES: Final = (("", 0), ("_min", 1), ("_max", 2), ("_avg", 3))
_LATELY: Final = {"": "", "_min": ", least of the last 30 to 60 s", "_max": ", greatest", "_avg": ", mean"}


def _times(name: str, meaning: str, which: Callable[[PartitionRecord], Spread]) -> Iterator[Metric]:
    for ending, place in _PLACES:

        def value(record: PartitionRecord, now_ms: int, place: int = place) -> float:
            return _or_nan(_spread(record, which(record), now_ms)[place])

        yield Metric(
            f"{_SOURCE}_{name}_ms{ending}", "gauge", ("topic", "partition"), meaning + _LATELY[ending],
            _of_partitions(value),
        )  # fmt: skip


def _checkpoint_times() -> Iterator[Metric]:
    for ending, place in _PLACES:

        def read(snapshot: FlowSnapshot, place: int = place) -> Iterator[Sample]:
            for (group, where), spread in snapshot.checkpoints.items():
                yield (group, where.topic, str(where.partition)), _or_nan(spread[place])

        yield Metric(
            f"kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms{ending}", "gauge",
            ("group", "topic", "partition"),
            "Milliseconds from a checkpoint being made to it being stored, of this group alone" + _LATELY[ending], read,
        )  # fmt: skip


_SOURCE: Final = "kafka_connect_mirror_mirrorsourceconnector"
MIRRORMAKER: Final[tuple[Metric, ...]] = (
    Metric(
        f"{_SOURCE}_record_count", "untyped", ("topic", "partition"), "Records that the target has acknowledged",
        _of_partitions(lambda record, _: record.records),
    ),
    Metric(
        f"{_SOURCE}_record_rate", "gauge", ("topic", "partition"), "Records a second, lately",
        _of_partitions(lambda record, _: record.records_per_second),
    ),
    Metric(
        f"{_SOURCE}_byte_count", "untyped", ("topic", "partition"),
        "Bytes of record batches as they were sent, compressed as they are; MirrorMaker counts bytes of values",
        _of_partitions(lambda record, _: record.bytes),
    ),
    Metric(
        f"{_SOURCE}_byte_rate", "gauge", ("topic", "partition"), "The same bytes a second, lately",
        _of_partitions(lambda record, _: record.bytes_per_second),
    ),
    *_times("record_age", "Milliseconds from produce time to fetched", lambda record: record.age),
    *_times("replication_latency", "Milliseconds from produce time to acknowledged", lambda record: record.latency),
    *_checkpoint_times(),
)  # fmt: skip


# Ours.


def _flow(name: str, kind: Kind, meaning: str, value: Callable[[FlowSnapshot], float | None]) -> Metric:
    """One value for a flow, or none."""

    def read(snapshot: FlowSnapshot) -> list[Sample]:
        found = value(snapshot)
        return [] if found is None else [((), float(found))]

    return Metric(f"sparkmirror_{name}", kind, (), meaning, read)


def _histogram(name: str, meaning: str, value: Callable[[FlowSnapshot], Histogram]) -> Metric:
    return Metric(f"sparkmirror_{name}", "histogram", (), meaning, lambda _: (), value)


def _quantiles(name: str, meaning: str, value: Callable[[FlowSnapshot], Histogram]) -> Metric:
    def read(snapshot: FlowSnapshot) -> Iterator[Sample]:
        found = value(snapshot)
        for label, share in _QUANTILES:
            ms = found.quantile_ms(share)
            yield (label,), math.nan if ms is None else ms / 1000

    return Metric(f"sparkmirror_{name}", "gauge", ("quantile",), meaning, read)


def _verdict(snapshot: FlowSnapshot) -> Iterator[Sample]:
    for level in Level:
        yield (level.value,), float(snapshot.verdict.level is level)


def _lag(snapshot: FlowSnapshot) -> float:
    """NaN where the lag is not known: 0 would mean that all is mirrored."""
    return _or_nan(snapshot.verdict.lag_records)


def _states(snapshot: FlowSnapshot) -> Iterator[Sample]:
    for state in FlowState:
        yield (state.value,), float(snapshot.state is state)


def _partition_states(snapshot: FlowSnapshot) -> Iterator[Sample]:
    """As the verdict and the page count them: a partition that failed stays FAILED until it has moved, although each
    attempt begins by reporting it RUNNING."""
    held = Counter(one.state for one in list_held(snapshot.board))
    known = max(len(snapshot.board.partitions), held.total())
    for state in PartitionState:
        yield (state.value,), held[state] if state is not PartitionState.RUNNING else known - held.total()


def _info(snapshot: FlowSnapshot) -> Iterator[Sample]:
    for flow in snapshot.board.processes.values():
        yield (flow.version, flow.host, str(flow.pid), flow.digest), 1.0


def _throttled(snapshot: FlowSnapshot) -> list[Sample]:
    status = snapshot.status
    causes = {
        "source quota": status.source_throttled_ms,
        "target quota": status.throttled_ms,
        "rate limit": status.limited_ms,
    }
    return [((cause,), ms / 1000) for cause, ms in causes.items()]


def _lags(snapshot: FlowSnapshot) -> Iterator[Sample]:
    for record in snapshot.board.partitions.values():
        if record.lag_records is not None:
            yield (record.topic, str(record.partition)), record.lag_records


def _late(snapshot: FlowSnapshot) -> Iterator[Sample]:
    for record in snapshot.board.partitions.values():
        if record.behind_since_ms is not None or record.lag_records is not None:
            yield (record.topic, str(record.partition)), record.lag_seconds(snapshot.now_ms)


def _lag_seconds(snapshot: FlowSnapshot) -> float:
    """By the partitions of which it is known; NaN where none of them is behind and the lag of others is not known."""
    is_known = snapshot.status.behind_since_ms is not None or snapshot.verdict.lag_records is not None
    return snapshot.status.lag_seconds(snapshot.now_ms) if is_known else math.nan


def _filling(name: str, meaning: str, value: Callable[[Filling], float | None]) -> Metric:
    def read(snapshot: FlowSnapshot) -> Iterator[Sample]:
        for where, one in list_fillings(snapshot.board, snapshot.now_ms).items():
            yield (where.topic, str(where.partition)), _or_nan(value(one))

    return Metric(f"sparkmirror_partition_filling_{name}", "gauge", ("topic", "partition"), meaning, read)


def _jobs(name: str, kind: Kind, meaning: str, value: Callable[..., float | None]) -> Metric:
    def read(snapshot: FlowSnapshot) -> Iterator[Sample]:
        for job in snapshot.board.jobs.values():
            found = value(job)
            if found is not None:
                yield (job.name,), float(found)

    return Metric(f"sparkmirror_job_{name}", kind, ("job_name",), meaning, read)


def _restarts(snapshot: FlowSnapshot) -> float | None:
    """Of all processes: each counts its own, and the one that wrote last is another every second."""
    processes = snapshot.board.processes.values()
    return sum(one.restarts for one in processes) if processes else None


def _since(snapshot: FlowSnapshot) -> float | None:
    return None if snapshot.board.flow is None else max(snapshot.now_ms - snapshot.board.flow.at_ms, 0) / 1000


_OURS: Final = (
    Metric("sparkmirror_info", "gauge", ("version", "host", "pid", "digest"), "Processes that run the flow; `digest` "
           "differs where their files do", _info),
    Metric("sparkmirror_verdict", "gauge", ("level",), "1 for the level that the flow is judged to be at: green, amber "
           "(it mirrors, a person should look), unknown (nobody can say), red (it does not mirror what it should)",
           _verdict),
    Metric("sparkmirror_flow_state", "gauge", ("state",), "1 for the state that the flow is in; SILENT where its "
           "process was killed or cut off", _states),
    _flow("flow_up", "gauge", "1 while the flow runs", lambda snapshot: snapshot.state is FlowState.RUNNING),
    _flow("flow_readable", "gauge", "0 while the target does not answer: then all other values are old",
          lambda snapshot: snapshot.is_read),
    _flow("flow_beat_age_seconds", "gauge", "Time since the flow's process last wrote its status; it does every 3 s",
          _since),
    _flow("flow_restarts_total", "counter", "How often the flow's query was started again, in all its processes",
          _restarts),
    _flow("records_total", "counter", "Records that the target has acknowledged",
          lambda snapshot: snapshot.status.records),
    _flow("bytes_total", "counter", "Bytes of record batches as they were sent",
          lambda snapshot: snapshot.status.bytes),
    _flow("batches_total", "counter", "Record batches that were sent", lambda snapshot: snapshot.status.batches),
    _flow("lag_records", "gauge", "Records that are not mirrored yet, by the last fetches; NaN where that is not known",
          _lag),
    _flow("lag_seconds", "gauge", "How long ago the oldest record that is not mirrored was produced, at most; NaN "
          "where that is not known", _lag_seconds),
    Metric("sparkmirror_partition_lag_records", "gauge", ("topic", "partition"), "That of a source partition, where it "
           "is known", _lags),
    Metric("sparkmirror_partition_lag_seconds", "gauge", ("topic", "partition"), "That of a source partition, where it "
           "is known", _late),
    _filling("ratio", "Share of a start or hole that is filled (kept offsets); NaN: unknown", lambda one: one.share),
    _filling("left_offsets", "Offsets that are left to be filled; NaN: unknown", lambda one: one.left),
    _filling("offsets_per_second", "How fast that goes; NaN: unknown", lambda one: one.offsets_per_second),
    Metric("sparkmirror_partitions", "gauge", ("state",), "Partitions in each state", _partition_states),
    _histogram("replication_latency_seconds", "From produce time to acknowledged by the target, of records",
               lambda snapshot: snapshot.status.latency),
    _histogram("transit_latency_seconds", "From fetched to acknowledged by the target, of records",
               lambda snapshot: snapshot.status.transit),
    _quantiles("replication_latency_recent_seconds", "Percentiles of the last 30 to 60 s, from produce time",
               lambda snapshot: snapshot.status.recent_latency),
    _quantiles("transit_latency_recent_seconds", "Percentiles of the last 30 to 60 s, from fetched",
               lambda snapshot: snapshot.status.recent_transit),
    _flow("gaps_total", "counter", "Places where the source's log was not as it was left, by the gap ledger",
          lambda snapshot: len(snapshot.gaps)),
    _flow("lost_records_total", "counter", "Offsets that are gone in these gaps",
          lambda snapshot: sum(gap.lost_records for gap in snapshot.gaps)),
    _flow("retries_total", "counter", "Batches that were sent again", lambda snapshot: snapshot.status.retries),
    _flow("duplicates_total", "counter", "Records that came again from the source and were dropped",
          lambda snapshot: snapshot.status.duplicates),
    _flow("epochs_total", "counter", "Epochs that tasks have begun", lambda snapshot: snapshot.status.epochs),
    _flow("lease_bytes", "gauge", "Bytes of shared memory that wait for an acknowledgement",
          lambda snapshot: snapshot.status.lease_bytes),
    _flow("tasks", "gauge", "Spark tasks that have reported", lambda snapshot: snapshot.status.tasks),
    Metric("sparkmirror_throttle_seconds_total", "counter", ("cause",), "Time that partitions or connections were held "
           "back, by cause", _throttled),
    _jobs("up", "gauge", "0 where the job's last round failed", lambda job: job.state is JobState.RUNNING),
    _jobs("rounds_total", "counter", "Rounds of the job", lambda job: job.rounds),
    _jobs("failures_total", "counter", "Rounds that failed", lambda job: job.failures),
    _jobs("round_seconds", "gauge", "How long the last round took", lambda job: job.cost_seconds),
    _jobs("last_round_timestamp_seconds", "gauge", "When it ended, since 1970",
          lambda job: None if job.last_at_ms is None else job.last_at_ms / 1000),
    _flow("verify_rounds_total", "counter", "Rounds of `sparkmirror verify --continuous`",
          lambda snapshot: None if snapshot.board.verified is None else snapshot.board.verified.rounds),
    _flow("verify_rounds_different_total", "counter", "Those of them that found a difference",
          lambda snapshot: None if snapshot.board.verified is None else snapshot.board.verified.rounds_different),
    _flow("verify_records_total", "counter", "Records that they compared",
          lambda snapshot: None if snapshot.board.verified is None else snapshot.board.verified.records_in_all),
    _flow("canary_sent_total", "counter", "Probe records that the source has acknowledged",
          lambda snapshot: snapshot.canary.sent if snapshot.canary.run else None),
    _flow("canary_arrived_total", "counter", "Probe records that were read on the target",
          lambda snapshot: snapshot.canary.arrived if snapshot.canary.run else None),
    _flow("canary_lost_total", "counter", "Probe records that were overtaken by a later one: they are not there",
          lambda snapshot: snapshot.canary.lost if snapshot.canary.run else None),
    _flow("canary_waiting_seconds", "gauge", "How long the oldest probe that has not arrived is under way",
          lambda snapshot: snapshot.canary.waiting_seconds(snapshot.now_ms) if snapshot.is_probed else None),
    _histogram("canary_latency_seconds", "From sending a probe to the source until it is read on the target, by one "
               "clock", lambda snapshot: snapshot.canary.latency),
    _flow("canary_source_clock_skew_seconds", "gauge", "How far the source's clock is ahead of this process's",
          lambda snapshot: snapshot.canary.source_skew_seconds if snapshot.is_probed else None),
    _flow("canary_target_clock_skew_seconds", "gauge", "How far the target's clock is ahead of this process's",
          lambda snapshot: snapshot.canary.target_skew_seconds if snapshot.is_probed else None),
)  # fmt: skip

METRICS: Final[tuple[Metric, ...]] = (*MIRRORMAKER, *_OURS)
LABELS_OF_ALL: Final[Labels] = ("source", "target")


def document() -> str:
    """The text of docs/metrics.md."""
    lines = [_PREFACE, "## MirrorMaker 2's names\n", *_table(MIRRORMAKER), "\n## Our own\n", *_table(_OURS)]
    return "\n".join(lines) + "\n"


def _table(metrics: Iterable[Metric]) -> Iterator[str]:
    yield "| metric | kind | labels beside source, target | meaning |\n|---|---|---|---|"
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"


_PREFACE: Final = """# Metrics

`python -m sparkmirror.telemetry.metrics > docs/metrics.md` makes this page from
`src/sparkmirror/telemetry/metrics.py`.

With `status.listen` set, a running mirror answers Prometheus on `/metrics`. All values but checkpoint latencies come
from the status topic and the gap ledger on the target, so all processes that share a flow answer the same. Only the
process that runs the flow's jobs has checkpoint latencies. A task reports a partition when something
changed, at most every two seconds, and at most a hundred partitions a second. With ten thousand busy partitions a
partition's value is therefore up to two minutes old; the flow's sums are at most a second old.

The mirror takes one latency for each acknowledged batch from the batch's header: half of the records count with the
first record's produce time, half with the newest one's. Histograms are within 6 %. Producers' clocks set the produce
times, so a difference between their clocks and the mirror's shifts these latencies; a negative latency counts as 0.
`sparkmirror_transit_latency_seconds` and the canary's latency are measured with one machine's clock.

**Canary.** With `canary.interval.seconds` set, the process that runs the flow's jobs writes a probe record at this
interval to the topic `sparkmirror-canary-<target>` of the source. The flow mirrors it like any other record, and the
same process reads it on the target, so its latency is measured with one clock, whatever the clusters' clocks say. A
probe counts as lost when a later one has overtaken it. Once a minute the process also measures how far the clocks of
both clusters are ahead of its own: it writes a record to `mm2-sparkmirror-clock.internal` on each, which the broker
stamps. The error is half a round trip. Transforms do not change probes.

**OpenTelemetry.** `pip install 'sparkmirror[otel]'` installs OpenTelemetry's exporter. A running mirror then sends
these metrics, with these names and labels, to a collector, by OTLP over HTTP (`http/protobuf`), if its environment
names one:

```
export OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318
sparkmirror run mirror.properties
```

OpenTelemetry's other variables have their usual meaning: `OTEL_EXPORTER_OTLP_HEADERS`, `…_CERTIFICATE`,
`…_COMPRESSION` and `…_TIMEOUT`, each for metrics alone too (`OTEL_EXPORTER_OTLP_METRICS_…`),
`OTEL_METRIC_EXPORT_INTERVAL` (ms; a minute by default), `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`,
`OTEL_METRICS_EXPORTER=none` and `OTEL_SDK_DISABLED`. `status.listen` is not required for it. Untyped metrics become
gauges; counters and histograms are cumulative; what is not known (NaN at `/metrics`) is not sent. Each process sends
the metrics of all flows that it shares, as `service.instance.id` `HOST:PID`. Where the collector does not take them,
the log says so once, and the next interval tries again: the mirror goes on in any case.

[jmx.md](jmx.md) describes MirrorMaker 2's MBeans, which have the same values.

`deploy/prometheus/alerts.yml` has alert rules, `deploy/grafana/sparkmirror.json` a dashboard; a test checks that they
name only metrics and labels of this page.
"""


if __name__ == "__main__":
    print(document(), end="")
