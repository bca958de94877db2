"""A buffer that keeps offsets, against a log that takes what continues it: any runs, holes and failures."""

import time
from contextlib import closing
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scenarios.odd_logs import emptied, sealed

from sparkmirror.batch.header import ATTRIBUTES_AT, parse_header
from sparkmirror.batch.records import Record, decode_records, encode_batch
from sparkmirror.clock import SYSTEM_CLOCK, Clock, SystemClock
from sparkmirror.control.assignment import Append
from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.offset_fillers import FillerClients
from sparkmirror.ledger.lineage import Extent, Lineage
from sparkmirror.model import NO_TOPIC_ID, Cluster, TopicPartition
from sparkmirror.pipeline.produce.acked_position import Place
from sparkmirror.pipeline.produce.aligned_buffer import AlignedBuffer
from sparkmirror.pipeline.produce.aligned_offsets import AlignedBatches, Fillers
from sparkmirror.pipeline.produce.packing import Packing
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords, free_nothing
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.policy.fillers import Hole

WHERE = TopicPartition("orders", 0)
PRODUCER, SHIFT = 4711, 100
"""Sequence numbers lag behind offsets by the markers that fill holes."""
THIS, OTHER = UUID(int=1), UUID(int=2)
NOW_MS = time.time_ns() // 1_000_000
DAY_MS = 24 * 3_600_000


def new_buffer(position: int = 0, *, merging: bool = True, clock: Clock = SYSTEM_CLOCK) -> AlignedBuffer:
    packing = Packing(merging=merging, keeps_offsets=True)
    buffer = AlignedBuffer(WHERE, TopicPartition("A.orders", 0), position, 5, packing=packing, clock=clock)
    buffer.restart_at(Place(position))
    buffer.append_from(Append(PRODUCER, position + SHIFT, "A.orders"))
    return buffer


def batch(first: int, records: int, hole: int = 0, *, control: bool = False, at_ms: int = NOW_MS) -> bytes:
    """Records whose values are their offsets; the batch goes `hole` offsets beyond them."""
    whole = [Record(0, at_ms, b"k", b"%d" % at) for at in range(first, first + records)]
    data = bytearray(encode_batch(whole, base_offset=first))
    data[12:16] = (3).to_bytes(4, "big")
    data[ATTRIBUTES_AT + 1] |= 0x20 * control
    return sealed(bytes(data), records + hole - 1) if hole else bytes(data)


def accept(buffer: AlignedBuffer, following: int, *batches: bytes) -> None:
    run = QueuedRecords(memoryview(bytearray(b"".join(batches))), buffer.position, following, free_nothing)
    run.leader_epoch = 3
    buffer.accept(run)


@dataclass
class TargetLog:
    """A leader that takes what continues its last sequence, and says where it stands."""

    end: int = 0
    sequence: int = SHIFT
    records: dict[int, bytes | None] = field(default_factory=dict)

    def append(self, sent: Batch) -> int:
        header = parse_header(sent.data, 0)
        assert (header.producer_id, header.producer_epoch) == (PRODUCER, 0)
        assert header.base_sequence == self.sequence, "the log refuses another one"
        base = self.end
        for at, record in enumerate(decode_records(bytes(sent.data))):
            self.records[base + at] = record.value
        self.end, self.sequence = base + header.records_count, self.sequence + header.records_count
        return base


def test_a_position_has_the_sequence_number_that_the_log_takes_next() -> None:
    buffer, log = new_buffer(merging=False), TargetLog()
    accept(buffer, 6, batch(0, 2), batch(2, 1), batch(3, 3))
    assert step(buffer, log, 1)
    sent = send_all(buffer)
    assert [len(one.spans) for one in sent] == [1, 1]
    assert (buffer.acknowledged, buffer.sequence) == (2, log.sequence), "two batches are under way"
    for one in sent:
        buffer.succeed(one, log.append(one))
        assert (buffer.acknowledged, buffer.sequence) == (log.end, log.sequence)


def test_small_batches_wait_for_kernels_also_behind_one_that_went_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkmirror.pipeline.produce.packing.kernels_pay", lambda _: False)
    monkeypatch.setattr("sparkmirror.pipeline.produce.packing.kernels_soon", lambda: True)
    buffer, log = new_buffer(), TargetLog()
    accept(buffer, 1200, *(batch(at, 1) for at in range(1200)))
    assert buffer.awaits_kernels
    assert step(buffer, log, 1)
    assert buffer.awaits_kernels


def announced(first: int, following: int, data: bytes) -> Announcement:
    return Announcement(5, following - first, len(data), 0, first, following, 0, NOW_MS, following, NOW_MS)


def hand_on(buffer: AlignedBuffer, run: Announcement, data: bytes) -> Batch | None:
    if not buffer.is_next(run, 3, 0, (1, 1)):
        return None
    return buffer.hand_on(run, memoryview(bytearray(data)), lambda: None)


