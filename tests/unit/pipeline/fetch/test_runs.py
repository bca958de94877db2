"""What a fetch brought, from batch headers alone."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kernels import load_kernels

from sparkmirror.batch.header import ATTRIBUTES_AT
from sparkmirror.batch.records import encode_batch
from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.wire.data_requests import AbortedTransaction
from sparkmirror.pipeline.fetch import runs
from sparkmirror.pipeline.fetch.runs import Run, summarize, summarize_committed, summarize_plain


def transactional(first: int, following: int, producer: int, *, marker: bool = False) -> bytes:
    """A batch of a transaction, or the marker that ends it."""
    data = bytearray(batch(first, following, control=marker))
    data[ATTRIBUTES_AT + 1] |= 0x10
    data[43:51] = producer.to_bytes(8, "big")
    return bytes(data)


def committed(*batches: bytes, position: int, aborted: list[tuple[int, int]], end: int | None = None) -> list[Run]:
    records = b"".join(batches)
    transactions = [AbortedTransaction(*one) for one in aborted]
    return summarize_committed(memoryview(records), 0, len(records), position, end, transactions)


def test_batches_of_an_aborted_transaction_are_left_out_and_their_offsets_accounted_for() -> None:
    before, lost, marker = batch(0, 2), transactional(2, 5, 7), transactional(5, 6, 7, marker=True)
    after = transactional(6, 8, 7)
    runs = committed(before, lost, marker, after, position=0, aborted=[(7, 2)])
    assert [(run.first_offset, run.next_offset, run.records) for run in runs] == [(0, 2, 2), (2, 8, 2)]
    assert runs[1].start == len(before) + len(lost)


def test_another_producers_batches_inside_an_aborted_transaction_are_kept() -> None:
    batches = transactional(0, 2, 7), transactional(2, 4, 8), transactional(4, 6, 7)
    runs = committed(*batches, position=0, aborted=[(7, 0)])
    assert [(run.first_offset, run.next_offset, run.records) for run in runs] == [(0, 4, 2), (4, 6, 0)]
    assert runs[1].start == runs[1].stop


def test_the_end_of_a_bounded_read_holds_for_what_is_left_out_too() -> None:
    runs = committed(transactional(0, 4, 7), transactional(4, 9, 7), position=0, aborted=[(7, 0)], end=4)
    assert [(run.first_offset, run.next_offset) for run in runs] == [(0, 4)]


def batch(first: int, following: int, *, control: bool = False, epoch: int = 3, timestamp: int = 1000) -> bytes:
    data = bytearray(encode_batch([(None, b"v")] * (following - first), base_offset=first, timestamp=timestamp))
    data[12:16] = epoch.to_bytes(4, "big")
    data[ATTRIBUTES_AT + 1] |= 0x20 * control
    return bytes(data)


def summary(*batches: bytes, position: int, end: int | None = None, before: bytes = b"frame: ") -> Run | None:
    """Of batches in the middle of a frame."""
    records = b"".join(batches)
    frame = memoryview(before + records + b" and more")
    return summarize(frame, len(before), len(before) + len(records), position, end)


def test_contiguous_batches_are_one_run() -> None:
    first, second = batch(10, 12, epoch=3, timestamp=2000), batch(12, 15, epoch=4, timestamp=1500)
    run = summary(first, second, position=10)
    assert run == Run(7, 7 + len(first) + len(second), 10, 15, 2, 5, 2000, 4)


def test_offsets_that_compaction_left_empty_belong_to_the_run_behind_them() -> None:
    run = summary(batch(20, 22), batch(30, 31), position=10)
    assert run is not None
    assert (run.first_offset, run.next_offset, run.batches) == (10, 31, 2)


def test_batches_below_the_position_are_left_out_and_one_that_straddles_it_stays_whole() -> None:
    below, straddling = batch(0, 5), batch(5, 9)
    run = summary(below, straddling, position=7)
    assert run is not None
    assert (run.start, run.stop) == (7 + len(below), 7 + len(below) + len(straddling))
    assert (run.first_offset, run.next_offset) == (7, 9)


def test_transaction_markers_count_as_batches_not_as_records() -> None:
    run = summary(batch(0, 2), batch(2, 3, control=True, epoch=5, timestamp=9999), position=0)
    assert run is not None
    assert (run.next_offset, run.batches, run.records, run.max_timestamp, run.leader_epoch) == (3, 2, 2, 1000, 5)
    only = summary(batch(0, 1, control=True), position=0)
    assert only is not None
    assert (only.next_offset, only.batches, only.records, only.max_timestamp) == (1, 1, 0, -1)


@pytest.mark.parametrize("left", [1, 11, 60, 70])
def test_a_batch_that_is_cut_off_at_the_end_is_left_for_the_next_fetch(left: int) -> None:
    whole, cut = batch(0, 2), batch(2, 4)[:left]
    run = summary(whole, cut, position=0)
    assert run is not None
    assert (run.stop, run.next_offset) == (7 + len(whole), 2)
    assert summary(cut, position=2) is None


def test_nothing_new_is_no_run() -> None:
    assert summary(position=5) is None
    assert summary(batch(0, 5), position=5) is None


def test_a_bounded_read_takes_no_batch_that_begins_at_its_end() -> None:
    first = batch(0, 4)
    run = summary(first, batch(4, 6), position=0, end=4)
    assert run is not None
    assert (run.stop, run.next_offset) == (7 + len(first), 4)


def test_a_bounded_read_reaches_its_end_over_offsets_that_hold_nothing() -> None:
    """Compaction removed them, and what follows is not wanted: without this the read would never end."""
    run = summary(batch(20, 22), position=10, end=15)
    assert run is not None
    assert (run.start, run.stop, run.first_offset, run.next_offset, run.records) == (7, 7, 10, 15, 0)
    behind = summary(batch(10, 12), batch(20, 22), position=10, end=15)
    assert behind is not None
    assert (behind.batches, behind.next_offset) == (1, 15)


def test_bytes_that_are_no_batches_are_a_protocol_error() -> None:
    with pytest.raises(ProtocolError):
        summary(b"\x07" * 100, position=0)


@pytest.fixture
def kernels_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has met a million small batches; and any run counts as many batches."""
    import sparkmirror.batch.kernels  # noqa: F401

    monkeypatch.setattr(runs, "MANY_BATCHES_MIN", 1)
    monkeypatch.setattr(runs, "MANY_BYTES_MIN", 61)
    load_kernels()


