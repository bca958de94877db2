"""What a mirror spends on a fixed rate of records, whatever its partitions, tasks and flows. Called by `bench.plan`."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from confluent_kafka import Producer

from bench.brokers import delete_topics, delete_traces
from bench.contestants import Contestant, Job
from bench.loading import create_topic
from bench.offsets import EndOffsets
from bench.process_tree import own_cpu_seconds, pss_bytes, spent_between
from bench.running import Mirror
from bench.workloads import make_values
from sparkmirror.errors import SparkMirrorError
from sparkmirror.testing.guard import Guard

START_SECONDS_MAX = 120.0
_BEHIND_MAX = 10
"""A mirror that is behind is measured again, so many times in all: to make a thousand partitions takes a while."""
_VALUE_BYTES = 1000
_BURSTS_A_SECOND = 50


@dataclass(frozen=True, slots=True)
class Shape:
    """How the same load is laid out: `records_per_second` over `partitions`, by `tasks`.

    With several `flows` in one process each has a topic with so many partitions, so many tasks, and its share of the
    records.
    """

    partitions: int
    tasks: int
    records_per_second: int = 5000
    seconds: float = 15.0
    flows: int = 1

    def __str__(self) -> str:
        several = f"{self.flows} flows of " if self.flows > 1 else ""
        return f"{several}{self.partitions} partitions, {self.tasks} tasks"

    def quick(self) -> "Shape":
        return replace(self, seconds=3.0)


SHAPES = (
    *(Shape(partitions, 2) for partitions in (1, 8, 64, 1024)),
    *(Shape(64, tasks) for tasks in (1, 4, 16, 64)),
    *(Shape(1024, tasks) for tasks in (1, 4, 16, 64)),
    Shape(8, 1, flows=10),
)


@dataclass(frozen=True, slots=True)
class Spent:
    """`cores` of the mirror's whole process tree while `records_per_second` came through; memory at the end.

    `start_seconds` is to the first record of the last flow to begin.
    """

    shape: Shape
    records_per_second: float
    cores: float
    bytes: int
    start_seconds: float


def measure_even_rate(contestant: Contestant, job: Job, shape: Shape, directory: Path, guard: Guard) -> Spent:
    """Start, warm up, measure. Raises SparkMirrorError when records do not come through."""
    job = replace(job, tasks=shape.tasks, flows=shape.flows)
    for _, topic in job.numbered:
        create_topic(job.source, topic, partitions=shape.partitions)
    command = contestant.prepare(job, directory)
    writer = RatedWriter(job.source.bootstrap_servers, [topic for _, topic in job.numbered], shape)
    copies = [f"{alias}.{topic}" for alias, topic in job.numbered]
    try:
        with (
            _ends(job, copies, shape) as ends,
            Mirror(command, directory / f"{job.alias}.log", guard) as mirror,
            writer,
        ):
            for end in ends:
                end.wait(1, mirror.check, seconds_max=START_SECONDS_MAX, stall_seconds_max=START_SECONDS_MAX)
            start_seconds = time.monotonic() - mirror.started_at
            time.sleep(shape.seconds)
            for _ in range(_BEHIND_MAX):
                spent = _measure(mirror, shape, ends, start_seconds)
                if spent.records_per_second <= 1.1 * shape.records_per_second:
                    break
            else:
                raise SparkMirrorError(
                    f"{spent.records_per_second:,.0f} records/s came through where {shape.records_per_second:,} are "
                    "written: the mirror was still behind in the last measurement."
                )
            if spent.records_per_second < 0.9 * shape.records_per_second:
                raise SparkMirrorError(
                    f"Only {spent.records_per_second:,.0f} of {shape.records_per_second:,} records/s came through."
                )
            return spent
    finally:
        delete_topics(job.source, lambda name: name in {topic for _, topic in job.numbered})
        delete_topics(job.target, lambda name: name in copies)
        delete_traces(job.target, job.alias)


def _measure(mirror: Mirror, shape: Shape, ends: Sequence[EndOffsets], start_seconds: float) -> Spent:
    cpu, at, before = own_cpu_seconds(mirror.pid), time.monotonic(), _total(ends)
    time.sleep(shape.seconds)
    spent, took = spent_between(cpu, own_cpu_seconds(mirror.pid)), time.monotonic() - at
    came = _total(ends) - before
    mirror.check()
    return Spent(shape, came / took, spent / took, pss_bytes(mirror.pid), start_seconds)


@contextmanager
def _ends(job: Job, topics: Sequence[str], shape: Shape) -> Iterator[list[EndOffsets]]:
    with ExitStack() as opened:
        servers = job.target.bootstrap_servers
        yield [opened.enter_context(EndOffsets(servers, topic, shape.partitions)) for topic in topics]


def _total(ends: Sequence[EndOffsets]) -> int:
    return sum(end.total() for end in ends)


class RatedWriter:
    """Writes while the block runs, in bursts, partition by partition in turn."""

    def __init__(self, servers: str, topics: Sequence[str], shape: Shape) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "log_level": 0})
        self._places = [(topic, number) for number in range(shape.partitions) for topic in topics]
        self._shape = shape
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._write, name="even-rate", daemon=True)

    def __enter__(self) -> "RatedWriter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._producer.flush(10)

    def _write(self) -> None:
        values = make_values(_VALUE_BYTES, 64)
        size = self._shape.records_per_second // _BURSTS_A_SECOND
        started = time.monotonic()
        for burst in count():
            if self._done.wait(max(0.0, started + burst / _BURSTS_A_SECOND - time.monotonic())):
                return
            for number in range(burst * size, burst * size + size):
                topic, partition = self._places[number % len(self._places)]
                self._produce(topic, values[number % len(values)], partition)
            self._producer.poll(0)

    def _produce(self, topic: str, value: bytes, partition: int) -> None:
        """Where the source takes less than is due, what comes through tells."""
        while not self._done.is_set():
            try:
                self._producer.produce(topic, value, partition=partition)
                return
            except BufferError:
                self._producer.poll(0.05)
