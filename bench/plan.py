"""The order of a benchmark: one work after another, every contestant on each. Called by `bench.command`."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from confluent_kafka import KafkaException

from bench.brokers import bench_cluster, delete_topics, delete_traces
from bench.caught_up import CaughtUp, Course, measure_caught_up
from bench.caught_up_table import CaughtUpRow, describe_caught_up
from bench.contestants import CONTESTANTS, SPARK_INLINE, Contestant, Job
from bench.copying import Copy, measure_copy
from bench.crowd import PREFIX, Crowd, create_crowd, delete_crowd, measure_crowd
from bench.crowd import QUICK as QUICK_CROWD
from bench.crowd import Size as CrowdSize
from bench.even_rate import Shape, Spent, measure_even_rate
from bench.latency import Latency
from bench.loading import Batches, load
from bench.plain_socket import measure_socket
from bench.results import (
    ALONE,
    BARE,
    DEFAULT,
    EXACTLY_ONCE,
    JOBS,
    KEPT,
    REPLICATED,
    SOCKET,
    SPARK,
    TLS,
    TUNED,
    WITH_SMT,
    WITH_TRANSFORMS,
    CopyRow,
    CrowdRow,
    Results,
    ShapeRow,
    SteadyRow,
    VerifyRow,
)  # fmt: skip
from bench.steady import QUICK, Pace, Steady, measure_steady
from bench.verifying import Verified, measure_verify
from bench.workloads import BACKLOG, WARM_UP, WORKLOADS, Workload
from sparkmirror.errors import SparkMirrorError
from sparkmirror.testing.guard import Guard
from sparkmirror.testing.kafka import KafkaCluster

COPIES, VARIANTS, STEADY, CAUGHT_UP, CROWD, SHAPES, VERIFY = PARTS = (
    "copies", "variants", "steady", "caught-up", "crowd", "shapes", "verify"
)  # fmt: skip
WARM_UPS = 4
"""Copies by the bare loop on brokers that have just started, before one by each mirror; then copies are measured."""
VARIED = "a"
"""The work that the variants are measured on."""
MIRRORS = (DEFAULT, TUNED, SPARK)
CHANGING = (TUNED, WITH_SMT, SPARK)
"""Who takes part where records are changed; the second only where a transformation of Kafka Connect can do it."""
"""Who takes part in the works over a long link, and where batches have holes: the bare loop copies them as they are."""
Outcome = TypeVar("Outcome")
INLINE = "inline payload"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure. `say` is told of each result as it comes."""

    workloads: tuple[str, ...]
    contestants: tuple[str, ...]
    parts: tuple[str, ...]
    quick: bool
    large: bool
    say: Callable[[str], None]
    courses: tuple[Course, ...] = ()
    shapes: tuple[Shape, ...] = ()
    times: int = 1

    def chosen(self, *names: str) -> list[Contestant]:
        return [CONTESTANTS[name] for name in names if name in self.contestants]

    def scaled(self, workload: Workload) -> Workload:
        return workload.quick() if self.quick else workload.times(self.times)


