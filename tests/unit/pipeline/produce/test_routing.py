"""Progress of a source partition waits for every target partition that its records went to."""

from collections import deque
from typing import Any

from tests.unit.pipeline.produce.applied_effects import AtOnce
from tests.unit.pipeline.produce.known_producer import known

from sparkmirror.batch.piece import Piece, Span
from sparkmirror.batch.records import Record, encode_batch
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Connector, TopicPartition
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.delivery import Bundle, Delivery
from sparkmirror.pipeline.produce.effects import Advance, Effect, Fail, Hold
from sparkmirror.pipeline.produce.gate import SequenceGate
from sparkmirror.pipeline.produce.limits import TargetLimits
from sparkmirror.pipeline.produce.packing import AS_THEY_ARE
from sparkmirror.pipeline.produce.partition_state import State
from sparkmirror.pipeline.produce.progress import Progress, ProgressOptions
from sparkmirror.pipeline.produce.queued_records import Batch
from sparkmirror.pipeline.produce.routing import Routing
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingAddress

SOURCE = TopicPartition("orders", 0)
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
        gate = SequenceGate(peer, progress, self.task_metrics, TargetLimits(nowhere, nowhere), AS_THEY_ARE, deque())
        self.source = gate.buffers[SOURCE] = PartitionBuffer(SOURCE, None, 0, 0)
        self.failed: list[str] = []
        self.mapped: list[tuple[Span, ...]] = []
        self.landed: list[tuple[int, str]] = []
        self.is_lost = False
        self.routing = Routing(peer, gate, self.task_metrics, self, AtOnce(self))  # type: ignore[arg-type]

    def _fail(self, buffer: PartitionBuffer, reason: str) -> None:
        assert buffer is self.source
        self.failed.append(reason)
        buffer.fail(reason)
        buffer.rewind()

    def _close(self, buffer: PartitionBuffer, mapped: list[Batch]) -> None:
        assert buffer is self.source
        self.mapped += [batch.spans for batch in mapped]

    def apply(self, effect: Effect) -> None:
        match effect:
            case Fail(buffer, reason) | Hold(buffer, reason):
                self._fail(buffer, reason)
            case Advance(buffer, mapped):
                self._close(buffer, mapped)
            case _:
                raise AssertionError(effect)

    def add(self, buffer: PartitionBuffer, landed: list[Batch], topic: str) -> str:
        """As the log check."""
        assert buffer is self.source
        self.landed += [(batch.base_offset, topic) for batch in landed]
        return "gone" if self.is_lost else ""

    def bring(self, first: int, following: int, *targets: TopicPartition, problem: str = "") -> list[PartitionBuffer]:
        """A range of 100 bytes, with one record for each of `targets`."""
        delivery = Delivery(
            "run", SOURCE, HOME.topic, first, following, following - first, following, 0, memoryview(b""), None,
            leader_epoch=7,
        )  # fmt: skip
        pieces = tuple((target, piece_of(first + at)) for at, target in enumerate(targets))
        return self.routing.take(Bundle(delivery, 100, pieces, problem))

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
