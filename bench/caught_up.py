"""Measures mirrors that have caught up: CPU and memory by process, latency and answers at even rates. Called by
`bench.plan`.

One start for all rates over so many partitions, after a warm-up at 5,000 records/s. A row is one rate.
"""

import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.arrivals import Ages, Arrivals, summarise
from bench.brokers import delete_topics, delete_traces
from bench.contestants import Contestant, Job
from bench.even_writer import EvenWriter
from bench.loading import create_topic
from bench.offsets import EndOffsets
from bench.roles import answers_between, look_at, pss_by_role, spent_by_role
from bench.running import Mirror
from sparkmirror.testing.guard import Guard

RATES = (0, 50, 1000, 5000, 20_000)
PARTITIONS = (1, 8, 64)
WARM_RATE = 5000
START_SECONDS_MAX = 120.0
_FIRST_RATE = 50
_NEAR = 0.02
"""How far what comes through may be from what is written, as a part of it."""
CLOSE_MS = 1000.0
"""A mirror whose records are younger has caught up."""
CATCH_UP_SECONDS_MAX = 120.0
_STAMPED = {"message.timestamp.type": "LogAppendTime"}


@dataclass(frozen=True, slots=True)
class Course:
    """What one start goes through: rates over `partitions`, and how long each part takes, in seconds."""

    partitions: int
    rates: tuple[int, ...] = RATES
    seconds: float = 30.0
    warm_seconds: float = 60.0
    settle_seconds: float = 5.0

    def quick(self) -> "Course":
        return replace(
            self, seconds=min(self.seconds, 5.0), warm_seconds=min(self.warm_seconds, 5.0), settle_seconds=2.0
        )


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """One row. `cores` are CPU seconds a second of the whole tree, `cores_by_role` of its parts; `pss_by_role` is their
    memory at its end, in bytes.

    `ages` is None where nothing was written; `answers_per_second` counts answers of the source's brokers that brought
    records, None where the contestant does not tell.
    """

    per_second: int
    partitions: int
    seconds: float
    cores_by_role: Mapping[str, float]
    ages: Ages | None
    answers_per_second: float | None
    pss_by_role: Mapping[str, float] = field(default_factory=dict)

    @property
    def pss_bytes(self) -> float:
        return sum(self.pss_by_role.values())

    @property
    def cores(self) -> float:
        return sum(self.cores_by_role.values())

    def microseconds_an_answer(self) -> dict[str, float]:
        """CPU by role and in all (""); empty where there are no answers, or nobody tells of them."""
        if not self.answers_per_second:
            return {}
        every = {"": self.cores, **self.cores_by_role}
        return {role: cores / self.answers_per_second * 1e6 for role, cores in every.items()}


def measure_caught_up(
    contestant: Contestant,
    job: Job,
    course: Course,
    directory: Path,
    guard: Guard,
    environment: Mapping[str, str] | None = None,
) -> list[CaughtUp | str]:
    """A row for each rate, or why there is none. Raises SparkMirrorError when not even the first records come."""
    job = replace(job, partitions=course.partitions, counted=directory / f"{job.alias}.answers")
    create_topic(job.source, job.topic, partitions=course.partitions, configs=_STAMPED)
    try:
        command = contestant.prepare(job, directory)
        source, target = job.source.bootstrap_servers, job.target.bootstrap_servers
        with (
            EndOffsets(target, job.target_topic, course.partitions) as ends,
            Mirror(command, directory / f"{job.alias}.log", guard, environment) as mirror,
            EvenWriter(source, job.topic, course.partitions) as writer,
        ):
            writer.write(_FIRST_RATE)
            ends.wait(1, mirror.check, seconds_max=START_SECONDS_MAX, stall_seconds_max=START_SECONDS_MAX)
            with Arrivals(target, job.target_topic, course.partitions) as arrivals:
                writer.write(WARM_RATE)
                time.sleep(course.warm_seconds)
                return [_measure(mirror, writer, arrivals, rate, course, job) for rate in course.rates]
    finally:
        delete_topics(job.source, lambda name: name == job.topic)
        delete_topics(job.target, lambda name: name == job.target_topic)
        delete_traces(job.target, job.alias)


def _measure(
    mirror: Mirror, writer: EvenWriter, arrivals: Arrivals, rate: int, course: Course, job: Job
) -> CaughtUp | str:
    mirror.check()
    writer.write(rate)
    time.sleep(course.settle_seconds)
    if problem := _await_close(arrivals, rate):
        return problem
    before, counted, at = look_at(mirror.pid), _counted(job), time.monotonic()
    arrivals.take()
    time.sleep(course.seconds)
    after, found, took = look_at(mirror.pid), arrivals.take(), time.monotonic() - at
    mirror.check()
    if problem := judge_rate(rate, len(found) / took):
        return problem
    answers: float | None = answers_between(before, after) / took if after.taken else None
    if (now := _counted(job)) is not None:
        answers = (now - (counted or 0)) / took
    cores = {role: seconds / took for role, seconds in spent_by_role(before, after).items()}
    ages = summarise(found) if rate else None
    return CaughtUp(rate, course.partitions, took, cores, ages, answers, pss_by_role(after))


def _await_close(arrivals: Arrivals, rate: int) -> str:
    """Until all that came within a second was young, or nothing came where nothing is written. "", or what keeps it."""
    deadline = time.monotonic() + CATCH_UP_SECONDS_MAX
    arrivals.take()
    while True:
        time.sleep(1.0)
        ages = arrivals.take()
        if is_close(ages, rate):
            return ""
        if time.monotonic() > deadline:
            what = f"records are {max(ages) / 1000:.1f} s old" if ages else "none arrives"
            return f"At {rate:,} records/s it had not caught up after {CATCH_UP_SECONDS_MAX:.0f} s: {what}."


def is_close(ages: Sequence[float], rate: int) -> bool:
    """`ages` in milliseconds, of a second's arrivals."""
    return max(ages) < CLOSE_MS if ages and rate else not ages and not rate


def judge_rate(wanted: float, came: float) -> str:
    """Why a row is none: what comes through is not what is written. "" where it is."""
    least = max(_NEAR * wanted, 1.0)
    if came < wanted - least:
        return f"Only {came:,.0f} of {wanted:,.0f} records/s came through."
    if came > wanted + least:
        return f"{came:,.0f} records/s came through where {wanted:,.0f} are written: the mirror was still behind."
    return ""


def _counted(job: Job) -> int | None:
    """Answers that the bare loop has counted so far."""
    if job.counted is None or not job.counted.exists():
        return None
    return int(struct.unpack("Q", job.counted.read_bytes())[0])
