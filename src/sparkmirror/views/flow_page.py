"""The page of `sparkmirror status` about a flow: its state, tasks, jobs and partitions; pure. `cli.status` fills and
prints it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol

from sparkmirror.clock import show_age, show_moment
from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.telemetry.board import FlowStatus, StatusBoard
from sparkmirror.telemetry.facts import HeldPartition, gather, list_fillings, list_held
from sparkmirror.telemetry.filling import Filling
from sparkmirror.telemetry.histogram import Histogram
from sparkmirror.telemetry.problems import Level, first_line, plural
from sparkmirror.telemetry.records import FlowState, JobRecord, JobState, PartitionRecord, PartitionState, TaskRecord
from sparkmirror.telemetry.verdict import Verdict, judge
from sparkmirror.views.filling import count_fillings, filling_json, fillings_table
from sparkmirror.views.identical import count_identical
from sparkmirror.views.table import Page, make_table
from sparkmirror.views.verdict_lines import headline, problem_lines
from sparkmirror.views.verified import verified_json, verified_sentence

_QUANTILES = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """One source partition: `offset` is the next offset to mirror, `end` the source's high watermark. These and `state`
    are None where they are not known. `record` is the last status record of the partition. `is_identical` says that
    the target has its records at their own offsets, up to the stored position, None where that is not known;
    `parted_at` from which offset on it does not, since a person has accepted that the logs part there.
    """

    partition: TopicPartition
    state: PartitionState | None
    offset: int | None
    end: int | None
    reason: str = ""
    retry_at_ms: int | None = None
    record: PartitionRecord | None = None
    is_identical: bool | None = False
    parted_at: int | None = None

    @property
    def lag_records(self) -> int | None:
        return None if self.offset is None or self.end is None else max(self.end - self.offset, 0)

    def lag_seconds(self, now_ms: int) -> float | None:
        """An upper bound of the age of the oldest record that is not mirrored; None where it is not known."""
        if self.lag_records == 0:
            return 0.0
        if self.record is None or (self.lag_records and self.record.behind_since_ms is None):
            return None
        return self.record.lag_seconds(now_ms)

    def as_json(self, now_ms: int, filling: Filling | None = None) -> dict[str, Any]:
        record = self.record
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "state": None if self.state is None else self.state.value,
            "offset": self.offset,
            "identical_offsets": self.is_identical,
            "parted_at": self.parted_at,
            "filling": filling_json(filling),
            "end": self.end,
            "lag": self.lag_records,
            "lag_seconds": self.lag_seconds(now_ms),
            "records_per_second": None if record is None else record.records_per_second,
            "latency_ms": None if record is None else record.latency._asdict(),
            "reason": self.reason,
            "retry_at": None if self.retry_at_ms is None else show_moment(self.retry_at_ms),
        }


class ProcessShown(Protocol):
    """A process that runs the flow (`sharing.processes`)."""

    @property
    def sentence(self) -> str:
        """A sentence about the tasks that the process runs."""

    def as_json(self) -> dict[str, Any]:
        """The process and its tasks as JSON."""


@dataclass(frozen=True, slots=True)
class FlowPage:
    """One flow at `at_ms` (ms since 1970). A `board` without a run means that no run has ever reported.

    `source_problem` says why the source's high watermarks are not known, `target_problem` why the target does not
    answer; both are empty otherwise. `processes` are those that run the flow now, `gaps` is the whole gap ledger,
    `file` the mirror's file, for commands.
    """

    flow: FlowName
    at_ms: int
    board: StatusBoard
    places: tuple[PartitionPlace, ...]
    source_problem: str = ""
    processes: tuple[ProcessShown, ...] = ()
    gaps: tuple[Gap, ...] = ()
    file: str = "FILE"
    target_problem: str = ""
    status: FlowStatus = field(init=False)
    verdict: Verdict = field(init=False)
    fillings: Mapping[TopicPartition, Filling] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", self.board.status())
        facts = gather(
            self.flow, self.board, self.at_ms, gaps=self.gaps, target_problem=self.target_problem, file=self.file
        )
        unanswered = {place.partition for place in self.places if place.end is None and not self.source_problem}
        asked = replace(
            facts, lag_records=self.lag_records, source_problem=self.source_problem,
            unknown_ends=len(unanswered.difference(facts.excused)),
        )  # fmt: skip
        object.__setattr__(self, "verdict", judge(asked))
        shown, found = {place.partition for place in self.places}, list_fillings(self.board, self.at_ms)
        object.__setattr__(self, "fillings", {where: one for where, one in found.items() if where in shown})

    @property
    def lag_records(self) -> int | None:
        if self.board.silent or (not self.places and not self.board.tasks):
            return None  # not all tasks have said yet what there is
        known = [place.lag_records for place in self.places if place.lag_records is not None]
        return sum(known) if len(known) == len(self.places) and not self.target_problem else None

    @property
    def lag_seconds(self) -> float | None:
        """None where it is not known: a flow that stopped when all was mirrored does not say since when it is
        behind."""
        is_dated = self.status.behind_since_ms is not None or self.lag_records == 0
        return self.status.lag_seconds(self.at_ms) if is_dated and self.lag_records is not None else None

    @property
    def state(self) -> FlowState | None:
        return self.board.state_at(self.at_ms)

    @property
    def records_per_second(self) -> float | None:
        """The flow's rate; 0.0 while no process runs it, None where it is not known."""
        if self.state in (FlowState.STOPPED, FlowState.FAILED, FlowState.SILENT):
            return 0.0
        return None if self.verdict.level is Level.UNKNOWN else self.status.records_per_second

    @property
    def lost_records(self) -> int:
        return sum(gap.lost_records for gap in self.gaps)

    def as_json(self) -> dict[str, Any]:
        status, flow, has_run = self.status, self.board.flow, bool(self.board.run)
        return {
            "flow": str(self.flow),
            "verdict": self.verdict.as_json(),
            "state": None if self.state is None else self.state.value,
            "reason": "" if flow is None else flow.reason,
            "process": None if flow is None else {"host": flow.host, "pid": flow.pid, "version": flow.version},
            "started_at": None if flow is None else show_moment(flow.started_at_ms),
            "reported_at": show_moment(self.board.at_ms) if has_run else None,
            "lag": self.lag_records if has_run else None,
            "lag_seconds": self.lag_seconds if has_run else None,
            "records_per_second": self.records_per_second if has_run else None,
            "latency_ms": _quantiles(status.recent_latency),
            "records": _most(status.records, None if flow is None else flow.records) if has_run else None,
            "bytes": _most(status.bytes, None if flow is None else flow.bytes) if has_run else None,
            "gaps": len(self.gaps) if has_run else None,
            "lost_records": self.lost_records if has_run else None,
            "problem": self.source_problem or status.problem,
            "verify": None if self.board.verified is None else verified_json(self.board.verified),
            "processes": [process.as_json() for process in self.processes],
            "tasks": [_task_json(task) for _, task in sorted(self.board.tasks.items())],
            "jobs": [_job_json(job) for _, job in sorted(self.board.jobs.items())],
            "partitions": [place.as_json(self.at_ms, self.fillings.get(place.partition)) for place in self.places],
        }


