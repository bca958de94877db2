"""What a second process brings to one flow, and what its coming costs: `python -m bench.processes`.

One flow of heavy work (each batch is decompressed and compressed again) by `sparkmirror run`, first one process on one
core, then two on one core each; the brokers run on any core. Then the longest standstill of any partition while records
come steadily and a process joins, is stopped, and is killed. Prints Markdown.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bench.loading import create_topic
from sparkmirror.testing.kafka import KafkaCluster

PARTITIONS = 8
TASKS = 4
_RUNS = re.compile(r"this process runs tasks ([\d, ]+|none) of")
_VALUE_BYTES = 500
_WAIT_SECONDS = 120.0
_CALM_SECONDS = 10.0
_POLL_SECONDS = 0.1


def main() -> None:
    """Runs both measurements and prints a table of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=3_000_000, help="records of 500 bytes (default: 3000000)")
    parser.add_argument("--only", choices=("rates", "standstills"), help="one of the two measurements")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as scratch,
        KafkaCluster(name="source") as source,
        KafkaCluster(name="target") as target,
    ):
        stage = Stage(Path(scratch), source, target)
        if args.only != "standstills":
            _print_rates(stage, args.records)
        if args.only != "rates":
            _print_standstills(stage)


def _print_rates(stage: "Stage", records: int) -> None:
    one, two = (measure_rate(stage, count, records) for count in (1, 2))
    print(f"| processes, one core each | records/s |\n|---|---|\n| 1 | {one:,.0f} |\n| 2 | {two:,.0f} |\n")
    print(f"{two / one:.2f} times the rate.\n", flush=True)


def _print_standstills(stage: "Stage") -> None:
    print("| what happens | longest standstill of a partition |\n|---|---|")
    for measure in (measure_standstills, measure_standing_by):
        for what, seconds in measure(stage).items():
            print(f"| {what} | {seconds:.2f} s |", flush=True)


class Process:
    """`sparkmirror run`, on one core where that is said; stopped at the end of its block."""

    def __init__(self, file: Path, core: int | None = None) -> None:
        self._errors = file.with_name(f"{time.monotonic_ns()}.err")
        pin = [] if core is None else ["taskset", "-c", str(core)]
        with self._errors.open("wb") as out:
            command = [*pin, str(Path(sys.executable).with_name("sparkmirror")), "run", str(file)]
            self._child = subprocess.Popen(command, stderr=out)

    @property
    def tasks(self) -> set[int]:
        """What it has last said that it runs; one that gets all at once says only that it runs."""
        text = self._errors.read_text()
        said = _RUNS.findall(text)
        if not said:
            return set(range(TASKS)) if "RUNNING" in text else set()
        return {int(task) for task in said[-1].split(", ")} if said[-1] != "none" else set()

    @property
    def stands_by(self) -> bool:
        """Whether its query is there, and it has no task."""
        return "RUNNING" in self._errors.read_text() and not self.tasks

    def stop(self) -> None:
        self._child.terminate()

    def kill(self) -> None:
        self._child.kill()
        self._child.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._child.terminate()
        self._child.wait()


class Stage:
    """Two clusters, and a directory for files."""

    def __init__(self, directory: Path, source: KafkaCluster, target: KafkaCluster) -> None:
        self._directory = directory
        self.source, self.target = source, target

    def flow(self, topic: str, *lines: str) -> Path:
        """The topic on both sides, and the file of its flow."""
        create_topic(self.source, topic, partitions=PARTITIONS)
        create_topic(self.target, f"A.{topic}", partitions=PARTITIONS)
        clusters = [f"A.bootstrap.servers={self.source.bootstrap_servers}"]
        clusters += [f"B.bootstrap.servers={self.target.bootstrap_servers}"]
        own = ["clusters=A,B", "A->B.enabled=true", f"A->B.topics={topic}", f"tasks.max={TASKS}"]
        file = self._directory / f"{topic}.properties"
        file.write_text("\n".join([*clusters, *own, "replication.factor=1", *lines, ""]))
        return file


