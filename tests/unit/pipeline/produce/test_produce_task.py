"""Effects are applied in the order in which they are asked for."""

import selectors
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.pipeline.produce.known_producer import known

from sparkmirror.batch.header import parse_header
from sparkmirror.batch.piece import Piece, Span
from sparkmirror.batch.records import Record, encode_batch
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.data_requests import ProducedPartition
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Connector, TopicPartition
from sparkmirror.pipeline.produce.assembly import SenderOptions, assemble
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.delivery import Bundle, Delivery
from sparkmirror.pipeline.produce.effects import Abort, Absent, Evict, Fail, Refuse, RollBack
from sparkmirror.pipeline.produce.isolation import Isolation
from sparkmirror.pipeline.produce.packing import Packing
from sparkmirror.pipeline.produce.partition_state import State
from sparkmirror.pipeline.produce.produce_task import ProduceTask
from sparkmirror.pipeline.produce.progress import ProgressOptions
from sparkmirror.pipeline.produce.queued_records import QueuedRecords
from sparkmirror.pipeline.produce.routing import QueuedLaneRecords, Ticket
from sparkmirror.pipeline.produce.task_parts import Parts
from sparkmirror.pipeline.produce.transaction_phase import TransactionOptions
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingAddress

ORDERS = TopicPartition("orders", 0)
MM2 = Connector.of_dedicated_mode("A")
TOPICS = ledger_topics("A")


class Told:
    """Stands for the guarantee of transactions, and keeps what it is told."""

    transactional = True

    def __init__(self) -> None:
        self.calls: list[tuple[str, PartitionBuffer | str]] = []

    def refused_in_doubt(self, where: PartitionBuffer) -> None:
        self.calls.append(("in doubt", where))

    def positions_refused(self, where: PartitionBuffer) -> None:
        self.calls.append(("positions refused", where))

    def abort(self, reason: str, *, awaits_answers: bool = False) -> None:
        self.calls.append(("abort", reason))


def new_parts(flush_seconds: float = 1.0, *, is_once: bool = True, clamps: bool = False) -> Parts:
    nowhere: Any = None
    settings: ClientSettings = nowhere
    transactions = TransactionOptions("B", MM2, 60_000, 0.2, 1.0) if is_once else None
    packing = Packing(clamp_timestamps=clamps)
    progress = ProgressOptions(MM2, TOPICS, flush_seconds)
    options = SenderOptions(settings, progress, transactions=transactions, packing=packing)
    plan = PlanRow(0, "run", 1, 1, 7, 3, RingAddress(0, 0, 0, 0, 0), 25, ())
    return assemble(options, plan, None, nowhere, selectors.DefaultSelector())


def in_doubt(where: TopicPartition, *, is_ledger: bool = False) -> PartitionBuffer:
    """A buffer with a batch that the target may have, and has not acknowledged."""
    buffer = PartitionBuffer(where, where, 0, -1, is_ledger=is_ledger)
    data = memoryview(bytearray(encode_batch([(None, b"v")])))
    buffer.accept(QueuedRecords(data, 0, 1, lambda: None))
    batch = buffer.next_batch(7, 3)
    assert batch is not None
    buffer.refuse(batch, in_doubt=True)
    return buffer


def test_what_is_in_doubt_is_known_before_positions_are_given_up() -> None:
    """EndTxn may abort only where no batch of the transaction can arrive after it; in doubt a new epoch is needed."""
    told: Any = Told()
    parts = replace(new_parts(), guarantee=told)
    home = TopicPartition(TOPICS.positions, 0)
    ledger = parts.progress.buffers[home] = in_doubt(home, is_ledger=True)
    orders = parts.gate.buffers[ORDERS] = in_doubt(ORDERS)
    parts.effects.append(Fail(ledger, "forbidden"))
    ProduceTask(parts).apply()
    assert told.calls == [("in doubt", ledger), ("in doubt", orders), ("positions refused", ledger)]
    assert (ledger.state, orders.state, orders.reason) == (
        State.FAILED, State.FAILED, f"its position cannot be stored in {home}: forbidden",
    )  # fmt: skip


def test_a_ledger_partition_that_is_away_refuses_its_positions_before_the_transaction_is_given_up() -> None:
    """Nothing was sent there: EndTxn may abort, where a new epoch would fence the task (KAFKA-9803)."""
    told: Any = Told()
    parts = replace(new_parts(), guarantee=told)
    home = TopicPartition(TOPICS.positions, 0)
    ledger = parts.progress.buffers[home] = PartitionBuffer(home, home, 0, -1, is_ledger=True)
    parts.effects.extend([Refuse(home, "its leader is away"), Abort("it did not answer")])
    ProduceTask(parts).apply()
    assert told.calls == [("positions refused", ledger), ("abort", "it did not answer")]


