"""Where the target's log has put the batches of a flow that keeps offsets: acknowledged, doubted, or held."""

import selectors
from collections.abc import Callable, Hashable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from tests.manual_clock import ManualClock

from sparkmirror.batch.header import HEADER_BYTES, parse_header
from sparkmirror.batch.records import encode_batch
from sparkmirror.control.assignment import Append, Assigned
from sparkmirror.errors import ClusterUnreachable, SparkMirrorError
from sparkmirror.kafka.background import Outcome
from sparkmirror.kafka.wire.batch_owners import OwnedBatch, OwnerReader
from sparkmirror.kafka.wire.data_requests import ProducedPartition
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Cluster, Connector, TopicPartition
from sparkmirror.pipeline.produce.aligned_buffer import AlignedBuffer
from sparkmirror.pipeline.produce.aligned_gate import REBUILD
from sparkmirror.pipeline.produce.aligned_offsets import AlignmentOptions
from sparkmirror.pipeline.produce.answers import DUPLICATE_SEQUENCE, OUT_OF_ORDER_SEQUENCE
from sparkmirror.pipeline.produce.assembly import SenderOptions, assemble
from sparkmirror.pipeline.produce.effects import Hold, NoteMisplaced
from sparkmirror.pipeline.produce.partition_state import State
from sparkmirror.pipeline.produce.produce_task import ProduceTask
from sparkmirror.pipeline.produce.progress import ProgressOptions
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords
from sparkmirror.pipeline.produce.task_parts import Parts
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingAddress
from sparkmirror.policy.fillers import MARKERS

WHERE, REMOTE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
TOPIC_ID = UUID(int=2)
NOW_MS = ManualClock().now_ms
LONG = 60.0
"""Seconds between a look-up of the topic and its first batch."""


class LogClock(ManualClock):
    """Calls `meanwhile` each time that somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.meanwhile()


class Log(NamedTuple):
    """What the target's log has, and the work that reads it."""

    batches: list[OwnedBatch]
    due: list[tuple[Hashable, Callable[[], Any]]]
    clock: "LogClock"

    def has(self, *batches: bytes) -> None:
        self.batches[:] = [OwnedBatch(parse_header(one, 0), memoryview(one)) for one in batches]

    def read(self, parts: Parts) -> None:
        for key, work in self.due[:]:
            self.due.remove((key, work))
            try:
                outcome = Outcome(key, work(), None)
            except SparkMirrorError as error:
                outcome = Outcome(key, None, error)
            parts.guarantee.take(outcome)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log([], [], LogClock())

    def read(_: object, first: int, stop: int) -> Iterator[OwnedBatch]:
        if not log.batches:
            raise ClusterUnreachable("the leader is away")
        return iter([one for one in log.batches if one.first < stop and first < one.stop])

    monkeypatch.setattr(OwnerReader, "read", read)
    return log


@pytest.fixture
def parts(request: pytest.FixtureRequest, log: Log) -> Parts:
    """A task with one partition, and a connection to a broker that takes batches by their topic's name; the parameter
    counts the task's attempts before."""
    nowhere: Any = None
    background: Any = SimpleNamespace(submit=lambda key, work, _: log.due.append((key, work)))
    older: Any = SimpleNamespace(by_id=False)
    progress = ProgressOptions(Connector.of_dedicated_mode("A"), ledger_topics("A"), 1.0)
    alignment = AlignmentOptions(Cluster("B", {"bootstrap.servers": "nowhere:1"}), MARKERS, "fillers-")
    options = SenderOptions(nowhere, progress, alignment=alignment)
    taken = ((Assigned(WHERE, 0, append=Append(4711, 0, REMOTE.topic, TOPIC_ID)), -1),)
    plan = PlanRow(0, "run", 1, 1, 7, 3, RingAddress(0, 0, 0, 0, 0), 25, taken, attempt=getattr(request, "param", 0))
    made = assemble(options, plan, None, background, selectors.DefaultSelector(), log.clock)
    made.gate.take_plan(plan)
    made.brokers._connections[1, 0] = older
    return made


def record(value: bytes = b"v", first: int = 0, at_ms: int = NOW_MS) -> bytes:
    return encode_batch([(None, value)], base_offset=first, timestamp=at_ms)


