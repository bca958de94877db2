"""A source's log was cut: up to where it is still the log that was mirrored, by the epochs in a broker's answers."""

import pytest

from sparkmirror.model import Epochs, Position
from sparkmirror.planning.shared_places import shared_place
from sparkmirror.policy.fillers import Hole

KNOWN = ((1, 0), (3, 40), (4, 90))
"""The log that was mirrored, up to offset 100."""


class Log:
    """Its epochs, each with its first offset, and its end."""

    def __init__(self, epochs: Epochs, end: int) -> None:
        self.epochs, self.end = epochs, end
        self.asked: list[tuple[int, int]] = []

    def parted(self, offset: int, epoch: int) -> tuple[int, int] | None:
        self.asked.append((offset, epoch))
        higher = next((start for known, start in self.epochs if known > epoch), self.end)
        floor = max((known for known, _ in self.epochs if known <= epoch), default=-1)
        return None if floor == epoch and higher >= offset else (floor, higher)


@pytest.mark.parametrize(
    ("epochs", "end", "place"),
    [
        (KNOWN, 130, Position(100, KNOWN)),
        ((*KNOWN, (7, 120)), 130, Position(100, KNOWN)),
        ((*KNOWN, (5, 95)), 130, Position(95, KNOWN)),
        (((1, 0), (3, 40), (5, 60)), 130, Position(60, KNOWN[:2])),
        (((1, 0), (2, 30), (5, 60)), 130, Position(30, KNOWN[:1])),
        (KNOWN, 95, Position(95, KNOWN)),
    ],
)
def test_it_goes_back_to_where_the_logs_part(epochs: Epochs, end: int, place: Position) -> None:
    assert shared_place(Position(100, KNOWN), Hole(0, end), Log(epochs, end).parted) == place


def test_a_start_that_was_cut_before_it_had_a_record_goes_back_too() -> None:
    chosen = Position(100, ((4, 100),))
    assert shared_place(chosen, Hole(0, 130), Log((*KNOWN, (6, 110)), 130).parted) == chosen
    assert shared_place(chosen, Hole(0, 130), Log(((1, 0), (5, 70)), 130).parted).offset == 70
    assert shared_place(chosen, Hole(0, 60), Log(((1, 0), (5, 50)), 60).parted).offset == 50


def test_a_leader_that_was_replaced_before_it_had_a_record_cuts_nothing() -> None:
    assert shared_place(Position(100, ((4, 100),)), Hole(0, 130), Log(((3, 0), (5, 100)), 130).parted).offset == 100


def test_what_cannot_be_asked_is_left() -> None:
    log = Log(KNOWN, 300)
    assert shared_place(Position(100), Hole(0, 300), log.parted) == Position(100)
    assert shared_place(Position(100, KNOWN), Hole(200, 300), log.parted) == Position(100, KNOWN), "retention took it"
    assert not log.asked
