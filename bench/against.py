"""Compares two versions of SparkMirror in one run, in turns: `python -m bench --against COMMIT`.

The other version's source comes out of git into a temporary directory and stands first on PYTHONPATH; interpreter,
packages, brokers, data and this benchmark are the same for both. Called by `bench.command`.
"""

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaException

from bench.brokers import delete_topics, delete_traces
from bench.caught_up import CaughtUp, Course, measure_caught_up
from bench.contestants import CONTESTANTS, Contestant, Job
from bench.copying import Copy, measure_copy
from bench.loading import load
from bench.machine import ROOT
from bench.markdown import render_table
from bench.noise import Compared, compare
from bench.results import BARE
from bench.workloads import WARM_UP, Workload
from sparkmirror.errors import SparkMirrorError
from sparkmirror.testing.guard import Guard
from sparkmirror.testing.kafka import KafkaCluster

TURNS = 5


class Figure(NamedTuple):
    """What is compared."""

    subject: str
    is_more_better: bool = False


Figures = dict[Figure, float]
"""Of one version in one turn."""


@dataclass(frozen=True, slots=True)
class Version:
    """One of the two; `environment` makes its source the one that is imported."""

    name: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What to compare: whole works, and courses of mirrors that have caught up, so many turns of each."""

    contestant: Contestant
    workloads: tuple[Workload, ...]
    courses: tuple[Course, ...]
    turns: int
    say: Callable[[str], None]


@dataclass(slots=True)
class Turns:
    """What came out so far: by subject, each version's values in turn. A turn that failed is one of `problems`."""

    values: dict[Figure, tuple[list[float], list[float]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, before: Figures, after: Figures) -> None:
        """One turn of both versions; what only one of them has is left out."""
        for figure in before.keys() & after.keys():
            mine = self.values.setdefault(figure, ([], []))
            mine[0].append(before[figure])
            mine[1].append(after[figure])

    def compared(self) -> list[Compared]:
        """In the order of their subjects."""
        return [
            compare(figure.subject, before, after, is_more_better=figure.is_more_better)
            for figure, (before, after) in sorted(self.values.items())
        ]


def extract(commit: str, directory: Path) -> Version:
    """The version at `commit`, its source in `directory`. Raises SparkMirrorError."""
    done = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=False, timeout=60)
    if done.returncode:
        raise SparkMirrorError(f"git has no commit {commit}: {done.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(directory, filter="data")
    return _checked(commit, directory / "src")


def present() -> Version:
    """What stands in the working tree."""
    return _checked("working tree", ROOT / "src")


def _checked(name: str, source: Path) -> Version:
    """Raises SparkMirrorError where another source would be imported: both turns would be of one version."""
    before = os.environ.get("PYTHONPATH", "")
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, [str(source), before]))}
    where = "import sparkmirror; print(sparkmirror.__path__[0])"
    done = subprocess.run(
        [sys.executable, "-c", where], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    found = done.stdout.strip()
    if Path(found or "/").resolve() != (source / "sparkmirror").resolve():
        raise SparkMirrorError(f"Of {name}, {found or done.stderr.strip()} is imported instead of {source}.")
    return Version(name, environment)


@dataclass(slots=True)
class Against:
    """Runs a comparison between two clusters."""

    comparison: Comparison
    versions: tuple[Version, Version]
    source: KafkaCluster
    target: KafkaCluster
    directory: Path
    guard: Guard
    turns: Turns = field(default_factory=Turns)
    runs: int = 0

    def run(self) -> Turns:
        """All turns of all works and courses; what fails ends nothing else."""
        self._warm_up()
        for workload in self.comparison.workloads:
            self._run_work(workload)
        for course in self.comparison.courses:
            self._take_turns(f"caught up over {course.partitions} partitions", partial(self._caught_up, course))
        return self.turns

    def _run_work(self, workload: Workload) -> None:
        topic = f"bench-{workload.name}"
        _, records = load(self.source, topic, workload)
        loaded = replace(workload, records=records)
        try:
            self._take_turns(f"work {workload.name}", partial(self._copy, loaded, topic))
        finally:
            delete_topics(self.source, lambda name: name == topic)

    def _warm_up(self) -> None:
        """The brokers' code has to be compiled."""
        load(self.source, WARM_UP.name, WARM_UP)
        job = self._job(WARM_UP.name)
        measure_copy(CONTESTANTS[BARE], job, WARM_UP, self.directory, self.guard)
        delete_traces(self.target, job.alias)
        delete_topics(self.source, lambda name: name == WARM_UP.name)

    def _take_turns(self, subject: str, measure: Callable[[Version], Figures]) -> None:
        for turn in range(self.comparison.turns):
            try:
                self.turns.add(*[measure(version) for version in self.versions])
            except (SparkMirrorError, KafkaException, OSError) as problem:
                self.turns.problems.append(f"{subject}, turn {turn + 1}: {problem}")
                self.comparison.say(self.turns.problems[-1])

    def _copy(self, workload: Workload, topic: str, version: Version) -> Figures:
        job = self._job(topic, workload)
        try:
            copy = measure_copy(
                self.comparison.contestant, job, workload, self.directory, self.guard, version.environment
            )
        finally:
            delete_traces(self.target, job.alias)
        self.comparison.say(
            f"{workload.name}, {version.name}: {copy.records_per_second:,.0f} records/s, {copy.cpu_seconds:.2f} CPU s"
        )
        return copy_figures(workload.name, copy)

    def _caught_up(self, course: Course, version: Version) -> Figures:
        job = self._job(f"bench-caught-up-{self.runs}")
        rows = measure_caught_up(
            self.comparison.contestant, job, course, self.directory, self.guard, version.environment
        )
        figures: Figures = {}
        for row in rows:
            if isinstance(row, str):
                raise SparkMirrorError(f"{version.name}: {row}")
            figures |= caught_up_figures(row)
        self.comparison.say(
            f"caught up over {course.partitions} partitions, {version.name}: "
            + ", ".join(
                f"{row.per_second:,}/s {row.cores * 100:.1f} % of a core" for row in rows if isinstance(row, CaughtUp)
            )
        )
        return figures

    def _job(self, topic: str, workload: Workload | None = None) -> Job:
        self.runs += 1
        codec, far, settings = (workload.codec, workload.far, workload.settings) if workload else ("none", "", ())
        return Job(self.source, self.target, f"turn{self.runs}", topic, codec, far=far, settings=settings)


def copy_figures(name: str, copy: Copy) -> Figures:
    """What is compared of a copy."""
    return {
        Figure(f"{name}: records/s", is_more_better=True): copy.records_per_second,
        Figure(f"{name}: CPU s per GB"): copy.cpu_seconds_per_gigabyte,
        Figure(f"{name}: peak PSS MB"): copy.peak_bytes / 1e6,
        Figure(f"{name}: start s"): copy.start_seconds,
    }


def caught_up_figures(row: CaughtUp) -> Figures:
    """What is compared of a row."""
    figures = {"% of a core": row.cores * 100}
    if row.ages is not None:
        figures |= {"p50 ms": row.ages.p50_ms, "p99 ms": row.ages.p99_ms, "p99.9 ms": row.ages.p999_ms}
    if costs := row.microseconds_an_answer():
        figures["µs an answer"] = costs[""]
    where = f"{row.partitions:>2} partitions, {row.per_second:>6,} records/s"
    return {Figure(f"{where}: {name}"): value for name, value in figures.items()}


def render_comparison(names: tuple[str, str], turns: Turns) -> str:
    """Markdown: the table, what is marked, what failed."""
    compared = turns.compared()
    head = ["", f"{names[0]}, median", f"{names[1]}, median", "difference", "noise", ""]
    rows = [
        [one.subject, _shown(one.before), _shown(one.after), f"{one.difference:+.1%}", f"± {one.noise:.1%}",
         f"**{one.verdict}**" if one.verdict else ""]
        for one in compared
    ]  # fmt: skip
    worse = [one.subject for one in compared if one.verdict == "worse"]
    said = f"Worse by more than the noise: {'; '.join(worse)}." if worse else "Nothing is worse by more than the noise."
    if not compared:
        said = "Nothing was compared: no turn came through with both versions."
    failures = [f"```\n{problem}\n```" for problem in turns.problems]
    return "\n\n".join([render_table(head, rows), said, *failures]) + "\n"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
