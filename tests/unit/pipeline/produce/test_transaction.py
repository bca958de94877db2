"""One transaction after another: what may go out when, what is committed, and the way back from any doubt."""

from typing import Any
from uuid import UUID

import pytest
from tests.manual_clock import ManualClock
from tests.unit.pipeline.produce.applied_effects import AtOnce
from tests.unit.pipeline.produce.asked_leaders import AskedLeaders

from sparkmirror.batch.header import parse_header
from sparkmirror.batch.records import decode_records, encode_batch
from sparkmirror.errors import FencedError, SparkMirrorError
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.wire.coordinator import AddPartitions, Answer, Describe, EndTransaction, Initialize, Question
from sparkmirror.kafka.wire.open_transactions import OpenTransaction
from sparkmirror.ledger import positions
from sparkmirror.ledger.committed_end import CommittedEnd
from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Connector, TopicPartition
from sparkmirror.pipeline.produce.acked_position import Place
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.effects import Abort, Absent, Commit, Effect, Offer, Refuse, RollBack, Speak
from sparkmirror.pipeline.produce.progress import Progress, ProgressOptions
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords
from sparkmirror.pipeline.produce.transaction import ExactlyOnce
from sparkmirror.pipeline.produce.transaction_phase import Phase, TransactionOptions
from sparkmirror.pipeline.produce.unfinished import Seat

ORDERS, BILLS, LATE = (TopicPartition(topic, 0) for topic in ("orders", "bills", "late"))
TOPICS = ledger_topics("A")
TOPIC_ID = UUID(int=1)
INTERVAL = 0.2


class Broker:
    """Stands for the coordinator: keeps the question until the test answers it."""

    key = "coordinator"

    def __init__(self, second: bool) -> None:
        self.second_protocol = second
        self.question: Question | None = None
        self.asked: list[Question] = []
        self._answer: Answer | None = None
        self.wake_at = float("inf")

    @property
    def busy(self) -> bool:
        return self.question is not None

    def ask(self, question: Question) -> None:
        self.question = question
        self.asked.append(question)

    def poll(self, now: float) -> None:
        """Nothing passes by itself here."""

    def answer(self, answer: Answer) -> None:
        assert self.question is not None, "nothing was asked"
        self.question, self._answer = None, answer

    def serve(self) -> Answer | None:
        answer, self._answer = self._answer, None
        return answer

    def close(self) -> None:
        self.question = None


class Desk:
    """A task with two partitions in transactions, and all around it in sight."""

    def __init__(self, *, second: bool = True, spare: Seat | None = None) -> None:
        self.clock = ManualClock()
        self.broker = Broker(second)
        self.progress = Progress(
            ProgressOptions(Connector.of_dedicated_mode("A"), TOPICS, 1.0), 0, 25, in_transactions=True
        )
        self.buffers = {where: PartitionBuffer(where, where, 0, -1) for where in (ORDERS, BILLS)}
        for where in self.buffers:
            self.progress.adopt(where)
        self.offered: list[PartitionBuffer] = []
        self.rolled_back = 0
        self.refused: list[TopicPartition] = []
        self.absent: list[TopicPartition] = []
        options = TransactionOptions("B", Connector.of_dedicated_mode("A"), 60_000, INTERVAL, 3600.0)
        seat = Seat("A-mm2-MirrorSourceConnector-0", ProducerIdentity(7, 3), self.broker)  # type: ignore[arg-type]
        self.leaders, self.doubted = AskedLeaders(), set[TopicPartition]()
        self.leaders_answer = True
        self.transaction = ExactlyOnce(
            options, 0, seat, self.progress, self, AtOnce(self), self.leaders, self.doubted, spare, self.clock,  # type: ignore[arg-type]
        )  # fmt: skip
        self.spoken: list[bool] = []

    def apply(self, effect: Effect) -> None:
        match effect:
            case Speak(second):
                self.spoken.append(second)
            case Offer(buffer):
                self.offered.append(buffer)
            case Refuse(where):
                self.refused.append(where)
            case Absent(where):
                self.absent.append(where)
            case Commit():
                self._commit()
            case Abort(reason):
                self.transaction.abort(reason)
            case RollBack():
                self._roll_back()
            case _:
                raise AssertionError(effect)

    def store(self, with_status: bool) -> bool:
        return bool(self.progress.compose(self.buffers.values(), 1, []))

    def _commit(self) -> None:
        self.progress.commit()
        for buffer in self.buffers.values():
            buffer.commit()

    def _roll_back(self) -> None:
        self.rolled_back += 1
        self.progress.roll_back()
        for buffer in self.buffers.values():
            buffer.roll_back()

    def begin(self) -> None:
        """To the first ready state: the partitions' starts are committed."""
        self.poll()
        self.poll()
        self.settle()

    def poll(self, seconds: float = 0.0) -> None:
        self.clock.now += seconds
        self.transaction.poll(self.clock.now)

    def fill(self, where: TopicPartition, first: int, following: int) -> PartitionBuffer:
        buffer = self.buffers[where]
        data = bytearray(encode_batch([(None, b"v")] * (following - first), base_offset=first))
        buffer.accept(QueuedRecords(memoryview(data), first, following, lambda: None))
        return buffer

    def send(self, buffer: PartitionBuffer) -> Batch | None:
        """As the sender does."""
        if not buffer.sendable or not (self.transaction.admits(buffer) or self._admits_now(buffer)):
            return None
        batch = buffer.next_batch(*self.transaction.identity, True)
        assert batch is not None
        self.transaction.sent(buffer, batch)
        return batch

    def _admits_now(self, buffer: PartitionBuffer) -> bool:
        """Whether a batch may go out when the leaders have answered what they are asked."""
        self.transaction._look_for_open(self.clock.now)
        if not self.leaders_answer or self.leaders.asked is None:
            return False
        self.transaction.take(self.leaders.answer())
        return buffer.is_lane or self.transaction.admits(buffer)

    def takes_in(self, *lanes: PartitionBuffer) -> bool:
        """Whether a range may enter these lanes when the leaders have answered what they are asked."""
        return self.transaction.takes_in(lanes) or (self._admits_now(lanes[0]) and self.transaction.takes_in(lanes))

    def send_ledger(self) -> list[TopicPartition]:
        """All that the ledger has to send goes out and is acknowledged."""
        sent = []
        for buffer in self.progress.buffers.values():
            while (batch := self.send(buffer)) is not None:
                buffer.succeed(batch)
                sent.append(buffer.target)
        return sent

    def settle(self, answer: Answer | None = None) -> None:
        """The ledger's records are taken, the transaction ends."""
        self.send_ledger()
        self.poll()
        assert isinstance(self.broker.question, EndTransaction)
        self.answer(answer or Answer(0, ProducerIdentity(7, self.transaction.identity.epoch + 1)))

    def answer(self, answer: Answer) -> None:
        self.broker.answer(answer)
        self.transaction.serve()

    @property
    def phase(self) -> Phase:
        return self.transaction.phase


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.begin()
    return desk