def list_unplaced(board: StatusBoard, offsets: Mapping[TopicPartition, int]) -> set[TopicPartition]:
    """Partitions of the run of which the ledger has no position, or none that can be read: their lag is not known."""
    return {
        where
        for where, record in board.partitions.items()
        if record.offset is None or (record.run == board.run and where not in offsets)
    }


def list_places(
    board: StatusBoard,
    offsets: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int | None],
    identical: Callable[[TopicPartition], bool | None] = lambda _: False,
    parted: Mapping[TopicPartition, int] = MappingProxyType({}),
) -> tuple[PartitionPlace, ...]:
    """All partitions of `offsets` and `ends`, with their state and last record, in order."""
    held = {one.partition: one for one in list_held(board)}
    found = (
        _place(where, board.partitions.get(where), held.get(where), offsets, ends)
        for where in sorted(offsets.keys() | ends.keys())
    )
    return tuple(
        replace(place, is_identical=identical(place.partition), parted_at=parted.get(place.partition))
        for place in found
    )


def _place(
    where: TopicPartition,
    record: PartitionRecord | None,
    held: HeldPartition | None,
    offsets: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int | None],
) -> PartitionPlace:
    offset, end = offsets.get(where), ends.get(where)
    if held is None:
        return PartitionPlace(where, PartitionState.RUNNING, offset, end, record=record)
    return PartitionPlace(where, held.state, offset, end, held.reason, held.retry_at_ms, record)


def render_page(page: FlowPage, *, whole: bool) -> Page:
    """Lines for the flow, and tables of its partitions, tasks and jobs; without `whole`, tables only of partitions that
    do not run and of jobs that fail."""
    if page.target_problem:
        return _render_unknown(page, whole=whole)
    if not page.board.run:
        return [headline(page.verdict)]
    parts: Page = [
        headline(page.verdict), f"  {_figures(page)}", f"  {_pace(page)}",
        *(f"  tasks: {sizing}" for sizing in page.board.sizings),
        *(f"  {process.sentence}" for process in page.processes), *problem_lines(page.verdict, page.at_ms),
    ]  # fmt: skip
    if page.board.verified is not None:
        parts.append(f"  {verified_sentence(page.board.verified, page.at_ms)}")
    shown = [place for place in page.places if whole or place.state is not PartitionState.RUNNING]
    if shown:
        parts.append(_places_table(page, shown))
    parts += fillings_table(page.fillings, whole=whole)
    if whole and page.board.tasks:
        parts.append(_tasks_table(page))
    jobs = [job for _, job in sorted(page.board.jobs.items()) if whole or job.state is JobState.FAILED]
    if jobs:
        job_titles = ("job", "state", "last round", "took", "rounds", "failed", "reason")
        parts.append(make_table(job_titles, [_job_row(job, page.at_ms) for job in jobs], indent=2))
    return parts


