"""A flow's progress as Spark's listeners take it: the streaming tab, the event log, listeners of a user's own.

Spark itself reports a query at the end of a micro-batch, which is an epoch of ten minutes here, and counts the rows
that passed through it, not records. Called by `runtime.query_events`.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

_SWITCHES: Final = ("spark.ui.enabled", "spark.eventLog.enabled")
_LISTENERS: Final = ("spark.extraListeners", "spark.sql.streaming.streamingQueryListeners")


@dataclass(frozen=True, slots=True)
class QueryIdentity:
    """How Spark names a query: `query_id` and `run_id` are UUIDs, `name` is the flow's. `batch` is the epoch."""

    query_id: str
    run_id: str
    name: str
    batch: int


@dataclass(frozen=True, slots=True)
class FlowReading:
    """What the flow had mirrored at `at_ms` since its run began. `lag_records` is None where it is not known;
    `behind_since_ms` is the produce time up to which everything is mirrored, None where nothing is behind."""

    at_ms: int
    records: int
    bytes: int
    lag_records: int | None
    behind_since_ms: int | None


def has_listeners(conf: "SparkConf") -> bool:
    """Whether anything in Spark takes progress events: its pages, its event log, or a class that a user has named."""
    is_on = any(conf.get(key, "false").lower() == "true" for key in _SWITCHES)
    return is_on or any(conf.get(key, "") for key in _LISTENERS)


def render_progress(query: QueryIdentity, before: FlowReading, now: FlowReading) -> str:
    """The time between two readings as the JSON of Spark's `StreamingQueryProgress`.

    Its rates have Spark's meanings: what came in on the source, and what was mirrored of it. The lag in ms stands among
    the durations, which Spark's page draws; as a watermark it would break the page, as Spark's own events have none.
    """
    seconds = max((now.at_ms - before.at_ms) / 1000, 0.001)
    mirrored = max(now.records - before.records, 0)
    lag = {} if now.lag_records is None else {"lagRecords": str(now.lag_records)}
    source = {
        "description": f"records of {query.name}",
        "numInputRows": mirrored,
        "inputRowsPerSecond": _came_in(mirrored, before, now) / seconds,
        "processedRowsPerSecond": mirrored / seconds,
        "metrics": lag | {"bytesPerSecond": str(round(max(now.bytes - before.bytes, 0) / seconds))},
    }
    return json.dumps(
        {
            "id": query.query_id, "runId": query.run_id, "name": query.name, "timestamp": _moment(now.at_ms),
            "batchId": query.batch, "batchDuration": now.at_ms - before.at_ms, "durationMs": _lag_ms(now),
            "eventTime": {}, "stateOperators": [], "sources": [source],
            "sink": {"description": f"records of {query.name}", "numOutputRows": mirrored}, "observedMetrics": {},
        }
    )  # fmt: skip


def _came_in(mirrored: int, before: FlowReading, now: FlowReading) -> int:
    """What the source got in the time between: what was mirrored, and by how much more was left to mirror."""
    if before.lag_records is None or now.lag_records is None:
        return mirrored
    return max(mirrored + now.lag_records - before.lag_records, 0)


def _lag_ms(now: FlowReading) -> dict[str, int]:
    if now.lag_records is None:
        return {}
    return {"lag": 0 if now.behind_since_ms is None else max(now.at_ms - now.behind_since_ms, 0)}


def _moment(moment_ms: int) -> str:
    """As Spark writes times: ISO 8601, UTC, with milliseconds."""
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def post_progress(context: "SparkContext", progress: str) -> None:
    """Gives Spark's listeners what `render_progress` made. Raises py4j's errors where the JVM does not take it."""
    jvm: Any = context._jvm
    owner = getattr(jvm.org.apache.spark.sql.streaming, "StreamingQueryProgress$")
    event = getattr(jvm.org.apache.spark.sql.streaming, "StreamingQueryListener$QueryProgressEvent")
    made = event(getattr(owner, "MODULE$").fromJson(progress))
    context._jsc.sc().listenerBus().post(made)
