"""Progress of a source partition waits for every target partition that its records went to."""

import gc
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.pipeline.produce.applied_effects import AtOnce
from tests.unit.pipeline.produce.known_producer import known

from sparkmirror.batch.piece import Piece, Span
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Connector, TopicPartition
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.delivery import Bundle, Delivery
from sparkmirror.pipeline.produce.drain import Drain
from sparkmirror.pipeline.produce.effects import Abort, Advance, BackOff, Effect, Fail, Hold, Offer, Settle
from sparkmirror.pipeline.produce.gate import SequenceGate
from sparkmirror.pipeline.produce.limits import TargetLimits
from sparkmirror.pipeline.produce.packing import AS_THEY_ARE
from sparkmirror.pipeline.produce.partition_state import State
from sparkmirror.pipeline.produce.progress import Progress, ProgressOptions
from sparkmirror.pipeline.produce.queued_records import Batch
from sparkmirror.pipeline.produce.range_admission import UNREACHED_SECONDS_MAX, RangeAdmission
from sparkmirror.pipeline.produce.routing import Routing, Ticket
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingAddress

SOURCE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
HOME = TopicPartition("A.orders", 0)
AUDIT = TopicPartition("audit", 3)


class Peer:
    """Counts what the reader gets back."""

    def __init__(self) -> None:
        self.freed_bytes = 0
        self.orders: list[int] = []

    def free_inline(self, size: int) -> None:
        self.freed_bytes += size

    def order(self, slot: int, *, paused: bool, offset: int, turns: int) -> None:
        assert slot == 0 and not paused
        self.orders.append(offset)


@dataclass
class Transaction:
    """A guarantee, at least once unless it is made `transactional`. It is its own clock."""

    transactional: bool = False
    takes_data: bool = True
    unknown: set[TopicPartition] = field(default_factory=set)
    away: set[TopicPartition] = field(default_factory=set)
    contents: list[tuple[TopicPartition, ...]] = field(default_factory=list)
    now: float = 100.0

    def monotonic(self) -> float:
        return self.now

    def reaches(self, lane: PartitionBuffer) -> bool:
        return lane.target not in self.away

    def takes_in(self, lanes: Collection[PartitionBuffer]) -> bool:
        return not any(lane.target in self.unknown for lane in lanes)

    def took_in(self, source: PartitionBuffer, lanes: Collection[PartitionBuffer], size_bytes: int) -> None:
        assert source.source.topic == SOURCE.topic and size_bytes > 0
        self.contents.append(tuple(lane.target for lane in lanes))


