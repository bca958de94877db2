"""Where the target's log has put the batches of a flow that keeps offsets: acknowledged, doubted, or held."""

import selectors
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from sparkmirror.batch.records import encode_batch
from sparkmirror.control.assignment import Append, Assigned
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.wire.data_requests import ProducedPartition
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Cluster, Connector, TopicPartition
from sparkmirror.pipeline.produce.aligned_buffer import AlignedBuffer
from sparkmirror.pipeline.produce.aligned_gate import REBUILD
from sparkmirror.pipeline.produce.aligned_offsets import AlignmentOptions
from sparkmirror.pipeline.produce.assembly import SenderOptions, assemble
from sparkmirror.pipeline.produce.effects import Hold, NoteMisplaced
from sparkmirror.pipeline.produce.produce_task import ProduceTask
from sparkmirror.pipeline.produce.progress import ProgressOptions
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords
from sparkmirror.pipeline.produce.task_parts import Parts
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingAddress
from sparkmirror.policy.fillers import MARKERS

WHERE, REMOTE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
TOPIC_ID = UUID(int=2)
LONG = 60.0
"""Seconds between a look-up of the topic and its first batch."""


@pytest.fixture
def parts() -> Parts:
    """A task with one partition, and a connection to a broker that takes batches by their topic's name."""
    nowhere: Any = None
    older: Any = SimpleNamespace(by_id=False)
    progress = ProgressOptions(Connector.of_dedicated_mode("A"), ledger_topics("A"), 1.0)
    alignment = AlignmentOptions(Cluster("B", {"bootstrap.servers": "nowhere:1"}), MARKERS, "fillers-")
    options = SenderOptions(nowhere, progress, alignment=alignment)
    taken = ((Assigned(WHERE, 0, append=Append(4711, 0, REMOTE.topic, TOPIC_ID)), -1),)
    plan = PlanRow(0, "run", 1, 1, 7, 3, RingAddress(0, 0, 0, 0, 0), 25, taken)
    made = assemble(options, plan, None, nowhere, selectors.DefaultSelector())
    made.gate.take_plan(plan)
    made.brokers._connections[1, 0] = older
    return made


def sent(parts: Parts, first: int = 0) -> tuple[AlignedBuffer, Batch]:
    """The next record has gone out, long after the topic was looked up."""
    buffer = parts.gate.buffers[WHERE]
    assert isinstance(buffer, AlignedBuffer)
    data = memoryview(bytearray(encode_batch([(None, b"v")], base_offset=first)))
    buffer.accept(QueuedRecords(data, first, first + 1, lambda: None))
    batch = buffer.next_batch(7, 3)
    assert batch is not None
    parts.brokers._leaders._asked_at[REMOTE.topic] = batch.sent_at - LONG
    return buffer, batch


def answer(parts: Parts, buffer: AlignedBuffer, batch: Batch, base_offset: int, append_time_ms: int = -1) -> None:
    produced = ProducedPartition(REMOTE.topic, 0, 0, base_offset, "", append_time_ms)
    parts.answer_taker.take(buffer, batch, produced, batch.sent_at + 1)


def test_a_first_batch_long_after_the_topic_was_looked_up_is_acknowledged_by_its_place(parts: Parts) -> None:
    """Were it sent once more, as where offsets are not kept, the answer would say that the log had it already."""
    buffer, batch = sent(parts)
    answer(parts, buffer, batch, 0)
    assert (buffer.acknowledged, buffer.idle, list(parts.effects)) == (1, True, [])


def test_a_batch_that_the_log_had_already_ends_the_task_s_attempt(parts: Parts) -> None:
    buffer, batch = sent(parts)
    with pytest.raises(SparkMirrorError, match="the log had records of offset 0 already; the task starts again"):
        answer(parts, buffer, batch, 0, append_time_ms=1_790_000_000_000)
    assert buffer.acknowledged == 0


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