def sent(parts: Parts, first: int = 0, at_ms: int = NOW_MS) -> tuple[AlignedBuffer, Batch]:
    """The next record has gone out, long after the topic was looked up."""
    buffer = parts.gate.buffers[WHERE]
    assert isinstance(buffer, AlignedBuffer)
    data = memoryview(bytearray(record(first=first, at_ms=at_ms)))
    buffer.accept(QueuedRecords(data, first, first + 1, lambda: None))
    batch = buffer.next_batch(7, 3)
    assert batch is not None
    parts.brokers._leaders._asked_at[REMOTE.topic] = batch.sent_at - LONG
    return buffer, batch


def answer(
    parts: Parts, buffer: AlignedBuffer, batch: Batch, base_offset: int, append_time_ms: int = -1, error: int = 0
) -> None:
    produced = ProducedPartition(REMOTE.topic, 0, error, base_offset, "", append_time_ms)
    parts.answer_taker.take(buffer, batch, produced, batch.sent_at + 1)


def test_a_first_batch_long_after_the_topic_was_looked_up_is_acknowledged_by_its_place(parts: Parts) -> None:
    """Were it sent once more, as where offsets are not kept, the answer would say that the log had it already."""
    buffer, batch = sent(parts)
    answer(parts, buffer, batch, 0)
    assert (buffer.acknowledged, buffer.idle, list(parts.effects)) == (1, True, [])


@pytest.mark.parametrize(
    ("at_ms", "append_time_ms"), [(NOW_MS, NOW_MS), (-1, -1)], ids=["a time in the answer", "records without a time"]
)
def test_a_batch_that_the_log_may_have_had_is_acknowledged_once_it_was_read_back(
    parts: Parts, log: Log, at_ms: int, append_time_ms: int
) -> None:
    buffer, batch = sent(parts, at_ms=at_ms)
    answer(parts, buffer, batch, 0, append_time_ms)
    assert (buffer.acknowledged, buffer.quiet) == (0, False)
    buffer.evict()  # the reader's memory is another's by the time that the log is read
    batch.data[HEADER_BYTES:] = bytes(len(batch.data) - HEADER_BYTES)
    log.has(record(b"before", first=-1), record(), record(b"behind", first=1))
    log.read(parts)
    ProduceTask(parts).apply()
    assert (buffer.acknowledged, buffer.is_failed) == (1, False)


def test_what_compaction_has_left_of_a_batch_on_the_target_is_no_other_content(parts: Parts, log: Log) -> None:
    buffer, batch = sent(parts)
    answer(parts, buffer, batch, 0, NOW_MS)
    log.has(record(b"behind", first=1))
    log.read(parts)
    ProduceTask(parts).apply()
    assert buffer.acknowledged == 1


@pytest.mark.parametrize("at_ms", [NOW_MS, -1], ids=["a time in the answer", "records without a time"])
def test_a_late_record_in_a_batch_s_place_holds_the_partition_with_its_offset(
    parts: Parts, log: Log, at_ms: int
) -> None:
    """A process that slept had read it before the source lost it."""
    buffer, batch = sent(parts, at_ms=at_ms)
    answer(parts, buffer, batch, 0, at_ms)
    log.has(record(b"late"))
    log.read(parts)
    note, hold, *_ = parts.effects
    assert isinstance(note, NoteMisplaced) and isinstance(hold, Hold)
    assert note.found == (TOPIC_ID, 0)
    assert hold.reason == f"the target has something else at offset 0 of A.orders-0 than its source; {REBUILD}"
    ProduceTask(parts).apply()
    assert (buffer.acknowledged, buffer.is_held, parts.progress.misplaced.are_due) == (0, True, True)


def test_batches_that_come_while_one_is_read_back_are_read_in_one_go(parts: Parts, log: Log) -> None:
    (buffer, first), rest = sent(parts), []
    answer(parts, buffer, first, 0)
    for at in range(1, 4):
        rest.append(sent(parts, at)[1])
        answer(parts, buffer, rest[-1], at, NOW_MS)
    log.has(*(record(first=at) for at in range(4)))
    assert len(log.due) == 1
    log.read(parts)
    assert len(log.due) == 1
    log.read(parts)
    ProduceTask(parts).apply()
    assert (buffer.acknowledged, log.due) == (4, [])


def test_what_a_partition_has_dropped_meanwhile_is_not_acknowledged_by_what_was_read(parts: Parts, log: Log) -> None:
    buffer, batch = sent(parts)
    answer(parts, buffer, batch, 0, NOW_MS)
    buffer.rewind()
    log.has(record())
    log.read(parts)
    assert (buffer.acknowledged, list(parts.effects)) == (0, [])


