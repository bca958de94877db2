"""End-to-end latency: from the producer's stamp inside each value to receipt at the target. Called by `bench.steady`.

Producer and consumer are librdkafka's, in this process, so both read one clock.
"""

import os
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.machine import idle_core_seconds
from bench.workloads import PARTITIONS
from sparkmirror.errors import SparkMirrorError

VALUE_BYTES = 200
_STAMP = struct.Struct(">Q")
_DRAIN_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles in milliseconds over `records` records, sent at `per_second`.

    `p99_by_second_ms` tells whether a tail is periodic, `machine_idle` (0 … 1, over all cores) whether the machine was
    simply busy.
    """

    per_second: int
    records: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    p99_by_second_ms: tuple[float, ...]
    machine_idle: float


def percentile(ordered: Sequence[float], part: float) -> float:
    """The smallest value that at least `part` (0 … 1) of the ascending values do not exceed (nearest rank)."""
    rank = max(1, -(-round(part * 1000) * len(ordered) // 1000))
    return ordered[rank - 1]


def summarise(per_second: int, milliseconds: Sequence[float], machine_idle: float) -> Latency:
    """`milliseconds` in the order of arrival. Raises SparkMirrorError when there is nothing to summarise."""
    if not milliseconds:
        raise SparkMirrorError(f"No record came through while {per_second} a second were sent.")
    ordered = sorted(milliseconds)
    p50, p99, p999 = (percentile(ordered, part) for part in (0.5, 0.99, 0.999))
    seconds = (milliseconds[at : at + per_second] for at in range(0, len(milliseconds), per_second))
    p99_by_second = tuple(percentile(sorted(second), 0.99) for second in seconds)
    return Latency(per_second, len(ordered), p50, p99, p999, p99_by_second, machine_idle)


class Probe:
    """Sends stamped records into a source topic and receives them from the target topic, which exists."""

    def __init__(self, source: str, target: str, topic: str, target_topic: str) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": source, "linger.ms": 0, "log_level": 0})
        self._consumer = Consumer(
            {
                "bootstrap.servers": target,
                "group.id": f"bench-{target_topic}",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 500,
                "log_level": 0,
            }
        )
        self._assign(target_topic)

    def __enter__(self) -> "Probe":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()
        self._producer.flush(_DRAIN_SECONDS_MAX)

    def measure(self, per_second: int, seconds: float) -> Latency:
        """Send for `seconds`, receive all of it. Raises SparkMirrorError when less than 99 % comes through."""
        idle, began = idle_core_seconds(), time.monotonic()
        sender = threading.Thread(target=self._send, args=(per_second, seconds), name="bench-send")
        sender.start()
        try:
            found = self._receive(int(per_second * seconds), seconds + _DRAIN_SECONDS_MAX)
        finally:
            sender.join()
        if len(found) < 0.99 * per_second * seconds:
            raise SparkMirrorError(f"Of {per_second * seconds:.0f} records only {len(found)} came through.")
        core_seconds = (time.monotonic() - began) * (os.cpu_count() or 1)
        return summarise(per_second, found, (idle_core_seconds() - idle) / core_seconds)

    def _assign(self, topic: str) -> None:
        found = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        for each in found:
            each.offset = self._consumer.get_watermark_offsets(each, timeout=10, cached=False)[1]
        self._consumer.assign(found)

    def _send(self, per_second: int, seconds: float) -> None:
        filling = bytes(VALUE_BYTES - _STAMP.size)
        started = time.monotonic()
        for index in count():
            due = started + index / per_second
            if due >= started + seconds:
                break
            time.sleep(max(0.0, due - time.monotonic()))
            stamp = _STAMP.pack(time.monotonic_ns())
            self._producer.produce(self._topic, stamp + filling, partition=index % PARTITIONS)
            self._producer.poll(0)

    def _receive(self, wanted: int, seconds_max: float) -> list[float]:
        found: list[float] = []
        deadline = time.monotonic() + seconds_max
        while len(found) < wanted and time.monotonic() < deadline:
            message: Any = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                (stamp,) = _STAMP.unpack_from(message.value())
                found.append((time.monotonic_ns() - stamp) / 1e6)
        return found
