"""One partition of a source that is truncated and made again while its writer fails, against a model (invariant 1).

Around a real response reader, sequence gate and partition buffer stand two replicas that lead in turn, with what Kafka
answers a fetch that names its last epoch (KIP-320), and a target that refuses, is slow and comes back. Each record is
unlike all others, so that a record of one log in the place of another's is seen. In the end the target must show the
log as it is, no record comes where it lies already, and the gap ledger has each loss once, from where the target stood.
"""

from collections import deque
from dataclasses import dataclass, field
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sparkmirror.batch.records import decode_records, encode_batch
from sparkmirror.control.assignment import Assigned
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.wire.data_requests import FetchedPartition
from sparkmirror.kafka.wire.lookup import Span
from sparkmirror.ledger.gaps import Gap
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Connector, Position, TopicPartition
from sparkmirror.pipeline.fetch.loss import judge_out_of_range, judge_recreated, judge_unknown_epoch
from sparkmirror.pipeline.fetch.partitions import PartitionFetchState, Partitions
from sparkmirror.pipeline.fetch.responses import Answer, FetchResponseReader
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.produce.gate import SequenceGate
from sparkmirror.pipeline.produce.limits import TargetLimits
from sparkmirror.pipeline.produce.packing import AS_THEY_ARE
from sparkmirror.pipeline.produce.partition_state import State
from sparkmirror.pipeline.produce.progress import Progress, ProgressOptions
from sparkmirror.pipeline.produce.queued_records import Batch
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import Ring, RingAddress, SlotOrder
from sparkmirror.pipeline.relay.schema import FAULT, GAP

WHERE = TopicPartition("orders", 0)
OUT_OF_RANGE = 1


@dataclass(slots=True)
class Replica:
    """Records by offset, each with its leader epoch; where epochs begin, also those that wrote nothing."""

    records: list[tuple[int, int]] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)

    def copy(self) -> "Replica":
        return Replica(list(self.records), list(self.epochs))

    def end_of(self, epoch: int) -> tuple[int, int] | None:
        """As `LeaderEpochFileCache.endOffsetFor`: the last epoch that is not later, and where it ends."""
        if not self.epochs or epoch > self.epochs[-1][0]:
            return None
        later = [start for known, start in self.epochs if known > epoch]
        earlier = [known for known, _ in self.epochs if known <= epoch]
        return (earlier[-1] if earlier else epoch, later[0] if later else len(self.records))


class Peer:
    """The control page: orders wait until the reader looks."""

    def __init__(self) -> None:
        self.orders: deque[SlotOrder] = deque()

    def order(self, slot: int, *, paused: bool, offset: int, turns: int) -> None:
        self.orders.append(SlotOrder(slot, paused, offset, turns))

    def free_inline(self, size: int) -> None:
        """Nobody counts here."""


