"""From measurements to tables: ratios, goals, Markdown. Pure; called by `bench.command`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.caught_up import CaughtUp
from bench.caught_up_table import CaughtUpRow, render_caught_up
from bench.copying import Copy
from bench.crowd import Crowd
from bench.even_rate import Shape, Spent
from bench.loading import Batches
from bench.markdown import render_table
from bench.steady import Steady
from bench.verifying import Verified
from bench.workloads import Workload

TUNED, DEFAULT, BARE, SPARK, EXACTLY_ONCE = "mm2-tuned", "mm2-default", "bare", "spark", "eos"
WITH_SMT = "mm2-smt"
APART = "spark-apart"
"""SparkMirror that merges no batches."""
WITH_TRANSFORMS = "spark-where"
"""SparkMirror whose records pass Spark one by one; in the rows of mirrors that have caught up."""
KEPT = "spark-kept"
JOBS, ALONE = "mm2-jobs", "spark-alone"
"""MirrorMaker 2 with its jobs, and SparkMirror without its own; in the rows of mirrors that have caught up."""
SOCKET = "socket"
TLS, REPLICATED = "TLS on both sides", "three target brokers, replication factor 3"
REPLICATED_RATE_MIN = 1.5
MERGING_RATE_MIN, MERGING_CPU_MAX = 1.0, 1.0
LINK_RATES_MIN = {DEFAULT: 5.0, TUNED: 1.5, SOCKET: 0.8}
LATENCY_MAX = CAUGHT_UP_MAX = 0.5
CAUGHT_UP_MB_MAX = 600
EXACTLY_ONCE_RATE_MIN = 0.8
EXACTLY_ONCE_P99_MS_MAX = 250.0
"""The default commit interval and 50 ms; the probe reads what is committed."""
START_SECONDS_MAX = 5.0
IDLE_CORES_MAX = 0.01
CROWD_MAX = {"start_seconds": 20.0, "idle_cores": 0.05, "bytes": 1.2e9, "new_topic_seconds": 5.0, "sync_seconds": 10.0}
"""What is asked with 1,000 topics of 10 partitions."""


@dataclass(frozen=True, slots=True)
class CopyRow:
    """One contestant on one work. `variant` is "" for the work itself, else what is different. A str says why not."""

    workload: Workload
    variant: str
    contestant: str
    title: str
    outcome: Copy | str


@dataclass(frozen=True, slots=True)
class SteadyRow:
    """One contestant's running flow."""

    contestant: str
    title: str
    outcome: Steady | str


@dataclass(frozen=True, slots=True)
class CrowdRow:
    """One contestant with very many partitions."""

    contestant: str
    title: str
    outcome: Crowd | str


@dataclass(frozen=True, slots=True)
class ShapeRow:
    """One contestant at an even rate, laid out one way."""

    title: str
    shape: Shape
    outcome: Spent | str


@dataclass(frozen=True, slots=True)
class VerifyRow:
    """SparkMirror's copy of a work, compared with its source."""

    workload: Workload
    outcome: Verified | str


@dataclass(frozen=True, slots=True)
class Results:
    """All that one run of the benchmark measured. `batches` is what the source held, by name of the work."""

    copies: tuple[CopyRow, ...]
    steady: tuple[SteadyRow, ...]
    batches: dict[str, Batches]
    problems: tuple[str, ...] = ()
    crowds: tuple[CrowdRow, ...] = ()
    shapes: tuple[ShapeRow, ...] = ()
    verified: tuple[VerifyRow, ...] = ()
    caught_up: tuple[CaughtUpRow, ...] = ()

    def copy(self, workload: str, variant: str, contestant: str) -> Copy | None:
        for row in self.copies:
            if (row.workload.name, row.variant, row.contestant) == (workload, variant, contestant):
                return row.outcome if isinstance(row.outcome, Copy) else None
        return None

    def running(self, contestant: str) -> Steady | None:
        for row in self.steady:
            if row.contestant == contestant:
                return row.outcome if isinstance(row.outcome, Steady) else None
        return None


