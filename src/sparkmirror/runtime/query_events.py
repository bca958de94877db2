"""Reports the flows to Spark's listeners every nine seconds, where there are any. Called by `runtime.run`."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from sparkmirror.runtime.progress import FlowWatch
from sparkmirror.runtime.running_flow import RunningFlow
from sparkmirror.spark.query_progress import (
    FlowReading,
    QueryIdentity,
    has_listeners,
    post_progress,
    render_progress,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql.streaming.query import StreamingQuery

_SECONDS: Final = 9.0
"""With the second that the mirror's loop takes, an event comes at least every ten."""


class QueryEvents:
    """What each flow has reported; `tick` is called from the run's loop."""

    def __init__(self, context: "SparkContext", flows: Sequence[RunningFlow], watches: Sequence[FlowWatch]) -> None:
        self._context = context
        is_heard = has_listeners(context.getConf())
        self._reports = [_FlowReport(*pair) for pair in zip(flows, watches, strict=True)] if is_heard else []
        self._due_at = time.monotonic() + _SECONDS

    def tick(self) -> None:
        """Raises py4j's errors where the JVM does not answer."""
        if not self._reports or time.monotonic() < self._due_at:
            return
        self._due_at = time.monotonic() + _SECONDS
        for report in self._reports:
            if text := report.render():
                post_progress(self._context, text)


class _FlowReport:
    """One flow, and its last reading. Another run counts from 0, so its first event says that nothing was mirrored."""

    def __init__(self, running: RunningFlow, watch: FlowWatch) -> None:
        self._running = running
        self._watch = watch
        self._before = self._read()

    def render(self) -> str:
        """What has happened since the last event; empty without a query, and where the status is not known."""
        query = self._running.query
        if query is None or not query.isActive or not self._watch.is_known:
            return ""
        before, self._before = self._before, self._read()
        return render_progress(_identify(query), before, self._before)

    def _read(self) -> FlowReading:
        status, lag = self._watch.status, self._watch.verdict.lag_records
        return FlowReading(time.time_ns() // 1_000_000, status.records, status.bytes, lag, status.behind_since_ms)


def _identify(query: "StreamingQuery") -> QueryIdentity:
    last = query.lastProgress
    return QueryIdentity(str(query.id), str(query.runId), query.name, 0 if last is None else int(last["batchId"]) + 1)