@dataclass(slots=True)
class Benchmark:
    """Runs a plan; holds what was measured so far."""

    plan: Plan
    source: KafkaCluster
    target: KafkaCluster
    directory: Path
    guard: Guard
    copies: list[CopyRow] = field(default_factory=list)
    steady: list[SteadyRow] = field(default_factory=list)
    crowds: list[CrowdRow] = field(default_factory=list)
    shapes: list[ShapeRow] = field(default_factory=list)
    verified: list[VerifyRow] = field(default_factory=list)
    caught_up: list[CaughtUpRow] = field(default_factory=list)
    batches: dict[str, Batches] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    runs: int = 0

    def run(self) -> Results:
        """Measure everything; what fails is named in the results and ends nothing else."""
        self._attempt("warm-up", self._warm_up)
        for name in self.plan.workloads:
            workload = self.plan.scaled(WORKLOADS[name])
            self._attempt(f"work {name}", partial(self._run_workload, workload))
        if STEADY in self.plan.parts:
            self._run_steady()
        if CAUGHT_UP in self.plan.parts:
            self._run_caught_up()
        if SHAPES in self.plan.parts:
            self._run_shapes()
        if CROWD in self.plan.parts:
            self._attempt("crowd", self._run_crowd)
        if self.plan.large:
            self._attempt("backlog", self._run_backlog)
        return Results(
            tuple(self.copies),
            tuple(self.steady),
            self.batches,
            tuple(self.problems),
            tuple(self.crowds),
            tuple(self.shapes),
            tuple(self.verified),
            tuple(self.caught_up),
        )

    def _attempt(self, subject: str, measure: Callable[[], None]) -> None:
        if problem := self._try(measure):
            self.problems.append(f"{subject}: {problem}")
            self.plan.say(f"{subject} failed: {problem}")

    def _warm_up(self) -> None:
        workload = self.plan.scaled(WARM_UP)
        with self._loaded(workload) as (topic, _):
            self._warm_brokers(workload, topic)

    def _warm_brokers(self, workload: Workload, topic: str, target: KafkaCluster | None = None) -> None:
        """A broker that has just started compiles its code, which is nobody's cost but its own. What a contestant asks
        otherwise than the one before did is compiled again, so each that takes part copies once."""
        for contestant in (*[CONTESTANTS[BARE]] * WARM_UPS, *self.plan.chosen(TUNED, SPARK)):
            job = self._job(contestant, workload, topic, target)
            outcome = self._try(partial(measure_copy, contestant, job, workload, self.directory, self.guard))
            delete_traces(job.target, job.alias)
            self.plan.say(f"warm-up: {describe_copy(outcome)}")

    def _run_workload(self, workload: Workload) -> None:
        with_variants = VARIANTS in self.plan.parts and workload.name == VARIED
        if COPIES not in self.plan.parts and not with_variants:
            return
        with self._loaded(workload) as (topic, workload):
            if COPIES in self.plan.parts:
                for contestant in self.plan.chosen(*_contestants(workload)):
                    self._copy(contestant, workload, "", self._job(contestant, workload, topic))
                if workload.far:
                    self._measure_socket(workload)
            if with_variants:
                self._run_variants(workload, topic)

    def _measure_socket(self, workload: Workload) -> None:
        outcome = self._try(partial(measure_socket, workload, self.batches[workload.name]))
        self.copies.append(CopyRow(workload, "", SOCKET, "plain socket over the same link", outcome))
        self.plan.say(f"{workload.name}: plain socket: {describe_copy(outcome)}")

    @contextmanager
    def _loaded(self, workload: Workload) -> Iterator[tuple[str, Workload]]:
        """The topic, and the work with as many records as the topic holds."""
        topic = f"bench-{workload.name}"
        self.batches[workload.name], records = load(self.source, topic, workload)
        self.plan.say(f"{workload.name}: {records:,} records, batches of {self.batches[workload.name]}")
        try:
            yield topic, replace(workload, records=records)
        finally:
            delete_topics(self.source, lambda name: name == topic)

    def _run_variants(self, workload: Workload, topic: str) -> None:
        if self.plan.chosen(SPARK):
            self._copy(SPARK_INLINE, workload, INLINE, self._job(SPARK_INLINE, workload, topic))
        for contestant in self.plan.chosen(TUNED, SPARK):
            self._copy(contestant, workload, TLS, self._job(contestant, workload, topic, tls=True))
        if self.plan.chosen(TUNED, SPARK):
            self._attempt(REPLICATED, partial(self._run_replicated, workload, topic))

    def _run_replicated(self, workload: Workload, topic: str) -> None:
        with bench_cluster("target-of-three", brokers=3) as target:
            self._warm_brokers(workload, topic, target)
            for contestant in self.plan.chosen(TUNED, SPARK):
                self._copy(contestant, workload, REPLICATED, self._job(contestant, workload, topic, target))

    def _run_steady(self) -> None:
        for contestant in self.plan.chosen("mm2-default", TUNED, SPARK, EXACTLY_ONCE):
            job = self._job(contestant, None, f"bench-steady-{self.runs}")
            outcome = self._try(partial(self._measure_steady, contestant, job))
            self.steady.append(SteadyRow(contestant.name, contestant.title, outcome))
            self.plan.say(f"running flow, {contestant.title}: {describe_steady(outcome)}")

    def _run_caught_up(self) -> None:
        for wanted in self.plan.courses:
            course = wanted.quick() if self.plan.quick else wanted
            all_of_them = DEFAULT, JOBS, TUNED, BARE, SPARK, ALONE, KEPT, WITH_TRANSFORMS, EXACTLY_ONCE
            for contestant in self.plan.chosen(*all_of_them):
                job = self._job(contestant, None, f"bench-caught-up-{self.runs}")
                found = self._try(partial(measure_caught_up, contestant, job, course, self.directory, self.guard))
                outcomes: list[CaughtUp | str] = [found] * len(course.rates) if isinstance(found, str) else found
                for rate, outcome in zip(course.rates, outcomes, strict=True):
                    row = CaughtUpRow(contestant.name, contestant.title, rate, course.partitions, outcome)
                    self.caught_up.append(row)
                    layout = f"{rate:,} records/s over {course.partitions} partitions"
                    self.plan.say(f"caught up, {layout}, {contestant.title}: {describe_caught_up(outcome)}")

    def _run_shapes(self) -> None:
        for shape in self.plan.shapes:
            wanted = shape.quick() if self.plan.quick else shape
            for contestant in self.plan.chosen(DEFAULT, SPARK):
                job = self._job(contestant, None, f"bench-shape-{self.runs}")
                outcome = self._try(partial(measure_even_rate, contestant, job, wanted, self.directory, self.guard))
                self.shapes.append(ShapeRow(contestant.title, wanted, outcome))
                self.plan.say(f"{wanted}, {contestant.title}: {describe_spent(outcome)}")

    def _run_crowd(self) -> None:
        size = QUICK_CROWD if self.plan.quick else CrowdSize()
        create_crowd(self.source, size)
        try:
            for contestant in self.plan.chosen(DEFAULT, SPARK):
                job = self._job(contestant, None, f"{PREFIX}.*")
                outcome = self._try(
                    partial(measure_crowd, contestant, job, size, self.directory, self.guard, self.plan.say)
                )
                self.crowds.append(CrowdRow(contestant.name, contestant.title, outcome))
                self.plan.say(f"{size.topics} topics, {contestant.title}: {describe_crowd(outcome)}")
        finally:
            delete_crowd(self.source)

    def _run_backlog(self) -> None:
        for contestant in self.plan.chosen(SPARK):
            with self._loaded(self.plan.scaled(BACKLOG)) as (topic, backlog):
                self._copy(contestant, backlog, "", self._job(contestant, BACKLOG, topic))

    def _job(
        self,
        contestant: Contestant,
        workload: Workload | None,
        topic: str,
        target: KafkaCluster | None = None,
        *,
        tls: bool = False,
    ) -> Job:
        self.runs += 1
        alias = f"{contestant.name}-{self.runs}"
        codec, far = (workload.codec, workload.far) if workload else ("none", "")
        job = Job(self.source, target or self.target, alias, topic, codec, tls, far)
        if workload is None:
            return job
        routed = workload.routed if contestant.name != TUNED else ""
        return replace(job, settings=workload.settings, smt=workload.smt, routed=routed)

    def _copy(self, contestant: Contestant, workload: Workload, variant: str, job: Job) -> None:
        outcome = self._try(partial(measure_copy, contestant, job, workload, self.directory, self.guard))
        self.copies.append(CopyRow(workload, variant, contestant.name, contestant.title, outcome))
        subject = f"{workload.name}, {variant}" if variant else workload.name
        self.plan.say(f"{subject}: {contestant.title}: {describe_copy(outcome)}")
        if VERIFY in self.plan.parts and contestant.name == SPARK and not variant and isinstance(outcome, Copy):
            self._verify(workload, job)
        delete_traces(job.target, job.alias)

    def _verify(self, workload: Workload, job: Job) -> None:
        outcome = self._try(partial(measure_verify, job, workload, self.directory))
        self.verified.append(VerifyRow(workload, outcome))
        self.plan.say(f"{workload.name}: verify: {describe_verified(outcome)}")

    def _measure_steady(self, contestant: Contestant, job: Job) -> Steady:
        return measure_steady(contestant, job, QUICK if self.plan.quick else Pace(), self.directory, self.guard)

    @staticmethod
    def _try(measure: Callable[[], Outcome]) -> Outcome | str:
        """One contestant's failure is a line of the results and ends nothing else."""
        try:
            return measure()
        except (SparkMirrorError, KafkaException, OSError) as problem:
            return str(problem)


