"""What is announced goes out in one request at the end of the turn, in order, and its memory back when it is known."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.pipeline.produce.direct_task import PARTITIONS, Task


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
