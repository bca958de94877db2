"""What is announced goes out in one request at the end of the turn, in order, and its memory back when it is known."""

import selectors
import socket
from collections.abc import Iterator
from math import inf
from typing import Any

import pytest
from tests.unit.pipeline.produce.known_producer import known

from sparkmirror.batch.records import encode_batch
from sparkmirror.control.assignment import Assigned
from sparkmirror.kafka.wire import data_requests as wire
from sparkmirror.kafka.wire.link import Link
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Connector, TopicPartition
from sparkmirror.pipeline.produce.assembly import SenderOptions, assemble
from sparkmirror.pipeline.produce.connection import ProduceConnection
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.produce.produce_task import ProduceTask
from sparkmirror.pipeline.produce.progress import ProgressOptions
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import Ring, RingPeer

PARTITIONS = [TopicPartition("orders", number) for number in range(3)]
PRODUCER = (7, 3)


class OneLeader:
    """Of all partitions."""

    def of(self, partition: TopicPartition) -> int:
        return 1

    def poll(self) -> None:
        """Nothing is unknown."""

    def broke(self, key: tuple[str, int, int]) -> None:
        """It leads on."""

    def forget_node(self, node: int) -> None:
        """It leads on."""


class Task:
    """A task that has taken each partition's first row, with a target that answers when it is told to."""

    def __init__(self) -> None:
        self.ring = Ring(1 << 20)
        self.peer = RingPeer(self.ring.address)
        nowhere: Any = None
        options = SenderOptions(nowhere, ProgressOptions(Connector.of_dedicated_mode("A"), ledger_topics("A"), 1e9))
        assigned = tuple((Assigned(where, 0), slot) for slot, where in enumerate(PARTITIONS))
        plan = PlanRow(0, "run", 1, 1, *PRODUCER, self.ring.address, 25, assigned)
        self.selector = selectors.DefaultSelector()
        self.parts = assemble(options, plan, self.peer, nowhere, self.selector)
        leaders: Any = OneLeader()
        self.parts.brokers._leaders = leaders
        self.parts.progress._due_at = inf  # no position goes out between the records
        self.task = ProduceTask(self.parts)
        self.task.take_plan(plan)
        ours, self.theirs = socket.socketpair()
        self.connection = ProduceConnection(Link(ours, "broker:9092", {wire.PRODUCE: (9, 12)}, "sparkmirror"), 5.0)
        self.connection.pace.requests_max = 5
        self.parts.brokers._connections[1, 0] = self.connection
        self.parts.dispatch.open(self.connection)
        for where in PARTITIONS:
            self.row(where.partition, 0)
            known(self.parts.gate.buffers[where], *PRODUCER)
        self.sent()
        self.acknowledge()

    def announce(self, partition: int, first: int, batches: int = 1) -> None:
        self.task.take_announced([self.announced(partition, first, batches)])

    def announced(self, partition: int, first: int, batches: int = 1) -> Announcement:
        """Batches of one record in the ring."""
        lease, size = self._lend(first, batches)
        following = first + batches
        return Announcement(partition, batches, size, 0, first, following, lease, 5, following, 9)

    def leased_row(
        self,
        partition: int,
        first: int,
        batches: int = 1,
        *,
        topic: str = "A.orders",
        epoch: int = -1,
        value: bytes = b"",
    ) -> None:
        """As `announce`, in a row that came through Spark."""
        lease, size = self._lend(first, batches, value)
        following, where = first + batches, PARTITIONS[partition]
        payload = self.peer.slice(lease, size)
        self.task.take(Delivery("run", where, topic, first, following, batches, following, 5, payload, lease, 9, epoch))

    def _lend(self, first: int, batches: int, value: bytes = b"") -> tuple[int, int]:
        ends = range(first, first + batches)
        data = b"".join(encode_batch([(b"k", value or b"%d" % at)], base_offset=at) for at in ends)
        lease = self.ring.reserve(len(data))
        assert lease is not None
        self.ring.slice(lease, len(data))[:] = data
        self.ring.lend(lease, [lease])
        return lease, len(data)

    def row(self, partition: int, first: int) -> None:
        payload = memoryview(bytearray(encode_batch([(b"k", b"row")], base_offset=first)))
        where = PARTITIONS[partition]
        self.task.take(Delivery("run", where, "A.orders", first, first + 1, 1, first + 1, 5, payload, None, 9))

    def sent(self) -> list[list[tuple[int, int]]]:
        """By request, partition and source offset of each record."""
        self.task.send(0.0)
        return [
            [
                (buffer.source.partition, span.first_offset + at)
                for buffer, batch in request.batches.values()
                for span in batch.spans
                for at in range(span.records)
            ]
            for request in self.connection.unanswered
        ]

    def acknowledge(self) -> None:
        for buffer, batch in self.connection.unanswered.popleft().batches.values():
            buffer.succeed(batch, 0)

    @property
    def leased(self) -> int:
        """Regions of the reader's memory that are in use."""
        self.peer.publish()
        self.ring.collect()
        return len(self.ring._regions)

    def close(self) -> None:
        self.connection.close()
        self.theirs.close()
        self.selector.close()
        self.peer.close()
        self.ring.close()