@dataclass(frozen=True, slots=True)
class Verdict:
    """One goal: what was asked, what came out."""

    subject: str
    asked: str
    measured: str
    met: bool


def render_results(results: Results) -> str:
    """Markdown: the copies work by work, then running flows, goals, and failures in full."""
    parts = [
        _render_copies(results), _render_verified(results), _render_steady(results),
        render_caught_up(results.caught_up), render_shapes(results.shapes),
        render_crowds(results.crowds),
        _render_goals(judge(results)), _render_failures(results),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def judge(results: Results) -> list[Verdict]:
    """Every goal for which both sides were measured."""
    works = {row.workload.name: row.workload for row in results.copies if not row.variant}
    verdicts: list[Verdict] = []
    for workload in works.values():
        spark = results.copy(workload.name, "", SPARK)
        if spark is not None:
            verdicts += _judge_copy(results, workload, spark)
    return [*verdicts, *_judge_steady(results), *_judge_caught_up(results), *_judge_crowd(results)]


def _judge_copy(results: Results, workload: Workload, spark: Copy) -> Iterable[Verdict]:
    tuned, bare = (results.copy(workload.name, "", name) for name in (TUNED, BARE))
    memory = [copy.peak_bytes for name in (TUNED, DEFAULT) if (copy := results.copy(workload.name, "", name))]
    if tuned and workload.goal:
        yield _at_least(f"{workload.name}: rate / MM2 tuned", rate_ratio(spark, tuned), workload.goal.rate_min)
        yield _at_most(f"{workload.name}: CPU / MM2 tuned", cpu_ratio(spark, tuned), workload.goal.cpu_max)
    if workload.goal and (changing := results.copy(workload.name, "", WITH_SMT)):
        subject = "MM2 tuned with the transformation"
        yield _at_least(f"{workload.name}: rate / {subject}", rate_ratio(spark, changing), workload.goal.rate_min)
        yield _at_most(f"{workload.name}: CPU / {subject}", cpu_ratio(spark, changing), workload.goal.cpu_max)
    if bare and workload.goal:
        yield _at_least(f"{workload.name}: rate / bare loop", rate_ratio(spark, bare), workload.goal.bare_rate_min)
        yield _at_most(f"{workload.name}: CPU / bare loop", cpu_ratio(spark, bare), workload.goal.bare_cpu_max)
    replicated, by_tuned = (results.copy(workload.name, REPLICATED, name) for name in (SPARK, TUNED))
    if replicated and by_tuned:
        subject = f"{workload.name}, {REPLICATED}: rate / MM2 tuned"
        yield _at_least(subject, rate_ratio(replicated, by_tuned), REPLICATED_RATE_MIN)
    if apart := results.copy(workload.name, "", APART):
        yield _at_least(f"{workload.name}: rate / without merging", rate_ratio(spark, apart), MERGING_RATE_MIN)
        yield _at_most(f"{workload.name}: CPU / without merging", cpu_ratio(spark, apart), MERGING_CPU_MAX)
        subject = f"{workload.name}: CPU with the brokers' / without merging"
        yield _at_most(subject, whole_cpu_ratio(spark, apart), MERGING_CPU_MAX)
    if exactly_once := results.copy(workload.name, "", EXACTLY_ONCE):
        rate = rate_ratio(exactly_once, spark)
        yield _at_least(f"{workload.name}: rate exactly-once / at least once", rate, EXACTLY_ONCE_RATE_MIN)
    for other, rate_min in LINK_RATES_MIN.items() if workload.far else ():
        if (reference := results.copy(workload.name, "", other)) is not None:
            yield _at_least(f"{workload.name}: rate / {other}", rate_ratio(spark, reference), rate_min)
    if memory:
        yield _at_most(f"{workload.name}: peak memory / MM2", spark.peak_bytes / min(memory), 1.0)


def _judge_steady(results: Results) -> Iterable[Verdict]:
    spark, default, exactly_once = map(results.running, (SPARK, DEFAULT, EXACTLY_ONCE))
    for latency in exactly_once.latencies if exactly_once else ():
        subject = f"exactly-once at {latency.per_second} records/s: p99 ms"
        yield _at_most(subject, latency.p99_ms, EXACTLY_ONCE_P99_MS_MAX)
    if spark is None:
        return
    for ours, theirs in zip(spark.latencies, default.latencies if default else (), strict=False):
        subject = f"latency at {ours.per_second} records/s"
        yield _at_most(f"{subject}: p50 / MM2 default", ours.p50_ms / theirs.p50_ms, LATENCY_MAX)
        yield _at_most(f"{subject}: p99 / MM2 default", ours.p99_ms / theirs.p99_ms, LATENCY_MAX)
    yield _at_most("first record, seconds from start", spark.start_seconds, START_SECONDS_MAX)
    yield _at_most("idle, cores", spark.idle_cores, IDLE_CORES_MAX)


def _judge_caught_up(results: Results) -> Iterable[Verdict]:
    """Memory, and CPU and latencies beside MirrorMaker's at the same rate; without a record, CPU alone."""
    theirs = {(row.partitions, row.per_second): row.outcome for row in results.caught_up if row.contestant == DEFAULT}
    for row in results.caught_up:
        ours, other = row.outcome, theirs.get((row.partitions, row.per_second))
        if row.contestant != SPARK or isinstance(ours, str):
            continue
        subject = f"caught up, {row.partitions} partitions, {row.per_second:,} records/s"
        if ours.pss_by_role:
            yield _at_most(f"{subject}: memory, MB", ours.pss_bytes / 1e6, CAUGHT_UP_MB_MAX)
        if not row.per_second:
            yield _at_most(f"{subject}: cores", ours.cores, IDLE_CORES_MAX)
        elif isinstance(other, CaughtUp) and ours.ages and other.ages:
            yield _at_most(f"{subject}: CPU / MM2 default", ours.cores / other.cores, CAUGHT_UP_MAX)
            yield _at_most(f"{subject}: p50 / MM2 default", ours.ages.p50_ms / other.ages.p50_ms, CAUGHT_UP_MAX)
            yield _at_most(f"{subject}: p99 / MM2 default", ours.ages.p99_ms / other.ages.p99_ms, CAUGHT_UP_MAX)
            yield _at_most(f"{subject}: p99.9 / MM2 default", ours.ages.p999_ms / other.ages.p999_ms, CAUGHT_UP_MAX)


def _judge_crowd(results: Results) -> Iterable[Verdict]:
    ours = [row.outcome for row in results.crowds if row.contestant == SPARK and isinstance(row.outcome, Crowd)]
    for crowd in ours:
        many = f"{crowd.size.topics:,} topics"
        yield _at_most(f"{many}: first record, seconds from start", crowd.first_seconds, CROWD_MAX["start_seconds"])
        yield _at_most(f"{many}: idle, cores", crowd.idle_cores, CROWD_MAX["idle_cores"])
        yield _at_most(f"{many}: memory, GB", crowd.idle_bytes / 1e9, CROWD_MAX["bytes"] / 1e9)
        yield _at_most(f"{many}: a new topic, seconds", crowd.new_topic_seconds, CROWD_MAX["new_topic_seconds"])
        if crowd.sync_seconds is not None:
            yield _at_most(f"{many}: a round of all syncs, seconds", crowd.sync_seconds, CROWD_MAX["sync_seconds"])


def _at_least(subject: str, value: float, bound: float) -> Verdict:
    return Verdict(subject, f"≥ {bound:.2f}", f"{value:.2f}", value >= bound)


def _at_most(subject: str, value: float, bound: float) -> Verdict:
    return Verdict(subject, f"≤ {bound:.3g}", f"{value:.3g}", value <= bound)


def rate_ratio(copy: Copy, other: Copy) -> float:
    return copy.records_per_second / other.records_per_second


def cpu_ratio(copy: Copy, other: Copy) -> float:
    """CPU for the same data: at its start each copy has missed a different part of it."""
    return copy.cpu_seconds_per_gigabyte / max(other.cpu_seconds_per_gigabyte, 0.01)


def whole_cpu_ratio(copy: Copy, other: Copy) -> float:
    return copy.whole_cpu_seconds_per_gigabyte / max(other.whole_cpu_seconds_per_gigabyte, 0.01)


def _render_copies(results: Results) -> str:
    groups = dict.fromkeys((row.workload.name, row.variant) for row in results.copies)
    return "\n\n".join(_render_group(results, *group) for group in groups)


def _render_group(results: Results, name: str, variant: str) -> str:
    rows = [row for row in results.copies if (row.workload.name, row.variant) == (name, variant)]
    workload, batches = rows[0].workload, results.batches.get(name)
    title = f"**{name}**: {workload.records:,} × {workload.title}{f', {variant}' if variant else ''}"
    head = ["", "records/s", "MB/s", "CPU s", "brokers' CPU s", "MB/s per core", "peak PSS MB", "start s",
            "rate/tuned", "CPU/tuned", "rate/default", "CPU/default", "rate/bare", "CPU/bare"]  # fmt: skip
    table = render_table(head, [_copy_cells(results, row) for row in rows])
    return f"{title}{f' (batches of {batches})' if batches else ''}\n\n{table}"


def _copy_cells(results: Results, row: CopyRow) -> list[str]:
    copy = row.outcome
    if isinstance(copy, str):
        return [row.title, "failed", *[""] * 12]
    surplus = f" (+{copy.surplus_records:,} repeated)" if copy.surplus_records else ""
    return [
        f"{row.title}{surplus}",
        f"{copy.records_per_second:,.0f}",
        f"{copy.megabytes / copy.seconds:,.0f}",
        f"{copy.cpu_seconds:.2f}",
        f"{copy.brokers_cpu_seconds:.2f}",
        f"{copy.megabytes_per_core:,.0f}",
        f"{copy.peak_bytes / 1e6:,.0f}",
        f"{copy.start_seconds:.1f}",
        *(cell for other in (TUNED, DEFAULT, BARE) for cell in _ratio_cells(results, row, copy, other)),
    ]


def _ratio_cells(results: Results, row: CopyRow, copy: Copy, other: str) -> tuple[str, str]:
    reference = results.copy(row.workload.name, row.variant, other)
    if reference is None or row.contestant == other:
        return "", ""
    return f"{rate_ratio(copy, reference):.2f}", f"{cpu_ratio(copy, reference):.2f}"


def _render_steady(results: Results) -> str:
    if not results.steady:
        return ""
    head = ["Running flow", "records/s sent", "p50 ms", "p99 ms", "p99.9 ms", "start s", "idle % of a core", "PSS MB"]
    return render_table(head, [cells for row in results.steady for cells in _steady_cells(row)])


def _steady_cells(row: SteadyRow) -> Iterable[list[str]]:
    steady = row.outcome
    if isinstance(steady, str):
        yield [row.title, "failed", *[""] * 6]
        return
    rest = [f"{steady.start_seconds:.1f}", f"{steady.idle_cores * 100:.1f}", f"{steady.idle_bytes / 1e6:,.0f}"]
    for latency in steady.latencies:
        numbers = (latency.p50_ms, latency.p99_ms, latency.p999_ms)
        yield [row.title, f"{latency.per_second:,}", *(f"{number:.1f}" for number in numbers), *rest]
        rest = [""] * 3


def _render_verified(results: Results) -> str:
    if not results.verified:
        return ""
    head = ["`sparkmirror verify`", "records/s", "MB/s", "identical bytes", "s", "start and end s", "rate/mirror"]
    return render_table(head, [_verified_cells(results, row) for row in results.verified])


def _verified_cells(results: Results, row: VerifyRow) -> list[str]:
    found, copy = row.outcome, results.copy(row.workload.name, "", SPARK)
    if isinstance(found, str):
        return [row.workload.name, "failed", *[""] * 5]
    return [
        row.workload.name,
        f"{found.records_per_second:,.0f}",
        f"{found.megabytes / found.seconds:,.0f}",
        f"{found.identical_share:.0%}",
        f"{found.seconds:.1f}",
        f"{found.start_seconds:.1f}",
        f"{found.records_per_second / copy.records_per_second:.2f}" if copy else "",
    ]


def render_crowds(rows: Sequence[CrowdRow]) -> str:
    """Very many partitions, a row for each contestant."""
    if not rows:
        return ""
    head = ["Very many partitions", "topics", "partitions", "first record s", "all records s", "second start s",
            "new topic s", "idle % of a core", "PSS MB", "sync round s"]  # fmt: skip
    return render_table(head, [_crowd_cells(row) for row in rows])


def _crowd_cells(row: CrowdRow) -> list[str]:
    crowd = row.outcome
    if isinstance(crowd, str):
        return [row.title, "failed", *[""] * 8]
    seconds = (crowd.first_seconds, crowd.all_seconds, crowd.again_seconds, crowd.new_topic_seconds)
    sync = "" if crowd.sync_seconds is None else f"{crowd.sync_seconds:.1f}"
    return [
        row.title,
        f"{crowd.size.topics:,}",
        f"{crowd.size.topics * crowd.size.partitions:,}",
        *(f"{number:.1f}" for number in seconds),
        f"{crowd.idle_cores * 100:.1f}",
        f"{crowd.idle_bytes / 1e6:,.0f}",
        sync,
    ]


def render_shapes(rows: Sequence[ShapeRow]) -> str:
    """The same rate over more and more partitions and tasks."""
    if not rows:
        return ""
    head = ["Even rate", "flows", "partitions", "tasks", "records/s", "% of a core", "PSS MB", "start s"]
    return render_table(head, [_shape_cells(row) for row in rows])


def _shape_cells(row: ShapeRow) -> list[str]:
    spent = row.outcome
    flows = row.shape.flows
    shape = [row.title, str(flows), f"{flows * row.shape.partitions:,}", str(flows * row.shape.tasks)]
    if isinstance(spent, str):
        return [*shape, "failed", *[""] * 3]
    return [*shape, f"{spent.records_per_second:,.0f}", f"{spent.cores * 100:.0f}", f"{spent.bytes / 1e6:,.0f}",
            f"{spent.start_seconds:.1f}"]  # fmt: skip


def _render_goals(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return ""
    rows = [[one.subject, one.asked, one.measured, "yes" if one.met else "**no**"] for one in verdicts]
    return render_table(["SparkMirror's goal", "asked", "measured", "met"], rows)


def _render_failures(results: Results) -> str:
    copies = [((row.title, row.workload.name, row.variant), row.outcome) for row in results.copies]
    flows: list[tuple[tuple[str, ...], object]] = [((row.title, "running flow"), row.outcome) for row in results.steady]
    flows += [((row.title, "very many partitions"), row.outcome) for row in results.crowds]
    flows += [((row.title, str(row.shape)), row.outcome) for row in results.shapes]
    flows += [
        ((row.title, f"{row.per_second:,} records/s over {row.partitions} partitions"), row.outcome)
        for row in results.caught_up
    ]
    flows += [(("sparkmirror verify", row.workload.name), row.outcome) for row in results.verified]
    every = [(", ".join(filter(None, names)), outcome) for names, outcome in (*copies, *flows)]
    failures = [f"{subject} failed:\n\n```\n{text}\n```" for subject, text in every if isinstance(text, str)]
    return "\n\n".join([*failures, *(f"```\n{problem}\n```" for problem in results.problems)])