def _render_unknown(page: FlowPage, *, whole: bool) -> Page:
    """The page while the target does not answer: only the source's partitions are known."""
    source = page.source_problem or f"{page.flow.source} has {plural(len(page.places), 'partition')} to mirror"
    figures = f"  state, lag and rate are unknown; {source}"
    parts: Page = [headline(page.verdict), figures, *problem_lines(page.verdict, page.at_ms)]
    if whole and page.places:
        parts.append(_places_table(page, page.places))
    return parts


def _places_table(page: FlowPage, shown: Sequence[PartitionPlace]) -> Any:
    titles = ("topic", "partition", "state", "offset", "end", "lag", "seconds", "reason")
    return make_table(titles, [_row(place, page.at_ms) for place in shown], indent=2)


def _figures(page: FlowPage) -> str:
    lag = "unknown" if page.lag_records is None else f"{page.lag_records:,}"
    parts = [page.state.value] if page.state is not None else []
    parts += [plural(len(page.places), "partition"), f"lag {lag}"]
    if page.lag_records and page.lag_seconds is not None:
        parts[-1] += f" ({show_age(page.lag_seconds)})"
    for held in (PartitionState.FAILED, PartitionState.WAITING, PartitionState.PAUSED):
        count = sum(place.state is held for place in page.places)
        if count:
            parts.append(f"{count} {held.value}")
    if kept := count_identical(place.is_identical for place in page.places):
        parts.append(kept)
    if filling := count_fillings(len(page.fillings)):
        parts.append(filling)
    if parted := sum(place.parted_at is not None for place in page.places):
        parts.append(f"in {plural(parted, 'partition')} it is accepted that they part")
    if page.gaps:
        parts.append(f"{plural(len(page.gaps), 'gap')}, {plural(page.lost_records, 'offset')} gone")
    return ", ".join(parts)


def _pace(page: FlowPage) -> str:
    """The rate, the recent latency, and when which process reported last."""
    flow, rate = page.board.flow, page.records_per_second
    parts = ["rate unknown" if rate is None else f"{rate:,.0f} records/s"]
    if page.status.recent_latency.count:
        found = ", ".join(f"{name} {ms:,.0f} ms" for name, ms in _quantiles(page.status.recent_latency).items() if ms)
        parts.append(f"latency {found}")
    age = show_age(max(page.at_ms - page.board.at_ms, 0) / 1000)
    who = "" if flow is None else f" by process {flow.pid} on {flow.host}"
    return "; ".join([*parts, f"last reported {age} ago{who}"])


def _tasks_table(page: FlowPage) -> Any:
    titles = ("task", "epoch", "partitions", "lag", "records", "retries", "reported", "problem")
    rows = [
        (
            task.task, task.epoch, task.partitions, _known(task.known_lag), task.records, task.retries,
            f"{show_age(max(page.at_ms - task.at_ms, 0) / 1000)} ago", first_line(task.problem),
        )
        for _, task in sorted(page.board.tasks.items())
    ]  # fmt: skip
    return make_table(titles, rows, indent=2)


def _row(place: PartitionPlace, at_ms: int) -> tuple[object, ...]:
    reason = place.reason
    if place.retry_at_ms is not None and place.retry_at_ms > at_ms:
        reason += f" (next try in {show_age((place.retry_at_ms - at_ms) / 1000)})"
    seconds = place.lag_seconds(at_ms)
    numbers = (_known(place.offset), _known(place.end), _known(place.lag_records))
    late = "-" if seconds is None else f"{seconds:.1f}"
    state = "unknown" if place.state is None else place.state.value
    return (place.partition.topic, place.partition.partition, state, *numbers, late, reason)


def _job_row(job: JobRecord, at_ms: int) -> tuple[object, ...]:
    last = "-" if job.last_at_ms is None else f"{show_age(max(at_ms - job.last_at_ms, 0) / 1000)} ago"
    reason = first_line(job.reason)
    return (job.name, job.state.value, last, f"{job.cost_seconds:.1f} s", job.rounds, job.failures, reason)


def _known(number: int | None) -> str:
    return "-" if number is None else str(number)


def _quantiles(found: Histogram) -> dict[str, float | None]:
    return {name: found.quantile_ms(share) for name, share in _QUANTILES}


def _most(seen: int, counted: int | None) -> int:
    """The greater of the sum over task records and the sum in the process's own record: after compaction the former
    lacks finished attempts."""
    return seen if counted is None else max(seen, counted)


def _task_json(task: TaskRecord) -> dict[str, Any]:
    return {
        "task": task.task,
        "epoch": task.epoch,
        "partitions": task.partitions,
        "lag": task.known_lag,
        "retries": task.retries,
        "reported_at": show_moment(task.at_ms),
        "problem": task.problem,
        "sizing": task.sizing,
        "held_by": list(task.held_by),
    }


def _job_json(job: JobRecord) -> dict[str, Any]:
    return {
        "job": job.name,
        "state": job.state.value,
        "reason": job.reason,
        "rounds": job.rounds,
        "failures": job.failures,
        "cost_seconds": job.cost_seconds,
        "last_at": None if job.last_at_ms is None else show_moment(job.last_at_ms),
        "next_at": None if job.next_at_ms is None else show_moment(job.next_at_ms),
    }
