"""Single steps of a partition buffer that `test_copying` walks through at random."""

import pytest
from tests.manual_clock import ManualClock
from tests.unit.pipeline.produce.known_producer import known

from sparkmirror.batch.header import ATTRIBUTES_AT, parse_header
from sparkmirror.batch.merging import IN_FLIGHT_MAX
from sparkmirror.batch.records import encode_batch
from sparkmirror.errors import ProtocolError
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.acked_position import Place
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.partition_state import State
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords, free_nothing

WHERE = TopicPartition("orders", 0)


def new_buffer(position: int = 0) -> PartitionBuffer:
    return known(PartitionBuffer(WHERE, TopicPartition("A.orders", 0), position, 5), 1000, 7)


def batch(first: int, following: int, *, control: bool = False, epoch: int = 3) -> bytes:
    data = bytearray(encode_batch([(None, b"v")] * (following - first), base_offset=first))
    data[12:16] = epoch.to_bytes(4, "big")
    data[ATTRIBUTES_AT + 1] |= 0x20 * control
    return bytes(data)


def accept(buffer: PartitionBuffer, following: int, *batches: bytes, freed: list[int] | None = None) -> None:
    def free() -> None:
        if freed is not None:
            freed.append(following)

    buffer.accept(QueuedRecords(memoryview(bytearray(b"".join(batches))), buffer.position, following, free))


def send(buffer: PartitionBuffer) -> Batch:
    sent = buffer.next_batch(1000, 7)
    assert sent is not None
    return sent


def test_batches_are_stamped_in_order_and_five_may_be_on_their_way() -> None:
    buffer = new_buffer()
    accept(buffer, 12, *(batch(first, first + 2) for first in range(0, 12, 2)))
    sent = [send(buffer) for _ in range(IN_FLIGHT_MAX)]
    assert not buffer.sendable
    assert buffer.next_batch(1000, 7) is None
    assert [parse_header(b.data, 0).base_sequence for b in sent] == [0, 2, 4, 6, 8]
    assert {(h.producer_id, h.producer_epoch) for h in (parse_header(b.data, 0) for b in sent)} == {(1000, 7)}
    buffer.succeed(sent[1])
    assert buffer.acknowledged == 0, "the first is not acknowledged"
    buffer.succeed(sent[0])
    assert buffer.acknowledged == 4
    assert buffer.sendable


def test_of_a_producer_that_the_log_may_not_know_one_batch_is_on_its_way() -> None:
    """A log takes any first sequence: after a refused first batch the second would stand before it."""
    clock = ManualClock(1000.0)
    buffer = PartitionBuffer(WHERE, WHERE, 0, 5, clock=clock)
    accept(buffer, 9, *(batch(first, first + 1) for first in range(9)))
    first = send(buffer)
    assert not buffer.sendable
    buffer.retry(first)
    buffer.succeed(send(buffer))
    sent = [send(buffer) for _ in range(IN_FLIGHT_MAX)]
    assert not buffer.sendable
    for one in sent:
        buffer.succeed(one)
    sent = [send(buffer) for _ in range(3)]
    for one in sent:
        buffer.succeed(one)
    clock.now += 61.0
    accept(buffer, 12, *(batch(first, first + 1) for first in range(9, 12)))
    send(buffer)
    assert not buffer.sendable, "a broker may have forgotten the producer"


def test_a_marker_at_the_end_is_accounted_for_with_the_last_batch_and_its_epoch() -> None:
    """Else the epoch of the records would be stored at a position behind a marker that a later leader wrote."""
    buffer = new_buffer()
    accept(buffer, 3, batch(0, 2, epoch=3), batch(2, 3, control=True, epoch=4))
    buffer.succeed(send(buffer))
    assert buffer.idle
    assert (buffer.acknowledged, buffer.lineage.leader_epoch) == (3, 4)


def test_a_run_of_markers_is_done_as_soon_as_it_comes() -> None:
    freed: list[int] = []
    buffer = new_buffer()
    accept(buffer, 1, batch(0, 1, control=True, epoch=9), freed=freed)
    assert buffer.idle
    assert not buffer.sendable
    assert (buffer.acknowledged, buffer.lineage.leader_epoch, freed) == (1, 9, [1])


def test_markers_behind_what_is_on_its_way_wait_for_it() -> None:
    freed: list[int] = []
    buffer = new_buffer()
    accept(buffer, 2, batch(0, 2))
    sent = send(buffer)
    accept(buffer, 3, batch(2, 3, control=True, epoch=4), freed=freed)
    assert (buffer.acknowledged, freed) == (0, [3])
    buffer.succeed(sent)
    assert (buffer.acknowledged, buffer.lineage.leader_epoch) == (3, 4)


def test_a_batch_that_is_cut_keeps_the_epoch_of_its_log() -> None:
    buffer = new_buffer(position=2)
    accept(buffer, 4, batch(0, 4, epoch=6))
    cut = send(buffer)
    assert cut.records == 2
    buffer.succeed(cut)
    assert (buffer.acknowledged, buffer.lineage.leader_epoch) == (4, 6)


