"""What the demo knows of its topics: counts on both sides, rates, latencies.

Filled by `demo`, drawn by `demo_screen`.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import quantiles

from sparkmirror.model import TopicPartition
from sparkmirror.testing.demo_clients import Client, Reader, Received
from sparkmirror.testing.demo_events import TopicSpec

REMOTE_PREFIX = "A."
SENT_AT = "sent-at-ns"
_POLL_SECONDS = 0.05


@dataclass(slots=True)
class TopicLine:
    """One topic side by side. Rates are records a second, latencies milliseconds; `verdict` is the comparison's."""

    spec: TopicSpec
    source_records: int = 0
    target_records: int = 0
    rate: float = 0.0
    rate_max: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    verdict: str = ""

    @property
    def remote_name(self) -> str:
        return REMOTE_PREFIX + self.spec.name

    @property
    def lag_records(self) -> int:
        return max(self.source_records - self.target_records, 0)

    def latency_ms(self, percentile: int) -> float | None:
        """None until there are ten live records to judge by."""
        if len(self.latencies_ms) < 10:
            return None
        return quantiles(self.latencies_ms, n=100, method="inclusive")[percentile - 1]


class Board:
    """The topics' lines, brought up to date by asking both clusters for their end offsets."""

    def __init__(self, source: Client, target: Client, specs: Sequence[TopicSpec]) -> None:
        self._source = source
        self._target = target
        self.lines = [TopicLine(spec) for spec in specs]
        self.target_ends: Mapping[TopicPartition, int] = {}
        self._looked_at = time.monotonic()

    def look(self) -> None:
        # The target first: a record that arrives in between must not look like one too many.
        self.target_ends = self._target.ends([line.remote_name for line in self.lines])
        target = _by_topic(self.target_ends)
        source = _by_topic(self._source.ends([line.spec.name for line in self.lines]))
        seconds, self._looked_at = time.monotonic() - self._looked_at, time.monotonic()
        for line in self.lines:
            arrived = target.get(line.remote_name, 0)
            line.rate = max(arrived - line.target_records, 0) / max(seconds, 0.001)
            line.rate_max = max(line.rate_max, line.rate)
            line.source_records, line.target_records = source.get(line.spec.name, 0), arrived

    @property
    def source_records(self) -> int:
        return sum(line.source_records for line in self.lines)

    @property
    def target_records(self) -> int:
        return sum(line.target_records for line in self.lines)

    @property
    def lag_records(self) -> int:
        return sum(line.lag_records for line in self.lines)


def _by_topic(ends: Mapping[TopicPartition, int]) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for partition, end in ends.items():
        counts[partition.topic] += end
    return counts


class Arrivals:
    """A consumer of the target, in a thread of its own: how long after its sending does each live record arrive?

    From a producer at A to a consumer at B, so brokers and clients of both sides are in it. Records sent before the
    topic's first live record was seen are left out: they waited for the consumer, or for the topic to be found.
    """

    def __init__(self, reader: Reader, lines: Sequence[TopicLine]) -> None:
        self._reader = reader
        self._latencies_ms = {line.remote_name: line.latencies_ms for line in lines}
        self._since_ns: dict[str, int] = {}
        self._known: set[TopicPartition] = set()
        self._to_add: dict[TopicPartition, int] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._problem: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="arrivals", daemon=True)

    def start(self, ends: Mapping[TopicPartition, int]) -> None:
        """From these end offsets on."""
        self.add(ends)
        self._thread.start()

    def add(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read these partitions too, from these offsets; those known already go on as they are."""
        with self._lock:
            self._to_add |= {one: start for one, start in starts.items() if one not in self._known}
            self._known |= starts.keys()

    def has_seen(self, topic: str) -> bool:
        """Whether a live record of this remote topic has arrived."""
        return topic in self._since_ns

    def stop(self) -> None:
        """Raises what went wrong in the thread."""
        self._stopping.set()
        self._thread.join()
        if self._problem is not None:
            raise self._problem

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._add_new()
                for record in self._reader.poll(_POLL_SECONDS):
                    self._note(record, time.time_ns())
        except Exception as problem:
            self._problem = problem
        finally:
            self._reader.close()

    def _add_new(self) -> None:
        with self._lock:
            starts, self._to_add = self._to_add, {}
        if starts:
            self._reader.add(starts)

    def _note(self, record: Received, now_ns: int) -> None:
        sent_at = dict(record.headers).get(SENT_AT)
        if sent_at is None:
            return
        topic = record.at.topic
        if int(sent_at) >= self._since_ns.setdefault(topic, now_ns):
            self._latencies_ms[topic].append((now_ns - int(sent_at)) / 1e6)
