"""A writer of numbered records, and the judgement of what arrived: librdkafka, which shares no code with the project.

Each record's value is its number within its partition, from 0 on, with filler behind it. So a mirror of a partition is
right exactly if its numbers rise by one from 0 to the last, save where they step back: a repetition after a crash.
"""

import itertools
import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.oracle import DEADLINE_SECONDS_LEAST, READS_MAX, find_holes
from tests.scenarios.data import FLUSH_SECONDS_MAX, ORDER_SECONDS_MAX, await_leaders
from tests.second_client import find_left_out

_TICK_SECONDS = 0.02
_REST_SECONDS = 1.0
_MADE_UP_SECONDS_MAX = 0.5
"""Of writing. A writer that stood still for longer, as on a busy machine, does not write all of it at once then: what a
crash may repeat would be that much more."""
SOON_BACK = {"reconnect.backoff.max.ms": 500, "topic.metadata.refresh.interval.ms": 2000}
"""For librdkafka. With its own settings a consumer was seen to stand still for minutes after its broker was back."""

LOG_NUMBERS_MAX = 10**8
"""Where a topic is deleted and made again, the records of its log n, from 0 on, are numbered from n times this on."""

PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)


def create_topic(bootstrap: str, topic: str, partitions: int, *, replicas: int = 1, **config: str) -> None:
    client = {"bootstrap.servers": bootstrap}
    admin = AdminClient(client)
    admin.create_topics([NewTopic(topic, partitions, replicas, config=config)])[topic].result(ORDER_SECONDS_MAX)
    await_leaders(client, {topic: partitions})


def end_offsets(bootstrap: str, topic: str, partitions: int, *, committed: bool = False) -> list[int]:
    """High watermarks, or last stable offsets if `committed`; 0 where the topic does not exist yet. A broker that has
    just started is asked again."""
    level = "read_committed" if committed else "read_uncommitted"
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends", "isolation.level": level, "log_level": 0})
    deadline = time.monotonic() + DEADLINE_SECONDS_LEAST
    try:
        while True:
            try:
                return _watermarks(consumer, topic, partitions)
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
    finally:
        consumer.close()


def _watermarks(consumer: Consumer, topic: str, partitions: int) -> list[int]:
    if topic not in consumer.list_topics(timeout=10).topics:
        return [0] * partitions
    return [consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=10)[1] for n in range(partitions)]


