"""Single steps of an outbox that `test_copying` walks through at random."""

import pytest

from sparkmirror.batch.header import ATTRIBUTES_AT, parse_header
from sparkmirror.batch.records import encode_batch
from sparkmirror.errors import ProtocolError
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.model import TopicPartition
from sparkmirror.target.outbox import IN_FLIGHT_MAX, Outbox
from sparkmirror.target.parcel import Batch, Parcel, free_nothing
from sparkmirror.target.standing import Place, State

WHERE = TopicPartition("orders", 0)


def new_outbox(position: int = 0) -> Outbox:
    return Outbox(WHERE, TopicPartition("A.orders", 0), position, 5)


def batch(first: int, following: int, *, control: bool = False, epoch: int = 3) -> bytes:
    data = bytearray(encode_batch([(None, b"v")] * (following - first), base_offset=first))
    data[12:16] = epoch.to_bytes(4, "big")
    data[ATTRIBUTES_AT + 1] |= 0x20 * control
    return bytes(data)


def accept(outbox: Outbox, following: int, *batches: bytes, freed: list[int] | None = None) -> None:
    def free() -> None:
        if freed is not None:
            freed.append(following)

    outbox.accept(Parcel(memoryview(bytearray(b"".join(batches))), outbox.position, following, free))


def send(outbox: Outbox) -> Batch:
    sent = outbox.next_batch(1000, 7)
    assert sent is not None
    return sent


def test_batches_are_stamped_in_order_and_five_may_be_on_their_way() -> None:
    outbox = new_outbox()
    accept(outbox, 12, *(batch(first, first + 2) for first in range(0, 12, 2)))
    sent = [send(outbox) for _ in range(IN_FLIGHT_MAX)]
    assert not outbox.sendable
    assert outbox.next_batch(1000, 7) is None
    assert [parse_header(b.data, 0).base_sequence for b in sent] == [0, 2, 4, 6, 8]
    assert {(h.producer_id, h.producer_epoch) for h in (parse_header(b.data, 0) for b in sent)} == {(1000, 7)}
    outbox.succeed(sent[1])
    assert outbox.acknowledged == 0, "the first is not acknowledged"
    outbox.succeed(sent[0])
    assert outbox.acknowledged == 4
    assert outbox.sendable


def test_a_marker_at_the_end_is_accounted_for_with_the_last_batch_and_its_epoch() -> None:
    """Else the epoch of the records would be stored at a position behind a marker that a later leader wrote."""
    outbox = new_outbox()
    accept(outbox, 3, batch(0, 2, epoch=3), batch(2, 3, control=True, epoch=4))
    outbox.succeed(send(outbox))
    assert outbox.idle
    assert (outbox.acknowledged, outbox.lineage.leader_epoch) == (3, 4)


def test_a_run_of_markers_is_done_as_soon_as_it_comes() -> None:
    freed: list[int] = []
    outbox = new_outbox()
    accept(outbox, 1, batch(0, 1, control=True, epoch=9), freed=freed)
    assert outbox.idle
    assert not outbox.sendable
    assert (outbox.acknowledged, outbox.lineage.leader_epoch, freed) == (1, 9, [1])


def test_markers_behind_what_is_on_its_way_wait_for_it() -> None:
    freed: list[int] = []
    outbox = new_outbox()
    accept(outbox, 2, batch(0, 2))
    sent = send(outbox)
    accept(outbox, 3, batch(2, 3, control=True, epoch=4), freed=freed)
    assert (outbox.acknowledged, freed) == (0, [3])
    outbox.succeed(sent)
    assert (outbox.acknowledged, outbox.lineage.leader_epoch) == (3, 4)


def test_a_batch_that_is_cut_keeps_the_epoch_of_its_log() -> None:
    outbox = new_outbox(position=2)
    accept(outbox, 4, batch(0, 4, epoch=6))
    cut = send(outbox)
    assert cut.records == 2
    outbox.succeed(cut)
    assert (outbox.acknowledged, outbox.lineage.leader_epoch) == (4, 6)


def test_nothing_new_is_sent_until_all_answers_are_in_and_then_the_same_bytes_again() -> None:
    outbox = new_outbox()
    accept(outbox, 8, *(batch(first, first + 2) for first in range(0, 8, 2)))
    sent = [send(outbox) for _ in range(3)]
    before = [bytes(b.data) for b in sent]
    outbox.retry(sent[0])
    assert not outbox.sendable
    outbox.succeed(sent[1])
    outbox.retry(sent[2])
    assert [bytes(send(outbox).data) for _ in range(2)] == [before[0], before[2]]
    assert outbox.sendable, "what is new follows"
    assert parse_header(send(outbox).data, 0).base_sequence == 6