class Story:
    """One source partition at offset 0, and a broker that answers when it is told to."""

    def __init__(self) -> None:
        self.task_metrics, self.peer = (
            TaskMetrics(PlanRow(0, "run", 1, 1, 7, 3, RingAddress(0, 0, 0, 0, 0), 25, ())),
            Peer(),
        )
        progress = Progress(ProgressOptions(Connector.of_dedicated_mode("A"), ledger_topics("A"), 1.0), 0, 25)
        peer: Any = self.peer
        nowhere: Any = None
        self.limits = TargetLimits(nowhere, nowhere)
        gate = SequenceGate(peer, progress, self.task_metrics, self.limits, AS_THEY_ARE, deque())
        self.gate = gate
        self.source = gate.buffers[SOURCE] = PartitionBuffer(SOURCE, None, 0, 0)
        self.other = gate.buffers[OTHER] = PartitionBuffer(OTHER, None, 0, 0)
        self.failed: list[str] = []
        self.aborted: list[str] = []
        self.offered: list[TopicPartition] = []
        self.mapped: list[tuple[Span, ...]] = []
        self.apart: list[tuple[Span, ...]] = []
        """Those that were mapped as what may lie behind records of others."""
        self.landed: list[tuple[int, str]] = []
        self.is_lost = False
        self.waking: list[PartitionBuffer] = []
        self.transaction = Transaction()
        clock: Any = self.transaction
        admission = RangeAdmission(self.transaction, progress, Drain(clock), self.transaction.reaches, clock)  # type: ignore[arg-type]
        self.routing = Routing(gate, self.task_metrics, self, admission, AtOnce(self), clock)  # type: ignore[arg-type]

    def _fail(self, buffer: PartitionBuffer, reason: str) -> None:
        assert not buffer.is_lane
        self.failed.append(reason)
        buffer.fail(reason)
        if buffer.quiet:
            buffer.rewind()

    def _close(self, buffer: PartitionBuffer, mapped: list[Batch]) -> None:
        self.mapped += [batch.spans for batch in mapped]

    def apply(self, effect: Effect) -> None:
        match effect:
            case Fail(buffer, reason) | Hold(buffer, reason):
                self._fail(buffer, reason)
            case Advance():
                buffer, mapped, *is_alone = effect
                self._close(buffer, mapped)
                self.apart += [batch.spans for batch in mapped if is_alone == [False]]
            case Abort(reason, awaits_answers):
                assert awaits_answers
                self.aborted.append(reason)
            case BackOff(lane, _):
                self.waking.append(lane)
            case Offer(lane):
                self.offered.append(lane.target)
            case Settle(buffer):
                if buffer.is_failed and buffer.quiet:
                    buffer.rewind()
            case _:
                raise AssertionError(effect)

    def add(self, buffer: PartitionBuffer, landed: list[Batch], topic: str) -> str:
        """As the log check."""
        assert buffer is self.source
        self.landed += [(batch.base_offset, topic) for batch in landed]
        return "gone" if self.is_lost else ""

    def pass_on(self) -> list[TopicPartition]:
        """Pass on what may go; returns the lanes that have something to send."""
        self.offered.clear()
        self.routing.pass_on()
        return self.offered

    def bring(
        self,
        first: int,
        following: int,
        *targets: TopicPartition,
        problem: str = "",
        source: TopicPartition = SOURCE,
        pieces: tuple[tuple[TopicPartition, Piece], ...] = (),
        is_mapped: bool = True,
    ) -> list[PartitionBuffer]:
        """A range of 100 bytes, with one record for each of `targets`."""
        delivery = Delivery(
            "run", source, HOME.topic, first, following, following - first, following, 0, memoryview(b""), None,
            leader_epoch=7,
        )  # fmt: skip
        pieces = pieces or tuple((target, piece_of(first + at)) for at, target in enumerate(targets))
        return self.routing.take(Bundle(delivery, 100, pieces, problem, extra_bytes=3, is_mapped=is_mapped))

    def send(self, target: TopicPartition) -> Batch:
        lane = self.routing.lanes[target]
        if lane.quiet:
            known(lane, 1, 0)
        batch = lane.next_batch(1, 0)
        assert batch is not None
        return batch

    def answer(self, target: TopicPartition, batch: Batch) -> None:
        lane = self.routing.lanes[target]
        self.routing.acknowledge(lane, lane.succeed(batch, 50))


def piece_of(offset: int) -> Piece:
    return Piece(bytearray(encode_batch([Record(0, 0, None, b"v")])), (Span(offset, 1),), 1)


def test_the_position_moves_when_the_last_target_has_answered() -> None:
    story = Story()
    lanes = story.bring(0, 5, HOME, AUDIT)
    assert [lane.target for lane in lanes] == [HOME, AUDIT]
    home, audit = story.send(HOME), story.send(AUDIT)
    story.answer(HOME, home)
    assert (story.source.acknowledged, story.peer.freed_bytes) == (0, 0)
    story.answer(AUDIT, audit)
    assert (story.source.acknowledged, story.peer.freed_bytes, story.source.lineage.leader_epoch) == (5, 100, 7)
    assert story.source.idle


