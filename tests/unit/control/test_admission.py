"""A task obeys the planner of its epoch alone, and takes on what its flow mirrors."""

from dataclasses import replace

import pytest

from sparkmirror.control.admission import Admission, prove
from sparkmirror.control.assignment import Assigned, TaskPlan
from sparkmirror.control.commands import Assign, decode_command, encode_command
from sparkmirror.model import TopicPartition

SECRET = b"of the planner"
PLAN = TaskPlan(0, "run", 1, 5, 600.0, (), 1, 0, {}, {}, 0, 25, topics={"orders": 2}, secret=SECRET)
ORDER = prove(Assign("run", 6, 0, (Assigned(TopicPartition("orders", 1), 7),)), SECRET)


def admission() -> Admission:
    return Admission(PLAN, lambda topic: topic in ("orders", "bills"))


def test_an_order_of_the_present_planner_is_obeyed_as_it_was_read() -> None:
    read = decode_command(encode_command(ORDER))
    assert isinstance(read, Assign)
    assert admission().is_for_task(read)
    assert admission().admit(read) == ORDER.add


def test_orders_that_are_read_again_are_not_obeyed_again() -> None:
    """The command topic was cut, and its tail begins at the beginning: what was taken on and released since has gone on
    in another task."""
    where = TopicPartition("orders", 1)
    taken, released = ORDER, prove(Assign("run", 7, 0, release=(where,)), SECRET)
    judge = admission()
    for order in (taken, released):
        assert judge.is_for_task(order)
        judge.admit(order)
    assert not judge.is_for_task(taken) and not judge.is_for_task(released)
    assert judge.is_for_task(prove(Assign("run", 8, 0, (Assigned(where, 9),)), SECRET))


@pytest.mark.parametrize(
    "forged",
    [
        replace(ORDER, proof=""),
        replace(ORDER, proof="\u00e9"),
        prove(ORDER, b"of another planner"),
        replace(ORDER, generation=7),
        replace(ORDER, add=(Assigned(TopicPartition("orders", 0), 7),)),
        replace(ORDER, release=(TopicPartition("orders", 0),)),
        prove(replace(ORDER, generation=5), SECRET),
        prove(replace(ORDER, task=1), SECRET),
        prove(replace(ORDER, run="another"), SECRET),
    ],
)
def test_an_order_of_anybody_else_or_of_before_is_not(forged: Assign) -> None:
    assert not admission().is_for_task(forged)


def test_partitions_that_are_not_mirrored_or_not_there_are_not_taken_on() -> None:
    partitions = [("orders", 1), ("orders", 2), ("bills", 0), ("secrets", 0)]
    add = tuple(Assigned(TopicPartition(*where), 7) for where in partitions)
    order = Assign("run", 6, 0, add, topics={"bills": 1, "secrets": 1})
    assert [item.partition for item in admission().admit(order)] == [
        TopicPartition("orders", 1),
        TopicPartition("bills", 0),
    ]