def ready_for_announcements() -> tuple[AlignedBuffer, TargetLog]:
    buffer, log = new_buffer(), TargetLog()
    accept(buffer, 2, batch(0, 2))
    assert step(buffer, log, 1)
    return buffer, log


def test_what_is_announced_goes_out_as_the_flows_producer() -> None:
    buffer, log = ready_for_announcements()
    for first, data in ((2, batch(2, 3)), (5, batch(5, 1) + batch(6, 2))):
        following = first + 3
        sent = hand_on(buffer, announced(first, following, data), data)
        assert sent is not None and sent.spans[0].first_offset == first
        buffer.succeed(sent, log.append(sent))
        assert buffer.acknowledged == log.end == following
        assert buffer.sequence == log.sequence


def test_holes_and_old_records_are_not_for_the_direct_path() -> None:
    buffer, _ = ready_for_announcements()
    for why, following, data in (
        ("a hole before it", 6, batch(3, 3)),
        ("a hole behind it", 6, batch(2, 3)),
        ("a hole at its end", 6, batch(2, 3, hole=1)),
        ("old records", 5, batch(2, 3, at_ms=NOW_MS - DAY_MS)),
        ("a hole between two batches", 6, batch(2, 1) + batch(4, 2)),
    ):
        assert hand_on(buffer, announced(2, following, data), data) is None, why
        assert buffer.position == 2


def test_nothing_goes_the_direct_path_behind_a_hole_or_to_another_topic() -> None:
    buffer, log = new_buffer(), TargetLog()
    accept(buffer, 4, batch(0, 2), batch(2, 1, control=True))
    sent = buffer.next_batch(1, 1)
    assert sent is not None
    assert hand_on(buffer, announced(4, 5, batch(4, 1)), batch(4, 1)) is None, "offsets 2 and 3 are to be filled"
    buffer.succeed(sent, log.append(sent))
    assert hand_on(buffer, announced(4, 5, batch(4, 1)), batch(4, 1)) is None
    buffer.append_from(Append(PRODUCER, SHIFT, "A.orders", THIS))
    assert [buffer.goes_on_in(found) for found in (None, THIS, OTHER)] == [True, True, False]


def step(buffer: AlignedBuffer, log: TargetLog, fills: int) -> bool:
    """One batch, or `fills` offsets of the hole in its way; whether there was either."""
    sent = buffer.next_batch(1, 1)
    if sent is not None:
        buffer.succeed(sent, log.append(sent))
        return True
    if buffer.hole is None:
        return False
    assert buffer.hole.first == log.end == buffer.acknowledged
    hole = buffer.hole
    log.end = min(log.end + fills, hole.stop)
    buffer.take_filled(hole, log.end)
    return True


pieces = st.tuples(st.sampled_from(["records", "tail", "marker", "emptied", "nothing"]), st.integers(1, 6))


@given(st.lists(st.lists(pieces, min_size=1, max_size=5), max_size=6), st.integers(1, 7), st.data())
def test_every_record_lands_at_its_own_offset_behind_any_holes(
    runs: list[list[tuple[str, int]]], fills: int, data: st.DataObject
) -> None:
    buffer, log, at = new_buffer(), TargetLog(), 0
    wanted: dict[int, bytes | None] = {}
    for run in runs:
        batches = []
        for kind, size in run:
            if kind in ("records", "tail"):
                hole = size if kind == "tail" else 0
                batches.append(batch(at, size, hole))
                wanted |= {offset: b"%d" % offset for offset in range(at, at + size)}
                at += size + hole
            elif kind == "marker":
                batches.append(batch(at, 1, control=True))
                at += 1
            elif kind == "emptied":
                batches.append(emptied(at, at + size))
                at += size + 1
            else:
                at += size
        accept(buffer, at, *batches)
        for _ in range(data.draw(st.integers(0, 3))):
            step(buffer, log, fills)
        assert buffer.acknowledged == log.end
    while step(buffer, log, fills):
        assert buffer.acknowledged == log.end, "the position is the log's end"
    assert (log.end, buffer.idle) == (at, True)
    assert log.records == wanted


def test_a_hole_waits_for_the_records_before_it_and_stops_those_behind() -> None:
    buffer = new_buffer(10)
    accept(buffer, 20, batch(10, 2), batch(15, 5))
    sent = buffer.next_batch(1, 1)
    assert sent is not None
    assert buffer.next_batch(1, 1) is None
    buffer.succeed(sent, 10)
    assert (buffer.next_batch(1, 1), buffer.hole, buffer.sendable) == (None, Hole(12, 15), True)
    buffer.take_filled(Hole(12, 15), 14)
    assert (buffer.next_batch(1, 1), buffer.hole, buffer.acknowledged) == (None, Hole(14, 15), 14)
    buffer.take_filled(Hole(14, 15), 15)
    behind = buffer.next_batch(1, 1)
    assert behind is not None
    assert behind.sequence == 12 + SHIFT
    buffer.succeed(behind, 15)
    assert (buffer.acknowledged, buffer.idle) == (20, True)