def test_a_leader_that_moves_while_a_batch_is_read_back_is_looked_for_again(parts: Parts, log: Log) -> None:
    buffer, batch = sent(parts)
    answer(parts, buffer, batch, 0, NOW_MS)
    log.clock.meanwhile = lambda: log.has(record())
    log.read(parts)
    ProduceTask(parts).apply()
    assert buffer.acknowledged == 1


def test_a_batch_that_cannot_be_read_back_fails_its_partition_alone_and_is_sent_again_later(
    parts: Parts, log: Log
) -> None:
    began = log.clock.now
    buffer, batch = sent(parts)
    answer(parts, buffer, batch, 0, NOW_MS)
    log.read(parts)
    ProduceTask(parts).apply()
    assert (buffer.state, buffer.idle, buffer.acknowledged) == (State.FAILED, True, 0)
    assert buffer.reason == "A.orders-0: what stands at offset 0 was not read back: the leader is away"
    assert parts.isolation.wake_at < float("inf")
    assert began + 20 < log.clock.now < began + 21, "the leader is looked for so long"


@pytest.mark.parametrize("is_same", [True, False])
def test_a_partition_that_fails_while_a_batch_is_read_back_is_settled_by_what_was_read(
    parts: Parts, log: Log, *, is_same: bool
) -> None:
    """Another record of it is too large, for instance: it waits for all answers, and then for its retry."""
    buffer, batch = sent(parts)
    answer(parts, buffer, batch, 0, NOW_MS)
    parts.isolation.fail(buffer, "the next record is too large")
    assert buffer.state is State.FAILING
    log.has(record() if is_same else record(b"late"))
    log.read(parts)
    ProduceTask(parts).apply()
    assert (buffer.state, buffer.idle) == (State.FAILED if is_same else State.HELD, True)
    assert buffer.acknowledged == is_same


def test_a_batch_that_was_sent_twice_and_stands_elsewhere_leaves_nothing_in_flight(parts: Parts) -> None:
    buffer, batch = sent(parts)
    buffer.retry(batch, in_doubt=True)
    assert buffer.next_batch(7, 3) is batch
    answer(parts, buffer, batch, 3)
    ProduceTask(parts).apply()
    parts.isolation.settle(buffer)
    assert (buffer.state, buffer.idle) == (State.HELD, True)


def test_a_reading_that_ends_without_a_word_is_no_sameness(parts: Parts, log: Log) -> None:
    buffer, batch = sent(parts)
    answer(parts, buffer, batch, 0, NOW_MS)
    ((key, _),) = log.due
    parts.guarantee.take(Outcome(key, None, None))
    ProduceTask(parts).apply()
    assert (buffer.state, buffer.acknowledged) == (State.FAILED, 0)


LOST = (OUT_OF_ORDER_SEQUENCE, DUPLICATE_SEQUENCE)


@pytest.mark.parametrize("error", LOST)
def test_a_task_whose_place_in_a_log_is_another_s_begins_again(parts: Parts, error: int) -> None:
    buffer, batch = sent(parts)
    with pytest.raises(SparkMirrorError, match="the task starts again"):
        answer(parts, buffer, batch, -1, error=error)


@pytest.mark.parametrize("parts", [5], indirect=True)
@pytest.mark.parametrize("error", LOST)
def test_a_task_that_has_begun_again_often_enough_holds_the_partition_and_goes_on(parts: Parts, error: int) -> None:
    """Else who writes as this flow keeps all other partitions of the task from their work, and Spark ends the query."""
    buffer, batch = sent(parts)
    answer(parts, buffer, batch, -1, error=error)
    ProduceTask(parts).apply()
    assert (buffer.is_held, buffer.quiet, buffer.idle, buffer.acknowledged) == (True, True, True, 0)
    assert buffer.reason.endswith(
        "; the task has begun again too often in this epoch, and the next one tries it: another process may write as "
        "this flow"
    )


def test_a_batch_that_stands_elsewhere_holds_its_partition_unacknowledged(parts: Parts) -> None:
    buffer, batch = sent(parts)
    answer(parts, buffer, batch, 3)
    note, hold = parts.effects
    assert isinstance(note, NoteMisplaced) and isinstance(hold, Hold)
    assert (note.buffer, note.found) == (buffer, (TOPIC_ID, 3))
    assert note.reason.startswith("records of offset 0 came to stand at offset 3 of A.orders-0")
    assert (hold.buffer, hold.reason) == (buffer, f"{note.reason}; {REBUILD}")
    assert buffer.acknowledged == 0

    ProduceTask(parts).apply()
    assert parts.progress.misplaced.are_due
    assert buffer.is_held and buffer.reason == hold.reason
