"""Which runs are announced instead of going as rows, and that all of them are accounted for."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.ledger.lineage import Lineage
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.fetch.extents import Extents
from sparkmirror.pipeline.fetch.partitions import NO_SLOT, PartitionFetchState
from sparkmirror.pipeline.fetch.runs import Run
from sparkmirror.pipeline.relay.board import ENTRIES
from sparkmirror.pipeline.relay.ring import RING_BYTES_MIN, Ring, RingPeer
from sparkmirror.pipeline.relay.schema import EXTENT

EPOCH = 4


def run(first: int, following: int, epoch: int = EPOCH, latest: int = -1) -> Run:
    return Run(0, 10 * (following - first), first, following, 1, following - first, latest, epoch)


@dataclass
class Reader:
    """A partition in a slot, its extents, and the writer that listens."""

    slot: int = 3

    def __post_init__(self) -> None:
        self.ring = Ring(RING_BYTES_MIN)
        self.writer = RingPeer(self.ring.address)
        self.writer.listener.listen()
        self.extents = Extents(self.ring)
        self.fetch_state = PartitionFetchState(TopicPartition("orders", 7), Lineage(), 0, None, self.slot)

    def announce(self, one: Run, fetched_at: int = 1000) -> bool:
        return self.extents.announce(self.fetch_state, one, 500, 64, fetched_at)

    def close(self) -> None:
        self.writer.close()
        self.ring.close()


@pytest.fixture
def reader() -> Iterator[Reader]:
    made = Reader()
    yield made
    made.close()


def test_what_continues_the_last_run_row_is_announced_with_all_that_a_row_would_say(reader: Reader) -> None:
    reader.extents.open(reader.fetch_state, run(0, 10))
    reader.ring.note_given()
    assert reader.announce(run(10, 12, latest=900))
    assert reader.announce(run(12, 15))
    heard = reader.writer.listener.take(1)
    assert heard[0]._asdict() == {
        "slot": 3, "records": 2, "size": 20, "row_batches": 1, "first_offset": 10, "next_offset": 12, "lease": 64,
        "max_timestamp": 900, "high_watermark": 500, "fetched_at_ms": 1000,
    }  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [run(11, 12), run(9, 12), run(10, 12, EPOCH + 1), run(10, 12, -1)],
    ids=["a gap", "a seek back", "another epoch", "no epoch"],
)
def test_whatever_does_not_continue_it_goes_as_a_row(reader: Reader, other: Run) -> None:
    assert not reader.announce(run(0, 10)), "nothing is open yet"
    reader.extents.open(reader.fetch_state, run(0, 10))
    assert not reader.announce(other)
    reader.extents.open(reader.fetch_state, other)
    assert reader.announce(run(other.next_offset, other.next_offset + 1, other.leader_epoch))


def test_another_log_at_the_same_offset_does_not_continue_it(reader: Reader) -> None:
    reader.extents.open(reader.fetch_state, run(0, 10))
    reader.fetch_state.lineage = reader.fetch_state.lineage._replace(turns=1)
    assert not reader.announce(run(10, 12))


def test_without_a_slot_a_listener_or_room_on_the_board_all_goes_as_rows(reader: Reader) -> None:
    deaf = Ring(RING_BYTES_MIN)
    extents = Extents(deaf)
    extents.open(reader.fetch_state, run(0, 10))
    assert not extents.announce(reader.fetch_state, run(10, 12), 500, 64, 1000)
    deaf.close()
    slotless = Reader(NO_SLOT)
    slotless.extents.open(slotless.fetch_state, run(0, 10))
    assert not slotless.announce(run(10, 12))
    slotless.close()
    reader.extents.open(reader.fetch_state, run(0, 10))
    assert all(reader.announce(run(at, at + 1)) for at in range(10, 10 + ENTRIES))
    assert not reader.announce(run(10 + ENTRIES, 11 + ENTRIES))
    (row,) = reader.extents.take_rows()
    assert (row.next_offset, row.records) == (10 + ENTRIES, ENTRIES), "only what is on the board was announced"


def test_extent_rows_are_due_when_so_many_bytes_were_announced(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkmirror.pipeline.fetch.extents.EXTENT_BYTES_MAX", 100)
    reader.extents.open(reader.fetch_state, run(0, 10))
    assert reader.announce(run(10, 19))
    assert not reader.extents.are_due
    assert reader.announce(run(19, 20))
    assert reader.extents.are_due
    assert [row.bytes for row in reader.extents.take_rows()] == [100]
    assert not reader.extents.are_due


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 50), st.integers(-1, 2000), st.booleans()), max_size=30))
def test_extent_rows_account_for_everything_once(pieces: list[tuple[int, int, bool]]) -> None:
    reader = Reader()
    reader.extents.open(reader.fetch_state, run(0, 10))
    rows, at, ages = [], 10, []
    for count, latest, is_due in pieces:
        assert reader.announce(run(at, at + count, latest=latest), fetched_at=2000)
        at += count
        ages += [2000 - latest] if latest >= 0 else []
        rows += reader.extents.take_rows() if is_due else []
        assert bool(reader.extents) == (not is_due)
    rows += reader.extents.take_rows()
    assert all(row.kind == EXTENT and row.next_offset is not None for row in rows)
    assert [10, *(row.next_offset for row in rows)] == [*(row.first_offset for row in rows), at]
    assert (sum(row.records for row in rows), sum(row.bytes for row in rows)) == (at - 10, 10 * (at - 10))
    assert sum(row.batches for row in rows) == len(pieces)
    told = [row.fetched_at - row.max_timestamp for row in rows if row.max_timestamp >= 0]
    assert max(told, default=None) == max(ages, default=None), "the oldest shows in what observes the query"
    reader.close()
