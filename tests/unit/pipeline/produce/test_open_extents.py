"""An announced run becomes the same delivery as one that came in a row."""

from sparkmirror.control.assignment import Assigned
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.produce.open_extents import OpenExtents
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import RingAddress

WHERE, OTHER = TopicPartition("orders", 3), TopicPartition("orders", 4)


class Peer:
    def __init__(self) -> None:
        self.data = bytearray(b"0123456789")
        self.given_back: list[int] = []

    def slice(self, lease: int, size: int) -> memoryview:
        return memoryview(self.data)[lease : lease + size]

    def give_back(self, lease: int) -> None:
        self.given_back.append(lease)


def extents(peer: Peer) -> OpenExtents:
    made = OpenExtents(peer)  # type: ignore[arg-type]
    assigned = ((Assigned(WHERE, 0), 5), (Assigned(OTHER, 0), 6))
    made.take_plan(PlanRow(0, "run", 1, 1, 1, 0, RingAddress(1, 2, 3, 4, 5), 25, assigned))
    return made


def run_row(where: TopicPartition, target: str, epoch: int, turns: int) -> Delivery:
    return Delivery("run", where, target, 0, 10, 10, 12, 7, memoryview(b""), 1, 8, epoch, turns)


def announced(slot: int) -> Announcement:
    return Announcement(slot, 2, 4, 0, 10, 12, 3, 99, 15, 100)


def test_the_last_run_row_of_the_partition_says_where_it_goes_and_of_which_log_it_is() -> None:
    peer = Peer()
    open_extents = extents(peer)
    open_extents.open(run_row(WHERE, "A.orders", 4, 0))
    open_extents.open(run_row(OTHER, "elsewhere", 9, 9))
    open_extents.open(run_row(WHERE, "A.orders", 5, 1))
    made = open_extents.deliver(announced(5))
    assert made == Delivery("run", WHERE, "A.orders", 10, 12, 2, 15, 99, memoryview(b"3456"), 3, 100, 5, 1)
    made.payload[0:1] = b"x"
    assert peer.data[3:4] == b"x", "the batch is stamped where it lies"


def test_what_a_step_of_the_query_left_out_stays_left_out_and_its_memory_goes_back() -> None:
    peer = Peer()
    open_extents = extents(peer)
    open_extents.open(run_row(OTHER, "A.orders", 4, 0))
    assert open_extents.deliver(announced(5)) is None
    assert peer.given_back == [3]


def test_a_partition_that_is_taken_on_again_goes_nowhere_before_its_row_says_so() -> None:
    """It has another slot then, and a step of the query may leave it out now."""
    peer = Peer()
    open_extents = extents(peer)
    open_extents.open(run_row(WHERE, "A.orders", 4, 0))
    again = ((Assigned(WHERE, 10), 7), (Assigned(OTHER, 0), 6))
    open_extents.take_plan(PlanRow(0, "run", 1, 1, 1, 0, RingAddress(1, 2, 3, 4, 5), 25, again))
    assert open_extents.deliver(announced(7)) is None
    assert peer.given_back == [3]


def test_a_plan_that_comes_again_closes_no_extent() -> None:
    open_extents = extents(Peer())
    open_extents.open(run_row(WHERE, "A.orders", 4, 0))
    assigned = ((Assigned(WHERE, 0), 5), (Assigned(OTHER, 0), 6))
    open_extents.take_plan(PlanRow(0, "run", 1, 1, 1, 0, RingAddress(1, 2, 3, 4, 5), 25, assigned))
    assert open_extents.deliver(announced(5)) is not None