def test_nothing_is_sent_before_the_protocol_is_known() -> None:
    desk = Desk()
    assert desk.phase is Phase.STARTING
    buffer = desk.fill(ORDERS, 0, 3)
    assert desk.send(buffer) is None
    desk.poll()
    assert desk.spoken == [True]
    assert buffer in desk.offered, "it is offered again"


def test_the_first_batch_opens_a_transaction_which_is_committed_with_the_position_it_reaches(desk: Desk) -> None:
    buffer = desk.fill(ORDERS, 0, 3)
    batch = desk.send(buffer)
    assert batch is not None
    header = parse_header(batch.data, 0)
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 4, 0)
    desk.poll(INTERVAL)
    assert desk.phase is Phase.CLOSING
    sent = desk.send_ledger()
    assert {where.topic for where in sent} == {TOPICS.offsets, TOPICS.positions}, "before the data is acknowledged"
    desk.poll()
    assert desk.broker.question is None, "the data is not acknowledged yet"
    buffer.succeed(batch)
    buffer.extend(Extent("A.orders", TOPIC_ID, 13))
    desk.poll()
    assert desk.broker.question == EndTransaction("A-mm2-MirrorSourceConnector-0", ProducerIdentity(7, 4), True)
    assert buffer.committed == Place(0)
    desk.answer(Answer(0, ProducerIdentity(7, 5)))
    assert (buffer.committed.offset, buffer.marker_at) == (3, 13)
    assert (desk.phase, desk.transaction.identity) == (Phase.READY, ProducerIdentity(7, 5))


def test_data_waits_while_a_transaction_ends_and_starts_the_next_ones_sequences_at_zero(desk: Desk) -> None:
    buffer = desk.fill(ORDERS, 0, 3)
    first = desk.send(buffer)
    assert first is not None
    buffer.succeed(first)
    desk.poll(INTERVAL)
    assert desk.send(desk.fill(ORDERS, 3, 5)) is None
    desk.offered.clear()
    desk.settle()
    assert desk.offered == [buffer]
    second = desk.send(buffer)
    assert second is not None
    assert parse_header(second.data, 0).base_sequence == 0


def test_after_a_pause_the_first_record_is_committed_at_once_and_under_load_once_an_interval(desk: Desk) -> None:
    desk.poll(10 * INTERVAL)
    for first in (0, 3):
        buffer = desk.fill(ORDERS, first, first + 3)
        batch = desk.send(buffer)
        assert batch is not None
        buffer.succeed(batch)
        if first:
            desk.poll(INTERVAL / 2)
            assert desk.phase is Phase.OPEN, "the last commit was half an interval ago"
            desk.poll(INTERVAL)
        desk.poll()
        assert desk.phase is Phase.CLOSING
        desk.settle()


@pytest.mark.parametrize(("size", "pause", "intervals"), [(10, 0.1, 1), (2 << 20, 0.1, 2.5), (2 << 20, 9.0, 5)])
def test_under_load_slow_commits_make_longer_transactions(size: int, pause: float, intervals: float) -> None:
    """What a commit takes is a sixth of the time at most, unless it takes longer than an interval."""
    desk = Desk()
    desk.begin()
    buffer = desk.fill(ORDERS, 0, 3)
    batch = desk.send(buffer)
    assert batch is not None
    batch.data = memoryview(bytearray(size))
    desk.transaction.sent(buffer, batch)
    buffer.succeed(batch)
    desk.poll(INTERVAL)
    closed_at = desk.clock.now
    desk.clock.now += pause
    desk.settle()
    assert desk.send(desk.fill(ORDERS, 3, 5)) is not None
    assert desk.transaction.wake_at == pytest.approx(closed_at + intervals * INTERVAL)