def test_a_batch_beyond_the_topic_s_limit_is_split_and_the_range_waits_for_all_of_it() -> None:
    """Also with a record that alone is too large: those before it go out, and it is refused by itself."""
    story = Story()
    sizes = [300, 10, 300, 300, 5000, 10]
    records = [Record(0, 0, None, bytes(size)) for size in sizes]
    spans = (Span(0, 2), Span(2, 1, 1), Span(4, 2))
    both = (
        (HOME, Piece(bytearray(encode_batch(records)), spans, len(records))),
        (AUDIT, Piece(bytearray(encode_batch(records[4:5])), (Span(4, 1),), 1)),
        (HOME, piece_of(6)),
    )
    story.bring(0, 7, pieces=both)
    lane = story.routing.lanes[HOME]
    story.answer(AUDIT, story.send(AUDIT))
    first = story.send(HOME)
    story.routing.name_records(first)
    lane.await_limits(first)
    assert not lane.sendable, "nobody knows yet how large it may be"
    story.limits.of(HOME.topic).max_message_bytes = 800
    lane.know_limits()
    sent = []
    while not lane.idle:
        assert not story.source.acknowledged
        sent.append(story.send(HOME))
        story.answer(HOME, sent[-1])
    values = [[len(one.value or b"") for one in decode_records(bytes(batch.data))] for batch in sent]
    assert values == [[300, 10, 300], [300], [5000], [10], [1]]
    assert [batch.sequence for batch in sent[:4]] == [0, 3, 4, 5]
    assert all(batch.refusals for batch in sent[:4]), "what is refused again fails"
    assert (story.source.acknowledged, story.peer.freed_bytes, lane.acknowledged) == (7, 100, 7)
    assert story.gate.freed_extra_bytes == 3
    assert story.mapped == [(Span(0, 2), Span(2, 1)), (Span(3, 0, 1),), (Span(4, 1),), (Span(5, 1),), (Span(6, 1),)]


def test_nothing_of_a_range_that_has_arrived_waits_for_the_garbage_collector() -> None:
    """Fifty thousand objects together stood still for 40 ms every two seconds, and kept their batches until then."""
    story = Story()
    gc.collect()
    gc.disable()
    try:
        for at in range(5):
            story.bring(at, at + 1, HOME)
            story.answer(HOME, story.send(HOME))
        assert story.source.idle
        assert not [one for one in gc.get_objects() if isinstance(one, Ticket)]
    finally:
        gc.enable()


def test_a_range_that_was_dropped_as_a_whole_moves_the_position_behind_those_before_it() -> None:
    story = Story()
    story.bring(0, 5, AUDIT)
    assert story.bring(5, 9) == []
    assert story.source.acknowledged == 0
    story.answer(AUDIT, story.send(AUDIT))
    assert story.source.acknowledged == 9


def test_later_ranges_wait_for_earlier_ones() -> None:
    story = Story()
    story.bring(0, 5, AUDIT)
    story.bring(5, 6, HOME)
    story.answer(HOME, story.send(HOME))
    assert story.source.acknowledged == 0
    story.answer(AUDIT, story.send(AUDIT))
    assert story.source.acknowledged == 6


def test_only_records_of_the_mirrored_partition_are_mapped_in_their_order() -> None:
    story = Story()
    story.bring(0, 3, HOME, AUDIT, HOME)
    first, second = story.send(HOME), story.send(HOME)
    story.answer(HOME, first)
    story.answer(HOME, second)
    assert story.mapped == []
    story.answer(AUDIT, story.send(AUDIT))
    assert story.mapped == [(Span(0, 1),), (Span(2, 1),)]


def test_where_a_step_sets_the_partition_nothing_is_mapped_and_the_position_moves() -> None:
    """The partition that has the source's number may have records of others before those of its own."""
    story = Story()
    story.bring(0, 1, HOME, is_mapped=False)
    story.answer(HOME, story.send(HOME))
    assert (story.source.acknowledged, story.mapped) == (1, [])


def test_where_records_of_another_source_go_no_place_behind_them_is_mapped(caplog: pytest.LogCaptureFixture) -> None:
    """A group that has read the mirrored topic would pass over those of the other."""
    story = Story()
    story.bring(0, 1, HOME)
    story.bring(0, 1, AUDIT, source=OTHER)
    story.answer(HOME, story.send(HOME))
    story.answer(AUDIT, story.send(AUDIT))
    story.bring(1, 2, HOME, source=OTHER)
    for first in (1, 2):
        story.bring(first, first + 1, HOME)
    while not story.routing.lanes[HOME].idle:
        story.answer(HOME, story.send(HOME))
    assert (story.mapped, story.apart) == (
        [(Span(0, 1),), (Span(1, 1),), (Span(2, 1),)],
        [(Span(1, 1),), (Span(2, 1),)],
    )
    assert [line for line in caplog.messages if "A.orders-0 has records of other partitions" in line] == caplog.messages
    assert len(caplog.messages) == 1 and story.source.acknowledged == 3


