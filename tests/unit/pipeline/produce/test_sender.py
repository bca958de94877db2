"""The sender's loop: what it hears while it does something else is not slept through."""

from collections.abc import Iterable, Iterator
from math import inf
from typing import Any

import pytest

from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.model import Connector
from sparkmirror.pipeline.produce.assembly import SenderOptions
from sparkmirror.pipeline.produce.progress import ProgressOptions
from sparkmirror.pipeline.produce.sender import Sender
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.pipeline.relay.ring import Ring, RingPeer

RUN = Announcement(0, 1, 100, 0, 0, 1, 0, 5, 1, 9)


class Awaiting:
    """A task that has answers to come, for which nothing waits."""

    has_timers = False
    may_leave_answers = True

    def __init__(self) -> None:
        self.taken: list[Announcement] = []

    def take_announced(self, announced: Iterable[Announcement]) -> bool:
        self.taken += announced
        return True

    def send(self, now: float) -> None:
        """Nothing waits."""

    def send_announced(self) -> None:
        """It is gone."""


class Pair:
    """A reader's ring and a sender that has left answers unread, whose timers do not run."""

    def __init__(self) -> None:
        nowhere: Any = None
        options = SenderOptions(nowhere, ProgressOptions(Connector.of_dedicated_mode("A"), ledger_topics("A"), 1e9))
        self.ring = Ring(1 << 20)
        self.peer = RingPeer(self.ring.address)
        self.peer.listener.listen()
        self.sender = Sender(options, PlanRow(0, "run", 1, 1, 7, 3, self.ring.address, 25, ()), self.peer)
        self.task = Awaiting()
        task: Any = self.task
        self.sender._task = task
        self.sender._tend_at = self.sender._timers_at = inf
        self.sender._left_answers = True
        self.sender._plain._is_possible = False  # the turns are Python's

    def announce(self) -> None:
        assert self.ring.announcer.announce(RUN)
        self.ring.call()

    def close(self) -> None:
        self.sender._selector.close()
        self.sender._calls.close()
        self.sender._close_pipe()
        self.peer.close()
        self.ring.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def test_a_call_that_is_heard_while_answers_are_read_is_not_slept_through(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    select, waits = pair.sender._selector.select, []

    def hear(timeout: float | None = None) -> Any:
        if not pair.ring.announcer.announced:
            pair.announce()
        return select(timeout)

    def wait(timeout: float | None = None) -> Any:
        waits.append(list(pair.task.taken))
        return []

    monkeypatch.setattr(pair.sender._selector, "select", hear)
    monkeypatch.setattr(pair.sender._calls, "select", wait)
    while not waits:
        pair.sender._turn()
    assert waits == [[RUN]]


def test_an_announcement_ends_the_wait_in_which_answers_lie_unread(pair: Pair) -> None:
    pair.announce()
    pair.sender._left_answers = False
    pair.sender._turn()
    pair.announce()
    pair.sender._turn()
    assert pair.task.taken == [RUN, RUN]
    assert pair.sender._left_answers
