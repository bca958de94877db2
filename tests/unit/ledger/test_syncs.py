"""When a sync is written: MirrorMaker's traces, and the same for whole stretches as record by record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.ledger.mirror_records import OffsetSync
from sparkmirror.ledger.offset_map import OffsetMap
from sparkmirror.ledger.syncs import PENDING_MAX, SyncEmitter
from sparkmirror.model import TopicPartition

ORDERS = TopicPartition("orders", 0)


def offsets(syncs: list[OffsetSync]) -> list[tuple[int, int]]:
    return [(sync.upstream, sync.downstream) for sync in syncs]


def one_by_one(emitter: SyncEmitter, records: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for upstream, downstream in records:
        emitter.add(ORDERS, upstream, 1, downstream)
        found += offsets(emitter.take(flushed=False))
    return found


def test_the_trace_of_mirrormakers_own_test() -> None:
    """`MirrorSourceTaskTest.testOffsetSync`, offset.lag.max=50."""
    trace = [(0, 100), (2, 102), (3, 152), (4, 153), (5, 154), (6, 203), (7, 204), (2, 206), (3, 207), (4, 3), (5, 4)]
    due = [(0, 100), (2, 102), (4, 153), (7, 204), (2, 206), (4, 3)]
    assert one_by_one(SyncEmitter(50), trace) == due


def test_without_a_lag_every_record_is_due() -> None:
    """`MirrorSourceTaskTest.testZeroOffsetSync`."""
    trace = [(0, 100), (2, 102), (3, 153), (4, 154), (5, 155), (6, 207), (2, 208), (3, 209), (4, 3), (5, 4)]
    assert one_by_one(SyncEmitter(0), trace) == trace


def test_a_steady_stream_gives_a_sync_every_hundred_and_one_records_and_its_end_after_a_flush() -> None:
    emitter = SyncEmitter(100)
    emitter.add(ORDERS, 0, 250, 0)
    assert offsets(emitter.take(flushed=False)) == [(0, 0), (101, 101), (202, 202)]
    assert offsets(emitter.take(flushed=True)) == [(249, 249)]
    assert emitter.take(flushed=True) == []


def test_a_live_trace_with_transactions() -> None:
    """Three records a transaction, markers at 3 and 7: MirrorMaker wrote (0,0) (4,3) (8,6) and, flushed, (10,8)."""
    emitter = SyncEmitter(100)
    found = OffsetMap(0)
    for first, target in ((0, 0), (4, 3), (8, 6)):
        found.append(first, 3, target)
    emitter.follow(ORDERS, found)
    assert offsets(emitter.take(flushed=False)) == [(0, 0), (4, 3), (8, 6)]
    assert offsets(emitter.take(flushed=True)) == [(10, 8)]
    emitter.follow(ORDERS, found)
    assert emitter.take(flushed=True) == [], "nothing new was mirrored"


def test_after_a_restart_records_behind_the_last_sync_are_not_synced_again() -> None:
    emitter = SyncEmitter(100)
    emitter.resume(ORDERS, 249)
    found = OffsetMap(0)
    found.append(0, 300, 0)
    emitter.follow(ORDERS, found)
    assert offsets(emitter.take(flushed=True)) == [(250, 250), (299, 299)]


def test_a_topic_created_again_is_followed_from_its_beginning() -> None:
    emitter = SyncEmitter(100)
    emitter.resume(ORDERS, 5000)
    found = OffsetMap(0)
    found.append(0, 10, 5001)
    emitter.follow(ORDERS, found)
    assert offsets(emitter.take(flushed=True)) == [(0, 5001), (9, 5010)]


def test_an_uncertain_place_gives_no_sync() -> None:
    emitter = SyncEmitter(0)
    found = OffsetMap(0)
    found.append(0, 2, 0)
    found.append_unknown(2, 2)
    found.append(4, 1, 9)
    emitter.follow(ORDERS, found)
    assert offsets(emitter.take(flushed=True)) == [(0, 0), (1, 1), (4, 9)]


def test_a_burst_keeps_the_newest_syncs() -> None:
    emitter = SyncEmitter(100)
    emitter.add(ORDERS, 0, 10_000_000, 0)
    found = offsets(emitter.take(flushed=False))
    assert len(found) == PENDING_MAX
    assert found[-1][0] == 9_999_999 // 101 * 101


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(0, 2)), min_size=1, max_size=15),
    st.integers(1, 12),
)
def test_a_stretch_gives_the_same_syncs_as_its_records_one_by_one(
    story: list[tuple[int, int, int]], lag_max: int
) -> None:
    whole, single = SyncEmitter(lag_max), SyncEmitter(lag_max)
    upstream = downstream = 0
    for hole, records, marker in story:
        upstream, downstream = upstream + hole, downstream + marker
        whole.add(ORDERS, upstream, records, downstream)
        expected = one_by_one(single, [(upstream + at, downstream + at) for at in range(records)])
        assert offsets(whole.take(flushed=False)) == expected
        upstream, downstream = upstream + records, downstream + records


@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=40), min_size=1, max_size=5
    ),
    st.integers(0, 12),
)
def test_of_what_a_filter_left_only_the_newest_ranges_are_looked_at(
    rounds: list[list[tuple[int, int]]], lag_max: int
) -> None:
    """The syncs are those of all ranges."""
    followed, whole = SyncEmitter(lag_max), SyncEmitter(lag_max)
    found, source, target = OffsetMap(0), 0, 0
    for story in rounds:
        for records, hole in story:
            found.append(source, records, target)
            whole.add(ORDERS, source, records, target)
            source, target = source + records + hole, target + records
        followed.follow(ORDERS, found)
        assert offsets(followed.take(flushed=False)) == offsets(whole.take(flushed=False))


def test_of_a_backlog_that_a_filter_left_few_ranges_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    found = OffsetMap(0)
    for at in range(100):
        found.append(at * 1000, 500, at * 500, int("01" * 500, 2))
    emitter, seen = SyncEmitter(100), []
    monkeypatch.setattr(emitter, "add", lambda *stretch: seen.append(stretch))
    emitter.follow(ORDERS, found)
    assert len(seen) == PENDING_MAX


def test_syncs_that_were_not_written_are_due_again_before_newer_ones() -> None:
    emitter = SyncEmitter(0)
    emitter.add(ORDERS, 0, 3, 100)
    refused = emitter.take(flushed=True)
    assert offsets(refused) == [(0, 100), (1, 101), (2, 102)]
    emitter.give_back(refused)
    emitter.add(ORDERS, 3, 1, 103)
    assert offsets(emitter.take(flushed=True)) == [(0, 100), (1, 101), (2, 102), (3, 103)]
    emitter.give_back(refused)
    emitter.add(ORDERS, 4, PENDING_MAX - 1, 104)
    assert offsets(emitter.take(flushed=True))[0] == (2, 102), "the newest stay"