def test_a_pause_that_a_broker_asks_for_ends_the_transaction_and_the_next_one_opens_after_it(desk: Desk) -> None:
    """A transaction that lasted through the pauses of a small quota would be aborted, and so would all that follow."""
    buffer = desk.fill(ORDERS, 0, 3)
    batch = desk.send(buffer)
    assert batch is not None
    buffer.succeed(batch)
    desk.transaction.throttled(desk.clock.now + 40)
    desk.poll()
    assert desk.phase is Phase.CLOSING, "no interval is waited for"
    assert desk.transaction.hurries
    assert {where.topic for where in desk.send_ledger()} == {TOPICS.offsets, TOPICS.positions}
    desk.poll()
    desk.answer(Answer(0, ProducerIdentity(7, 5)))
    assert buffer.committed.offset == 3
    assert desk.send(desk.fill(ORDERS, 3, 5)) is None
    desk.poll(39.9)
    assert desk.phase is Phase.READY
    assert desk.transaction.finish(), "a task that ends meanwhile leaves no transaction open"
    assert desk.transaction.wake_at == pytest.approx(desk.clock.now + 0.1)
    desk.offered.clear()
    desk.poll(0.2)
    assert desk.offered == [buffer]
    assert desk.send(buffer) is not None


def test_a_target_that_takes_long_gets_less_in_a_transaction(desk: Desk) -> None:
    """Of a time-out of a minute a transaction is to take ten seconds at most."""
    buffer = desk.fill(ORDERS, 0, 3)
    batch = desk.send(buffer)
    assert batch is not None
    batch.data = memoryview(bytearray(900 << 10))
    desk.transaction.sent(buffer, batch)
    buffer.succeed(batch)
    desk.poll(INTERVAL)
    desk.clock.now += 50
    desk.settle()
    batch = desk.send(desk.fill(ORDERS, 3, 5))
    assert batch is not None
    batch.data = memoryview(bytearray(200 << 10))
    desk.transaction.sent(buffer, batch)
    assert desk.send(desk.fill(ORDERS, 5, 7)) is None, "a fifth of what took fifty seconds"
    desk.poll()
    assert desk.phase is Phase.CLOSING


def test_a_batch_that_is_given_up_after_its_position_was_written_has_the_true_one_written_behind_it(desk: Desk) -> None:
    buffer = desk.fill(ORDERS, 0, 3)
    batch = desk.send(buffer)
    assert batch is not None
    desk.poll(INTERVAL)
    desk.send_ledger()
    batch.waiting = False
    buffer.rewind()
    desk.poll()
    assert desk.broker.question is None
    assert {where.topic for where in desk.send_ledger()} == {TOPICS.offsets, TOPICS.positions}
    desk.settle()
    assert buffer.committed.offset == 0


def test_a_gap_is_not_committed_before_which_the_target_has_refused_records(desk: Desk) -> None:
    """They are read again, and then perhaps nothing is lost: a cut of the source's log may lie behind them all."""
    buffer = desk.fill(ORDERS, 0, 3)
    batch = desk.send(buffer)
    assert batch is not None
    desk.progress.gaps.add(buffer, "retention", 3, 10, "went on", TOPIC_ID, (0, 10))
    buffer.accept(QueuedRecords(memoryview(b""), 3, 10, lambda: None))
    desk.poll(INTERVAL)
    assert TOPICS.gaps in {where.topic for where in desk.send_ledger()}
    batch.waiting = False
    buffer.rewind()
    desk.poll()
    desk.poll()
    assert isinstance(desk.broker.question, Initialize), "the transaction is aborted"
    assert (desk.rolled_back, buffer.gaps) == (1, ())


def test_a_lost_sequence_takes_everything_back_to_what_is_committed_and_asks_for_a_new_epoch(desk: Desk) -> None:
    buffer = desk.fill(ORDERS, 0, 3)
    batch = desk.send(buffer)
    assert batch is not None
    buffer.succeed(batch)
    desk.transaction.sequence_lost(buffer, "OUT_OF_ORDER_SEQUENCE")
    desk.poll()
    assert desk.broker.question == Initialize("A-mm2-MirrorSourceConnector-0", 60_000, ProducerIdentity(7, 4))
    assert (desk.rolled_back, buffer.position, buffer.acknowledged) == (1, 0, 0)
    assert desk.send(desk.fill(ORDERS, 0, 3)) is None, "nothing goes out before the new epoch is known"
    desk.answer(Answer(0, ProducerIdentity(7, 9)))
    _clear_leftovers(desk, buffer)
    again = desk.send(buffer)
    assert again is not None
    assert parse_header(again.data, 0).producer_epoch == 10


def _lose_transaction(desk: Desk) -> PartitionBuffer:
    """Its records may lie in ORDERS without a marker; the producer has its new epoch."""
    buffer = desk.fill(ORDERS, 0, 3)
    assert desk.send(buffer) is not None
    desk.transaction.sequence_lost(buffer, "OUT_OF_ORDER_SEQUENCE")
    desk.poll()
    desk.answer(Answer(0, ProducerIdentity(7, 9)))
    return buffer


def _clear_leftovers(desk: Desk, buffer: PartitionBuffer) -> None:
    """What goes to a partition of an aborted transaction waits for an empty one that is aborted over it."""
    assert desk.send(buffer) is None
    desk.poll()
    before = desk.transaction.identity
    name = "A-mm2-MirrorSourceConnector-0"
    assert desk.broker.question == AddPartitions(name, before, (buffer.target,))
    desk.answer(Answer(0))
    assert desk.broker.question == EndTransaction(name, before, True, commits=False)
    desk.answer(Answer(0, ProducerIdentity(7, before.epoch + 1)))


