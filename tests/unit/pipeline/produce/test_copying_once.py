"""One partition copied in transactions through everything that goes wrong, against a model (invariants 1, 2 and 4).

As `test_copying`, with a target that keeps Kafka's rules for transactional producers of the second protocol (KIP-890):
what is committed there must at every step be the source's beginning, each record once and in order, and the committed
position must be where exactly that ends. Brokers leave markers out where a partition has no leader (`is_led`), of
commits and aborts, and the task starts again from what is stored.
"""

import time
from collections import deque
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.pipeline.produce.applied_effects import AtOnce
from tests.unit.pipeline.produce.asked_leaders import AskedLeaders
from tests.unit.pipeline.produce.test_copying import SEQUENCES, WHERE, Ring, Source

from sparkmirror.batch.header import parse_header
from sparkmirror.batch.records import decode_records
from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.wire.coordinator import AddPartitions, Answer, EndTransaction, Initialize, Question
from sparkmirror.kafka.wire.open_transactions import OpenTransaction
from sparkmirror.ledger import connect, positions
from sparkmirror.ledger.committed_end import CommittedEnd
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Connector, TopicPartition
from sparkmirror.pipeline.produce.answers import BatchOutcome, judge, leaves_doubt
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.produce.effects import Abort, Commit, Effect, Evict, Fail, Hold, Refuse, RollBack
from sparkmirror.pipeline.produce.gate import SequenceGate
from sparkmirror.pipeline.produce.isolation import Isolation
from sparkmirror.pipeline.produce.limits import TargetLimits
from sparkmirror.pipeline.produce.packing import AS_THEY_ARE
from sparkmirror.pipeline.produce.partition_state import State
from sparkmirror.pipeline.produce.progress import Progress, ProgressOptions
from sparkmirror.pipeline.produce.queued_records import Batch
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.produce.transaction import ExactlyOnce
from sparkmirror.pipeline.produce.transaction_phase import TransactionOptions
from sparkmirror.pipeline.produce.unfinished import Seat
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingAddress

PRODUCER = 1000
REMOTE = TopicPartition("A.orders", 3)
MM2 = Connector.of_dedicated_mode("A")
TOPICS = ledger_topics("A")


class Written(NamedTuple):
    """A batch whose transaction has no marker in its partition. `is_committed`: it was decided so."""

    where: TopicPartition
    data: bytes
    last: OpenTransaction
    is_committed: bool = False


class Target:
    """Brokers and coordinator: one producer's transactions over partitions for data and the ledger's."""

    def __init__(self, *data: TopicPartition) -> None:
        self.data = data
        self.epoch = 0
        self.log: list[int] = []
        self.position = 0
        self.end_stored: CommittedEnd | None = None
        self._open: list[Written] = []
        self._next: dict[TopicPartition, int] = {}
        self._last: dict[TopicPartition, deque[tuple[int, int]]] = {}
        self._committed_epoch = -1
        self._added: set[TopicPartition] = set()
        self._left: list[Written] = []

    def append(self, where: TopicPartition, data: bytes) -> int:
        header = parse_header(data, 0)
        assert (header.producer_id, header.base_offset, header.is_transactional) == (PRODUCER, 0, True)
        if header.producer_epoch != self.epoch:
            return 47
        batch = (header.base_sequence, header.records_count)
        last = self._last.setdefault(where, deque(maxlen=5))
        if batch in last:
            return 0
        if header.base_sequence != self._next.get(where, 0):
            return 45
        self._next[where] = (header.base_sequence + header.records_count) % SEQUENCES
        last.append(batch)
        self._open.append(Written(where, data, OpenTransaction(0, self.epoch, self._next[where] - 1)))
        return 0

    def add(self, epoch: int, partitions: Iterable[TopicPartition]) -> Answer:
        if epoch != self.epoch:
            return Answer(47)
        self._added.update(partitions)
        return Answer(0)

    def end(self, epoch: int, *, commits: bool, is_led: bool) -> Answer:
        """EndTxn; the same again is answered the same."""
        if epoch != self.epoch and epoch != self._committed_epoch:
            return Answer(47)
        if epoch == self.epoch:
            self._decide(commits=commits, is_led=is_led)
            self._committed_epoch = epoch
        return Answer(0, ProducerIdentity(PRODUCER, self.epoch))

    def _decide(self, *, commits: bool, is_led: bool) -> None:
        """A marker ends all that is open where it stands. A partition for data without a leader gets none."""
        marked = self._added | {one.where for one in self._open}
        marked = {where for where in marked if is_led or where not in self.data}
        lying = [*self._left, *(one._replace(is_committed=commits) for one in self._open)]
        self._left = [one for one in lying if one.where not in marked]
        for one in lying if commits else ():
            if one.where in marked:
                for record in decode_records(one.data):
                    self._commit(one.where, record.key, record.value)
        self._bump()

    def _commit(self, where: TopicPartition, key: bytes | None, value: bytes | None) -> None:
        if where in self.data:
            self.log.append(int(value or b""))
        elif where.topic == TOPICS.offsets:
            assert connect.decode_key(key, MM2) == WHERE
            self.position = connect.decode_value(value) or 0
        elif where.topic == TOPICS.positions and (stored := positions.decode_value(value)) is not None:
            self.end_stored = stored.committed_end

    def committed(self) -> list[int]:
        """What consumers see, or will when a marker comes: all that was committed and is not aborted by another one."""
        lying = [decode_records(one.data) for one in self._left if one.is_committed]
        return [*self.log, *(int(record.value or b"") for records in lying for record in records)]

    @property
    def is_mending(self) -> bool:
        """Whether an empty transaction is open over what a committed one has left: its abort would destroy that. So a
        task that is killed, or cut off for the transaction's time-out, between two requests loses it."""
        return any(one.is_committed and one.where in self._added for one in self._left)

    def open_in(self, where: TopicPartition) -> OpenTransaction | None:
        """As the partition's leader says."""
        lying = [one.last for one in (*self._left, *self._open) if one.where == where]
        return lying[-1] if lying else None

    def abort(self, *, is_led: bool) -> None:
        """By InitProducerId, or because the transaction took too long."""
        self._decide(commits=False, is_led=is_led)

    def _bump(self) -> None:
        self.epoch += 1
        self._open, self._next, self._last, self._added = [], {}, {}, set()


