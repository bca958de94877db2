"""Pause, resume and retry as a task carries them out: the last order that covers a partition counts."""

from sparkmirror.model import TopicPartition
from sparkmirror.relay.schema import ORDERED_PAUSE, ORDERED_RESUME, ORDERED_RETRY
from sparkmirror.source.commands import Pause, Resume, Retry, Selection
from sparkmirror.source.orders import Orders
from sparkmirror.source.partitions import Partitions, Reading
from sparkmirror.source.plan import Assigned

ALL, ORDERS, SECOND = Selection(), Selection("orders"), Selection("orders", 1)


def read_some(*wheres: tuple[str, int]) -> list[Reading]:
    partitions = Partitions(1 << 20)
    return [partitions.add(Assigned(TopicPartition(*where), 0), 1) for where in wheres]


def test_a_pause_holds_what_it_covers_until_a_resume_does() -> None:
    first, second, audit = readings = read_some(("orders", 0), ("orders", 1), ("audit", 0))
    orders = Orders([])
    rows = orders.take(Pause("run", ORDERS, 1), readings)
    assert [(row.topic, row.partition, row.payload) for row in rows] == [
        ("orders", 0, ORDERED_PAUSE),
        ("orders", 1, ORDERED_PAUSE),
    ]
    assert [reading.may_read(0.0) for reading in readings] == [False, False, True]
    rows = orders.take(Resume("run", SECOND, 2), readings)
    assert [(row.partition, row.payload) for row in rows] == [(1, ORDERED_RESUME)]
    assert [reading.may_read(0.0) for reading in (first, second, audit)] == [False, True, True]


def test_orders_hold_for_partitions_that_come_later_and_in_later_epochs() -> None:
    orders = Orders([Pause("run", ALL, 1), Resume("run", ORDERS, 2)])
    readings = read_some(("orders", 0), ("audit", 0))
    assert [row.topic for row in orders.apply(readings)] == ["audit"]
    assert [reading.may_read(0.0) for reading in readings] == [True, False]
    assert orders.apply(readings) == [], "what has not changed is not told again"


def test_a_resume_does_not_let_go_what_the_writer_holds() -> None:
    (reading,) = read_some(("orders", 0))
    reading.held_by_writer = True
    orders = Orders([])
    orders.take(Pause("run", ALL, 1), [reading])
    orders.take(Resume("run", ALL, 2), [reading])
    assert not reading.may_read(0.0)


def test_a_retry_ends_the_rest_of_a_partition_and_tells_the_writer() -> None:
    first, second = readings = read_some(("orders", 0), ("orders", 1))
    first.not_before = second.not_before = 100.0
    rows = Orders([]).take(Retry("run", SECOND, 1), readings)
    assert [(row.partition, row.payload) for row in rows] == [(1, ORDERED_RETRY)]
    assert [reading.may_read(1.0) for reading in readings] == [False, True]
