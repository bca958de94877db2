"""Ranges of records that transforms made and that stay in the partition that mirrors theirs: they wait as runs do.

The models are those of `test_copying` and `test_copying_once`. Each time that a range is read it may be cut into other
batches; one record of five is dropped.
"""

import itertools
from collections import deque
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from tests.manual_clock import ManualClock
from tests.unit.pipeline.produce.test_copying import WHERE, Copying, Ring, Source
from tests.unit.pipeline.produce.test_copying_once import CopyingOnce
from tests.unit.pipeline.produce.test_gate import Ledger

from sparkmirror.batch.piece import Piece, Span
from sparkmirror.batch.records import decode_records, encode_batch
from sparkmirror.control.assignment import Assigned
from sparkmirror.errors import ProtocolError
from sparkmirror.model import NO_EPOCH
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.delivery import Delivery, MadeRange
from sparkmirror.pipeline.produce.effects import Advance, Effects
from sparkmirror.pipeline.produce.gate import SequenceGate
from sparkmirror.pipeline.produce.limits import TargetLimits
from sparkmirror.pipeline.produce.packing import AS_THEY_ARE, Packing
from sparkmirror.pipeline.produce.queued_records import Batch, MadePieces
from sparkmirror.pipeline.produce.task_metrics import TaskMetrics
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingAddress


class Filtered(Source):
    """A source of which one record of five is mirrored nowhere."""

    def grow(self, sizes: list[int]) -> None:
        super().grow(sizes)
        self.records = [offset for offset in self.records if offset % 5 != 4]


def _piece(offsets: list[int]) -> Piece:
    data = encode_batch([(None, b"%d" % offset) for offset in offsets])
    return Piece(bytearray(data), tuple(Span(offset, 1) for offset in offsets), len(offsets))


class Cutter:
    """Makes ranges of runs, each time otherwise."""

    def __init__(self) -> None:
        self.sizes = itertools.cycle([1, 2, 3])

    def make(self, source: Source, run: Delivery) -> MadeRange:
        offsets = [offset for offset in source.records if run.first_offset <= offset < run.next_offset]
        pieces = []
        while offsets:
            size = next(self.sizes)
            pieces.append(_piece(offsets[:size]))
            del offsets[:size]
        return MadeRange(run._replace(payload=memoryview(b"")), 1, tuple(pieces))


SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=5)


class _Made:
    """Of a model of copying: the records of its source are filtered, and cut otherwise now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.source = Filtered()
        self.cutter = Cutter()

    @rule(sizes=SIZES)
    def records_are_cut_otherwise(self, sizes: list[int]) -> None:
        self.cutter.sizes = itertools.cycle(sizes)


class CopyingMade(_Made, Copying):
    @rule()
    def row_arrives(self) -> None:
        if self.rows and self.rows[0].kind == "run":
            self.gate.take_range(self.cutter.make(self.source, self.rows.popleft()))
        else:
            super().row_arrives()


class CopyingMadeOnce(_Made, CopyingOnce):
    @rule()
    def row_arrives(self) -> None:
        if self.rows:
            self.gate.take_range(self.cutter.make(self.source, self.rows.popleft()))


CopyingMade.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestCopyingMade = CopyingMade.TestCase
CopyingMadeOnce.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestCopyingMadeOnce = CopyingMadeOnce.TestCase


class Desk:
    """A gate with one partition, from offset 0 on."""

    def __init__(self, packing: Packing = AS_THEY_ARE) -> None:
        self.clock = ManualClock()
        self.ring = Ring()
        plan = PlanRow(0, "run", 1, 1, 7, 3, RingAddress(1, 2, 3, 4, 5), 25, ((Assigned(WHERE, 0), 5),))
        self.effects: Effects = deque()
        nowhere: Any = None
        parts: Any = (self.ring, Ledger(), TaskMetrics(plan), TargetLimits(nowhere, nowhere), packing)
        self.gate = SequenceGate(*parts, effects=self.effects, clock=self.clock)
        self.gate.take_plan(plan)

    @property
    def buffer(self) -> PartitionBuffer:
        return self.gate.buffers[WHERE]

    def take(
        self, first: int, following: int, *pieces: Piece, problem: str = "", leader_epoch: int = NO_EPOCH
    ) -> PartitionBuffer | None:
        lease = self.ring.lend(b"run")
        empty = memoryview(b"")
        run = Delivery("run", WHERE, "A.orders", first, following, following - first, following, -1, empty, lease)
        return self.gate.take_range(MadeRange(run._replace(leader_epoch=leader_epoch), 3, pieces, problem))

    def send(self) -> Batch:
        batch = self.buffer.next_batch(7, 3)
        assert batch is not None
        return batch


def test_the_position_follows_each_batch_and_the_last_reaches_to_the_end_of_its_range() -> None:
    desk = Desk()
    assert desk.take(0, 9, _piece([1, 2]), _piece([5, 6])) is desk.buffer
    batch = desk.send()
    assert [record.value for record in decode_records(batch.data)] == [b"1", b"2"]
    desk.buffer.succeed(batch, 40)
    assert (desk.buffer.acknowledged, len(desk.ring.leases)) == (3, 1)
    desk.buffer.succeed(desk.send(), 42)
    assert (desk.buffer.acknowledged, desk.ring.leases, desk.buffer.idle) == (9, {}, True)


def test_a_leader_epoch_begins_with_its_range_though_the_first_records_were_left_out() -> None:
    """A source's log that was cut in what a filter left out is read again from there."""
    desk = Desk()
    desk.take(0, 4, _piece([0]), leader_epoch=3)
    desk.take(4, 9, _piece([7]), leader_epoch=5)
    desk.buffer.succeed(desk.send(), 0)
    assert desk.send().lineage.epochs == ((3, 0), (5, 4))