def test_nothing_new_is_sent_until_all_answers_are_in_and_then_the_same_bytes_again() -> None:
    buffer = new_buffer()
    accept(buffer, 8, *(batch(first, first + 2) for first in range(0, 8, 2)))
    sent = [send(buffer) for _ in range(3)]
    before = [bytes(b.data) for b in sent]
    buffer.retry(sent[0])
    assert not buffer.sendable
    buffer.succeed(sent[1])
    buffer.retry(sent[2])
    assert [bytes(send(buffer).data) for _ in range(2)] == [before[0], before[2]]
    assert buffer.sendable, "what is new follows"
    assert parse_header(send(buffer).data, 0).base_sequence == 6


def test_while_it_rests_nothing_goes_out_and_then_the_same_bytes_again() -> None:
    """A target that says "not now" is asked ten times a second, not with every turn of the loop."""
    buffer = new_buffer()
    accept(buffer, 3, batch(0, 3))
    first = send(buffer)
    buffer.retry(first)
    buffer.rest()
    assert not buffer.sendable
    buffer.wake()
    assert send(buffer) is first


def test_a_rewind_takes_the_sequence_back_to_the_first_batch_that_is_not_acknowledged() -> None:
    freed: list[int] = []
    buffer = new_buffer()
    accept(buffer, 6, *(batch(first, first + 2) for first in range(0, 6, 2)), freed=freed)
    first, second = send(buffer), send(buffer)
    buffer.succeed(first)
    buffer.retry(second)
    buffer.rewind()
    assert (buffer.position, buffer.acknowledged, freed) == (2, 2, [6])
    accept(buffer, 4, batch(2, 4))
    assert parse_header(send(buffer).data, 0).base_sequence == 2


def test_an_eviction_frees_the_readers_memory_and_keeps_what_may_be_written() -> None:
    freed: list[int] = []
    buffer = new_buffer()
    accept(buffer, 4, batch(0, 2), batch(2, 4), freed=freed)
    sent = send(buffer)
    kept = bytes(sent.data)
    lent = sent.data
    buffer.evict()
    assert (freed, buffer.state, buffer.position) == ([4], State.DRAINING, 2)
    lent[:] = bytes(len(lent))
    buffer.retry(sent)
    assert bytes(send(buffer).data) == kept
    buffer.succeed(sent)
    assert buffer.idle


def test_an_eviction_before_anything_was_sent_keeps_one_batch_that_will_tell_when_the_target_is_back() -> None:
    freed: list[int] = []
    buffer = new_buffer()
    accept(buffer, 5, batch(0, 1, control=True), batch(1, 3), batch(3, 5), freed=freed)
    accept(buffer, 7, batch(5, 7), freed=freed)
    assert buffer.is_stuck(buffer.progressed_at + 3, 2), "its broker is away: nothing was ever sent"
    buffer.evict()
    assert (freed, buffer.position, buffer.sendable) == ([5, 7], 3, True)
    assert not buffer.take_up(3), "the reader is paused: to flow on now would leave it so"
    buffer.succeed(send(buffer))
    assert (buffer.idle, buffer.acknowledged) == (True, 3)
    assert buffer.take_up(3)
    assert buffer.state is State.FLOWING


def test_an_eviction_behind_a_truncation_comes_back_to_where_the_log_was_rewritten() -> None:
    buffer = new_buffer()
    accept(buffer, 10, batch(0, 10))
    sent = send(buffer)
    cut = QueuedRecords(memoryview(b""), buffer.position, 4, free_nothing)
    cut.turned = Lineage(epochs=((2, 0),), turns=1)
    buffer.accept(cut)
    assert buffer.place == Place(0), "the log is another one once the gap is reached"
    buffer.evict()
    assert (buffer.position, buffer.turns) == (4, 1)
    buffer.succeed(sent)
    assert buffer.place == Place(4, cut.turned)


def test_bytes_that_are_no_batch_are_met_when_they_are_sent_not_when_they_come() -> None:
    """So that they fail their partition alone."""
    buffer = new_buffer()
    accept(buffer, 4, batch(0, 2), b"\x07" * 100)
    buffer.succeed(send(buffer))
    assert buffer.sendable
    with pytest.raises(ProtocolError):
        buffer.next_batch(1000, 7)


def test_a_run_without_bytes_does_not_hide_the_epoch_that_is_known() -> None:
    buffer = new_buffer()
    accept(buffer, 2, batch(0, 2, epoch=6))
    buffer.succeed(send(buffer))
    accept(buffer, 9)
    assert buffer.place == Place(9, Lineage(epochs=((6, 0),)))


def test_each_place_has_the_epochs_of_what_lies_before_it() -> None:
    buffer = new_buffer()
    accept(buffer, 4, batch(0, 2, epoch=6), batch(2, 4, epoch=7))
    first, second = send(buffer), send(buffer)
    assert buffer.reach == Place(4, Lineage(epochs=((6, 0), (7, 2))))
    buffer.succeed(first)
    assert buffer.place == Place(2, Lineage(epochs=((6, 0),)))
    buffer.retry(second)
    buffer.rewind()
    accept(buffer, 4, batch(2, 4, epoch=9))
    buffer.succeed(send(buffer))
    assert buffer.place == Place(4, Lineage(epochs=((6, 0), (9, 2)))), "what was rewound left nothing behind"