def test_only_records_of_the_mirrored_partition_say_how_far_its_log_reaches_and_a_loss_holds_the_source() -> None:
    story = Story()
    story.bring(0, 5, HOME, AUDIT)
    story.bring(5, 6, HOME)
    story.answer(HOME, story.send(HOME))
    audit, home = story.send(AUDIT), story.send(HOME)
    assert story.landed == [(50, HOME.topic)]
    story.is_lost = True
    story.answer(HOME, home)
    assert story.landed == [(50, HOME.topic)] * 2
    assert story.failed == ["gone"]
    story.answer(AUDIT, audit)
    assert (story.source.acknowledged, story.mapped) == (0, []), "what was on its way is read again"


def test_duplicates_are_dropped_and_their_bytes_given_back() -> None:
    story = Story()
    story.bring(0, 5)
    assert story.bring(0, 5, HOME) == []
    assert (story.task_metrics.duplicates, story.peer.freed_bytes) == (5, 200)
    assert story.gate.freed_extra_bytes == 6


def test_a_range_that_cannot_be_the_next_is_ordered_again_from_the_position() -> None:
    for first, following in ((7, 9), (3, 9)):
        story = Story()
        story.bring(0, 5)
        assert story.bring(first, following, HOME) == []
        assert (story.peer.orders, story.source.state) == ([5], State.REWINDING)
        story.bring(5, 9)
        assert (story.source.acknowledged, story.source.state) == (9, State.FLOWING)


def test_what_a_refusing_target_gives_up_fails_its_sources_once() -> None:
    story = Story()
    story.bring(0, 5, AUDIT)
    story.bring(5, 6, AUDIT)
    home_waits = story.bring(6, 8, HOME)
    assert home_waits
    lane = story.routing.lanes[AUDIT]
    lane.refuse(story.send(AUDIT), in_doubt=False)
    lane.fail("record too large")
    lane.rewind()
    assert story.failed == ["its records for audit-3 are refused: record too large"]
    assert (story.source.position, story.source.acknowledged) == (0, 0)
    story.answer(HOME, story.send(HOME))
    assert story.source.acknowledged == 0, "what was on its way is read again"


def test_a_range_that_cannot_be_routed_fails_its_source() -> None:
    story = Story()
    assert story.bring(0, 5, problem="no topic") == []
    assert (story.failed, story.source.acknowledged, story.peer.freed_bytes) == (["no topic"], 0, 100)


def test_a_lane_is_distinguished_from_a_source_of_the_same_name() -> None:
    story = Story()
    story.bring(0, 5, SOURCE)
    lane = story.routing.lanes[SOURCE]
    assert lane.is_lane and lane.source != SOURCE
    other = PartitionBuffer(SOURCE, SOURCE, 0, 0)
    assert not other.is_lane


def _arrives(story: Story, first: int, failures: int) -> None:
    story.bring(first, first + 5, AUDIT)
    story.answer(AUDIT, story.send(AUDIT))
    assert (story.source.acknowledged, story.source.failures) == (first + 5, failures)


def test_at_least_once_the_pauses_of_a_source_begin_again_when_a_range_has_arrived() -> None:
    story = Story()
    story.source.failures = 3
    _arrives(story, 0, 0)


def test_in_transactions_the_pauses_of_a_source_begin_again_when_a_range_is_committed() -> None:
    """One whose transactions are always aborted, with those of all other sources, tries less and less often."""
    story = in_transactions()
    story.source.failures = 3
    story.source.commit()
    _arrives(story, 0, 3)
    story.source.roll_back()
    _arrives(story, 0, 3)
    story.source.commit()
    assert story.source.failures == 0


def test_a_commit_of_what_came_before_a_failure_does_not_shorten_the_pause_after_it() -> None:
    story = in_transactions()
    story.bring(0, 5, AUDIT)
    story.bring(5, 9, problem="no topic")
    story.answer(AUDIT, story.send(AUDIT))
    story.source.commit()
    assert (story.source.committed.offset, story.source.failures) == (5, 1)


def in_transactions() -> Story:
    story = Story()
    story.transaction.transactional = True
    return story


def test_a_range_that_cannot_be_routed_fails_its_source_when_all_before_it_has_arrived() -> None:
    story = Story()
    story.bring(0, 5, AUDIT)
    story.bring(5, 9, problem="no topic")
    assert (story.failed, story.source.state) == (["no topic"], State.FAILING)
    story.answer(AUDIT, story.send(AUDIT))
    assert (story.source.acknowledged, story.source.position, story.source.idle) == (5, 5, True)


