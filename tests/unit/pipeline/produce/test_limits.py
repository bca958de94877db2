"""What a task does with batches that are too large, when it may not read the limit of their topic."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipeline.produce.known_producer import known
from tests.unit.pipeline.produce.test_produce_task import ORDERS, new_parts

from sparkmirror.batch.header import Codec, parse_header
from sparkmirror.batch.piece import Piece, Span
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.errors import ClusterError
from sparkmirror.kafka.background import Outcome
from sparkmirror.kafka.wire.data_requests import ProducedPartition
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.delivery import Bundle, Delivery
from sparkmirror.pipeline.produce.effects import Fail
from sparkmirror.pipeline.produce.limits import TargetLimits, TopicLimits
from sparkmirror.pipeline.produce.produce_task import ProduceTask
from sparkmirror.pipeline.produce.queued_records import QueuedRecords
from sparkmirror.pipeline.produce.task_parts import Parts

_TOO_LARGE, _DENIED = 10, ClusterError("broker b1:9092 does not tell the settings of orders: error 29")


class Asker:
    """Stands for the threads of look-ups, which the test answers."""

    def submit(self, *_: object) -> None:
        pass


def new_limits() -> TargetLimits:
    nowhere, asker = None, Asker()
    return TargetLimits(nowhere, asker)  # type: ignore[arg-type]


def found(**configs: str) -> Outcome:
    return Outcome(("limits", "orders"), {name.replace("_", "."): value for name, value in configs.items()}, None)


FAILED = Outcome(("limits", "orders"), None, _DENIED)


def test_a_limit_that_cannot_be_looked_up_stays_unknown() -> None:
    limits = new_limits()
    limits.ask("orders", 900)
    limits.ask("orders", 700)
    assert limits.take(FAILED) == ("orders", True)
    assert limits.of("orders") == TopicLimits(None, None, refused_bytes=700)
    limits.ask("orders")
    assert limits.take(FAILED) == ("orders", False), "a refused time says nothing of sizes"
    assert limits.take(found(max_message_bytes="500")) == ("orders", True)
    assert limits.of("orders") == TopicLimits(500, 3_600_000)


def test_a_limit_that_was_known_is_unknown_where_a_smaller_batch_is_refused_and_nobody_says_why() -> None:
    limits = new_limits()
    limits.ask("orders", 900)
    limits.take(found(max_message_bytes="500", message_timestamp_after_max_ms="7"))
    limits.ask("orders", 400)
    limits.take(FAILED)
    assert limits.of("orders") == TopicLimits(None, 7, refused_bytes=400)


def test_a_limit_below_the_default_comes_after_the_default() -> None:
    limits = new_limits()
    limits.ask("orders", 5 << 20)
    limits.take(FAILED)
    assert limits.of("orders") == TopicLimits(1_048_588, None, refused_bytes=5 << 20)
    assert not limits.of("orders").is_size_known
    limits.ask("orders", 1_000_000)
    limits.take(FAILED)
    assert limits.of("orders") == TopicLimits(None, None, refused_bytes=1_000_000)


def offer(parts: Parts, buffer: PartitionBuffer, limit_bytes: int) -> list[bytes]:
    """The values that a topic takes that refuses larger batches, and does not show its limit."""
    values: list[bytes] = []
    for _ in range(100):
        batch = buffer.next_batch(7, 3)
        if batch is None or parts.effects:
            return values
        if len(batch.data) <= limit_bytes:
            values += [record.value or b"" for record in decode_records(batch.data)]
            base_sequence = parse_header(batch.data, 0).base_sequence
            assert base_sequence == len(values) - batch.records, "sequence numbers have no hole"
            parts.answer_taker.take(buffer, batch, ProducedPartition("orders", 0, 0, base_sequence, ""), 0.0)
            continue
        parts.answer_taker.take(buffer, batch, ProducedPartition("orders", 0, _TOO_LARGE, -1, ""), 0.0)
        if not parts.effects:
            assert not buffer.sendable, "nobody knows yet how large it may be"
            ProduceTask(parts)._heed_limits(parts.limits.take(FAILED))
    raise AssertionError("it is refused without end")


def new_denied_parts() -> Parts:
    parts = new_parts(is_once=False)
    parts.limits._background = Asker()  # type: ignore[assignment]
    return parts


def new_buffer(parts: Parts) -> PartitionBuffer:
    buffer = parts.gate.buffers[ORDERS] = PartitionBuffer(ORDERS, None, 0, -1)
    buffer.aim("orders", parts.limits.of("orders"))
    return buffer


def batch_of(values: list[bytes], codec: Codec = Codec.NONE) -> bytearray:
    return bytearray(encode_batch([Record(at, 7, None, value) for at, value in enumerate(values)], codec=codec))


@given(
    sizes=st.lists(st.integers(0, 400), min_size=1, max_size=12),
    limit_bytes=st.integers(500, 2000),
    codec=st.sampled_from([Codec.NONE, Codec.LZ4]),
)
def test_batches_are_halved_until_the_topic_takes_them(sizes: list[int], limit_bytes: int, codec: Codec) -> None:
    parts = new_denied_parts()
    buffer = new_buffer(parts)
    values = [bytes([at]) * size for at, size in enumerate(sizes)]
    buffer.accept(QueuedRecords(memoryview(batch_of(values, codec)), 0, len(values), lambda: None))
    assert offer(parts, buffer, limit_bytes) == values
    assert buffer.acknowledged == len(values)


def test_large_batches_are_cut_at_the_default_first_and_ahead_from_then_on() -> None:
    parts = new_denied_parts()
    buffer = new_buffer(parts)
    values = [bytes([at]) * 300_000 for at in range(12)]
    buffer.accept(QueuedRecords(memoryview(batch_of(values)), 0, 12, lambda: None))
    assert offer(parts, buffer, 700_000) == values
    assert parts.limits.of("orders").refused_bytes is not None


def test_a_record_that_is_too_large_alone_fails_behind_all_before_it() -> None:
    parts = new_denied_parts()
    buffer = new_buffer(parts)
    data = memoryview(batch_of([b"a", b"b", b"c" * 900, b"d"]))
    buffer.accept(QueuedRecords(data, 0, 4, lambda: None))
    assert offer(parts, buffer, 500) == [b"a", b"b"]
    (effect,) = parts.effects
    assert isinstance(effect, Fail) and effect.reason.startswith("the record at source offset 2 is ")


@pytest.mark.parametrize("sizes", [[300] * 7, [10, 400, 10], [400, 400]])
def test_what_transforms_made_is_halved_too(sizes: list[int]) -> None:
    parts = new_denied_parts()
    source = parts.gate.buffers[ORDERS] = PartitionBuffer(ORDERS, None, 0, -1)
    values = [bytes([at]) * size for at, size in enumerate(sizes)]
    count = len(values)
    run = Delivery("run", ORDERS, "orders", 0, count, count, count, 0, memoryview(b""), None)
    piece: Any = Piece(batch_of(values), (Span(0, count),), count)
    (lane,) = parts.routing.take(Bundle(run, 0, ((ORDERS, piece),)))
    known(lane, 7, 3)
    assert offer(parts, lane, 500) == values
    assert source.acknowledged == count