def test_a_position_within_a_hole_and_behind_it_is_of_the_epoch_of_what_follows() -> None:
    buffer = new_buffer(10)
    buffer.restart_at(Place(10, Lineage(THIS, ((2, 4),))))
    buffer.append_from(Append(PRODUCER, 10 + SHIFT, "A.orders"))
    accept(buffer, 20, batch(15, 5))
    assert (buffer.next_batch(1, 1), buffer.hole) == (None, Hole(10, 15))
    for end in (12, 15):
        buffer.take_filled(Hole(buffer.acknowledged, 15), end)
        assert (buffer.acknowledged, buffer.lineage.epochs) == (end, ((2, 4), (3, 10)))


def test_a_hole_that_was_filled_while_the_partition_went_back_is_met_filled() -> None:
    buffer = new_buffer(10)
    accept(buffer, 20, batch(15, 5))
    assert (buffer.next_batch(1, 1), buffer.hole) == (None, Hole(10, 15))
    buffer.fail("the target refuses")
    buffer.rewind()
    buffer.take_filled(Hole(10, 15), 15)
    assert (buffer.position, buffer.acknowledged) == (10, 15)


def test_a_hole_behind_a_batch_that_is_refused_is_not_filled_before_it_is_met_again() -> None:
    buffer = new_buffer(8, merging=False)
    accept(buffer, 20, batch(8, 2), batch(10, 2), batch(15, 5))
    (first,) = send_all(buffer)
    buffer.succeed(first, 8)
    (sent,) = send_all(buffer)
    assert buffer.hole == Hole(12, 15)
    buffer.refuse(sent, in_doubt=False)
    buffer.fail("the target refuses")
    buffer.rewind()
    assert (buffer.position, buffer.hole) == (10, None)


def test_behind_a_hole_one_batch_is_under_way_until_the_log_shows_that_it_knows_the_producer() -> None:
    buffer = new_buffer(merging=False)
    accept(buffer, 12, *(batch(at, 2) for at in (0, 4, 6, 8, 10)))
    (first,) = send_all(buffer)
    buffer.succeed(first, 0)
    buffer.take_filled(Hole(2, 4), 4)
    (second,) = send_all(buffer)
    buffer.succeed(second, 4)
    assert len(send_all(buffer)) == 3


def test_a_filled_hole_that_is_read_again_in_parts_takes_no_position_back() -> None:
    buffer = new_buffer(10)
    accept(buffer, 20, batch(15, 5))
    assert (buffer.next_batch(1, 1), buffer.hole) == (None, Hole(10, 15))
    buffer.evict()
    buffer.rewind()
    buffer.take_filled(Hole(10, 15), 15)
    accept(buffer, 12)
    assert (buffer.position, buffer.acknowledged, buffer.idle) == (12, 15, True)
    accept(buffer, 20, batch(15, 5))
    assert buffer.next_batch(1, 1) is not None


def test_a_partition_that_is_taken_on_again_gets_another_filler() -> None:
    """The ids may be another process's since."""
    with closing(Fillers(FillerClients(Cluster("B", {"bootstrap.servers": "127.0.0.1:1"})), "fills-")) as fillers:
        buffer = new_buffer()
        first = fillers.of(buffer)
        assert fillers.of(buffer) is first
        buffer.append_from(Append(*buffer.append))
        second = fillers.of(buffer)
        assert second is not first
        assert fillers.of(buffer) is second
        fillers.drop(WHERE)
        assert fillers.of(buffer) is not second


def test_a_position_is_of_the_log_that_the_plan_found_before_anything_is_appended() -> None:
    buffer = new_buffer(700)
    buffer.append_from(Append(PRODUCER, 700, "A.orders", THIS))
    buffer.extend(None)
    assert buffer.extent == Extent("A.orders", THIS, 0)
    buffer.extend(Extent("A.orders", THIS, 705))
    assert buffer.extent == Extent("A.orders", THIS, 705)
    buffer.extend(Extent("A.orders", OTHER, 710))
    assert buffer.extent == Extent("A.orders", THIS, 710), "an answer of this log that is read late"