class Ends:
    """End offsets of the remote topic's partitions."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "ends"})
        self._partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]

    def read(self) -> list[int]:
        """Asked again where a busy broker does not answer in time."""
        while True:
            try:
                return [self._consumer.get_watermark_offsets(one, timeout=10)[1] for one in self._partitions]
            except KafkaException:
                time.sleep(_POLL_SECONDS)


class Watch:
    """The longest time, since `reset`, in which some partition got nothing."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._moved_at = [time.monotonic()] * PARTITIONS
        self._longest = 0.0
        self.least = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def reset(self) -> float:
        with self._lock:
            longest, self._longest = self._longest, 0.0
        return longest

    def _run(self) -> None:
        before = [0] * PARTITIONS
        while not self._stopping.wait(_POLL_SECONDS):
            now, at = self._ends.read(), time.monotonic()
            with self._lock:
                for number, (then, end) in enumerate(zip(before, now, strict=True)):
                    self._longest = max(self._longest, at - self._moved_at[number])
                    self._moved_at[number] = at if end > then else self._moved_at[number]
            before, self.least = now, min(now)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join()


class Trickle:
    """20 records a second to each partition, until the block ends: more would take the cores from what is measured."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stopping.wait(0.05):
            for number in range(PARTITIONS):
                self._producer.produce(self._topic, b"." * 100, partition=number)
            self._producer.poll(0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.flush(10)


def measure_rate(stage: Stage, processes: int, records: int) -> float:
    """Records a second over some seconds in which all processes work, and have more to do than they can."""
    topic = f"copy{processes}"
    file = stage.flow(topic, "A->B.producer.override.compression.type=gzip")
    ends = Ends(stage.target, f"A.{topic}")
    _produce(stage.source, topic, records)
    with ExitStack() as running:
        team = [running.enter_context(Process(file, core)) for core in range(processes)]
        _wait(lambda: all(len(one.tasks) == TASKS // processes for one in team), "all tasks are shared out")
        _wait(lambda: min(ends.read()) > 0, "all partitions are mirrored")
        time.sleep(_CALM_SECONDS / 2)
        began, first = time.monotonic(), sum(ends.read())
        time.sleep(_CALM_SECONDS)
        last, seconds = sum(ends.read()), time.monotonic() - began
    if last >= records:
        raise ValueError(f"{records} records were too few for a measurement")
    return (last - first) / seconds


def measure_standstills(stage: Stage) -> dict[str, float]:
    """By what happened."""
    file = stage.flow("steady")
    found: dict[str, float] = {}
    with Trickle(stage.source, "steady"), Process(file) as first, Watch(Ends(stage.target, "A.steady")) as watch:
        _wait(lambda: watch.least > 0, "records arrive")
        time.sleep(_CALM_SECONDS)
        watch.reset()
        time.sleep(_CALM_SECONDS)
        found["nothing"] = watch.reset()
        with Process(file) as second:
            _wait(lambda: len(second.tasks) == TASKS // 2, "two share")
            time.sleep(_CALM_SECONDS)
            found["a second process joins"] = watch.reset()
        _wait(lambda: len(first.tasks) == TASKS, "one is left")
        time.sleep(_CALM_SECONDS)
        found["it is stopped"] = watch.reset()
        with Process(file) as third:
            _wait(lambda: len(third.tasks) == TASKS // 2, "two share")
            time.sleep(_CALM_SECONDS)
            watch.reset()
            third.kill()
            _wait(lambda: len(first.tasks) == TASKS, "one is left")
            time.sleep(_CALM_SECONDS)
            found["one is killed, another runs on its machine"] = watch.reset()
    return found


def measure_standing_by(stage: Stage) -> dict[str, float]:
    """With one task, as is the default: one process works, and another waits."""
    file = stage.flow("single", "tasks.max=1")
    found: dict[str, float] = {}
    with Trickle(stage.source, "single"), ExitStack() as running, Watch(Ends(stage.target, "A.single")) as watch:
        works = running.enter_context(Process(file))
        _wait(lambda: watch.least > 0, "records arrive")
        for what in ("stopped", "killed"):
            waits = running.enter_context(Process(file))
            _wait(lambda one=waits: one.stands_by, "another stands by")  # type: ignore[misc]
            time.sleep(_CALM_SECONDS)
            watch.reset()
            works.stop() if what == "stopped" else works.kill()
            _wait(lambda one=waits: bool(one.tasks), "it goes on")  # type: ignore[misc]
            time.sleep(_CALM_SECONDS)
            found[f"the one that runs the only task is {what}, another stands by"] = watch.reset()
            works = waits
    return found


def _produce(cluster: KafkaCluster, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 20, "batch.size": 1 << 17})
    values = [os.urandom(_VALUE_BYTES // 2).hex() for _ in range(997)]  # compressing them is work
    for number in range(records):
        value = values[number % len(values)]
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush(60)


def _wait(condition: Callable[[], bool], what: str, seconds_max: float = _WAIT_SECONDS) -> None:
    deadline = time.monotonic() + seconds_max
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not in {seconds_max:.0f} s: {what}")
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    main()
