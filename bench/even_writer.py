"""Writes records evenly, at the rate that its input names. Called by `bench.caught_up`.

`python -m bench.even_writer SERVERS TOPIC PARTITIONS`: each line of its standard input is a number of records a second
from then on; the end of the input ends it. Without lingering, so that each record goes out at once; a process of its
own, so that it keeps its pace whatever the benchmark does. `EvenWriter` is the side that gives the orders.
"""

import select
import subprocess
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from confluent_kafka import Producer

from bench.workloads import make_values

VALUE_BYTES = 1000
TICK_SECONDS = 0.001
_FLUSH_SECONDS_MAX = 10.0


class Pace:
    """How many records are due: `per_second` of them since the last change."""

    def __init__(self) -> None:
        self._per_second = 0.0
        self._since = 0.0
        self._given = 0

    def change(self, per_second: float, now: float) -> None:
        """From `now` (seconds) on."""
        self._per_second, self._since, self._given = per_second, now, 0

    def take(self, now: float) -> int:
        """Records that have become due since they were last taken."""
        due = int((now - self._since) * self._per_second) - self._given
        self._given += due
        return due


class EvenWriter:
    """The writing process, from entering to leaving the block; it is silent until `write` names a rate."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self._command = [sys.executable, "-m", "bench.even_writer", servers, topic, str(partitions)]

    def __enter__(self) -> Self:
        self._child = subprocess.Popen(self._command, stdin=subprocess.PIPE, text=True, start_new_session=True)
        return self

    def write(self, per_second: int) -> None:
        """So many records a second from now on."""
        assert self._child.stdin is not None
        self._child.stdin.write(f"{per_second}\n")
        self._child.stdin.flush()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        try:
            self._child.wait(2 * _FLUSH_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def main(arguments: Sequence[str]) -> int:
    servers, topic, partitions = arguments
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "log_level": 0})
    values = make_values(VALUE_BYTES, 64)
    pace, number = Pace(), 0
    while True:
        if select.select([sys.stdin], [], [], TICK_SECONDS)[0]:
            line = sys.stdin.readline()
            if not line:
                break
            pace.change(float(line), time.monotonic())
        for _ in range(pace.take(time.monotonic())):
            _produce(producer, topic, values[number % len(values)], number % int(partitions))
            number += 1
        producer.poll(0)
    producer.flush(_FLUSH_SECONDS_MAX)
    return 0


def _produce(producer: Producer, topic: str, value: bytes, partition: int) -> None:
    while True:
        try:
            producer.produce(topic, value, partition=partition)
            return
        except BufferError:
            producer.poll(0.01)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