@pytest.fixture(params=["by Python", "compiled"])
def task(request: pytest.FixtureRequest) -> Iterator[Task]:
    made = Task()
    if request.param == "compiled":
        made.parts.direct._ready.load()
    yield made
    made.close()


def test_the_announcements_of_a_turn_are_one_request(task: Task) -> None:
    for partition in (2, 0, 1):
        task.announce(partition, 1)
    assert not task.connection.unanswered, "the turn is not over"
    assert not any(task.parts.dispatch.ready()), "nothing is queued"
    assert task.sent() == [[(2, 1), (0, 1), (1, 1)]]
    assert task.leased == 3
    assert task.parts.task_metrics.leased_bytes > 0
    task.acknowledge()
    assert (task.leased, task.parts.task_metrics.leased_bytes) == (0, 0)
    assert [task.parts.gate.buffers[where].acknowledged for where in PARTITIONS] == [2, 2, 2]


def test_a_partition_that_comes_twice_in_a_turn_has_two_requests_in_order(task: Task) -> None:
    """A request may have one batch of a partition."""
    task.announce(0, 1)
    task.announce(0, 2)
    task.announce(1, 1)
    assert task.sent() == [[(0, 1)], [(1, 1)], [(0, 2)]]


def test_of_several_runs_of_a_turn_each_record_goes_once_and_in_order(task: Task) -> None:
    """Two of one partition do not fit into one request, and one is no batch."""
    runs = [task.announced(0, 1, 3), task.announced(1, 1), task.announced(0, 4), task.announced(2, 1)]
    damaged = task.announced(1, 2, 2)
    task.peer.slice(damaged.lease, damaged.size)[16] = 1
    task.task.take_announced([*runs, damaged, task.announced(2, 2)])
    for _ in range(3):
        task.sent()
        while task.connection.unanswered:
            task.acknowledge()
    reached = [task.parts.gate.buffers[where].acknowledged for where in PARTITIONS]
    assert reached == [5, 2, 3]
    assert task.parts.task_metrics.leased_bytes <= damaged.size, "it alone may keep its memory"


def test_what_waits_goes_before_what_is_announced_behind_it(task: Task) -> None:
    task.announce(0, 1, batches=2)
    task.announce(0, 3)
    assert [offset for request in task.sent() for _, offset in request] == [1, 2, 3]


def test_what_was_announced_goes_before_a_row_that_came_behind_it(task: Task) -> None:
    task.announce(0, 1)
    task.row(0, 2)
    task.announce(0, 3)
    assert [offset for request in task.sent() for _, offset in request] == [1, 2, 3]


