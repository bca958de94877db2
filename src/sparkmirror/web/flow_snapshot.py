"""From what is known of a flow to what the page's picture holds: parts and rows of JSON; pure. Used by `web.watchers`.

The order of a row's cells is known to `static/live.js` too.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sparkmirror.ledger.gaps import Gap
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.telemetry.board import FlowStatus, StatusBoard
from sparkmirror.telemetry.histogram import Histogram
from sparkmirror.telemetry.records import FlowRecord, FlowState, JobRecord, PartitionRecord, PartitionState, TaskRecord
from sparkmirror.views.topology import Topology
from sparkmirror.web.page_state import Row

_RATE_SECONDS = 3.0
_WORST_FIRST = (
    FlowState.FAILED, FlowState.SILENT, FlowState.RESTARTING, FlowState.STARTING, FlowState.STOPPING, FlowState.STOPPED,
    FlowState.RUNNING,
)  # fmt: skip


@dataclass(slots=True)
class Pace:
    """A flow's rates over the last seconds, from its sums as they are told now and then."""

    records_per_second: float = 0.0
    bytes_per_second: float = 0.0
    _marks: list[tuple[float, int, int]] = field(default_factory=list)

    def measure(self, now_seconds: float, records: int, size: int) -> None:
        """The sums at a time; sums that are lower than before are those of a new run."""
        if self._marks and records < self._marks[-1][1]:
            self._marks.clear()
        self._marks.append((now_seconds, records, size))
        while len(self._marks) > 2 and now_seconds - self._marks[1][0] >= _RATE_SECONDS:
            self._marks.pop(0)
        at, records_then, size_then = self._marks[0]
        if now_seconds > at:
            self.records_per_second = round((records - records_then) / (now_seconds - at), 1)
            self.bytes_per_second = round((size - size_then) / (now_seconds - at), 1)


def flow_part(
    name: FlowName,
    board: StatusBoard,
    now_ms: int,
    pace: Pace,
    rates: Sequence[int],
    lags: Sequence[int],
    unseen: str = "",
    *,
    is_starting: bool = False,
) -> dict[str, Any]:
    """All of a flow but its partitions. `unseen` says why nothing new is known; curves are the oldest first.

    While `is_starting` what the board shows is an earlier run's.
    """
    status, told = board.status(), _process(board, now_ms)
    alive = _alive(board, now_ms)
    counts = Counter(record.state for record in board.partitions.values())
    return {
        "name": str(name),
        "source": name.source,
        "target": name.target,
        "state": FlowState.STARTING.value if is_starting else _state(board, told, now_ms),
        "reason": told.reason if told else "",
        "retry_at_ms": told.retry_at_ms if told else None,
        "unseen": unseen,
        "run": board.run,
        "host": told.host if told else "",
        "processes": len(alive),
        "started_at_ms": min((one.started_at_ms for one in alive), default=0),
        **_sums(status),
        "records_per_second": pace.records_per_second,
        "bytes_per_second": pace.bytes_per_second,
        "partitions": max(status.partitions, len(board.partitions)),
        "counts": {state.value: counts[state] for state in PartitionState},
        "problem": status.problem,
        "latency": _quantiles(status.recent_latency),
        "transit": _quantiles(status.recent_transit),
        "rates": list(rates),
        "lags": list(lags),
        "tasks": [_task(task) for _, task in sorted(board.tasks.items())],
        "jobs": [_job(job) for _, job in sorted(board.jobs.items())],
        "verify": None if board.verified is None else asdict(board.verified),
    }


def _alive(board: StatusBoard, now_ms: int) -> list[FlowRecord]:
    return [one for one in board.processes.values() if not one.is_over and one.state_at(now_ms) != FlowState.SILENT]


def _process(board: StatusBoard, now_ms: int) -> FlowRecord | None:
    """Of the processes that share the flow the one that is worst off, else the one that was heard of last."""
    return min(_alive(board, now_ms), key=lambda one: _WORST_FIRST.index(one.state), default=board.flow)


def _state(board: StatusBoard, told: FlowRecord | None, now_ms: int) -> str:
    if told is not None:
        return told.state_at(now_ms).value
    return (FlowState.RUNNING if board.tasks else FlowState.STARTING).value


def _sums(status: FlowStatus) -> dict[str, Any]:
    names = (
        "records", "bytes", "lag_records", "behind_since_ms", "gaps", "lost_records", "retries", "throttled_ms",
        "source_throttled_ms", "limited_ms", "lease_bytes", "epochs",
    )  # fmt: skip
    return {name: getattr(status, name) for name in names}


def _quantiles(found: Histogram) -> dict[str, float | None]:
    return {"p50": found.quantile_ms(0.5), "p99": found.quantile_ms(0.99), "p999": found.quantile_ms(0.999)}


def _task(task: TaskRecord) -> dict[str, Any]:
    return {"task": task.task, "partitions": task.partitions, "lag_records": task.lag_records, "problem": task.problem}


def _job(job: JobRecord) -> dict[str, Any]:
    return {"name": job.name, "state": job.state.value, "reason": job.reason, "next_at_ms": job.next_at_ms}


def partition_rows(records: Iterable[PartitionRecord]) -> dict[TopicPartition, Row]:
    return {record.source: _partition_row(record) for record in records}


def _partition_row(record: PartitionRecord) -> Row:
    return (
        record.topic, record.partition, record.state.value, record.offset, record.end, record.records_per_second,
        record.bytes_per_second, record.behind_since_ms, record.latency.avg_ms, record.target_topic, record.reason,
        record.retry_at_ms,
    )  # fmt: skip


def lags_of(records: Iterable[PartitionRecord]) -> dict[TopicPartition, int]:
    """Records that are not mirrored yet, of partitions whose source's end is known."""
    return {record.source: lag for record in records if (lag := record.lag_records) is not None}


def group_row(checkpoint: Checkpoint, at_ms: int, source_topic: str) -> Row:
    """`at_ms` is when the checkpoint was written."""
    where = checkpoint.partition
    group = (checkpoint.group, where.topic, where.partition)
    return (*group, checkpoint.upstream, checkpoint.downstream, at_ms, source_topic)


def gap_row(gap: Gap) -> Row:
    where = gap.partition
    lost = (gap.expected, gap.resumed, gap.lost_records, gap.action, gap.at_ms, gap.is_on_target)
    return (where.topic, where.partition, gap.cause, *lost)


def feeds_part(topology: Topology) -> list[dict[str, Any]]:
    """Pairs of clusters by the heartbeats that one of them has."""
    return [
        {
            "source": feed.flow.source,
            "target": feed.flow.target,
            "arrives": feed.arrives,
            "at_ms": feed.arrived_ms if feed.arrived_ms is not None else feed.announced_ms,
        }
        for feed in topology.feeds
    ]


def readiness_part(found: Mapping[str, Any], at_ms: int) -> dict[str, Any]:
    """Of `Readiness.as_json`, what the page shows: the places of each group can be many."""
    groups = {name: {key: told for key, told in group.items() if key != "partitions"}
              for name, group in found["groups"].items()}  # fmt: skip
    return {**found, "groups": groups, "at_ms": at_ms}
