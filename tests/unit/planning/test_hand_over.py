"""Partitions under way from one task to another: given on when the ledger shows them released, and not before."""

import logging
from collections.abc import Callable

import pytest
from tests.flows import flow_of

from sparkmirror.control.commands import Assign
from sparkmirror.ledger.positions import PositionRecord
from sparkmirror.model import Position, TopicPartition
from sparkmirror.planning.hand_over import HandOvers, Partings, by_new_task
from sparkmirror.planning.plan import Move

ONE, OTHER = TopicPartition("orders", 1), TopicPartition("orders", 2)
MOVES = [Move(ONE, 0, 1), Move(OTHER, 3, 2)]


def hand_overs() -> HandOvers:
    return HandOvers(flow_of(), "run")


def stored(generation: int, *, released: bool = True) -> PositionRecord:
    return PositionRecord(Position(7), generation, 0, released, "run")


def take_released(
    moving: HandOvers,
    ledger: dict[TopicPartition, PositionRecord],
    is_whole: Callable[[TopicPartition], bool],
    at: float,
) -> list[Move]:
    """Those that are released, and given on at once."""
    found = moving.find_released(ledger, is_whole, at)
    moving.given(found)
    return found


def whole(_: TopicPartition) -> bool:
    return True


def test_a_release_of_which_one_record_is_missing_is_waited_for() -> None:
    """Connect's decides where the new task begins: it would mirror again what the old one had mirrored."""
    moving = hand_overs()
    moving.begin(MOVES, 5, 0.0)
    ledger = {ONE: stored(5), OTHER: stored(5)}
    assert take_released(moving, ledger, lambda where: where == ONE, 0.1) == [MOVES[0]]
    assert take_released(moving, ledger, whole, 0.2) == [MOVES[1]]


def test_each_task_is_ordered_at_once_to_release_what_is_to_leave_it() -> None:
    moving = hand_overs()
    moving.begin(MOVES, 5, 0.0)
    assert moving.releases(5) == [Assign("run", 5, 0, release=(ONE,)), Assign("run", 5, 3, release=(OTHER,))]


def test_a_release_that_could_not_be_written_is_ordered_again_and_the_first_may_have_been_obeyed() -> None:
    moving = hand_overs()
    moving.begin(MOVES, 5, 0.0)
    assert moving.releases(5)
    assert moving.releases(6), "writing it failed"
    moving.note_ordered()
    assert not moving.releases(7)
    assert moving.find_released({ONE: stored(5), OTHER: stored(6)}, whole, 0.1) == MOVES


def test_a_released_partition_is_given_until_that_is_written_though_its_new_task_may_have_begun() -> None:
    moving = hand_overs()
    moving.begin(MOVES[:1], 5, 0.0)
    assert moving.find_released({ONE: stored(5)}, whole, 0.1) == MOVES[:1]
    assert moving.find_released({ONE: stored(6, released=False)}, whole, 0.2) == MOVES[:1]
    moving.given(MOVES[:1])
    assert not moving.open


def test_a_partition_goes_on_when_its_own_release_is_in_the_ledger() -> None:
    moving = hand_overs()
    moving.begin(MOVES, 5, 0.0)
    assert take_released(moving, {}, whole, 0.0) == []
    assert take_released(moving, {ONE: stored(5, released=False), OTHER: stored(4)}, whole, 0.1) == [], (
        "an older release"
    )
    assert take_released(moving, {ONE: stored(5), OTHER: stored(4)}, whole, 0.2) == [MOVES[0]]
    assert moving.open
    assert take_released(moving, {ONE: stored(5), OTHER: stored(6)}, whole, 0.3) == [MOVES[1]]
    assert not moving.open


def test_a_partition_that_is_not_released_is_reported_once_and_still_handed_over_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    moving = hand_overs()
    moving.begin(MOVES[:1], 5, 0.0)
    with caplog.at_level(logging.WARNING):
        take_released(moving, {}, whole, 9.0)
        assert not caplog.messages
        take_released(moving, {}, whole, 11.0)
        take_released(moving, {}, whole, 99.0)
    (message,) = caplog.messages
    assert message.startswith("A->B: orders-1 is to go from task 0 to task 1, but is not released after 10 s")
    assert take_released(moving, {ONE: stored(5)}, whole, 100.0) == MOVES[:1]


def test_an_epochs_end_ends_what_is_under_way() -> None:
    moving = hand_overs()
    moving.begin(MOVES, 5, 0.0)
    moving.forget()
    assert not moving.open


def test_partitions_go_to_their_new_tasks_unless_their_topic_is_gone() -> None:
    gone = Move(TopicPartition("deleted", 0), 0, 1)
    assert by_new_task([*MOVES, gone, Move(TopicPartition("orders", 3), 0, 1)], {"orders"}) == {
        1: [ONE, TopicPartition("orders", 3)],
        2: [OTHER],
    }


def test_what_went_with_its_topic_is_free_when_its_release_or_a_later_one_is_in_the_ledger() -> None:
    gone = Partings()
    gone.begin(ONE, 5)
    gone.begin(OTHER, 5)
    gone.end({ONE: stored(4), OTHER: stored(5, released=False)}, whole)
    assert ONE in gone and OTHER in gone
    gone.end({ONE: stored(6), OTHER: stored(5)}, lambda where: where == ONE)
    assert ONE not in gone and OTHER in gone
    gone.forget()
    assert not gone


def test_a_partition_whose_topic_goes_while_it_moves_waits_for_the_release_that_was_ordered_first() -> None:
    moving = hand_overs()
    moving.begin(MOVES, 5, 0.0)
    assert moving.drop(ONE) == 5
    assert moving.drop(ONE) == 0
    assert take_released(moving, {ONE: stored(5), OTHER: stored(5)}, whole, 0.1) == [MOVES[1]]


def test_a_release_that_is_ordered_twice_is_the_first_that_may_have_been_written() -> None:
    gone = Partings()
    gone.begin(ONE, 5)
    gone.begin(ONE, 6)
    gone.end({ONE: stored(5)}, whole)
    assert ONE not in gone