def test_a_roll_back_settles_what_failed_before_it() -> None:
    """Also the ledger's: an answer that it waited for does not come any more."""
    told: Any = Told()
    parts = replace(new_parts(), guarantee=told)
    home = TopicPartition(TOPICS.positions, 0)
    ledger = parts.progress.buffers[home] = PartitionBuffer(home, home, 0, -1, is_ledger=True)
    data = memoryview(bytearray(encode_batch([(None, b"v")])))
    ledger.accept(QueuedRecords(data, 0, 1, lambda: None))
    assert ledger.next_batch(7, 3) is not None
    parts.effects.extend([Fail(ledger, "forbidden"), RollBack()])
    ProduceTask(parts).apply()
    assert ledger.state is State.FAILED and ledger.idle and ledger.retry_at


def test_the_leader_of_an_absent_lane_is_forgotten_and_no_other_partitions() -> None:
    parts = new_parts()
    parts.routing.lanes[ORDERS] = PartitionBuffer(ORDERS, ORDERS, 0, -1, is_lane=True)
    leaders = parts.brokers._leaders
    bills = TopicPartition("bills", 0)
    leaders._leaders.update({ORDERS: 1, bills: 1})
    parts.effects.extend([Absent(ORDERS), Absent(bills)])
    ProduceTask(parts).apply()
    assert (leaders.of(ORDERS), leaders.of(bills)) == (None, 1)


def test_a_record_that_a_lane_refuses_is_known_by_its_source() -> None:
    parts = new_parts()
    source = parts.gate.buffers[ORDERS] = PartitionBuffer(ORDERS, None, 0, -1)
    entry = source.expect(QueuedRecords(memoryview(b""), 0, 1, lambda: None), 1)
    ticket = Ticket(
        source, entry, ORDERS, Bundle(Delivery("run", ORDERS, "orders", 0, 1, 1, 1, 0, memoryview(b""), None), 0, ()), 1
    )
    lane = PartitionBuffer(ORDERS, ORDERS, 0, -1, is_lane=True)
    data = memoryview(bytearray(encode_batch([(None, b"v")])))
    lane.accept(QueuedLaneRecords(data, 1, lambda: None, ticket, ()))
    batch = lane.next_batch(7, 3)
    assert batch is not None
    parts.answer_taker.take(lane, batch, ProducedPartition("orders", 0, 87, -1, ""), 0.0)
    assert parts.routing._refused == {lane: source}
    assert [type(effect) for effect in parts.effects] == [Fail]