def test_an_aborted_transactions_partitions_are_cleared_before_anything_goes_there_others_need_not_be(
    desk: Desk,
) -> None:
    """A partition without a leader is left without the marker: a later commit would commit what it has."""
    buffer = _lose_transaction(desk)
    bills = desk.fill(BILLS, 0, 3)
    other = desk.send(bills)
    assert other is not None, "it was not in that transaction"
    assert desk.send(desk.fill(ORDERS, 0, 3)) is None, "a transaction is open: the marker would end it"
    bills.succeed(other)
    desk.poll(INTERVAL)
    desk.settle()
    assert desk.send(desk.fill(BILLS, 3, 5)) is None, "or ORDERS would wait for ever"
    _clear_leftovers(desk, buffer)
    assert desk.send(buffer) is not None
    assert desk.send(bills) is not None


def _commit_some(desk: Desk) -> PartitionBuffer:
    """Three records of ORDERS are committed, with their position."""
    buffer = _send_and_close(desk)
    desk.settle()
    return buffer


def test_a_committed_transaction_that_lies_open_is_ended_by_an_empty_commit(desk: Desk) -> None:
    """Its leader was away when it ended: an abort would destroy records whose position is stored."""
    buffer = _commit_some(desk)
    assert buffer.committed_end == CommittedEnd(7, 4, 3)
    desk.doubted.add(ORDERS)
    desk.leaders.open = {ORDERS: OpenTransaction(0, 4, 2)}
    assert desk.send(desk.fill(ORDERS, 3, 5)) is None
    desk.poll()
    identity, name = desk.transaction.identity, "A-mm2-MirrorSourceConnector-0"
    assert desk.broker.question == AddPartitions(name, identity, (ORDERS,))
    desk.poll(3600.0)
    assert isinstance(desk.broker.question, AddPartitions), "it is not given up: that would abort it"
    desk.answer(Answer(0))
    assert desk.broker.question == EndTransaction(name, identity, True, commits=True)
    desk.answer(Answer(0, ProducerIdentity(7, identity.epoch + 1)))
    desk.leaders.open = {}
    assert desk.send(buffer) is not None


def _add_over_what_is_committed(desk: Desk) -> PartitionBuffer:
    """The partition of an empty transaction, which is to be committed, is added; the coordinator does not answer for so
    long that it is asked about the transaction."""
    desk.begin()
    buffer = _commit_some(desk)
    desk.doubted.add(ORDERS)
    desk.leaders.open = {ORDERS: OpenTransaction(0, 4, 2)}
    assert desk.send(desk.fill(ORDERS, 3, 5)) is None
    desk.poll()
    assert isinstance(desk.broker.question, AddPartitions)
    desk.poll(20.0)
    assert isinstance(desk.broker.question, Describe)
    return buffer


def test_a_transaction_before_that_cannot_end_makes_the_task_go_on_under_its_spare_id_also_then() -> None:
    """Markers of the last commit are awaited: the coordinator adds nothing for so long."""
    desk = Desk(spare=_spare(Broker(second=True)))
    _add_over_what_is_committed(desk)
    desk.answer(Answer(0, desk.transaction.identity, state="PrepareCommit", partitions=frozenset([BILLS])))
    desk.poll()
    assert desk.transaction.identity == ProducerIdentity(8, 0)
    assert desk.refused == [BILLS]


@pytest.mark.parametrize("state", ["Ongoing", "CompleteCommit", "Empty"])
def test_what_may_have_been_added_to_an_empty_commit_is_added_again_and_not_aborted(state: str) -> None:
    desk = Desk(spare=_spare(Broker(second=True)))
    _add_over_what_is_committed(desk)
    desk.answer(Answer(0, desk.transaction.identity, state=state))
    assert isinstance(desk.broker.question, AddPartitions) and desk.broker.question.partitions == (ORDERS,)
    desk.answer(Answer(0))
    assert isinstance(desk.broker.question, EndTransaction) and desk.broker.question.commits


def test_it_is_so_also_where_a_later_transaction_was_aborted_before_it_reached_the_partition(desk: Desk) -> None:
    buffer = _commit_some(desk)
    assert desk.send(desk.fill(ORDERS, 3, 5)) is not None, "it goes out and does not arrive"
    desk.transaction.sequence_lost(buffer, "OUT_OF_ORDER_SEQUENCE")
    desk.poll()
    desk.answer(Answer(0, ProducerIdentity(7, 9)))
    assert buffer.committed_end == CommittedEnd(7, 4, 3)
    desk.leaders.open = {ORDERS: OpenTransaction(0, 4, 2)}
    assert desk.send(desk.fill(ORDERS, 3, 5)) is None
    desk.poll()
    desk.answer(Answer(0))
    held = desk.broker.question
    assert isinstance(held, EndTransaction) and held.commits


def test_what_the_open_transaction_has_written_itself_does_not_hold_it_up(desk: Desk) -> None:
    buffer = desk.fill(ORDERS, 0, 3)
    batch = desk.send(buffer)
    assert batch is not None
    buffer.succeed(batch)
    desk.doubted.add(ORDERS)
    desk.leaders.open = {ORDERS: OpenTransaction(0, 4, 2)}
    assert desk.send(desk.fill(ORDERS, 3, 5)) is not None


def test_a_partition_whose_leader_does_not_say_what_is_open_is_failed_with_that_reason(desk: Desk) -> None:
    desk.leaders.away = {ORDERS}
    assert desk.send(desk.fill(ORDERS, 0, 3)) is None
    assert desk.send(desk.fill(BILLS, 0, 3)) is not None, "others go on"
    for _ in range(20):
        desk.poll(1.0)
        if desk.leaders.asked is not None:
            desk.transaction.take(desk.leaders.answer())
    assert desk.refused == [ORDERS]


