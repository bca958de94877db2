"""One partition copied through everything that goes wrong, against a model (invariants 1, 2, 3 and 6).

Around a real sequence gate and partition buffer stand a reader that obeys orders late, a target that keeps Kafka's
rules for idempotent producers (KIP-98), and the sender's reactions to its answers. At every step the target's log must
be the source's, each record once and in order; in the end everything must have arrived, and every byte of memory been
given back once.
"""

from collections import deque
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sparkmirror.batch.header import ATTRIBUTES_AT, parse_header
from sparkmirror.batch.records import decode_records, encode_batch
from sparkmirror.control.assignment import Assigned
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.answers import BatchOutcome, judge, leaves_doubt
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.produce.gate import SequenceGate
from sparkmirror.pipeline.produce.limits import TargetLimits
from sparkmirror.pipeline.produce.packing import AS_THEY_ARE
from sparkmirror.pipeline.produce.partition_state import State
from sparkmirror.pipeline.produce.queued_records import Batch
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingAddress

WHERE = TopicPartition("orders", 3)
PRODUCER = (1000, 7)
SEQUENCES = 1 << 31


GAP = b'{"cause": "retention", "id": "00000000-0000-0000-0000-000000000000", "epochs": [], "from": 0}'


class Target:
    """One partition of a broker: takes the next sequence, answers for the last five batches again, refuses gaps."""

    def __init__(self, next_sequence: int) -> None:
        self.log: list[int] = []
        self._next = next_sequence
        self._last: deque[tuple[int, int]] = deque(maxlen=5)

    def append(self, data: bytes) -> int:
        header = parse_header(data, 0)
        assert (header.producer_id, header.producer_epoch, header.base_offset) == (*PRODUCER, 0)
        batch = (header.base_sequence, header.records_count)
        if batch in self._last:
            return 0
        if header.base_sequence != self._next:
            return 45
        self._next = (self._next + header.records_count) % SEQUENCES
        self._last.append(batch)
        self.log += [int(record.value or b"") for record in decode_records(data)]
        return 0


class Source:
    """A growing log of batches: data, of which each record's value is its offset, and transaction markers."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, bytes]] = []
        self.records: list[int] = []
        self.gaps: dict[int, int] = {}
        self.end = 0

    def grow(self, sizes: list[int]) -> None:
        for size in sizes:
            first, self.end = self.end, self.end + max(size, 1)
            data = bytearray(encode_batch([(None, b"%d" % at) for at in range(first, self.end)], base_offset=first))
            if size:
                self.records += range(first, self.end)
            else:
                data[ATTRIBUTES_AT + 1] |= 0x20
            self.batches.append((first, self.end, bytes(data)))

    def read(self, offset: int, count: int) -> tuple[bytes, int]:
        """Up to `count` whole batches without a gap, from the one that holds `offset` on, and the offset after them."""
        data = b""
        following = offset
        for first, after, batch in self.batches:
            if count and first <= following < after and following not in self.gaps:
                data, following, count = data + batch, after, count - 1
        return data, following

    def lose(self, first: int, resume: int) -> None:
        self.gaps[first] = resume
        self.records = [offset for offset in self.records if not first <= offset < resume]
        self.batches = [batch for batch in self.batches if batch[1] <= first or batch[1] > resume]


class Ring:
    """Stands for the reader's memory: what is given back is overwritten at once, and may not be given back again."""

    def __init__(self) -> None:
        self.leases: dict[int, bytearray] = {}
        self.orders: deque[tuple[bool, int]] = deque()
        self.lent = 0

    def lend(self, data: bytes) -> int:
        self.lent += 1
        self.leases[self.lent] = bytearray(data)
        return self.lent

    def give_back(self, lease: int) -> None:
        memory = self.leases.pop(lease)
        memory[:] = b"\xee" * len(memory)

    def order(self, slot: int, *, paused: bool, offset: int, turns: int = 0) -> None:
        assert slot == 5
        self.orders.append((paused, offset))


class NoProgress:
    def __init__(self) -> None:
        self.moved: dict[TopicPartition, None] = {}
        self.gaps = self

    def adopt(self, *_: Any) -> None:
        """Positions are not this test's subject."""

    def turn(self, *_: Any) -> None:
        """As above."""

    def release(self, *_: Any) -> None:
        """As above."""

    def add(self, *_: Any) -> None:
        """As above."""