class NumberedWriter:
    """Produces numbered records to all partitions in turn, on a thread, at about `per_second`, until the block ends.

    `produced[partition]` counts them; the source has them for certain once `stop` or `write` came back. A client that
    stood still for `patience_seconds` while its broker answered others is replaced, and `reopened` counts that: the
    next one goes on where the source's log ends, for a record's number is its offset there. `log` counts how often the
    topic was made again.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        per_second: int = 1000,
        record_bytes: int = 200,
        log: int = 0,
    ) -> None:
        self._bootstrap = bootstrap
        self._producer = self._open()
        self._topic = topic
        self.per_second = per_second
        self._filler = b"." * max(record_bytes - 12, 0)
        self.log = log
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="numbered-writer", daemon=True)
        self._failures: list[str] = []
        self.produced = [0] * partitions
        self._moved_at = math.inf
        self.patience_seconds = math.inf
        self.reopened = 0

    def _open(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
                **SOON_BACK,
            }
        )

    def write(self, count: int) -> None:
        """`count` records to each partition, as fast as possible, on the caller's thread; returns once all are in."""
        for _ in range(count):
            self._produce_to_all()
        self._flush()

    def start(self) -> None:
        self._thread.start()

    def abandon(self) -> None:
        """No more records, and no matter which have arrived."""
        self._stopping.set()
        self._thread.join()
        self._producer.purge()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """No more records; returns when all are acknowledged. May be called twice."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._flush()

    def _run(self) -> None:
        looked_at, due = time.monotonic(), 0.0
        while not self._stopping.wait(_TICK_SECONDS):
            before, looked_at = looked_at, time.monotonic()
            due += min(looked_at - before, _MADE_UP_SECONDS_MAX) * self.per_second / len(self.produced)
            for _ in range(int(due)):
                self._produce_to_all()
            due -= int(due)
            self._reopen_if_stuck()

    def _reopen_if_stuck(self) -> None:
        if not len(self._producer):
            self._moved_at = time.monotonic()
        if time.monotonic() - self._moved_at < self.patience_seconds:
            return
        with suppress(KafkaException):  # the broker is away: that is no fault of the client
            end_offsets(self._bootstrap, self._topic, len(self.produced))
            self._producer.purge()
            self._producer = self._open()
            self.produced = self._ends_at_rest()
            self._moved_at = time.monotonic()
            self.reopened += 1

    def _ends_at_rest(self) -> list[int]:
        """When what the client before had sent has either come or never will."""
        before: list[int] = []
        while before != (ends := end_offsets(self._bootstrap, self._topic, len(self.produced))):
            before = ends
            self._stopping.wait(_REST_SECONDS)
        return before

    def _produce_to_all(self) -> None:
        for partition, number in enumerate(self.produced):
            self._produce(partition, b"%011d " % (self.log * LOG_NUMBERS_MAX + number) + self._filler)
            self.produced[partition] += 1

    def _produce(self, partition: int, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.05)

    def _delivered(self, error: Any, _: Any) -> None:
        self._moved_at = time.monotonic()
        if error is not None and error.code() not in PURGED:
            self._failures.append(str(error))

    def _flush(self) -> None:
        assert self._producer.flush(FLUSH_SECONDS_MAX) == 0, "the source did not take all records"
        assert self._failures == []


@dataclass(slots=True)
class Arrival:
    """What is on the target: the numbers of each partition, in order, to be judged against what was produced."""

    numbers: dict[int, list[int]] = field(default_factory=dict)

    def repeats(self) -> int:
        """Records that came more than once."""
        return sum(len(numbers) - len(set(numbers)) for numbers in self.numbers.values())

    def repetitions(self) -> list[int]:
        """How far each step back led: a crash makes one in a partition at most."""
        pairs = (pair for numbers in self.numbers.values() for pair in itertools.pairwise(numbers))
        return [before + 1 - after for before, after in pairs if after <= before]

    def assert_complete(self, produced: Iterable[int]) -> None:
        """Every record is there, in order, and a step back is always followed by all that comes after it, again."""
        for partition, count in enumerate(produced):
            before = -1
            for number in self.numbers.get(partition, []):
                assert number <= before + 1, f"partition {partition}: {number} follows {before}: a gap"
                before = number
            assert before == count - 1, f"partition {partition}: ends with record {before} instead of {count - 1}"


def read_arrival(bootstrap: str, topic: str, partitions: int, seconds: float = 120.0) -> Arrival:
    """All that a topic holds now; a transaction whose end is on its way is waited for.

    What librdkafka leaves out and another client finds is read again.
    """
    client = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}
    ends = end_offsets(bootstrap, topic, partitions)
    for _ in range(READS_MAX):
        found = _read_to(client, topic, ends, seconds)
        holes = {at: find_holes([offset for offset, _ in log], (0, ends[at])) for at, log in found.items()}
        if not any(find_left_out(client, topic, at, some, seconds_max=seconds) for at, some in holes.items()):
            return Arrival({at: [number for _, number in log] for at, log in found.items()})
    raise AssertionError(f"librdkafka does not read {topic} whole in {READS_MAX} attempts")


def _read_to(
    client: Mapping[str, str], topic: str, ends: Sequence[int], seconds: float
) -> dict[int, list[tuple[int, int]]]:
    """Offsets and numbers of the records of each partition."""
    consumer = Consumer({**client, "group.id": "oracle", "enable.partition.eof": True, "log_level": 0})
    found: dict[int, list[tuple[int, int]]] = {number: [] for number in range(len(ends))}
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in found])
        finished: set[int] = set()
        deadline = time.monotonic() + seconds
        while len(finished) < len(ends):
            assert time.monotonic() < deadline, f"{topic} could not be read to its end within {seconds:g} s"
            for message in consumer.consume(10_000, timeout=_TICK_SECONDS):
                if problem := message.error():
                    is_end = problem.code() == KafkaError._PARTITION_EOF
                    if is_end and message.offset() >= ends[message.partition()]:
                        finished.add(message.partition())
                else:
                    found[message.partition()].append((message.offset(), int(message.value()[:11])))
    finally:
        consumer.close()
    return found
