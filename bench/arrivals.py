"""Receives a mirrored topic and notes how old each record is: from the source broker's append time to receipt here.

Both are wall clock of one machine. Called by `bench.caught_up`.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, TopicPartition

from bench.latency import percentile
from sparkmirror.errors import SparkMirrorError

_RECORDS_MAX = 10_000
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Ages:
    """Percentiles in milliseconds over `records` records."""

    records: int
    p50_ms: float
    p99_ms: float
    p999_ms: float


def summarise(milliseconds: Sequence[float]) -> Ages | None:
    """None where nothing came."""
    if not milliseconds:
        return None
    ordered = sorted(milliseconds)
    return Ages(len(ordered), *(percentile(ordered, part) for part in (0.5, 0.99, 0.999)))


class Arrivals:
    """A consumer on a thread of its own, while the block runs, from the topic's present end on; the topic exists."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": f"bench-{topic}",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 500,
                "log_level": 0,
            }
        )
        self._places = [TopicPartition(topic, index) for index in range(partitions)]
        self._lock = threading.Lock()
        self._found: list[float] = []
        self._problem = ""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._receive, name="bench-arrivals", daemon=True)

    def __enter__(self) -> Self:
        for place in self._places:
            place.offset = self._consumer.get_watermark_offsets(place, timeout=10, cached=False)[1]
        self._consumer.assign(self._places)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        self._thread.join()
        self._consumer.close()

    def take(self) -> list[float]:
        """Milliseconds of what came since this was last asked, in the order of arrival. Raises SparkMirrorError."""
        with self._lock:
            found, self._found = self._found, []
        if self._problem:
            raise SparkMirrorError(self._problem)
        return found

    def _receive(self) -> None:
        while not self._done.is_set():
            first = self._consumer.poll(_POLL_SECONDS)
            if first is None:
                continue
            messages = [first, *self._consumer.consume(_RECORDS_MAX, timeout=0)]
            self._note(messages, time.time() * 1000)

    def _note(self, messages: list[Any], now_ms: float) -> None:
        stamps = [message.timestamp() for message in messages if message.error() is None]
        if any(kind == TIMESTAMP_LOG_APPEND_TIME for kind, _ in stamps):
            self._problem = "The target stamps append time itself: how old its records are cannot be told."
        with self._lock:
            self._found += [now_ms - at for _, at in stamps]
