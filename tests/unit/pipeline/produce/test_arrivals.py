"""Rows and announcements reach the sender in the reader's order, however late the rows come."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.arrivals import Arrivals
from sparkmirror.pipeline.produce.delivery import Arrival, Delivery
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.pipeline.relay.ring import RING_BYTES_MIN, Ring, RingPeer
from sparkmirror.pipeline.relay.schema import EXTENT, RUN

WHERE = TopicPartition("orders", 3)


def row(number: int, kind: str = RUN) -> Delivery:
    return Delivery(kind, WHERE, "A.orders", number, number + 1, 1, -1, -1, memoryview(b""), None)


@dataclass
class Task:
    """A reader that announces and gives rows, the rows that are on their way, and the sender's side."""

    ring: Ring = field(default_factory=lambda: Ring(RING_BYTES_MIN))
    on_way: deque[tuple[list[Delivery], int]] = field(default_factory=deque)
    told: int = 0
    taken: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.peer = RingPeer(self.ring.address)
        self.arrivals = Arrivals(self.peer.listener)

    def announce(self) -> None:
        number = self._next()
        assert self.ring.announcer.announce(Announcement(5, 1, 1, self.ring.awaited, number, number + 1, 0, -1, -1, 0))

    def give(self, rows: int) -> None:
        """As the reader does: what accounts for announcements first, which nothing waits for if it is alone."""
        self.ring.note_given(is_awaited=rows > 0)
        batch = [row(self.told - 1, EXTENT), *(row(self._next()) for _ in range(rows))]
        self.on_way.append((batch, self.ring.announcer.announced))

    def _next(self) -> int:
        self.told += 1
        return self.told - 1

    def arrive(self) -> None:
        if self.on_way:
            rows, announced = self.on_way.popleft()
            self.arrivals.put(rows, announced)

    def take(self) -> None:
        while arrived := self.next_ones():
            for one in arrived:
                assert isinstance(one, Announcement | Delivery)
                self.taken.append((one.kind if isinstance(one, Delivery) else "announced", one.first_offset))
        assert not self.arrivals

    def next_ones(self) -> Sequence[Announcement | Arrival]:
        """As the sender takes them."""
        if announced := self.arrivals.take_announced():
            return announced
        row = self.arrivals.take_row()
        return () if row is None else (row,)

    def close(self) -> None:
        self.peer.close()
        self.ring.close()


STEPS = st.lists(
    st.one_of(
        st.just(("announce", 0)), st.tuples(st.just("give"), st.integers(0, 3)),
        st.just(("arrive", 0)), st.just(("take", 0)),
    ),
    max_size=60,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_whatever_comes_late_the_order_is_the_readers(steps: list[tuple[str, int]]) -> None:
    task = Task()
    for name, rows in steps:
        getattr(task, name)(*([rows] if name == "give" else []))
        assert_in_order(task.taken)
    while task.on_way:
        task.arrive()
    task.take()
    assert_in_order(task.taken)
    assert [number for kind, number in task.taken if kind != EXTENT] == list(range(task.told)), "nothing is left behind"
    assert sum(kind == EXTENT for kind, _ in task.taken) == sum(name == "give" for name, _ in steps)
    task.close()


def assert_in_order(taken: list[tuple[str, int]]) -> None:
    """Rows and announcements are numbered as the reader told them; an extent row by what it accounts for last."""
    numbers = [number for kind, number in taken if kind != EXTENT]
    assert numbers == list(range(len(numbers)))
    for at, (kind, number) in enumerate(taken):
        before = [other for other_kind, other in taken[:at] if other_kind != EXTENT]
        if kind == EXTENT:
            assert number < 0 or number in before, "what it accounts for has come"
        if kind == RUN and (later := [other for other_kind, other in taken[at:] if other_kind == EXTENT]):
            assert min(later) >= number, "an extent row may be late, but no row overtakes it"


def test_an_announcement_waits_for_the_rows_before_it_and_not_for_an_extent_row() -> None:
    task = Task()
    task.give(1)
    task.announce()
    task.take()
    assert task.taken == []
    task.arrive()
    task.take()
    assert task.taken == [(EXTENT, -1), (RUN, 0), ("announced", 1)]
    task.give(0)
    task.announce()
    task.take()
    assert task.taken[3:] == [("announced", 2)]
    task.arrive()
    task.take()
    assert task.taken[4:] == [(EXTENT, 1)]
    task.close()


def test_rows_wait_for_the_announcements_before_them_and_without_a_board_for_nothing() -> None:
    task = Task()
    task.arrivals.put([row(1)], announced=1)
    assert task.arrivals.take_row() is None
    task.announce()
    task.take()
    assert task.taken == [("announced", 0), (RUN, 1)]
    task.close()
    alone = Arrivals(None)
    alone.put([row(0), row(1)], announced=0)
    assert [alone.take_row() for _ in range(3)] == [row(0), row(1), None]
