"""One partition whose records go to several, copied in transactions through all that goes wrong, against a model.

As `test_copying_once`, whose target, reader and mishaps these are. Each time a record is read it may go another way, or
be dropped as a record of a range that has none. At every step a consumer sees, over all target partitions, exactly the
records before the committed position, each once.
"""

import itertools
from collections import deque
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from tests.unit.pipeline.produce.test_copying import WHERE
from tests.unit.pipeline.produce.test_copying_once import REMOTE, CopyingOnce, Target

from sparkmirror.batch.piece import Piece, Span
from sparkmirror.batch.records import encode_batch
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.delivery import Bundle, Delivery
from sparkmirror.pipeline.produce.drain import Drain
from sparkmirror.pipeline.produce.effects import Abort, Advance, BackOff, Effect, Fail, Offer, Settle
from sparkmirror.pipeline.produce.partition_state import State
from sparkmirror.pipeline.produce.queued_records import Batch
from sparkmirror.pipeline.produce.range_admission import RangeAdmission
from sparkmirror.pipeline.produce.routing import Routing

LANES = (REMOTE, TopicPartition("elsewhere", 0), TopicPartition("dead", 3))


class RoutingOnce(CopyingOnce):
    restarts = False  # what is committed in a lane is not stored: what lies open there at a start may come twice

    def __init__(self) -> None:
        super().__init__()
        self.target = Target(*LANES)
        self.fetched: deque[Bundle] = deque()
        self.ways = itertools.cycle([0, 1, 2])
        self.away: set[TopicPartition] = set()
        self.routing: Any = None

    @initialize()
    def begin(self) -> None:
        super().begin()
        effects = self.isolation._effects
        clock: Any = self
        admission = RangeAdmission(self.once, self.progress, Drain(), self._reaches, clock)
        parts: tuple[Any, ...] = (self.gate, self.gate._task_metrics, self, admission, effects)
        self.routing = Routing(*parts)

    def monotonic(self) -> float:
        return self.now

    def _reaches(self, lane: PartitionBuffer) -> bool:
        return lane.target not in self.away

    def add(self, buffer: PartitionBuffer, landed: list[Batch], topic: str) -> str:
        """As the log check."""
        return ""

    def apply(self, effect: Effect) -> None:
        match effect:
            case Fail(buffer, reason):
                self.isolation.fail(buffer, reason)
            case Settle(buffer):
                self.isolation.settle(buffer)
            case Advance(buffer, _):
                self.isolation.after_progress(buffer)
            case Abort(reason, awaits_answers):
                self.once.abort(reason, awaits_answers=awaits_answers)
            case BackOff(buffer, until):
                self.isolation.back_off(buffer, until)
            case Offer():
                pass
            case _:
                super().apply(effect)

    def _roll_back(self) -> None:
        self.routing.roll_back()
        for lane in self.routing.lanes.values():
            self.isolation.settle(lane)
        super()._roll_back()

    def boxes(self) -> list[PartitionBuffer]:
        return list(self.routing.lanes.values())

    def committed(self) -> list[int]:
        return sorted(self.target.committed())

    @rule(ways=st.lists(st.integers(0, 2), min_size=1, max_size=7))
    def records_go_other_ways(self, ways: list[int]) -> None:
        self.ways = itertools.cycle(ways)

    @rule(away=st.sets(st.sampled_from(LANES), max_size=2))
    def leaders_go_and_come(self, away: set[TopicPartition]) -> None:
        self.away = away

    @precondition(lambda self: not self.paused)
    @rule(count=st.integers(1, 4))
    def reader_fetches(self, count: int) -> None:
        first = self.reads_at
        data, following = self.source.read(first, count)
        self.reads_at = following
        if data:
            lease = self.ring.lend(data)
            offsets = [offset for offset in self.source.records if first <= offset < following]
            delivery = Delivery(
                "run", WHERE, REMOTE.topic, first, following, len(offsets), following, -1, memoryview(b""), lease
            )
            self.fetched.append(Bundle(delivery, 1, tuple(self._pieces(offsets))))

    def _pieces(self, offsets: list[int]) -> list[tuple[TopicPartition, Piece]]:
        lanes: dict[int, list[int]] = {}
        for offset in offsets:
            lanes.setdefault(next(self.ways), []).append(offset)
        return [(LANES[way], _piece(some)) for way, some in lanes.items()]

    @rule()
    def row_arrives(self) -> None:
        if self.fetched:
            self.routing.take(self.fetched.popleft())

    @rule(seconds=st.sampled_from([0.0, 0.3]))
    def time_passes(self, seconds: float) -> None:
        super().time_passes(seconds)
        self.routing.pass_on()

    @rule()
    def partition_is_stuck(self) -> None:
        if self.buffer.state is State.FLOWING and not self.buffer.idle:
            self.ring.order(self.buffer.slot, paused=True, offset=self.buffer.acknowledged)
            self.isolation.evict(self.buffer)

    def _succeed(self, buffer: PartitionBuffer, batch: Batch) -> None:
        moved = buffer.succeed(batch)
        if buffer.is_lane:
            self.routing.acknowledge(buffer, moved)

    def _refused(self, buffer: PartitionBuffer, batch: Batch) -> None:
        if buffer.is_lane:
            self.routing.note_refusal(buffer, batch)
        super()._refused(buffer, batch)

    def teardown(self) -> None:
        self.away = set()
        super().teardown()


def _piece(offsets: list[int]) -> Piece:
    data = encode_batch([(None, b"%d" % offset) for offset in offsets])
    return Piece(bytearray(data), tuple(Span(offset, 1) for offset in offsets), len(offsets))


RoutingOnce.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestRoutingOnce = RoutingOnce.TestCase
