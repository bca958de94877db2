"""From what is known of a flow to what the page's picture holds: parts and rows of JSON; pure. Used by `web.watchers`.

The order of a row's cells is known to `static/live.js` too.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sparkmirror.ledger.gaps import Gap
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.model import TopicPartition
from sparkmirror.telemetry.board import FlowStatus, StatusBoard
from sparkmirror.telemetry.facts import Facts, HeldPartition
from sparkmirror.telemetry.histogram import Histogram
from sparkmirror.telemetry.history import HistoryRecord
from sparkmirror.telemetry.problems import Level, living
from sparkmirror.telemetry.records import FlowState, JobRecord, PartitionRecord, PartitionState, TaskRecord
from sparkmirror.telemetry.verdict import Verdict
from sparkmirror.views.topology import Topology
from sparkmirror.web.page_state import Row

_RATE_SECONDS = 3.0
_BEST_FIRST = (
    FlowState.RUNNING, FlowState.STOPPED, FlowState.STOPPING, FlowState.STARTING, FlowState.RESTARTING,
    FlowState.SILENT, FlowState.FAILED,
)  # fmt: skip


@dataclass(slots=True)
class Pace:
    """A flow's rates over the last seconds, from its sums as they come now and then."""

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
    facts: Facts, verdict: Verdict, board: StatusBoard, pace: Pace, rates: Sequence[int], lags: Sequence[int]
) -> dict[str, Any]:
    """All of a flow but its partitions; curves are the oldest first. What is not known is None."""
    status = board.status()
    alive = living(facts)
    told = max(alive, key=lambda one: _rank(one.state), default=board.flow)
    is_known = verdict.level is not Level.UNKNOWN and not facts.target_problem and not facts.is_starting
    counts = Counter(one.state for one in facts.held)
    return {
        "name": str(facts.flow),
        "source": facts.flow.source,
        "target": facts.flow.target,
        "verdict": _verdict(verdict),
        "state": FlowState.STARTING.value if facts.is_starting or told is None else told.state_at(facts.now_ms).value,
        "run": board.run,
        "host": told.host if told else "",
        "processes": len(alive),
        "started_at_ms": min((one.started_at_ms for one in alive), default=0),
        **_sums(status),
        "lag_records": verdict.lag_records,
        "gaps": len(facts.gaps),
        "lost_records": sum(gap.lost_records for gap in facts.gaps),
        "records_per_second": pace.records_per_second if is_known and alive else None,
        "bytes_per_second": pace.bytes_per_second if is_known and alive else None,
        "partitions": facts.partitions,
        "counts": {state.value: counts[state] for state in PartitionState if state is not PartitionState.RUNNING},
        "latency": _quantiles(status.recent_latency),
        "transit": _quantiles(status.recent_transit),
        "rates": list(rates),
        "lags": list(lags),
        "tasks": [_task(task) for _, task in sorted(board.tasks.items())],
        "jobs": [_job(job) for _, job in sorted(board.jobs.items())],
        "verify": None if board.verified is None else asdict(board.verified),
    }


def events_part(history: HistoryRecord) -> list[dict[str, Any]]:
    """What happened to a flow, the latest first."""
    return [asdict(event) for event in reversed(history.events)]


def _rank(state: FlowState) -> int:
    """Of processes that share the flow the page names the one that is worst off."""
    return _BEST_FIRST.index(state)


def _verdict(verdict: Verdict) -> dict[str, Any]:
    problems = [{**asdict(one), "level": one.level.value, "sentence": one.sentence} for one in verdict.problems]
    level = verdict.level.value
    return {"level": level, "sentence": verdict.sentence, "since_ms": verdict.since_ms, "problems": problems}


def _sums(status: FlowStatus) -> dict[str, Any]:
    names = (
        "records", "bytes", "behind_since_ms", "retries", "throttled_ms", "source_throttled_ms", "limited_ms",
        "lease_bytes", "epochs",
    )  # fmt: skip
    return {name: getattr(status, name) for name in names}


def _quantiles(found: Histogram) -> dict[str, float | None]:
    return {"p50": found.quantile_ms(0.5), "p99": found.quantile_ms(0.99), "p999": found.quantile_ms(0.999)}


def _task(task: TaskRecord) -> dict[str, Any]:
    return {"task": task.task, "partitions": task.partitions, "lag_records": task.lag_records, "problem": task.problem}


def _job(job: JobRecord) -> dict[str, Any]:
    return {"name": job.name, "state": job.state.value, "reason": job.reason, "next_at_ms": job.next_at_ms}


def partition_rows(records: Iterable[PartitionRecord], held: Iterable[HeldPartition] = ()) -> dict[TopicPartition, Row]:
    """`held` says which of them do not run, and why."""
    known = {one.partition: one for one in held}
    return {record.source: _partition_row(record, known.get(record.source)) for record in records}


def _partition_row(record: PartitionRecord, held: HeldPartition | None) -> Row:
    state, reason = (PartitionState.RUNNING, "") if held is None else (held.state, held.reason)
    return (
        record.topic, record.partition, state.value, record.offset, record.end, record.records_per_second,
        record.bytes_per_second, record.behind_since_ms, record.latency.avg_ms, record.target_topic, reason,
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