def test_in_transactions_a_range_enters_its_lanes_when_all_of_them_may_take_it() -> None:
    story = in_transactions()
    story.transaction.takes_data = False
    assert story.bring(0, 5, HOME, AUDIT) == story.bring(5, 6, HOME) == []
    assert story.source.reach.offset == 0, "no position is stored beyond what has gone out"
    story.transaction.takes_data = True
    for hindrance in (story.transaction.away, story.transaction.unknown):
        hindrance.add(AUDIT)
        assert story.pass_on() == [] and not story.transaction.contents
        hindrance.clear()
    assert story.pass_on() == [HOME, AUDIT]
    assert story.transaction.contents == [(HOME, AUDIT), (HOME,)]
    assert story.source.reach.offset == 6 and story.pass_on() == []


def test_in_transactions_a_range_without_records_keeps_its_place_without_a_transaction() -> None:
    story = in_transactions()
    story.bring(0, 5, AUDIT)
    story.transaction.takes_data = False
    story.bring(5, 7)
    assert (story.source.acknowledged, story.source.reach.offset) == (0, 7)
    story.bring(7, 9, HOME)
    story.bring(9, 12)
    story.answer(AUDIT, story.send(AUDIT))
    assert (story.source.acknowledged, story.source.reach.offset) == (7, 7)
    assert story.transaction.contents == [(AUDIT,)]


def test_in_transactions_a_partition_whose_lane_has_no_leader_fails_alone_and_after_a_while() -> None:
    story = in_transactions()
    story.transaction.away.add(AUDIT)
    story.bring(0, 5, HOME, AUDIT)
    for _ in range(int(UNREACHED_SECONDS_MAX)):
        story.transaction.now += 1
        assert story.pass_on() == [] and story.failed == []
    story.transaction.now += 1
    assert story.pass_on() == []
    assert story.failed == ["its records for audit-3 wait: its leader is away, or the topic is gone"]
    assert (story.aborted, story.transaction.contents) == ([], [])
    assert (story.source.position, story.source.idle, story.peer.freed_bytes) == (0, True, 100)


def test_in_transactions_the_wait_for_a_leader_goes_on_over_the_commits_of_others_and_not_over_a_long_pause() -> None:
    story = in_transactions()
    story.transaction.away.add(AUDIT)
    story.bring(0, 5, AUDIT)
    _pause(story, 60.0)
    assert story.failed == []
    for _ in range(2 * int(UNREACHED_SECONDS_MAX)):
        _pause(story, 0.5)
    assert len(story.failed) == 1


def _pause(story: Story, seconds: float) -> None:
    """A transaction ends for so long."""
    story.transaction.takes_data = False
    story.pass_on()
    story.transaction.now += seconds
    story.transaction.takes_data = True
    story.pass_on()


def test_in_transactions_a_lane_that_has_failed_fails_the_sources_of_what_comes_for_it() -> None:
    story = in_transactions()
    story.bring(0, 5, AUDIT)
    story.answer(AUDIT, story.send(AUDIT))
    story.routing.lanes[AUDIT].fail("too large")
    story.bring(5, 9, HOME, AUDIT)
    assert story.failed == ["its records for audit-3 are refused: too large"]
    assert (story.source.position, story.aborted) == (5, [])


def test_in_transactions_a_lane_that_gives_up_records_aborts_what_the_other_lanes_have() -> None:
    story = in_transactions()
    story.bring(0, 5, HOME, AUDIT)
    story.answer(HOME, story.send(HOME))
    lane = story.routing.lanes[AUDIT]
    lane.refuse(story.send(AUDIT), in_doubt=False)
    lane.fail("too large")
    lane.rewind()
    reason = "its records for audit-3 are refused: too large"
    assert (story.failed, story.aborted) == ([reason], [f"orders-0: {reason}"])


def _refuse(story: Story, target: TopicPartition) -> PartitionBuffer:
    """The target refuses the lane's oldest batch."""
    lane, batch = story.routing.lanes[target], story.send(target)
    lane.refuse(batch, in_doubt=False)
    story.routing.note_refusal(lane, batch)
    lane.fail("too large")
    return lane


def _give_up(lane: PartitionBuffer) -> None:
    lane.rewind()
    lane.settle(1e9)