def test_small_rows_of_a_turn_are_one_request_with_what_is_announced_between_them(task: Task) -> None:
    """As a flow with transforms passes runs on that its steps left whole; the last one's payload came in its row."""
    task.leased_row(0, 1)
    task.announce(1, 1)
    task.row(2, 1)
    assert not task.connection.unanswered, "the turn is not over"
    assert not any(task.parts.dispatch.ready()), "nothing is queued"
    assert task.sent() == [[(0, 1), (1, 1), (2, 1)]]
    assert task.leased == 2
    assert task.parts.gate.inline_bytes > 0
    task.acknowledge()
    assert (task.leased, task.parts.task_metrics.leased_bytes, task.parts.gate.inline_bytes) == (0, 0, 0)
    assert [task.parts.gate.buffers[where].acknowledged for where in PARTITIONS] == [2, 2, 2]


@pytest.mark.parametrize(
    ("what", "row"),
    [
        ("a large one", {"value": bytes(70_000)}),
        ("one of another leader epoch", {"epoch": 3}),
        ("one behind another of its partition", {"first": 2}),
    ],
)
def test_other_rows_are_queued_and_none_is_lost_or_comes_before_another(
    what: str, row: dict[str, Any], task: Task
) -> None:
    given = {"first": 1} | row
    if given["first"] == 2:
        task.leased_row(0, 1)
    task.leased_row(0, **given)
    assert any(task.parts.dispatch.ready()), what
    task.leased_row(0, given["first"] + 1)
    assert [offset for request in task.sent() for _, offset in request] == list(range(1, given["first"] + 2))


def test_a_row_that_does_not_go_on_where_its_partition_stands_is_refused_or_dropped(task: Task) -> None:
    task.leased_row(0, 5)
    assert task.parts.task_metrics.refused_gaps == 1
    task.leased_row(1, 0)
    assert task.parts.task_metrics.duplicates == 1
    assert task.sent() == []
    assert task.leased == 0, "the memory of both goes back"


def test_a_connection_without_room_leaves_what_is_announced_waiting(task: Task) -> None:
    task.connection.pace.requests_max = 0
    task.announce(0, 1)
    assert task.sent() == []
    assert not task.parts.gate.buffers[PARTITIONS[0]].idle
    task.connection.pace.requests_max = 1
    assert task.sent() == [[(0, 1)]]


def test_nothing_is_given_back_of_what_a_broken_connection_carried(task: Task) -> None:
    task.announce(0, 1)
    assert task.sent() == [[(0, 1)]]
    task.parts.dispatch.lose(task.connection)
    assert task.leased == 1
    assert task.parts.gate.buffers[PARTITIONS[0]].is_resending


def test_answers_may_lie_unread_while_nothing_waits_for_them(task: Task) -> None:
    task.connection.link.round_trip_seconds = 0.001
    assert not task.task.may_leave_answers, "none is due"
    task.announce(0, 1)
    task.sent()
    assert task.task.may_leave_answers
    task.connection.pace.requests_max = 1
    task.announce(0, 2)
    task.sent()
    assert not task.task.may_leave_answers, "a batch waits for room on the connection"


def test_answers_are_read_at_once_where_a_partition_has_as_much_under_way_as_may_be(task: Task) -> None:
    """It is not among those that could send now. Unread, the answers held the end of a backlog up for 20 ms a turn."""
    task.connection.link.round_trip_seconds = 0.001
    buffer = task.parts.gate.buffers[PARTITIONS[0]]
    buffer._in_flight.doubt()  # one batch may be under way
    task.announce(0, 1)
    task.sent()
    assert task.task.may_leave_answers
    task.announce(0, 2)
    assert task.sent() == [[(0, 1)]]
    assert not task.parts.dispatch.has_ready(task.connection)
    assert not task.task.may_leave_answers
    task.acknowledge()
    task.parts.dispatch.offer(buffer)
    assert task.sent() == [[(0, 2)]]
    assert task.task.may_leave_answers


def test_answers_are_read_at_once_where_the_broker_is_far_or_the_task_ends(task: Task) -> None:
    task.connection.link.round_trip_seconds = 0.1
    task.announce(0, 1)
    task.sent()
    assert not task.task.may_leave_answers
    task.connection.link.round_trip_seconds = 0.001
    assert task.task.may_leave_answers
    task.parts.drain.begin()
    assert not task.task.may_leave_answers
