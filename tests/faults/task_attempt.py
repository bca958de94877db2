"""Attempts of a task of a transactional write, without Spark: in this process, or in one that may be killed.

task_attempt.py SERVERS TOPIC TRANSACTIONAL_ID MICRO_BATCH, as a program, is one attempt.
"""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from tests.oracle import Client, read_topic

from sparkmirror.errors import SparkMirrorError
from sparkmirror.records.options import WriteOptions, write_options
from sparkmirror.records.sink import _append
from sparkmirror.records.task_transaction import TaskOfWrite, write_once

PARTITIONS = 2
CHUNKS, IN_CHUNK = 4, 10
"""Each chunk becomes a batch of each partition, which waits for those before."""
READ_SECONDS_MAX = 60.0
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Task:
    """Of a write to `topic`, which is repeated until it is done. It has task 0 of each micro-batch."""

    servers: str
    topic: str
    transactional_id: str
    request_ms: int = 3_000
    delivery_ms: int = 40_000
    timeout_ms: int = 60_000

    @property
    def options(self) -> WriteOptions:
        given = {
            "kafka.bootstrap.servers": self.servers,
            "topic": self.topic,
            "kafka.transactional.id": self.transactional_id,
            "kafka.request.timeout.ms": str(self.request_ms),
            "kafka.delivery.timeout.ms": str(self.delivery_ms),
            "kafka.transaction.timeout.ms": str(self.timeout_ms),
        }
        return write_options(given, is_stream=True)

    def attempt(self, batch: int = 0, between: Callable[[int], object] = lambda _: None) -> bool:
        """Whether it has written anything. `between` is called before each chunk but the first is handed over: then
        those before the one before it are acknowledged."""
        mine = TaskOfWrite(self.topic, batch, 0)
        return bool(write_once(self.options, mine, chunks(batch, between), partial(_append, self.options)))

    def repeat(self, batch: int = 0, times: int = 4, while_failing: Callable[[], object] = lambda: None) -> list[str]:
        """As Spark does, until an attempt succeeds. Returns what the failed ones said: sentences of this project."""
        said: list[str] = []
        for left in reversed(range(times)):
            try:
                self.attempt(batch)
            except SparkMirrorError as problem:
                said.append(str(problem))
                while_failing()
                if not left:
                    raise AssertionError(f"no attempt succeeded: {said}") from problem
            else:
                break
        return said

    def as_process(self, batch: int = 0) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "tests.faults.task_attempt", self.servers, self.topic, self.transactional_id]
        return subprocess.Popen([*command, str(batch)], cwd=ROOT, stderr=subprocess.PIPE)

    def with_servers(self, servers: str) -> "Task":
        return replace(self, servers=servers)


class Sleeper:
    """An attempt on a thread of its own that sleeps amid its rows, until it is woken."""

    def __init__(self, task: Task, batch: int = 0) -> None:
        self.asleep, self._woken = threading.Event(), threading.Event()
        self.problem: SparkMirrorError | None = None
        self._task, self._batch = task, batch
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self.asleep.wait(READ_SECONDS_MAX), "the attempt has not come to its rest"

    def wake(self) -> None:
        """Returns when the attempt is over."""
        self._woken.set()
        self._thread.join(READ_SECONDS_MAX)
        assert not self._thread.is_alive(), "the attempt does not end"

    def _run(self) -> None:
        try:
            self._task.attempt(self._batch, self._rest)
        except SparkMirrorError as problem:
            self.problem = problem

    def _rest(self, chunk: int) -> None:
        if chunk == CHUNKS - 1:
            self.asleep.set()
            assert self._woken.wait(READ_SECONDS_MAX)


def chunks(batch: int, between: Callable[[int], object]) -> Iterator[pa.RecordBatch]:
    """Rows of a micro-batch, the same each time."""
    for chunk in range(CHUNKS):
        if chunk:
            between(chunk)
        values = [value for partition in range(PARTITIONS) for value in values_of(batch, chunk, partition)]
        numbers = [partition for partition in range(PARTITIONS) for _ in range(IN_CHUNK)]
        yield pa.record_batch({"value": pa.array(values, pa.binary()), "partition": pa.array(numbers, pa.int32())})


def values_of(batch: int, chunk: int, partition: int) -> list[bytes]:
    return [b"%d.%d.%d.%d" % (batch, chunk, partition, number) for number in range(IN_CHUNK)]


def values_of_batches(batches: Sequence[int], partition: int) -> list[bytes]:
    return [value for batch in batches for chunk in range(CHUNKS) for value in values_of(batch, chunk, partition)]


def assert_once(servers: str, topic: str, batches: Sequence[int] = (0,)) -> None:
    """A read_committed consumer of another client sees each record of these micro-batches once, in order, and nothing
    else, up to the topic's end."""
    client: Client = {"bootstrap.servers": servers, "isolation.level": "read_committed"}
    log = read_topic(client, topic, READ_SECONDS_MAX, has_old_lz4=True)
    seen = {partition: [one.value for one in records] for partition, records in log.items()}
    assert seen == {partition: values_of_batches(batches, partition) for partition in range(PARTITIONS)}


if __name__ == "__main__":
    servers, topic, transactional_id, batch = sys.argv[1:]
    Task(servers, topic, transactional_id).attempt(int(batch))