def test_in_transactions_a_record_that_a_lane_refuses_fails_its_own_source_alone() -> None:
    """The others would pause as long as it does, and meet it again each time."""
    story = in_transactions()
    story.bring(0, 5, AUDIT)
    story.bring(0, 5, AUDIT, source=OTHER)
    lane = _refuse(story, AUDIT)
    story.bring(5, 9, AUDIT, source=OTHER)
    assert (story.other.is_failed, story.transaction.contents) == (False, [(AUDIT,), (AUDIT,)])
    _give_up(lane)
    assert (story.source.is_failed, story.other.is_failed, len(story.aborted)) == (True, False, 1)
    story.routing.roll_back()
    story.source.roll_back()
    story.other.roll_back()
    assert (lane.retry_at, story.waking) == (story.transaction.now, [lane]), "it goes on at once"
    lane.resume()
    assert story.bring(0, 5, AUDIT, source=OTHER) == [lane]
    story.answer(AUDIT, story.send(AUDIT))
    assert (story.other.acknowledged, story.failed) == (5, ["its records for audit-3 are refused: too large"])


def test_in_transactions_a_lane_that_refuses_one_record_after_another_pauses() -> None:
    story = in_transactions()
    for source in (SOURCE, OTHER):
        story.bring(0, 5, AUDIT, source=source)
        lane = _refuse(story, AUDIT)
        _give_up(lane)
        story.routing.roll_back()
        lane.resume()
    assert story.waking == [lane], "only after the first"


def test_at_least_once_all_sources_of_what_a_refusing_lane_gives_up_fail() -> None:
    story = Story()
    story.bring(0, 5, AUDIT)
    story.bring(0, 5, AUDIT, source=OTHER)
    _give_up(_refuse(story, AUDIT))
    assert story.source.is_failed and story.other.is_failed


def test_an_aborted_transaction_empties_all_lanes_and_fails_the_sources_of_a_failed_one() -> None:
    story = in_transactions()
    story.bring(0, 5, HOME, AUDIT)
    story.bring(5, 9, HOME)
    story.send(HOME)
    story.send(AUDIT)
    story.routing.lanes[AUDIT].fail("it does not answer")
    story.routing.roll_back()
    story.source.roll_back()
    assert story.failed == ["its records for audit-3 are refused: it does not answer"]
    assert all(lane.idle for lane in story.routing.lanes.values())
    assert (story.source.position, story.source.idle, story.peer.freed_bytes) == (0, True, 200)


def test_what_waited_when_its_partition_went_back_is_dropped_and_what_came_since_is_not() -> None:
    story = in_transactions()
    story.transaction.takes_data = False
    story.bring(0, 5, AUDIT)
    story.source.rewind()
    story.bring(0, 3, HOME)
    story.transaction.takes_data = True
    assert story.pass_on() == [HOME]
    story.answer(HOME, story.send(HOME))
    assert (story.source.acknowledged, story.source.idle) == (3, True)


def test_in_transactions_a_source_that_gives_its_memory_up_drops_the_ranges_that_wait() -> None:
    """The others would pile up outside the reader's memory, which it fills again, while a target partition is away."""
    story = in_transactions()
    story.bring(0, 5, HOME)
    story.transaction.away.add(AUDIT)
    for first in (5, 6, 7):
        story.bring(first, first + 1, AUDIT)
    story.source.evict()
    assert (story.peer.freed_bytes, story.source.position) == (400, 5)
    assert story.pass_on() == [] and len(story.routing._tickets) == 1, "their pieces are freed too"
    story.answer(HOME, story.send(HOME))
    assert story.source.acknowledged == 5


def test_in_transactions_a_source_whose_ranges_all_wait_keeps_one_that_leads_the_reader_back() -> None:
    story = in_transactions()
    story.transaction.away.add(AUDIT)
    for first in (0, 5, 6):
        story.bring(first, first + 1 + 4 * (not first), AUDIT)
    story.source.evict()
    assert (story.peer.freed_bytes, story.source.position, story.source.idle) == (300, 5, False)
    assert story.pass_on() == [] and len(story.routing._tickets) == 1
    story.transaction.away.clear()
    assert story.pass_on() == [AUDIT]
    story.answer(AUDIT, story.send(AUDIT))
    assert (story.source.acknowledged, story.source.idle) == (5, True)