class Rewriting(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.names = 0
        self.epoch = 0
        self.topic_id = UUID(int=1)
        self.leader, self.follower = Replica(epochs=[(0, 0)]), Replica()
        self.ring = Ring(0)
        self.gaps: list[tuple[int, int]] = []
        self._begin(Assigned(WHERE, 0, (), self.topic_id))
        self.committed: dict[int, int] = {}
        self.seen: dict[int, int] = {}
        """The target's records by the source's offset, as a consumer that heeds the gaps has them."""
        self.stands_at = 0
        self.losses: list[tuple[int, int]] = []
        self.committed_losses = 0
        """From where to where the target went on elsewhere; how many of them are committed; `gaps` is the ledger's."""

    def _begin(self, assigned: Assigned) -> None:
        """An attempt of the task: its reader and its writer."""
        self.response_reader = FetchResponseReader(self.ring, lambda _: None)
        self.partitions = Partitions(1 << 20)
        self.fetch_state: PartitionFetchState = self.partitions.add(assigned, 1)
        self.rows: deque[Delivery] = deque()
        self.peer = Peer()
        plan = PlanRow(0, "run", 1, 1, 1, 0, RingAddress(1, 2, 3, 4, 5), 25, ((assigned, 5),))
        options = ProgressOptions(Connector.of_dedicated_mode("A"), ledger_topics("A"), 1.0)
        self.progress = Progress(options, 0, 25, in_transactions=True, lost=self._keep_gap)
        limits = TargetLimits(None, None)  # type: ignore[arg-type]
        metrics = TaskMetrics(plan)
        self.gate = SequenceGate(self.peer, self.progress, metrics, limits, AS_THEY_ARE, deque())  # type: ignore[arg-type]
        self.gate.take_plan(plan)
        self.buffer: PartitionBuffer = self.gate.buffers[WHERE]
        self.wire: deque[Batch] = deque()
        self.turns = 0
        self.closes = False

    def teardown(self) -> None:
        self.ring.close()

    # The source.

    @rule(count=st.integers(1, 3))
    def source_grows(self, count: int) -> None:
        for _ in range(count):
            self.names += 1
            self.leader.records.append((self.epoch, self.names))

    @rule()
    def follower_copies(self) -> None:
        self.follower = self.leader.copy()

    @rule()
    def follower_leads_without_what_it_lacks(self) -> None:
        self.leader, self.follower = self.follower, self.leader
        self.epoch += 1
        self.leader.epochs = [one for one in self.leader.epochs if one[1] < len(self.leader.records)]
        self.leader.epochs.append((self.epoch, len(self.leader.records)))

    @rule()
    def topic_is_made_anew(self) -> None:
        self.topic_id = UUID(int=self.topic_id.int + 1)
        self.epoch = 0
        self.leader, self.follower = Replica(epochs=[(0, 0)]), Replica()

    # The reader.

    @precondition(lambda self: self.topic_id != self.fetch_state.topic_id)
    @rule()
    def reader_looks_the_topic_up(self) -> None:
        """For any partition of the topic: also while this one is paused."""
        fetch_state = self.fetch_state
        self.response_reader.lose(fetch_state, judge_recreated(fetch_state.offset, fetch_state.lineage, self.topic_id))
        self._give_rows()

    @precondition(lambda self: not self.fetch_state.paused and self.topic_id == self.fetch_state.topic_id)
    @rule(count=st.integers(1, 4))
    def reader_fetches(self, count: int) -> None:
        fetch_state, log = self.fetch_state, self.leader
        fetched, data = self._answer(count)
        if fetched.error:
            span = Span(0, len(log.records))
            judged = judge_out_of_range(fetch_state.offset, fetch_state.lineage, span)
            judged = judged or judge_unknown_epoch(fetch_state.offset, fetch_state.lineage, span)
            if judged is not None:
                self.response_reader.lose(fetch_state, judged)
        else:
            self.response_reader._take_partition(fetch_state, fetched, Answer(memoryview(data), None, [], 0))
        self._give_rows()

    def _answer(self, count: int) -> tuple[FetchedPartition, bytes]:
        """What a broker makes of a fetch: epochs first, the offset then."""
        log, offset, epoch = self.leader, self.fetch_state.offset, self.fetch_state.leader_epoch
        error, diverging, data = 0, (-1, -1), b""
        if epoch >= 0:
            found = log.end_of(epoch)
            if found is None:
                error = OUT_OF_RANGE
            elif found[0] < epoch or found[1] < offset:
                diverging = found
        if not error and diverging[0] < 0:
            error = OUT_OF_RANGE * (offset > len(log.records))
            data = b"".join(_batch(at, *log.records[at]) for at in range(offset, len(log.records))[:count])
        end = len(log.records)
        return FetchedPartition(self.topic_id.bytes, 0, error, end, end, 0, -1, 0, len(data), (), *diverging), data

    @precondition(lambda self: self.peer.orders)
    @rule()
    def reader_obeys(self) -> None:
        order = self.peer.orders.popleft()
        self.fetch_state.held_by_writer = order.paused
        if order.paused:
            self.fetch_state.offset = order.offset
        else:
            self.response_reader.seek(self.fetch_state, order.offset, order.turns)
        self._give_rows()

    def _give_rows(self) -> None:
        for row in self.response_reader.take_rows():
            payload = memoryview(bytearray(row.payload or b""))
            span = (row.first_offset or 0, row.next_offset or 0, row.records, row.high_watermark, row.max_timestamp)
            self.rows.append(
                Delivery(row.kind, WHERE, "A.orders", *span, payload, None, 0, row.leader_epoch, row.turns)
            )

    # The writer.

    @precondition(lambda self: self.rows)
    @rule()
    def row_arrives(self) -> None:
        row = self.rows.popleft()
        if row.kind == GAP:
            self.gate.take_gap(row)
        elif row.kind == FAULT:
            self.gate.take_fault(row)
        else:
            try:
                self.gate.take_run(row)
            except SparkMirrorError:
                self._attempt_ends()

    def _attempt_ends(self) -> None:
        """The next one begins where the ledger stands; what was not committed is aborted."""
        self.transaction_is_aborted()
        offset, lineage = self.buffer.committed
        assert lineage.topic_id is not None
        self._begin(Assigned(WHERE, offset, lineage.epochs, lineage.topic_id))

    @precondition(lambda self: self.buffer.sendable and not self.closes)
    @rule()
    def batch_is_sent(self) -> None:
        batch = self.buffer.next_batch(1, 0)
        assert batch is not None
        self.wire.append(batch)

    @precondition(lambda self: self.wire)
    @rule()
    def target_takes(self) -> None:
        batch = self.wire.popleft()
        (record,) = decode_records(batch.data)
        (span,) = batch.spans
        name = int(record.value or b"")
        assert self.seen.get(span.first_offset) != name, "it lies there already"
        self.seen[span.first_offset] = name
        self.buffer.succeed(batch)
        if self.buffer.state in (State.REWINDING, State.DRAINING) and self.buffer.idle:
            if self.buffer.state is State.DRAINING:
                self.buffer.finish_draining()
            self.buffer.fall_back()
            self._order(paused=False)
        self._settle_failed()

    @precondition(lambda self: self.wire and not self.buffer.is_failed)
    @rule()
    def target_refuses(self) -> None:
        """The first under way; those behind it come back and wait for it."""
        self.buffer.fail("refused")
        self._order(paused=True)
        while self.wire:
            self.buffer.refuse(self.wire.popleft(), in_doubt=False)
        self._settle_failed()

    @precondition(lambda self: self.buffer.state is State.FLOWING and not self.buffer.idle)
    @rule()
    def target_is_slow(self) -> None:
        self._order(paused=True)
        self.buffer.evict()

    @precondition(lambda self: self.buffer.state is State.FAILED and self.buffer.retry_at)
    @rule()
    def retry_time_comes(self) -> None:
        self.buffer.resume()
        self._order(paused=False)

    @rule()
    def transaction_closes(self) -> None:
        """No data goes out any more; positions and gaps do."""
        self.closes = True
        for ledger in self.progress.compose([self.buffer], 1, None):
            while ledger.sendable and (batch := ledger.next_batch(1, 0)) is not None:
                ledger.succeed(batch)

    @precondition(lambda self: self.closes and self.buffer.quiet)
    @rule()
    def transaction_is_committed(self) -> None:
        if self.progress.is_untrue([self.buffer]):
            self.transaction_closes()
        self.progress.commit()
        self.buffer.commit()
        self.committed, self.committed_losses = dict(self.seen), len(self.losses)
        self.closes = False

    @rule()
    def transaction_is_aborted(self) -> None:
        """As `Isolation.roll_back`: nothing since the last commit has happened, and no answer is awaited."""
        buffer = self.buffer
        self.wire.clear()
        self.seen, self.turns = dict(self.committed), buffer.committed.lineage.turns
        self.stands_at, self.closes = buffer.committed.offset, False
        del self.losses[self.committed_losses :]
        self.progress.roll_back()
        lost = buffer.roll_back()
        if lost:
            self._order(paused=buffer.is_failed)
        self._settle_failed()

    def _keep_gap(self, gap: Gap) -> None:
        self.gaps.append((gap.expected, gap.resumed))

    def _settle_failed(self) -> None:
        if self.buffer.state is State.FAILING and self.buffer.quiet:
            self.buffer.rewind()
            self.buffer.settle(1.0)

    def _order(self, *, paused: bool) -> None:
        place = self.buffer.place
        self.peer.order(5, paused=paused, offset=place.offset, turns=place.lineage.turns)

    # What must hold.

    @invariant()
    def what_was_cut_off_is_seen_no_more(self) -> None:
        offset, lineage = self.buffer.place
        if lineage.turns != self.turns:
            self.turns = lineage.turns
            self.losses.append((max([self.stands_at, *(at + 1 for at in self.seen)]), offset))
            self.seen = {at: name for at, name in self.seen.items() if at < offset}
        self.stands_at = offset

    @rule()
    def all_comes_to_rest(self) -> None:
        """With a target that takes what comes: then it shows the log as it is, each record once."""
        for _ in range(1000):
            if not self._takes_a_step():
                break
        else:
            raise AssertionError("no rest")
        log = self.leader
        assert self.buffer.place.position == Position(len(log.records), self.fetch_state.lineage.epochs, self.topic_id)
        assert self.seen == {at: name for at, (_, name) in enumerate(log.records)}
        for _ in range(2):  # what was found while the one before was being committed
            self.transaction_closes()
            self.transaction_is_committed()
        assert _joined(self.gaps) == _joined(self.losses)

    def _takes_a_step(self) -> bool:
        self.what_was_cut_off_is_seen_no_more()
        buffer, fetch_state = self.buffer, self.fetch_state
        if self.topic_id != fetch_state.topic_id:
            self.reader_looks_the_topic_up()
        elif buffer.state is State.FAILED and buffer.retry_at:
            self.retry_time_comes()
        elif self.peer.orders:
            self.reader_obeys()
        elif self.rows:
            self.row_arrives()
        elif buffer.sendable:
            self.batch_is_sent()
        elif self.wire:
            self.target_takes()
        elif not fetch_state.paused:
            before = fetch_state.offset, fetch_state.lineage
            self.reader_fetches(4)
            return bool(self.rows) or before != (fetch_state.offset, fetch_state.lineage)
        else:
            return False
        return True


def _joined(losses: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What followed without a record between is one; what led nowhere else is none."""
    found: list[tuple[int, int]] = []
    for left_at, resumed in losses:
        if found and found[-1][1] == left_at:
            found[-1] = (found[-1][0], resumed)
        else:
            found.append((left_at, resumed))
    return [one for one in found if one[0] != one[1]]


def _batch(at: int, epoch: int, name: int) -> bytes:
    data = bytearray(encode_batch([(None, b"%d" % name)], base_offset=at))
    data[12:16] = epoch.to_bytes(4, "big")
    return bytes(data)


TestRewriting = Rewriting.TestCase
TestRewriting.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