def test_without_the_right_to_read_what_may_lie_open_is_committed_and_a_warning_says_so(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.leaders.refused = {ORDERS}
    buffer = desk.fill(ORDERS, 0, 3)
    assert desk.send(buffer) is None
    assert "may not READ it" in caplog.text
    desk.poll()
    desk.answer(Answer(0))
    held = desk.broker.question
    assert isinstance(held, EndTransaction) and held.commits
    desk.answer(Answer(0, ProducerIdentity(7, 5)))
    assert desk.send(buffer) is not None


def test_the_positions_of_a_transaction_tell_what_it_commits(desk: Desk) -> None:
    """The next attempt of the task judges by it what it finds open."""
    buffer = desk.fill(ORDERS, 0, 3)
    assert desk.send(buffer) is not None
    desk.poll(INTERVAL)
    (box,) = [one for where, one in desk.progress.buffers.items() if where.topic == TOPICS.positions]
    batch = desk.send(box)
    assert batch is not None
    stored = [positions.decode_value(record.value) for record in decode_records(batch.data)]
    assert [one.committed_end for one in stored if one is not None and one.position.offset == 3] == [
        CommittedEnd(7, 4, 3)
    ]


def test_a_partition_that_is_gone_has_nothing_left(desk: Desk) -> None:
    buffer = _lose_transaction(desk)
    assert desk.send(desk.fill(ORDERS, 0, 3)) is None
    desk.poll()
    desk.answer(Answer(0, None, {ORDERS: 3}))
    assert desk.send(buffer) is not None


def test_an_abort_that_does_not_end_makes_the_task_go_on_under_its_spare_id() -> None:
    desk = Desk(spare=_spare(Broker(second=True)))
    desk.begin()
    _lose_transaction(desk)
    assert desk.send(desk.fill(ORDERS, 0, 3)) is None
    desk.poll()
    desk.poll(16.0)
    assert isinstance(desk.broker.question, Describe)
    desk.answer(Answer(0, ProducerIdentity(7, 9), state="PrepareAbort", partitions=frozenset([BILLS])))
    assert (desk.refused, desk.transaction.identity) == ([BILLS], ProducerIdentity(8, 0))


def test_positions_that_are_refused_abort_the_transaction_of_their_data(desk: Desk) -> None:
    buffer = _send_and_close(desk)
    (ledger, *_) = desk.progress.buffers.values()
    desk.transaction.positions_refused(ledger)
    desk.poll()
    assert isinstance(desk.broker.question, Initialize)
    assert (desk.rolled_back, buffer.acknowledged) == (1, 0)


def _abort_by_own_word(desk: Desk) -> PartitionBuffer:
    """Positions are refused, and an answer to data is still to come: the transaction that is aborted then."""
    desk.poll()
    desk.transaction._added.note(desk.buffers)
    buffer = desk.fill(ORDERS, 0, 3)
    batch = desk.send(buffer)
    assert batch is not None
    desk.poll(INTERVAL)
    (ledger, *_) = desk.progress.buffers.values()
    desk.transaction.positions_refused(ledger)
    desk.poll(0.1)
    assert desk.rolled_back == 0, "an answer is still to come"
    buffer.succeed(batch)
    desk.poll()
    assert desk.rolled_back == 1
    held = desk.broker.question
    assert isinstance(held, EndTransaction) and not held.commits
    return buffer


def test_the_first_protocol_aborts_by_its_own_word_once_all_that_was_sent_is_answered() -> None:
    """InitProducerId would fence the task that asks (KAFKA-9803); a late batch would belong to no transaction."""
    desk = Desk(second=False)
    buffer = _abort_by_own_word(desk)
    desk.answer(Answer(0))
    assert isinstance(desk.broker.question, Initialize)
    desk.answer(Answer(0, ProducerIdentity(7, 4)))
    assert (desk.phase, buffer.acknowledged) == (Phase.READY, 0)


def test_an_abort_by_its_own_word_that_does_not_end_makes_the_task_go_on_under_its_spare_id() -> None:
    """A coordinator that has moved meanwhile answers a repeated EndTxn when all markers are written, not before."""
    desk = Desk(second=False, spare=_spare(Broker(second=False)))
    buffer = _abort_by_own_word(desk)
    desk.poll(4.0)
    assert isinstance(desk.broker.question, Describe)
    desk.answer(Answer(0, ProducerIdentity(7, 3), state="PrepareAbort", partitions=frozenset([ORDERS])))
    _assert_goes_on_under_the_spare_id(desk, buffer)


def test_a_commit_whose_positions_were_not_composed_does_not_happen(desk: Desk) -> None:
    buffer = _send_and_close(desk)
    desk.progress._stored.pop(ORDERS)
    buffers, desk.buffers = desk.buffers, {}
    desk.poll()
    desk.buffers = buffers
    assert not isinstance(desk.broker.question, EndTransaction)
    desk.poll()
    assert (desk.rolled_back, buffer.acknowledged) == (1, 0)


def _fall_silent(spare: Broker) -> tuple[Desk, PartitionBuffer]:
    """A transaction whose partition does not answer, when the coordinator has said that it is open."""
    desk = Desk(spare=_spare(spare))
    desk.begin()
    buffer = desk.fill(ORDERS, 0, 3)
    assert desk.send(buffer) is not None
    desk.poll(INTERVAL)
    desk.send_ledger()
    desk.poll()
    buffer.progressed_at = desk.clock.now
    desk.poll(14.0)
    assert desk.broker.question is None, "a slow answer is waited for"
    desk.poll(2.0)
    assert isinstance(desk.broker.question, Describe)
    desk.answer(Answer(0, ProducerIdentity(7, 4), state="Ongoing"))
    desk.poll()
    return desk, buffer


def test_a_partition_that_stays_away_is_given_up_and_the_task_goes_on_under_its_spare_id() -> None:
    spare = Broker(second=True)
    desk, buffer = _fall_silent(spare)
    assert (desk.refused, desk.rolled_back) == ([ORDERS], 1)
    assert isinstance(desk.broker.question, Initialize)
    assert desk.transaction.holds(buffer)
    desk.poll(4.0)
    assert isinstance(desk.broker.question, Describe), "the abort takes long"
    desk.answer(Answer(0, ProducerIdentity(7, 5), state="PrepareAbort", partitions=frozenset([ORDERS])))
    _assert_goes_on_under_the_spare_id(desk, buffer)


def test_so_it_does_when_the_coordinator_gave_up_first_and_the_abort_cannot_end() -> None:
    desk = Desk(spare=_spare(Broker(second=True)))
    desk.begin()
    _fence(desk, 90)
    aborting = Answer(0, ProducerIdentity(7, 5), state="PrepareAbort", partitions=frozenset([ORDERS]))
    desk.answer(aborting)
    assert (desk.phase, desk.refused) == (Phase.FENCED, []), "an abort mostly ends at once"
    desk.poll(4.0)
    desk.answer(aborting)
    assert desk.refused == [ORDERS]
    _assert_goes_on_under_the_spare_id(desk, desk.buffers[ORDERS])


@pytest.mark.parametrize("theirs", [ProducerIdentity(7, 7), ProducerIdentity(9, 4)])
def test_an_abort_of_somebody_newer_is_no_reason_to_go_on(theirs: ProducerIdentity) -> None:
    desk = Desk(spare=_spare(Broker(second=True)))
    desk.begin()
    _fence(desk, 90)
    desk.broker.answer(Answer(0, theirs, state="PrepareAbort", partitions=frozenset([ORDERS])))
    with pytest.raises(FencedError, match="task 0 was fenced"):
        desk.transaction.serve()


def _spare(broker: Broker) -> Seat:
    return Seat("A-mm2-MirrorSourceConnector-1", ProducerIdentity(8, 0), broker)  # type: ignore[arg-type]


def _assert_goes_on_under_the_spare_id(desk: Desk, buffer: PartitionBuffer) -> None:
    """And the first one is looked at until its transaction has ended; it is not used again."""
    desk.poll()
    assert (desk.phase, desk.transaction.identity) == (Phase.READY, ProducerIdentity(8, 0))
    assert isinstance(desk.broker.question, Describe)
    desk.answer(Answer(0, ProducerIdentity(7, 5), state="PrepareAbort", partitions=frozenset([ORDERS])))
    desk.poll(2.0)
    assert desk.transaction.holds(buffer)
    desk.answer(Answer(0, ProducerIdentity(7, 5), state="CompleteAbort"))
    assert not desk.transaction.holds(buffer), "all markers stand: it is back"
    desk.poll(60.0)
    assert desk.broker.question is None
    assert desk.transaction.identity == ProducerIdentity(8, 0)


@pytest.mark.parametrize("second", [False, True])
def test_a_commit_that_the_coordinator_has_begun_and_does_not_answer_is_taken_for_one(second: bool) -> None:
    desk = Desk(second=second, spare=_spare(Broker(second)))
    buffer = _end_without_answer(desk)
    buffer.extend(Extent("A.orders", TOPIC_ID, 13))
    epoch = desk.transaction.identity.epoch + second
    begun = Answer(0, ProducerIdentity(7, epoch), state="PrepareCommit", partitions=frozenset([ORDERS]))
    desk.answer(begun)
    assert (buffer.committed.offset, desk.refused) == (3, [ORDERS])
    assert buffer.marker_at == -1, "records of the spare id may come before the marker"
    desk.poll()
    assert desk.transaction.identity == ProducerIdentity(8, 0)
    assert desk.transaction.holds(buffer)


@pytest.mark.parametrize(
    "described",
    [
        Answer(0, ProducerIdentity(7, 4), state="Ongoing"),
        Answer(0, ProducerIdentity(7, 6), state="PrepareCommit"),
        Answer(0, ProducerIdentity(7, 6), state="PrepareAbort"),
    ],
)
def test_an_end_that_is_not_known_to_have_been_obeyed_is_asked_for_again(described: Answer) -> None:
    desk = Desk(spare=_spare(Broker(second=True)))
    buffer = _end_without_answer(desk)
    desk.answer(described)
    assert isinstance(desk.broker.question, EndTransaction) and desk.phase is Phase.ENDING
    assert buffer.committed.offset == 0


def _end_without_answer(desk: Desk) -> PartitionBuffer:
    """EndTxn is under way for so long that the coordinator is asked about the transaction."""
    desk.poll()
    desk.poll()
    _add_all(desk)
    desk.settle()
    _add_all(desk)
    buffer = _send_and_close(desk)
    desk.poll()
    assert isinstance(desk.broker.question, EndTransaction)
    desk.poll(16.0)
    assert isinstance(desk.broker.question, Describe)
    return buffer


def _add_all(desk: Desk) -> None:
    """As the first protocol wants it before a transaction's first batches."""
    ledger = (box.target for box in desk.progress.buffers.values())
    desk.transaction._added.note([*desk.buffers, *ledger])


def test_a_transaction_that_is_committed_is_never_taken_for_aborted() -> None:
    desk, _ = _fall_silent(Broker(second=True))
    desk.poll(4.0)
    desk.answer(Answer(0, ProducerIdentity(7, 5), state="PrepareCommit"))
    assert desk.transaction.identity == ProducerIdentity(7, 4)
    assert isinstance(desk.broker.question, Initialize), "its end is waited for"


def _send_and_close(desk: Desk) -> PartitionBuffer:
    """Data that is acknowledged, and the positions that it reaches under way."""
    buffer = desk.fill(ORDERS, 0, 3)
    batch = desk.send(buffer)
    assert batch is not None
    buffer.succeed(batch)
    desk.poll(INTERVAL)
    desk.send_ledger()
    return buffer


@pytest.mark.parametrize("code", [47, 90])
def test_a_refused_epoch_is_somebody_newer(desk: Desk, code: int) -> None:
    _fence(desk, code)
    desk.broker.answer(Answer(0, ProducerIdentity(7, 6), state="Empty"))
    with pytest.raises(FencedError, match="task 0 was fenced"):
        desk.transaction.serve()


def test_or_a_transaction_that_the_coordinator_gave_up_waiting_for(desk: Desk) -> None:
    _fence(desk, 90)
    desk.broker.answer(Answer(0, ProducerIdentity(7, 5), state="CompleteAbort"))
    with pytest.raises(SparkMirrorError, match="took too long and was aborted; the task starts again") as caught:
        desk.transaction.serve()
    assert not isinstance(caught.value, FencedError)


def _fence(desk: Desk, code: int) -> None:
    desk.transaction.fenced(desk.buffers[ORDERS])
    desk.poll()
    desk.answer(Answer(code))
    assert desk.broker.question == Describe("A-mm2-MirrorSourceConnector-0")


@pytest.mark.parametrize("code", [47, 48, 49, 59, 90, 120])
def test_an_end_that_is_refused_is_followed_by_a_new_epoch(desk: Desk, code: int) -> None:
    buffer = desk.fill(ORDERS, 0, 3)
    batch = desk.send(buffer)
    assert batch is not None
    buffer.succeed(batch)
    desk.poll(INTERVAL)
    desk.settle(Answer(code))
    desk.poll()
    assert isinstance(desk.broker.question, Initialize)
    assert buffer.acknowledged == 0


def test_an_end_that_is_not_authorized_ends_the_task(desk: Desk) -> None:
    desk.fill(ORDERS, 0, 3)
    batch = desk.send(desk.buffers[ORDERS])
    assert batch is not None
    desk.buffers[ORDERS].succeed(batch)
    desk.poll(INTERVAL)
    with pytest.raises(
        SparkMirrorError,
        match=r"^Cluster B: the transaction of A-.* failed with TRANSACTIONAL_ID_AUTH",
    ):
        desk.settle(Answer(53))


def test_what_was_stored_in_an_aborted_transaction_is_stored_again(desk: Desk) -> None:
    buffer = desk.fill(ORDERS, 0, 3)
    batch = desk.send(buffer)
    assert batch is not None
    buffer.succeed(batch)
    desk.progress.release(ORDERS)
    desk.poll(INTERVAL)
    desk.settle(Answer(48))
    desk.poll()
    desk.answer(Answer(0, ProducerIdentity(7, 9)))
    desk.transaction.finish()
    released = [where.topic for where in desk.send_ledger()]
    assert TOPICS.positions in released, "the release too"


def test_the_first_protocol_adds_partitions_before_their_first_batch_and_keeps_epoch_and_sequence() -> None:
    desk = Desk(second=False)
    desk.poll()
    desk.poll()
    assert desk.send_ledger() == []
    desk.poll()
    question: Any = desk.broker.question
    assert isinstance(question, AddPartitions)
    desk.answer(Answer(0))
    desk.settle(Answer(0))
    epoch = desk.transaction.identity.epoch
    orders, bills = desk.fill(ORDERS, 0, 3), desk.fill(BILLS, 0, 2)
    assert desk.send(orders) is None
    assert desk.send(bills) is None
    desk.poll()
    assert [desk.send(buffer) for buffer in (orders, bills)] == [None, None]
    assert desk.transaction.wake_at > desk.clock.now, "the answer is awaited, not polled for"
    assert desk.broker.question == AddPartitions(
        "A-mm2-MirrorSourceConnector-0", ProducerIdentity(7, epoch), (ORDERS, BILLS)
    )
    late = PartitionBuffer(LATE, LATE, 0, -1)
    desk.buffers[LATE] = late
    desk.progress.adopt(LATE)
    assert desk.send(desk.fill(LATE, 0, 1)) is None
    desk.answer(Answer(0, None, {BILLS: 29}))
    assert desk.refused == [BILLS]
    assert desk.send(late) is None, "it was not in the question that was answered"
    batch = desk.send(orders)
    assert batch is not None
    assert desk.send(bills) is None
    buffer = desk.buffers[ORDERS]
    buffer.succeed(batch)
    assert parse_header(batch.data, 0).producer_epoch == epoch


def test_the_first_protocol_ends_no_transaction_before_its_first_batch_however_long_the_pause_before_it() -> None:
    """Else a task whose target was away for longer than an interval would open and end transactions for ever."""
    desk = _desk_of_the_first_protocol()
    desk.poll(10 * INTERVAL)
    orders = desk.fill(ORDERS, 0, 3)
    assert desk.send(orders) is None
    assert desk.transaction.wake_at == 0.0, "the partition is added at once"
    desk.poll()
    desk.answer(Answer(0))
    desk.poll()
    assert desk.phase is Phase.OPEN
    batch = desk.send(orders)
    assert batch is not None
    desk.poll()
    assert desk.phase is Phase.CLOSING, "after a pause the first record is committed at once"


def test_the_first_protocol_ends_a_transaction_for_which_no_batch_comes() -> None:
    desk = _desk_of_the_first_protocol()
    assert desk.send(desk.fill(ORDERS, 0, 3)) is None
    desk.poll()
    desk.answer(Answer(0))
    desk.buffers[ORDERS].rewind()
    desk.poll(2 * INTERVAL)
    assert desk.phase is Phase.CLOSING


def test_a_partition_that_the_target_does_not_know_holds_up_no_other_partition_of_the_first_protocol() -> None:
    desk = _desk_of_the_first_protocol()
    for where in (ORDERS, BILLS):
        assert desk.send(desk.fill(where, 0, 3)) is None
    desk.poll()
    desk.answer(Answer(0, None, {ORDERS: 55, BILLS: 3}))
    desk.poll()
    assert _added(desk) == (ORDERS,), "asked for again at once, without the other"
    desk.answer(Answer(0))
    assert desk.send(desk.buffers[ORDERS]) is not None
    assert desk.send(desk.buffers[BILLS]) is None
    desk.poll()
    assert desk.broker.question is None, "not before a moment has passed"
    desk.poll(0.15)
    assert _added(desk) == (BILLS,)
    desk.answer(Answer(0))
    assert desk.send(desk.buffers[BILLS]) is not None


def _desk_of_the_first_protocol() -> Desk:
    """Ready, the partitions' starts are committed."""
    desk = Desk(second=False)
    desk.poll()
    desk.poll()
    assert desk.send_ledger() == []
    desk.poll()
    desk.answer(Answer(0))
    desk.settle(Answer(0))
    return desk


def _added(desk: Desk) -> tuple[TopicPartition, ...]:
    assert isinstance(desk.broker.question, AddPartitions)
    return desk.broker.question.partitions


class RoutedRange:
    """A range of ORDERS whose records go elsewhere: its lane has them, and nothing is sent."""

    def __init__(self, desk: Desk) -> None:
        self.source = desk.buffers[ORDERS]
        self.entry = self.source.expect(QueuedRecords(memoryview(b""), 0, 3, lambda: None), 3)
        elsewhere = TopicPartition("elsewhere", 0)
        self.lane = PartitionBuffer(TopicPartition("to elsewhere", 0), elsewhere, 0, -1, is_lane=True)
        assert desk.takes_in(self.lane)
        self.entry.let_go()
        desk.transaction.took_in(self.source, [self.lane], 10)
        data = bytearray(encode_batch([(None, b"v")] * 3))
        self.lane.accept(QueuedRecords(memoryview(data), 0, 3, lambda: None))

    def arrive(self, desk: Desk) -> None:
        batch = desk.send(self.lane)
        assert batch is not None
        self.lane.succeed(batch)
        self.source.succeed(self.entry)


def test_what_an_aborted_transaction_has_left_in_a_lane_joins_no_open_transaction_of_the_first_protocol() -> None:
    """A commit marker there would make the aborted records visible, and the range comes again."""
    desk = _desk_of_the_first_protocol()
    _send_by_the_first_protocol(desk, ORDERS)
    desk.transaction.sequence_lost(desk.buffers[ORDERS], "OUT_OF_ORDER_SEQUENCE")
    desk.poll()
    desk.answer(Answer(0, ProducerIdentity(7, 9)))
    _send_by_the_first_protocol(desk, BILLS)
    assert desk.phase is Phase.OPEN
    lane = PartitionBuffer(TopicPartition("to orders", 0), desk.buffers[ORDERS].target, 0, -1, is_lane=True)
    assert not desk.takes_in(lane)
    desk.poll()
    assert desk.broker.question is None, "no partition that owes a marker is added"


def test_the_leader_of_a_lane_that_the_coordinator_does_not_know_is_looked_up_again() -> None:
    """Else a deleted one would be asked about for ever: only one that cannot be reached fails its sources."""
    desk = _desk_of_the_first_protocol()
    lanes = [PartitionBuffer(where, where, 0, -1, is_lane=True) for where in (LATE, BILLS)]
    assert not desk.takes_in(*lanes)
    desk.poll()
    desk.answer(Answer(0, None, {LATE: 3, BILLS: 55}))
    assert (desk.absent, desk.refused) == ([LATE], [])


def _send_by_the_first_protocol(desk: Desk, where: TopicPartition) -> None:
    assert desk.send(desk.fill(where, 0, 3)) is None
    desk.poll()
    assert _added(desk) == (desk.buffers[where].target,)
    desk.answer(Answer(0))
    assert desk.send(desk.buffers[where]) is not None


def test_a_range_that_has_entered_its_lanes_is_waited_for_and_sent_also_while_the_transaction_closes(
    desk: Desk,
) -> None:
    routed = RoutedRange(desk)
    assert desk.phase is Phase.OPEN
    desk.poll(INTERVAL)
    assert desk.phase is Phase.CLOSING and not desk.transaction.takes_in([routed.lane])
    desk.send_ledger()
    desk.poll()
    assert desk.broker.question is None, "nothing of the range has gone out yet"
    routed.arrive(desk)
    desk.settle()
    assert routed.source.committed.offset == 3


def test_a_range_whose_position_cannot_be_stored_is_not_committed(desk: Desk) -> None:
    routed = RoutedRange(desk)
    desk.progress.buffers[TopicPartition(TOPICS.positions, 0)].fail("too large")
    routed.arrive(desk)
    desk.poll(INTERVAL)
    desk.poll()
    desk.poll()
    assert not isinstance(desk.broker.question, EndTransaction)
    assert desk.rolled_back == 1