def test_a_problem_is_met_when_all_before_it_has_gone_out() -> None:
    desk = Desk()
    desk.take(0, 3, _piece([0, 1]))
    desk.take(3, 9, problem="the batch at offset 3 is damaged")
    batch = desk.send()
    with pytest.raises(ProtocolError, match="offset 3 is damaged"):
        desk.buffer.succeed(batch, 0)
        desk.buffer.next_batch(7, 3)
    assert (desk.buffer.acknowledged, desk.buffer.sendable) == (3, True), "it is met again until its partition fails"
    desk.buffer.rewind()
    assert (desk.buffer.position, desk.ring.leases) == (3, {})


def test_a_range_of_which_nothing_is_left_only_moves_the_position() -> None:
    desk = Desk()
    assert desk.take(0, 4) is None
    assert (desk.buffer.acknowledged, desk.ring.leases) == (4, {})
    assert desk.effects.popleft() == Advance(desk.buffer, [])


def test_a_range_that_begins_too_low_is_read_again_from_the_position() -> None:
    desk = Desk()
    desk.take(0, 4, _piece([0, 3]))
    assert desk.take(2, 6, _piece([2, 5])) is None
    assert (desk.buffer.position, desk.ring.orders.pop()) == (4, (False, 4))
    assert len(desk.ring.leases) == 1


def test_a_stuck_partition_keeps_its_first_batch_and_reads_the_rest_again() -> None:
    desk = Desk()
    desk.take(0, 9, _piece([0, 1]), _piece([5]))
    desk.buffer.evict()
    assert (desk.buffer.position, desk.ring.leases) == (2, {})
    batch = desk.send()
    assert (batch.records, batch.next_offset) == (2, 2)


def test_the_bytes_of_a_range_end_the_linger_time() -> None:
    desk = Desk(Packing(linger_seconds=5.0, batch_bytes=2 * len(_piece([0]).data)))
    desk.take(0, 1, _piece([0]))
    assert not desk.buffer.sendable
    desk.take(1, 2, _piece([1]))
    assert desk.buffer.sendable


def test_pieces_tell_what_comes_next_without_taking_it() -> None:
    piece = _piece([3])
    made = MadePieces((piece,), 3, 6)
    assert (made.peek(), made.has_more, made.reached) == (piece, True, 3)
    made.park()
    taken = made.take()
    assert taken is not None and (taken.piece, taken.next_offset) == (piece, 6)
    assert (made.peek(), made.has_more, made.take()) == (None, False, None)
