"""Where a task that is tried again begins."""

from uuid import UUID

from sparkmirror.control.assignment import Assigned
from sparkmirror.model import Position, Topic, TopicPartition
from sparkmirror.planning.starts import start_again

WHERE = TopicPartition("orders", 3)
OLD, NEW, NEWEST = UUID(int=1), UUID(int=2), UUID(int=3)
PLANNED = Assigned(WHERE, 100, topic_id=OLD)
"""The topic was made again since: the ledger is in its new log."""
POSITION = Position(3013, ((0, 0),), NEW)


def topic(topic_id: UUID) -> Topic:
    return Topic("orders", topic_id, 4, 1)


def test_it_goes_on_in_the_log_of_the_position_which_the_plan_may_not_know() -> None:
    assert start_again(PLANNED, topic(NEW), POSITION, None) == Assigned(WHERE, 3013, ((0, 0),), NEW)


def test_a_topic_that_is_not_there_now_was_not_made_again() -> None:
    """To compare with the plan's log would begin the new one again from 0."""
    assert start_again(PLANNED, None, POSITION, None) == Assigned(WHERE, 3013, ((0, 0),), NEW)


def test_a_log_that_is_newer_than_the_position_begins_at_0_behind_a_gap() -> None:
    begun = start_again(PLANNED, topic(NEWEST), POSITION, None)
    assert (begun.offset, begun.topic_id, begun.restarted_from) == (0, NEWEST, POSITION)


def test_without_a_position_it_is_as_planned_and_an_unknown_one_is_held() -> None:
    assert start_again(PLANNED, topic(NEW), None, None) == PLANNED
    assert start_again(PLANNED, topic(NEW), POSITION, "unreadable").unknown == "unreadable"
