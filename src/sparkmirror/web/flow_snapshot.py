"""Makes the JSON parts and rows of the page from a flow's facts; pure. Used by `web.watchers`.

`static/live.js` relies on the order of a row's cells.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import TopicPartition
from sparkmirror.telemetry.board import FlowStatus, StatusBoard
from sparkmirror.telemetry.facts import Facts, HeldPartition, failed_partitions, list_fillings
from sparkmirror.telemetry.histogram import Histogram
from sparkmirror.telemetry.history import SAMPLE_SECONDS, HistoryRecord
from sparkmirror.telemetry.pace import Pace
from sparkmirror.telemetry.problems import Level, first_line, living
from sparkmirror.telemetry.records import (
    CanaryState,
    FlowRecord,
    FlowState,
    JobRecord,
    PartitionRecord,
    PartitionState,
    TaskRecord,
)
from sparkmirror.telemetry.verdict import Verdict
from sparkmirror.views.topology import Topology
from sparkmirror.web.page_state import PageState, Row

_BRAKES_SECONDS = 60.0
_BRAKES = ("source_throttled_ms", "throttled_ms", "limited_ms")
_BEST_FIRST = (
    FlowState.RUNNING, FlowState.STOPPED, FlowState.STOPPING, FlowState.STARTING, FlowState.RESTARTING,
    FlowState.SILENT, FlowState.FAILED,
)  # fmt: skip


@dataclass(slots=True)
class Brakes:
    """The time in ms of the last minute for which a flow was slowed down, by cause, computed from sums that are
    taken now and then."""

    lately: dict[str, int] = field(default_factory=dict)
    _marks: list[tuple[float, tuple[int, ...]]] = field(default_factory=list)

    def measure(self, now_seconds: float, status: FlowStatus) -> None:
        sums = tuple(getattr(status, name) for name in _BRAKES)
        if self._marks and any(now < before for now, before in zip(sums, self._marks[-1][1], strict=True)):
            self._marks.clear()
        self._marks.append((now_seconds, sums))
        while len(self._marks) > 2 and now_seconds - self._marks[1][0] >= _BRAKES_SECONDS:
            self._marks.pop(0)
        before = self._marks[0][1]
        self.lately = {name: now - then for name, now, then in zip(_BRAKES, sums, before, strict=True)}


def flow_part(
    facts: Facts, verdict: Verdict, board: StatusBoard, pace: Pace, brakes: Brakes | None = None
) -> dict[str, Any]:
    """The part about a flow, without its partitions, tasks and curves. A value that is not known is None."""
    status = board.status()
    alive = living(facts)
    worst = max(alive, key=lambda one: _rank(one.state), default=board.flow)
    is_known = verdict.level is not Level.UNKNOWN and not facts.target_problem and not facts.is_starting
    counts = Counter(one.state for one in facts.held)
    return {
        "name": str(facts.flow),
        "source": facts.flow.source,
        "target": facts.flow.target,
        "verdict": _verdict(verdict),
        "state": FlowState.STARTING.value if facts.is_starting or worst is None else worst.state_at(facts.now_ms).value,
        "run": board.run,
        "host": worst.host if worst else "",
        "processes": len(alive),
        "started_at_ms": min((one.started_at_ms for one in alive), default=0),
        **_sums(status),
        "lag_records": verdict.lag_records,
        "gaps": len(facts.gaps),
        "lost_records": sum(gap.lost_records for gap in facts.gaps),
        "records_per_second": pace.records_per_second if is_known and alive else None,
        "bytes_per_second": pace.bytes_per_second if is_known and alive else None,
        "partitions": facts.partitions,
        **_identical(facts, board),
        "filling": len(list_fillings(board, facts.now_ms)),
        "counts": {state.value: counts[state] for state in PartitionState if state is not PartitionState.RUNNING},
        "latency": _quantiles(status.recent_latency),
        "transit": _quantiles(status.recent_transit),
        "held_back_lately": {} if brakes is None else dict(brakes.lately),
        "verify": None if board.verified is None else asdict(board.verified),
    }


def _identical(facts: Facts, board: StatusBoard) -> dict[str, int]:
    """In how many partitions offsets are identical, by what tasks have reported, and of how many that is not known,
    since the target does not answer."""
    kept = {where for where, one in board.partitions.items() if one.keeps_offsets} - failed_partitions(board)
    return {"identical": 0, "unclear": len(kept)} if facts.target_problem else {"identical": len(kept), "unclear": 0}


def works_part(facts: Facts) -> dict[str, Any]:
    """The part about processes, tasks, jobs and the canary, from their last records."""
    processes = sorted(facts.processes, key=lambda one: one.started_at_ms)
    return {
        "processes": [_process(one, facts.now_ms) for one in processes],
        "tasks": [_task(task) for task in facts.tasks],
        "jobs": [_job(job) for job in facts.jobs],
        "canary": None if facts.canary is None else _canary(facts.canary),
    }


def history_part(history: HistoryRecord) -> dict[str, Any]:
    """The events of a flow, the latest first; its rate and lag in the last day, the oldest first."""
    events = [asdict(event) for event in reversed(history.events)]
    return {"events": events, "samples": [list(one) for one in history.samples], "step_ms": SAMPLE_SECONDS * 1000}


def _rank(state: FlowState) -> int:
    """Ranks states from best to worst: of the processes that share a flow, the page shows the one in the worst
    state."""
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


def _process(one: FlowRecord, now_ms: int) -> dict[str, Any]:
    names = ("host", "pid", "version", "started_at_ms", "restarts", "at_ms")
    return {
        **{name: getattr(one, name) for name in names},
        "state": one.state_at(now_ms).value,
        "reason": first_line(one.reason),
    }


def _task(task: TaskRecord) -> dict[str, Any]:
    names = ("task", "epoch", "partitions", "records_per_second", "problem", "sizing", "held_by", "at_ms")
    return {name: getattr(task, name) for name in names} | {"lag_records": task.known_lag}


def _job(job: JobRecord) -> dict[str, Any]:
    names = ("name", "rounds", "failures", "cost_seconds", "last_at_ms", "next_at_ms", "failing_since_ms")
    return {name: getattr(job, name) for name in names} | {"state": job.state.value, "reason": first_line(job.reason)}


def _canary(state: CanaryState) -> dict[str, Any]:
    names = ("sent", "arrived", "lost", "oldest_sent_ms", "at_ms")
    return {name: getattr(state, name) for name in names} | {"latency": _quantiles(state.latency)}


def partition_rows(records: Iterable[PartitionRecord], held: Iterable[HeldPartition] = ()) -> dict[TopicPartition, Row]:
    """Rows of partitions; `held` gives those that do not run, with the reason."""
    known = {one.partition: one for one in held}
    return {record.source: _partition_row(record, known.get(record.source)) for record in records}


class PartitionTable:
    """The table of a flow's partitions in the page's state. Only rows of partitions that have changed are made
    again."""

    def __init__(self, page_state: PageState, name: str) -> None:
        self._page_state = page_state
        self._name = name
        self._board: StatusBoard | None = None
        self._shown: set[TopicPartition] = set()
        self._held: dict[TopicPartition, HeldPartition] = {}

    def show(self, board: StatusBoard, held: Iterable[HeldPartition]) -> None:
        """Shows the whole board where it is another one or has fewer partitions; otherwise the partitions that were
        reported since the last call."""
        known = {one.partition: one for one in held}
        differ = {where for where, _ in known.items() ^ self._held.items()}
        changed = (board.take_news().keys() | differ) & board.partitions.keys()
        self._held = known
        if board is self._board and len(self._shown | changed) == len(board.partitions):
            self._shown |= changed
            rows = {where: _partition_row(board.partitions[where], known.get(where)) for where in changed}
            self._page_state.update_rows(self._name, rows)
            return
        self._board, self._shown = board, set(board.partitions)
        self._page_state.replace_rows(self._name, partition_rows(board.partitions.values(), known.values()))


def _partition_row(record: PartitionRecord, held: HeldPartition | None) -> Row:
    state, reason = (PartitionState.RUNNING, "") if held is None else (held.state, held.reason)
    return (
        record.topic, record.partition, state.value, record.offset, record.end, record.records_per_second,
        record.bytes_per_second, record.behind_since_ms, record.latency.avg_ms, record.target_topic, reason,
        record.retry_at_ms, record.keeps_offsets and state is not PartitionState.FAILED, _filling_cell(record),
    )  # fmt: skip


def _filling_cell(record: PartitionRecord) -> tuple[Any, ...] | None:
    """The page itself judges by the time whether it still holds."""
    return None if record.filling is None else (*record.filling, record.run, record.at_ms)


def lags_of(records: Iterable[PartitionRecord]) -> dict[TopicPartition, int | None]:
    """The lag of each partition in records; None where it is not known."""
    return {record.source: record.lag_records for record in records}


def gap_row(gap: Gap) -> Row:
    where = gap.partition
    lost = (gap.expected, gap.resumed, gap.lost_records, gap.action, gap.at_ms, gap.is_on_target)
    return (where.topic, where.partition, gap.cause, *lost)


def feeds_part(topology: Topology) -> list[dict[str, Any]]:
    """Pairs of clusters, from the heartbeats of one cluster."""
    return [
        {
            "source": feed.flow.source,
            "target": feed.flow.target,
            "arrives": feed.arrives,
            "at_ms": feed.arrived_ms if feed.arrived_ms is not None else feed.announced_ms,
        }
        for feed in topology.feeds
    ]