class Copying(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.source = Source()
        self.ring = Ring()
        self.rows: deque[Delivery] = deque()
        self.wire: deque[tuple[Batch, bytes]] = deque()
        self.ghosts: deque[bytes] = deque()
        self.reads_at = self.has_read_to = 0
        self.paused = False
        self.gate: Any = None
        self.buffer: Any = None
        self.target: Any = None

    @initialize(start=st.integers(0, 2), first_sequence=st.sampled_from([0, SEQUENCES - 4]))
    def begin(self, start: int, first_sequence: int) -> None:
        self.source.grow([3, 2])
        plan = PlanRow(0, "run", 1, 1, *PRODUCER, RingAddress(1, 2, 3, 4, 5), 25, ((Assigned(WHERE, start), 5),))
        limits = TargetLimits(None, None)  # type: ignore[arg-type]
        metrics = TaskMetrics(plan)
        self.gate = SequenceGate(self.ring, NoProgress(), metrics, limits, AS_THEY_ARE, deque())  # type: ignore[arg-type]
        self.gate.take_plan(plan)
        self.buffer = self.gate.buffers[WHERE]
        self.buffer._in_flight.identity, self.buffer._in_flight._sequence = PRODUCER, first_sequence
        self.target = Target(first_sequence)
        self.reads_at = self.has_read_to = start
        self.source.records = [offset for offset in self.source.records if offset >= start]

    # The source and its reader.

    @rule(sizes=st.lists(st.integers(0, 3), min_size=1, max_size=4))
    def source_grows(self, sizes: list[int]) -> None:
        self.source.grow(sizes)

    @precondition(lambda self: not self.paused)
    @rule(count=st.integers(1, 4))
    def reader_fetches(self, count: int) -> None:
        data, following = self.source.read(self.reads_at, count)
        if data:
            self.rows.append(self._row("run", self.reads_at, following, data))
        elif self.reads_at in self.source.gaps:
            following = self.source.gaps[self.reads_at]
            self.rows.append(self._row("gap", self.reads_at, following, GAP))
        self.reads_at = following
        self.has_read_to = max(self.has_read_to, following)

    @precondition(lambda self: self.has_read_to < self.source.end and self.has_read_to not in self.source.gaps)
    @rule(data=st.data())
    def retention_overtakes_the_reader(self, data: st.DataObject) -> None:
        """Of what nobody has read yet; what was read is still there to be read again."""
        self.source.lose(self.has_read_to, data.draw(st.integers(self.has_read_to + 1, self.source.end)))

    @rule()
    def reader_obeys(self) -> None:
        if self.ring.orders:
            self.paused, self.reads_at = self.ring.orders.popleft()

    def _row(self, kind: str, first: int, following: int, data: bytes) -> Delivery:
        lease = self.ring.lend(data) if kind == "run" else None
        payload = memoryview(self.ring.leases[lease]) if lease else memoryview(data)
        return Delivery(
            kind=kind,
            partition=WHERE,
            target_topic="A.orders",
            first_offset=first,
            next_offset=following,
            records=0,
            high_watermark=following,
            max_timestamp=-1,
            payload=payload,
            lease=lease,
        )

    # The writer.

    @rule()
    def row_arrives(self) -> None:
        if self.rows:
            row = self.rows.popleft()
            if row.kind == "gap":
                self.gate.take_gap(row)
            else:
                self.gate.take_run(row)

    @rule()
    def batch_is_sent(self) -> None:
        if self.buffer.sendable:
            batch = self.buffer.next_batch(*PRODUCER)
            assert batch is not None, "what is sendable has something to send"
            self.wire.append((batch, bytes(batch.data)))

    @rule()
    def time_passes_without_an_answer(self) -> None:
        buffer = self.buffer
        if buffer.state is State.FLOWING and buffer.is_stuck(buffer.progressed_at + 3, 2):
            self.ring.order(buffer.slot, paused=True, offset=buffer.acknowledged)
            buffer.evict()

    @precondition(lambda self: self.buffer.is_failed)
    @rule()
    def retry_time_comes(self) -> None:
        if self.buffer.retry_at:
            self.buffer.resume()
            if self.buffer.idle:  # kept batches go out first
                self.ring.order(self.buffer.slot, paused=False, offset=self.buffer.acknowledged)

    # The target.

    @precondition(lambda self: self.wire)
    @rule(error=st.sampled_from([0, 0, 0, 0, 7, 19, 20, 6]), is_moved=st.booleans())
    def target_answers(self, error: int, is_moved: bool) -> None:
        """7 and 20 come after the batch was written: its outcome is not known. 19 comes instead of that, 6 instead or,
        where the leader has changed meanwhile, after it."""
        batch, data = self.wire.popleft()
        if error in (0, 7, 20) or (error == 6 and is_moved):
            written = self.target.append(data)
            error = written or error
        self._react(batch, error)

    @precondition(lambda self: self.wire)
    @rule()
    def target_refuses(self) -> None:
        batch, _ = self.wire.popleft()
        self._react(batch, 10)

    @precondition(lambda self: self.wire)
    @rule(data=st.data())
    def connection_breaks(self, data: st.DataObject) -> None:
        """Some requests were served without an answer, some may still be when the next connection is open."""
        sent = [data for _, data in self.wire]
        served = data.draw(st.integers(0, len(sent)))
        for request in sent[:served]:
            self.target.append(request)
        self.ghosts += sent[served : data.draw(st.integers(served, len(sent)))]
        lost, self.wire = self.wire, deque()
        for batch, _ in lost:
            self.buffer.retry(batch, in_doubt=True)
            if self.buffer.is_failed:
                self._settle_failed()

    @precondition(lambda self: self.ghosts)
    @rule()
    def old_request_is_served_late(self) -> None:
        self.target.append(self.ghosts.popleft())

    # What the sender does with answers.

    def _react(self, batch: Batch, error: int) -> None:
        buffer = self.buffer
        outcome = judge(error, is_head=buffer.head is batch)
        if outcome is BatchOutcome.DONE:
            buffer.succeed(batch)
            if buffer.state in (State.REWINDING, State.DRAINING) and buffer.idle:
                if buffer.state is State.DRAINING:
                    buffer.finish_draining()
                buffer.fall_back()
                self.ring.order(buffer.slot, paused=False, offset=buffer.position)
        elif outcome in (BatchOutcome.RETRY, BatchOutcome.MOVED):
            buffer.retry(batch, in_doubt=leaves_doubt(error))
        else:
            assert outcome is BatchOutcome.FAILED, f"error {error} would restart the task"
            buffer.refuse(batch, in_doubt=False)
            if not buffer.is_failed:
                buffer.fail("refused")
                self.ring.order(buffer.slot, paused=True, offset=buffer.acknowledged)
        if buffer.is_failed:
            self._settle_failed()

    def _settle_failed(self) -> None:
        if self.buffer.quiet and self.buffer.state is State.FAILING:
            if self.buffer.is_in_doubt:
                self.buffer.keep_sent()
            else:
                self.buffer.rewind()
            self.buffer.settle(1.0)

    # What must hold.

    @invariant()
    def target_holds_the_source_in_order_and_once(self) -> None:
        assert self.target is None or self.target.log == self.source.records[: len(self.target.log)]

    @invariant()
    def acknowledged_is_never_ahead_of_the_target(self) -> None:
        if self.target is not None:
            due = {offset for offset in self.source.records if offset < self.buffer.acknowledged}
            assert due <= set(self.target.log)

    @invariant()
    def no_more_than_five_batches_are_under_way(self) -> None:
        assert len(self.wire) <= 5

    @invariant()
    def only_memory_in_use_is_held(self) -> None:
        """A partition at rest holds nothing of the reader's memory; rows on their way do."""
        if self.buffer is not None and self.buffer.idle:
            assert len(self.ring.leases) == sum(row.lease is not None for row in self.rows)

    def teardown(self) -> None:
        """Trouble ends, and everything arrives."""
        if self.target is None:
            return
        for _ in range(100 + 20 * len(self.source.batches)):
            self.reader_obeys()
            if not self.paused:
                self.reader_fetches(3)
            self.row_arrives()
            if self.buffer.is_failed:
                self.retry_time_comes()
            self.batch_is_sent()
            if self.wire:
                batch, request = self.wire.popleft()
                self._react(batch, self.target.append(request))
        assert self.target.log == self.source.records, "everything arrives"
        assert self.buffer.acknowledged == self.source.end
        assert self.ring.leases == {}, "all memory is given back"


Copying.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestCopying = Copying.TestCase