class Coordinator:
    """Keeps the question until the test has it answered."""

    key = "coordinator"
    second_protocol = True
    wake_at = float("inf")

    def __init__(self) -> None:
        self.question: Question | None = None
        self.answers: deque[Answer] = deque()

    @property
    def busy(self) -> bool:
        return self.question is not None

    def ask(self, question: Question) -> None:
        self.question = question
        self.answers.clear()

    def poll(self, now: float) -> None:
        """Nothing passes by itself here."""

    def serve(self) -> Answer | None:
        return self.answers.popleft() if self.answers else None


class CopyingOnce(RuleBasedStateMachine):
    restarts: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.source, self.ring, self.target = Source(), Ring(), Target(REMOTE)
        self.coordinator, self.leaders = Coordinator(), AskedLeaders()
        self.doubted: set[TopicPartition] = set()
        self.rows: deque[Delivery] = deque()
        self.wire: deque[tuple[PartitionBuffer, Batch, bytes]] = deque()
        self.ghosts: deque[tuple[TopicPartition, bytes]] = deque()
        self.reads_at = 0
        self.paused = False
        self.buffer: Any = None
        self.now = time.monotonic()

    @initialize()
    def begin(self) -> None:
        self.source.grow([3, 2])
        self.target.end_stored = CommittedEnd(PRODUCER, 0, 0)  # else the first transaction's end would not be known
        self.start()

    def start(self) -> None:
        """The task starts, from what is stored."""
        start = Assigned(WHERE, self.target.position, committed_end=self.target.end_stored)
        address = RingAddress(1, 2, 3, 4, 5)
        plan = PlanRow(0, "run", 1, 1, PRODUCER, self.target.epoch, address, 25, ((start, 5),))
        task_metrics = TaskMetrics(plan)
        self.progress = Progress(ProgressOptions(MM2, TOPICS, 1.0), 0, 25, in_transactions=True)
        self.gate = SequenceGate(self.ring, self.progress, task_metrics, TargetLimits(None, None), AS_THEY_ARE, deque())  # type: ignore[arg-type]
        effects = AtOnce(self)
        self.isolation = Isolation(self.ring, self.gate, task_metrics, effects, keeps_doubtful=False)  # type: ignore[arg-type]
        options = TransactionOptions("B", MM2, 60_000, 0.2, 1.0)
        identity = ProducerIdentity(plan.producer_id, plan.producer_epoch)
        seat = Seat("A-mm2-MirrorSourceConnector-0", identity, self.coordinator)  # type: ignore[arg-type]
        self.once = ExactlyOnce(
            options, plan.task, seat, self.progress, self, effects, self.leaders, self.doubted,  # type: ignore[arg-type]
        )  # fmt: skip
        self.gate.take_plan(plan)
        self.buffer = self.gate.buffers[WHERE]

    def apply(self, effect: Effect) -> None:
        match effect:
            case Commit():
                self._commit()
            case RollBack():
                self._roll_back()
            case Abort(reason):
                self.once.abort(reason)
            case Fail() | Hold() | Refuse() | Evict():
                raise AssertionError(effect)

    def store(self, with_status: bool) -> bool:
        return bool(self.progress.compose([self.buffer], 1, None))

    def _commit(self) -> None:
        self.progress.commit()
        self.buffer.commit()

    def _roll_back(self) -> None:
        """As the sender: connections are dropped, what was on them may still be served."""
        self.ghosts += [(buffer.target, data) for buffer, _, data in self.wire]
        self.wire.clear()
        self.progress.roll_back()
        self.isolation.roll_back(self.buffer)
        self.isolation.settle(self.buffer)

    def boxes(self) -> list[PartitionBuffer]:
        """The buffers whose batches go to partitions for data."""
        return [self.buffer]

    # The source and its reader.

    @rule(sizes=st.lists(st.integers(0, 3), min_size=1, max_size=4))
    def source_grows(self, sizes: list[int]) -> None:
        self.source.grow(sizes)

    @precondition(lambda self: not self.paused)
    @rule(count=st.integers(1, 4))
    def reader_fetches(self, count: int) -> None:
        data, following = self.source.read(self.reads_at, count)
        if data:
            lease = self.ring.lend(data)
            self.rows.append(
                Delivery(
                    kind="run",
                    partition=WHERE,
                    target_topic=REMOTE.topic,
                    first_offset=self.reads_at,
                    next_offset=following,
                    records=0,
                    high_watermark=following,
                    max_timestamp=-1,
                    payload=memoryview(self.ring.leases[lease]),
                    lease=lease,
                )
            )
        self.reads_at = following

    @rule()
    def reader_obeys(self) -> None:
        if self.ring.orders:
            self.paused, self.reads_at = self.ring.orders.popleft()

    # The writer.

    @rule()
    def row_arrives(self) -> None:
        if self.rows:
            self.gate.take_run(self.rows.popleft())

    @rule()
    def batches_are_sent(self) -> None:
        for buffer in [*self.boxes(), *self.progress.buffers.values()]:
            while len(self.wire) < 20 and buffer.sendable and (buffer.is_resending or self.once.admits(buffer)):
                is_new = not buffer.is_resending
                batch = buffer.next_batch(*self.once.identity, True)
                assert batch is not None
                if is_new:
                    self.once.sent(buffer, batch)
                self.wire.append((buffer, batch, bytes(batch.data)))

    @rule(seconds=st.sampled_from([0.0, 0.3]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.once.poll(self.now)

    @rule(seconds=st.sampled_from([0.0, 0.3]), is_led=st.booleans())
    def all_goes_well(self, seconds: float, is_led: bool = True) -> None:
        """For a moment: chosen one by one, these steps seldom bring anything to the target before it aborts."""
        self.reader_obeys()
        if not self.paused:
            self.reader_fetches(3)
        self.row_arrives()
        self.batches_are_sent()
        if self.wire:
            self.target_answers(0, 20)
        self.time_passes(seconds)
        self.leaders_answer()
        if self.coordinator.busy:
            self.coordinator_acts(True, is_led)

    @rule()
    def partition_is_stuck(self) -> None:
        buffer = self.buffer
        if buffer.state is State.FLOWING and buffer.is_stuck(buffer.progressed_at + 3, 2):
            self.ring.order(buffer.slot, paused=True, offset=buffer.acknowledged)
            buffer.evict()

    @precondition(lambda self: self.buffer is not None)
    @rule()
    def retry_time_comes(self) -> None:
        for buffer in {id(one): one for one in (self.buffer, *self.boxes())}.values():
            if buffer.is_failed:
                self.isolation.wake_up(buffer, time.monotonic() + 1000)

    # The target.

    @precondition(lambda self: self.wire)
    @rule(error=st.sampled_from([0, 0, 0, 0, 6, 7, 19, 51]), how_many=st.integers(1, 5))
    def target_answers(self, error: int, how_many: int) -> None:
        """7 comes after the batch was written, 6 where its leader has changed meanwhile; 19 and 51 instead of that."""
        for _ in range(min(how_many, len(self.wire))):
            buffer, batch, data = self.wire.popleft()
            written = self.target.append(buffer.target, data) if error in (0, 6, 7) else 0
            self._react(buffer, batch, written or error)

    @precondition(lambda self: self.wire and not self.wire[0][0].is_ledger)
    @rule(written=st.booleans())
    def target_refuses(self, written: bool) -> None:
        """For good, or with an error that says nothing about what happened."""
        buffer, batch, data = self.wire.popleft()
        if written:
            self.target.append(buffer.target, data)
        self._react(buffer, batch, -1 if written else 10)

    @precondition(lambda self: self.wire)
    @rule(data=st.data())
    def connection_breaks(self, data: st.DataObject) -> None:
        served = data.draw(st.integers(0, len(self.wire)))
        late = data.draw(st.integers(served, len(self.wire)))
        for at, (buffer, _, request) in enumerate(self.wire):
            if at < served:
                self.target.append(buffer.target, request)
            elif at < late:
                self.ghosts.append((buffer.target, request))
        lost, self.wire = self.wire, deque()
        for buffer, batch, _ in lost:
            buffer.retry(batch, in_doubt=True)
            if buffer.is_failed:
                self.isolation.settle(buffer)

    @precondition(lambda self: self.ghosts)
    @rule()
    def old_request_is_served_late(self) -> None:
        self.target.append(*self.ghosts.popleft())

    @precondition(lambda self: not self.target.is_mending)
    @rule(is_led=st.booleans())
    def transaction_takes_too_long(self, is_led: bool) -> None:
        self._lose_leaders(is_led)
        self.target.abort(is_led=is_led)

    def _lose_leaders(self, is_led: bool) -> None:
        """Connections to a broker break before its partitions count as without a leader."""
        if not is_led:
            self.doubted.update(self.target.data)

    @rule(is_away=st.booleans())
    def leaders_answer(self, is_away: bool = False) -> None:
        if self.leaders.asked is not None:
            found = ((where, self.target.open_in(where)) for where in self.target.data)
            self.leaders.open = {where: one for where, one in found if one is not None}
            self.leaders.away = set(self.target.data) if is_away else set()
            self.once.take(self.leaders.answer())

    @precondition(lambda self: self.restarts and self.buffer is not None and not self.target.is_mending)
    @rule(is_led=st.booleans())
    def task_starts_again(self, is_led: bool) -> None:
        """What was sent may still arrive; a take-over aborts what is open."""
        self.ghosts += [(buffer.target, data) for buffer, _, data in self.wire]
        self.wire.clear()
        self.rows.clear()
        self._lose_leaders(is_led)
        self.target.abort(is_led=is_led)
        self.ring, self.coordinator, self.leaders, self.doubted = Ring(), Coordinator(), AskedLeaders(), set()
        self.reads_at, self.paused = self.target.position, False
        self.start()

    @precondition(lambda self: self.coordinator.question is not None)
    @rule(answered=st.booleans(), is_led=st.booleans())
    def coordinator_acts(self, answered: bool, is_led: bool) -> None:
        """Without an answer the same is asked again of the next coordinator."""
        question = self.coordinator.question
        self._lose_leaders(is_led)
        if isinstance(question, EndTransaction):
            answer = self.target.end(question.identity.epoch, commits=question.commits, is_led=is_led)
        elif isinstance(question, AddPartitions):
            answer = self.target.add(question.identity.epoch, question.partitions)
        else:
            assert isinstance(question, Initialize)
            self.target.abort(is_led=is_led)
            answer = Answer(0, ProducerIdentity(PRODUCER, self.target.epoch))
        if answered:
            self.coordinator.question = None
            self.coordinator.answers.append(answer)
            self.once.serve()

    # What the sender does with answers.

    def _react(self, buffer: PartitionBuffer, batch: Batch, error: int) -> None:
        outcome = judge(error, is_head=buffer.head is batch)
        if outcome is BatchOutcome.DONE:
            self._succeed(buffer, batch)
        elif outcome in (BatchOutcome.RETRY, BatchOutcome.MOVED):
            buffer.retry(batch, in_doubt=leaves_doubt(error))
        elif outcome is BatchOutcome.FENCED:
            self.once.fenced(buffer)
        elif outcome is BatchOutcome.RESTART:
            self.once.sequence_lost(buffer, "lost")
        else:
            is_known = not (batch.in_doubt or leaves_doubt(error))
            buffer.refuse(batch, in_doubt=False)
            if not is_known:
                self.once.refused_in_doubt(buffer)
            self._refused(buffer, batch)
        if buffer.is_failed:
            self.isolation.settle(buffer)

    def _refused(self, buffer: PartitionBuffer, batch: Batch) -> None:
        self.isolation.fail(buffer, "refused")

    def _succeed(self, buffer: PartitionBuffer, batch: Batch) -> None:
        buffer.succeed(batch)
        if not buffer.is_ledger:
            self.isolation.after_progress(buffer)

    # What must hold.

    @invariant()
    def what_is_committed_is_the_sources_beginning(self) -> None:
        assert self.committed() == self.source.records[: len(self.committed())]

    @invariant()
    def the_committed_position_is_where_it_ends(self) -> None:
        due = [offset for offset in self.source.records if offset < self.target.position]
        assert self.committed() == due

    def committed(self) -> list[int]:
        """The records that a consumer sees, or will."""
        return self.target.committed()

    def teardown(self) -> None:
        """Trouble ends, and everything arrives."""
        if self.buffer is None:
            return
        for _ in range(200 + 40 * len(self.source.batches)):
            self.retry_time_comes()
            self.all_goes_well(0.3)
        assert self.committed() == self.source.records, "everything arrives"
        assert self.target.position == self.source.end
        assert self.ring.leases == {}, "all memory is given back"


CopyingOnce.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestCopyingOnce = CopyingOnce.TestCase