@given(
    shapes=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.booleans(), st.integers(-1, 9)), max_size=8),
    position=st.integers(0, 40),
    bound=st.none() | st.integers(1, 30),
    cut=st.integers(0, 80),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_many_batches_are_summed_up_as_few_are(
    kernels_at_hand: None,
    shapes: list[tuple[int, int, bool, int]],
    position: int,
    bound: int | None,
    cut: int,
) -> None:
    data, offset = b"", 10
    for hole, records, control, timestamp in shapes:
        data += batch(offset + hole, offset + hole + records, control=control, timestamp=timestamp)
        offset += hole + records
    frame = memoryview(b"frame: " + data + b"more")
    stop = max(7, 7 + len(data) - cut)
    end = None if bound is None else position + bound
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "MANY_BYTES_MIN", 1 << 60)
        expected = summarize(frame, 7, stop, position, end)
    assert summarize(frame, 7, stop, position, end) == expected


def epochs_of(*batches: bytes, known: int, position: int = 0) -> list[tuple[int, int, int, int]]:
    records = memoryview(b"".join(batches))
    run = summarize(records, 0, len(records), position, None)
    assert run is not None
    found = runs.split_by_epoch(records, run, known)
    assert [one.start for one in found[1:]] == [one.stop for one in found[:-1]], "no byte is left out"
    return [(one.first_offset, one.next_offset, one.leader_epoch, one.records) for one in found]


def test_a_run_over_an_election_becomes_one_for_each_epoch() -> None:
    before, after, last = batch(0, 2, epoch=3), batch(2, 5, epoch=4), batch(5, 6, epoch=7)
    assert epochs_of(before, after, last, known=3) == [(0, 2, 3, 2), (2, 5, 4, 3), (5, 6, 7, 1)]
    assert epochs_of(before, after, known=-1, position=1) == [(1, 2, 3, 2), (2, 5, 4, 3)]


def test_a_run_of_one_epoch_stays_as_it_is_also_where_that_is_a_new_one() -> None:
    assert epochs_of(batch(0, 2, epoch=4), batch(2, 5, epoch=4), known=3) == [(0, 5, 4, 5)]
    empty = Run(0, 0, 5, 9, 0, 0, -1, 6)
    assert runs.split_by_epoch(memoryview(b""), empty, 3) == [empty]


def test_what_was_left_out_at_the_end_tells_its_epoch() -> None:
    """Else a position behind it would be taken for one in a log that has parted."""
    lost = bytearray(transactional(2, 4, 7))
    lost[12:16] = (9).to_bytes(4, "big")
    (kept, left_out) = committed(batch(0, 2), bytes(lost), position=0, aborted=[(7, 2)])
    assert (kept.leader_epoch, left_out.leader_epoch, left_out.next_offset) == (3, 9, 4)


@pytest.mark.parametrize(("count", "is_plain"), [(4, True), (1, True), (0, False), (5, False), (-(1 << 31), False)])
def test_a_count_of_records_that_a_batch_has_no_offsets_for_is_not_plain(count: int, is_plain: bool) -> None:
    """Compaction may leave fewer records than offsets; a batch that it left empty is seldom."""
    damaged = bytearray(batch(10, 14))
    damaged[57:61] = count.to_bytes(4, "big", signed=True)
    found = summarize_plain(memoryview(damaged), 0, len(damaged), 10, 3)
    assert (found is not None) == is_plain
    assert found is None or (found.next_offset, found.records) == (14, count)