def _contestants(workload: Workload) -> Iterable[str]:
    if workload.changes_records:
        return [name for name in CHANGING if name != WITH_SMT or workload.smt]
    return (
        MIRRORS
        if workload.far or workload.superseded
        else [name for name in CONTESTANTS if name not in (WITH_SMT, WITH_TRANSFORMS)]
    )


def describe_copy(outcome: Copy | str) -> str:
    if isinstance(outcome, str):
        return f"failed: {outcome}"
    return (
        f"{outcome.records_per_second:,.0f} records/s, {outcome.cpu_seconds:.2f} CPU s, "
        f"{outcome.peak_bytes / 1e6:,.0f} MB, first record after {outcome.start_seconds:.1f} s"
    )


def describe_steady(outcome: Steady | str) -> str:
    if isinstance(outcome, str):
        return f"failed: {outcome}"
    return f"start {outcome.start_seconds:.1f} s, idle {outcome.idle_cores * 100:.1f} % of a core, " + ", ".join(
        map(describe_latency, outcome.latencies)
    )


def describe_latency(latency: Latency) -> str:
    by_second = " ".join(f"{ms:.0f}" for ms in latency.p99_by_second_ms)
    return (
        f"at {latency.per_second:,}/s p50 {latency.p50_ms:.1f} ms, p99 {latency.p99_ms:.1f} ms (by second {by_second}; "
        f"machine {latency.machine_idle:.0%} idle)"
    )


def describe_crowd(outcome: Crowd | str) -> str:
    if isinstance(outcome, str):
        return f"failed: {outcome}"
    return (
        f"first record {outcome.first_seconds:.1f} s, all {outcome.all_seconds:.1f} s, second start "
        f"{outcome.again_seconds:.1f} s, new topic {outcome.new_topic_seconds:.1f} s, idle "
        f"{outcome.idle_cores * 100:.1f} % of a core, {outcome.idle_bytes / 1e6:,.0f} MB"
        + (f", a sync round {outcome.sync_seconds:.1f} s" if outcome.sync_seconds is not None else "")
    )


def describe_spent(outcome: Spent | str) -> str:
    if isinstance(outcome, str):
        return f"failed: {outcome}"
    return f"{outcome.records_per_second:,.0f} records/s, {outcome.cores * 100:.0f} % of a core"


def describe_verified(outcome: Verified | str) -> str:
    if isinstance(outcome, str):
        return f"failed: {outcome}"
    return f"{outcome.records_per_second:,.0f} records/s, {outcome.identical_share:.0%} of the bytes identical"