@pytest.mark.parametrize(("known", "found", "is_made_again"), [
    (THIS, THIS, False), (THIS, UUID(str(THIS)), False), (THIS, None, False), (NO_TOPIC_ID, OTHER, False),
    (THIS, OTHER, True),
])  # fmt: skip
def test_nothing_goes_to_a_topic_that_was_made_again(known: UUID, found: UUID | None, is_made_again: bool) -> None:
    lost: list[str] = []
    others: Any = SimpleNamespace(
        sequence_lost=lambda _, why: lost.append(why), topic_id=lambda topic: {"A.orders": found}[topic]
    )
    buffer = new_buffer()
    buffer.append_from(Append(PRODUCER, 0, "A.orders", known))
    batches = AlignedBatches({}, others, others, others, others, others, others)
    assert batches.take(buffer) is None, "it has none"
    assert lost == ["its topic was deleted and made again"] * is_made_again


def test_of_records_whose_producer_a_log_may_forget_one_batch_is_under_way() -> None:
    for age_ms, under_way in ((0, 3), (3 * DAY_MS, 1)):
        buffer = new_buffer(merging=False)
        accept(buffer, 8, *(batch(at, 2, at_ms=NOW_MS - age_ms) for at in (0, 2, 4, 6)))
        first = buffer.next_batch(1, 1)
        assert first is not None
        buffer.succeed(first, 0)
        sent = [one for _ in range(4) if (one := buffer.next_batch(1, 1)) is not None]
        assert len(sent) == under_way


def send_all(buffer: AlignedBuffer) -> list[Batch]:
    sent = []
    while (one := buffer.next_batch(1, 1)) is not None:
        sent.append(one)
    return sent


def test_behind_old_records_one_batch_is_under_way_until_a_young_one_is_acknowledged() -> None:
    buffer = new_buffer(merging=False)
    ages_ms = (0, 3 * DAY_MS, 0, 0, 0)
    accept(buffer, 10, *(batch(2 * at, 2, at_ms=NOW_MS - age_ms) for at, age_ms in enumerate(ages_ms)))
    for offset, under_way in ((0, 1), (2, 1), (4, 1)):
        sent = send_all(buffer)
        assert len(sent) == under_way, offset
        buffer.succeed(sent[0], offset)
    assert len(send_all(buffer)) == 2, "the log knows the producer again"


def test_what_is_old_follows_from_how_long_the_target_knows_a_producer() -> None:
    hour_ms = 3_600_000
    for memory_ms, age_ms, together in ((DAY_MS, 2 * hour_ms, 2), (hour_ms, 2 * hour_ms, 1), (60_000, 0, 1)):
        buffer = new_buffer(merging=False)
        buffer.append_from(Append(PRODUCER, SHIFT, "A.orders", memory_ms=memory_ms))
        accept(buffer, 3, *(batch(at, 1, at_ms=NOW_MS - age_ms) for at in range(3)))
        first = buffer.next_batch(1, 1)
        assert first is not None and buffer.next_batch(1, 1) is None
        buffer.succeed(first, 0)
        assert sum(buffer.next_batch(1, 1) is not None for _ in range(2)) == together, memory_ms


def test_old_records_that_go_out_again_go_out_alone() -> None:
    clock = SystemClock()
    buffer = new_buffer(merging=False, clock=clock)
    accept(buffer, 8, *(batch(at, 2) for at in (0, 2, 4, 6)))
    (first,) = send_all(buffer)
    buffer.succeed(first, 0)
    sent = send_all(buffer)
    assert len(sent) == 3
    clock.time_ns = lambda: (NOW_MS + DAY_MS) * 1_000_000
    for one in sent:
        buffer.retry(one)
    assert buffer.next_batch(1, 1) is sent[0]
    assert not buffer.sendable


def test_a_partition_that_is_taken_on_again_begins_with_one_batch() -> None:
    """Another process may have written old records since."""
    buffer = new_buffer(merging=False)
    accept(buffer, 2, batch(0, 2))
    (first,) = send_all(buffer)
    buffer.succeed(first, 0)
    buffer.restart_at(Place(2))
    buffer.append_from(Append(PRODUCER, 2 + SHIFT, "A.orders"))
    accept(buffer, 6, *(batch(at, 2) for at in (2, 4)))
    assert len(send_all(buffer)) == 1


def test_records_below_what_the_log_has_are_never_sent() -> None:
    buffer = new_buffer(10)
    accept(buffer, 20, batch(15, 5))
    assert buffer.next_batch(1, 1) is None
    buffer.take_filled(Hole(10, 15), 15)
    buffer.rewind()
    accept(buffer, 20, batch(15, 5))
    buffer.move_to(17, buffer.lineage)
    with pytest.raises(ProtocolError, match="from offset 15 on were to go where the log has reached 17"):
        buffer.next_batch(1, 1)


def test_a_run_that_is_a_hole_alone_is_read_again_after_an_eviction() -> None:
    buffer = new_buffer(10)
    accept(buffer, 20)
    assert (buffer.next_batch(1, 1), buffer.hole) == (None, Hole(10, 20))
    buffer.evict()
    assert (buffer.position, buffer.idle) == (10, True)