def test_while_it_rests_nothing_goes_out_and_then_the_same_bytes_again() -> None:
    """A target that says "not now" is asked ten times a second, not with every turn of the loop."""
    outbox = new_outbox()
    accept(outbox, 3, batch(0, 3))
    first = send(outbox)
    outbox.retry(first)
    outbox.rests = True
    assert not outbox.sendable
    outbox.rests = False
    assert send(outbox) is first


def test_a_rewind_takes_the_sequence_back_to_the_first_batch_that_is_not_acknowledged() -> None:
    freed: list[int] = []
    outbox = new_outbox()
    accept(outbox, 6, *(batch(first, first + 2) for first in range(0, 6, 2)), freed=freed)
    first, second = send(outbox), send(outbox)
    outbox.succeed(first)
    outbox.retry(second)
    outbox.rewind()
    assert (outbox.position, outbox.acknowledged, freed) == (2, 2, [6])
    accept(outbox, 4, batch(2, 4))
    assert parse_header(send(outbox).data, 0).base_sequence == 2


def test_an_eviction_frees_the_readers_memory_and_keeps_what_may_be_written() -> None:
    freed: list[int] = []
    outbox = new_outbox()
    accept(outbox, 4, batch(0, 2), batch(2, 4), freed=freed)
    sent = send(outbox)
    kept = bytes(sent.data)
    lent = sent.data
    outbox.evict()
    assert (freed, outbox.state, outbox.position) == ([4], State.REWINDING, 2)
    lent[:] = bytes(len(lent))
    outbox.retry(sent)
    assert bytes(send(outbox).data) == kept
    outbox.succeed(sent)
    assert outbox.idle


def test_an_eviction_before_anything_was_sent_keeps_one_batch_that_will_tell_when_the_target_is_back() -> None:
    freed: list[int] = []
    outbox = new_outbox()
    accept(outbox, 5, batch(0, 1, control=True), batch(1, 3), batch(3, 5), freed=freed)
    accept(outbox, 7, batch(5, 7), freed=freed)
    assert outbox.is_stuck(outbox.progressed_at + 3, 2), "its broker is away: nothing was ever sent"
    outbox.evict()
    assert (freed, outbox.position, outbox.sendable) == ([5, 7], 3, True)
    assert not outbox.take_up(3), "the reader is paused: to flow on now would leave it so"
    outbox.succeed(send(outbox))
    assert (outbox.idle, outbox.acknowledged) == (True, 3)
    assert outbox.take_up(3)
    assert outbox.state is State.FLOWING


def test_an_eviction_behind_a_truncation_comes_back_to_where_the_log_was_rewritten() -> None:
    outbox = new_outbox()
    accept(outbox, 10, batch(0, 10))
    sent = send(outbox)
    cut = Parcel(memoryview(b""), outbox.position, 4, free_nothing)
    cut.turned = Lineage(epochs=((2, 0),), turns=1)
    outbox.accept(cut)
    assert outbox.place == Place(0), "the log is another one once the gap is reached"
    outbox.evict()
    assert (outbox.position, outbox.turns) == (4, 1)
    outbox.succeed(sent)
    assert outbox.place == Place(4, cut.turned)


def test_bytes_that_are_no_batch_are_met_when_they_are_sent_not_when_they_come() -> None:
    """So that they fail their partition alone."""
    outbox = new_outbox()
    accept(outbox, 4, batch(0, 2), b"\x07" * 100)
    outbox.succeed(send(outbox))
    assert outbox.sendable
    with pytest.raises(ProtocolError):
        outbox.next_batch(1000, 7)


def test_a_run_without_bytes_does_not_hide_the_epoch_that_is_known() -> None:
    outbox = new_outbox()
    accept(outbox, 2, batch(0, 2, epoch=6))
    outbox.succeed(send(outbox))
    accept(outbox, 9)
    assert outbox.place == Place(9, Lineage(epochs=((6, 0),)))


def test_each_place_has_the_epochs_of_what_lies_before_it() -> None:
    outbox = new_outbox()
    accept(outbox, 4, batch(0, 2, epoch=6), batch(2, 4, epoch=7))
    first, second = send(outbox), send(outbox)
    assert outbox.reach == Place(4, Lineage(epochs=((6, 0), (7, 2))))
    outbox.succeed(first)
    assert outbox.place == Place(2, Lineage(epochs=((6, 0),)))
    outbox.retry(second)
    outbox.rewind()
    accept(outbox, 4, batch(2, 4, epoch=9))
    outbox.succeed(send(outbox))
    assert outbox.place == Place(4, Lineage(epochs=((6, 0), (9, 2)))), "what was rewound left nothing behind"
