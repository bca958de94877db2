"""Pause, resume and retry as a task carries them out: the last order that covers a partition counts."""

from sparkmirror.control.assignment import Assigned
from sparkmirror.control.commands import Pause, Resume, Retry, Selection
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.fetch.orders import Orders
from sparkmirror.pipeline.fetch.partitions import PartitionFetchState, Partitions
from sparkmirror.pipeline.relay.schema import ORDERED_PAUSE, ORDERED_RESUME, ORDERED_RETRY

ALL, ORDERS, SECOND = Selection(), Selection("orders"), Selection("orders", 1)


def read_some(*wheres: tuple[str, int]) -> list[PartitionFetchState]:
    partitions = Partitions(1 << 20)
    return [partitions.add(Assigned(TopicPartition(*where), 0), 1) for where in wheres]


def test_a_pause_holds_what_it_covers_until_a_resume_does() -> None:
    first, second, audit = fetch_states = read_some(("orders", 0), ("orders", 1), ("audit", 0))
    orders = Orders([])
    rows = orders.take(Pause.of("run", ORDERS, 1), fetch_states)
    assert [(row.topic, row.partition, row.payload) for row in rows] == [
        ("orders", 0, ORDERED_PAUSE),
        ("orders", 1, ORDERED_PAUSE),
    ]
    assert [fetch_state.may_read(0.0) for fetch_state in fetch_states] == [False, False, True]
    rows = orders.take(Resume.of("run", SECOND, 2), fetch_states)
    assert [(row.partition, row.payload) for row in rows] == [(1, ORDERED_RESUME)]
    assert [fetch_state.may_read(0.0) for fetch_state in (first, second, audit)] == [False, True, True]


def test_orders_hold_for_partitions_that_come_later_and_in_later_epochs() -> None:
    orders = Orders([Pause.of("run", ALL, 1), Resume.of("run", ORDERS, 2)])
    fetch_states = read_some(("orders", 0), ("audit", 0))
    assert [row.topic for row in orders.apply(fetch_states)] == ["audit"]
    assert [fetch_state.may_read(0.0) for fetch_state in fetch_states] == [True, False]
    assert orders.apply(fetch_states) == [], "what has not changed is not told again"


def test_an_order_that_is_written_again_changes_nothing() -> None:
    (fetch_state,) = fetch_states = read_some(("orders", 0))
    pause, resume = Pause.of("run", ALL, 1), Resume.of("run", ALL, 2)
    orders = Orders([pause, resume])
    assert [orders.take(one, fetch_states) for one in (pause, resume)] == [[], []]
    assert fetch_state.may_read(0.0)


def test_a_resume_does_not_let_go_what_the_writer_holds() -> None:
    (fetch_state,) = read_some(("orders", 0))
    fetch_state.held_by_writer = True
    orders = Orders([])
    orders.take(Pause.of("run", ALL, 1), [fetch_state])
    orders.take(Resume.of("run", ALL, 2), [fetch_state])
    assert not fetch_state.may_read(0.0)


def test_a_retry_ends_the_rest_of_a_partition_and_tells_the_writer() -> None:
    first, second = fetch_states = read_some(("orders", 0), ("orders", 1))
    first.not_before = second.not_before = 100.0
    rows = Orders([]).take(Retry.of("run", SECOND, 1), fetch_states)
    assert [(row.partition, row.payload) for row in rows] == [(1, ORDERED_RETRY)]
    assert [fetch_state.may_read(1.0) for fetch_state in fetch_states] == [False, True]