@pytest.mark.parametrize(("error", "records"), [(10, 2), (32, 1)])
def test_a_lane_waits_for_limits_that_it_does_not_know_and_then_sends_smaller_or_earlier(
    error: int, records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = new_parts(is_once=False, clamps=True)
    monkeypatch.setattr(parts.limits, "ask", lambda _topic, _size: None)
    source = parts.gate.buffers[ORDERS] = PartitionBuffer(ORDERS, None, 0, -1)
    much_later_ms = 1 << 50
    data = bytearray(encode_batch([Record(at, much_later_ms, None, bytes(300)) for at in range(records)]))
    run = Delivery("run", ORDERS, "orders", 0, records, records, records, 0, memoryview(b""), None)
    (lane,) = parts.routing.take(Bundle(run, 0, ((ORDERS, Piece(data, (Span(0, records),), records)),)))
    known(lane, 7, 3)
    batch = lane.next_batch(7, 3)
    assert batch is not None
    parts.answer_taker.take(lane, batch, ProducedPartition("orders", 0, error, -1, ""), 0.0)
    assert not parts.effects and not lane.sendable
    parts.limits.of("orders").max_message_bytes = 400
    ProduceTask(parts)._heed_limits(("orders", True))
    for at in range(records):
        again = lane.next_batch(7, 3)
        assert again is not None and again.records == 1 and again.spans == (Span(at, 1),)
        assert parse_header(again.data, 0).max_timestamp < much_later_ms
        assert not source.acknowledged
        parts.routing.acknowledge(lane, lane.succeed(again, at))
    assert source.acknowledged == records


@pytest.mark.parametrize(
    ("answers", "comes_again"),
    [([(0, 100), (0, 101)], False), ([(0, 100), (0, 40)], True), ([(0, 100), (46, -1)], False)],
)
def test_positions_that_the_ledger_has_lost_are_stored_again(
    answers: list[tuple[int, int]], comes_again: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A batch of the positions that comes to stand below the one before it says so."""
    parts = new_parts(is_once=False)
    bills = TopicPartition("bills", 0)
    buffers = {where: PartitionBuffer(where, where, 0, -1) for where in (ORDERS, bills)}
    home = TopicPartition(TOPICS.positions, 0)
    for where, (error, base_offset) in zip(buffers, answers, strict=True):
        parts.progress.adopt(where)
        parts.progress.compose(parts.progress.pick(buffers), 1, None)
        for ledger in parts.progress.buffers.values():
            while (batch := ledger.next_batch(7, 3)) is not None:
                found = (error, base_offset) if ledger.target == home else (46, -1)
                parts.answer_taker.take(ledger, batch, ProducedPartition(ledger.target.topic, 0, *found, ""), 0.0)
    assert set(parts.progress.moved) == (set(buffers) if comes_again else set())
    assert ("was cut below offset 101" in caplog.text) == comes_again


def test_a_record_that_alone_is_too_large_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no batch had to be made smaller before, so that the topic's limits were never looked up."""
    parts = new_parts()
    asked: list[tuple[str, int | None]] = []
    monkeypatch.setattr(parts.limits, "ask", lambda topic, size: asked.append((topic, size)))
    buffer = PartitionBuffer(ORDERS, ORDERS, 0, -1)
    buffer.accept(QueuedRecords(memoryview(bytearray(encode_batch([(None, b"v")]))), 0, 1, lambda: None))
    batch = buffer.next_batch(7, 3)
    assert batch is not None
    parts.answer_taker.take(buffer, batch, ProducedPartition("orders", 0, 10, -1, ""), 0.0)
    assert asked == [("orders", len(batch.data))]
    assert list(parts.effects) == [
        Fail(
            buffer,
            f"the record at source offset 0 is {len(batch.data)} bytes in a batch of its own: "
            "the target refused a batch: MessageSizeTooLarge (10); raise max.message.bytes of the target topic",
        )
    ]


def test_an_idle_task_rests_as_long_as_positions_may_wait_and_a_second_at_most() -> None:
    for flush_seconds, rest_seconds in ((0.1, 0.25), (0.5, 0.5), (1.0, 1.0), (60.0, 1.0)):
        parts = new_parts(flush_seconds, is_once=False)
        assert parts.dispatch.is_idle
        assert parts.guarantee.rest_seconds == rest_seconds
    assert new_parts().guarantee.rest_seconds == 0.25, "in transactions more is due by time"


@pytest.mark.parametrize("error", [7, 19, 20])
def test_a_leader_that_is_short_of_replicas_is_looked_up_again_and_kept_meanwhile(error: int) -> None:
    parts = new_parts(is_once=False)
    buffer = PartitionBuffer(ORDERS, TopicPartition("A.orders", 0), 0, -1)
    leaders = parts.brokers._leaders
    leaders._leaders[buffer.target] = 1
    looked_up: list[set[str]] = []
    for second in (0.0, 0.2, 1.3):
        buffer.accept(QueuedRecords(memoryview(bytearray(encode_batch([(None, b"v")]))), 0, 1, lambda: None))
        batch = buffer.next_batch(7, 3)
        assert batch is not None
        parts.brokers._doubt_at -= second
        parts.answer_taker.take(buffer, batch, ProducedPartition("A.orders", 0, error, -1, ""), batch.sent_at)
        looked_up.append(set(leaders._unknown))
        leaders._unknown.clear()
        buffer = PartitionBuffer(ORDERS, TopicPartition("A.orders", 0), 0, -1)
    assert looked_up == [{"A.orders"}, set(), {"A.orders"}]
    assert leaders.of(buffer.target) == 1


class WaitingReader:
    """The page of a reader that waits for memory."""

    reader_waits = True

    def order(self, *_: object, **__: object) -> None: ...


def stuck(parts: Parts) -> tuple[ProduceTask, PartitionBuffer]:
    """A task with a partition that has had a batch for long, beside one that has none."""
    peer: Any = WaitingReader()
    isolation = Isolation(peer, parts.gate, parts.task_metrics, parts.effects, keeps_doubtful=True)
    bills = TopicPartition("bills", 0)
    parts.gate.buffers[bills] = PartitionBuffer(bills, bills, 0, 1)
    buffer = parts.gate.buffers[ORDERS] = PartitionBuffer(ORDERS, ORDERS, 0, 0)
    buffer.accept(QueuedRecords(memoryview(bytearray(encode_batch([(None, b"v")]))), 0, 1, lambda: None))
    return ProduceTask(replace(parts, isolation=isolation)), buffer


def test_a_partition_that_does_not_move_gives_its_memory_back() -> None:
    task, buffer = stuck(new_parts(is_once=False))
    task.tend(buffer.progressed_at + 60, ())
    assert buffer.state is State.DRAINING


def test_a_partition_that_fails_at_the_moment_when_the_reader_needs_its_memory_fails_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its next batch is looked at by the same turn that would take its memory."""
    parts = new_parts(is_once=False)
    task, buffer = stuck(parts)
    monkeypatch.setattr(parts.dispatch, "tend", lambda _: parts.effects.append(Fail(buffer, "it becomes too large")))
    task.tend(buffer.progressed_at + 60, ())
    assert (buffer.state, buffer.reason) == (State.FAILED, "it becomes too large")


def test_memory_that_an_effect_before_it_has_freed_is_not_asked_for_again() -> None:
    parts = new_parts(is_once=False)
    task, buffer = stuck(parts)
    parts.effects.extend([Fail(buffer, "forbidden"), Evict(buffer)])
    task.apply()
    assert (buffer.state, buffer.reason) == (State.FAILED, "forbidden")
