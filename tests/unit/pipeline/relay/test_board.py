"""The board between a reader and its writer's sender: whole entries, in order, none lost, none twice."""

import select
import subprocess
import sys
from collections import deque
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sparkmirror.pipeline.relay.board import ENTRIES, Announcement
from sparkmirror.pipeline.relay.ring import RING_BYTES_MIN, Ring, RingPeer

ROOT = Path(__file__).parents[4]


def numbered(number: int) -> Announcement:
    """Every field tells the number, so that a mixture of two entries shows."""
    far = number << 40
    return Announcement(number % 4096, number, number, number, far, far + 1, far + 2, -number - 1, far + 3, far + 4)


def hear(peer: RingPeer) -> Announcement | None:
    """The next one: it waits for as many batches of rows as its number says."""
    number = peer.listener.heard
    assert not peer.listener.is_next(number - 1)
    assert peer.listener.take(number - 1) == [], "it waits for its rows"
    is_there = peer.listener.is_next(number)
    found = peer.listener.take(number)
    assert len(found) == 1 or not (found or is_there)
    return found[0] if found else None


def test_a_reader_may_announce_when_the_writer_listens(ring: Ring, peer: RingPeer) -> None:
    assert not ring.announcer.is_listened_to
    assert hear(peer) is None
    peer.listener.listen()
    assert ring.announcer.is_listened_to


def test_a_full_board_takes_nothing_and_goes_on_when_something_was_heard(ring: Ring, peer: RingPeer) -> None:
    assert all(ring.announcer.announce(numbered(number)) for number in range(ENTRIES))
    assert not ring.announcer.announce(numbered(ENTRIES))
    assert ring.unheard == ring.announcer.announced == ENTRIES
    assert hear(peer) == numbered(0)
    assert ring.announcer.announce(numbered(ENTRIES))
    assert not ring.announcer.announce(numbered(ENTRIES + 1))
    assert [hear(peer) for _ in range(ENTRIES + 1)] == [*map(numbered, range(1, ENTRIES + 1)), None]
    assert ring.unheard == 0


def test_a_call_wakes_the_writer_until_it_is_drained_and_also_when_the_reader_is_gone() -> None:
    ring = Ring(RING_BYTES_MIN)
    peer = RingPeer(ring.address)
    ring.call()
    assert select.select([peer.called], [], [], 0)[0]
    peer.drain_call()
    assert not select.select([peer.called], [], [], 0)[0]
    ring.close()
    assert not select.select([peer.called], [], [], 0)[0], "a pipe at its end would be readable for ever"
    peer.close()


def test_all_that_waits_for_no_more_rows_is_heard_at_once(ring: Ring, peer: RingPeer) -> None:
    assert all(ring.announcer.announce(numbered(number)) for number in range(7))
    assert peer.listener.take(4) == [numbered(number) for number in range(5)]
    assert ring.unheard == 2
    assert peer.listener.take(4) == []
    assert peer.listener.take(100) == [numbered(5), numbered(6)]


@pytest.mark.parametrize("records", [-1, 1 << 32])
def test_what_no_entry_holds_is_not_announced(ring: Ring, peer: RingPeer, records: int) -> None:
    assert ring.announcer.announce(numbered(0))
    assert not ring.announcer.announce(numbered(1)._replace(records=records))
    assert ring.announcer.announce(numbered(1))
    assert peer.listener.take(100) == [numbered(0), numbered(1)]


class Talking(RuleBasedStateMachine):
    """A reader and a writer on one board, many times around it, against a plain queue."""

    def __init__(self) -> None:
        super().__init__()
        self.ring = Ring(RING_BYTES_MIN)
        self.peer = RingPeer(self.ring.address)
        self.queue: deque[Announcement] = deque()
        self.number = 0

    @rule(count=st.integers(1, ENTRIES))
    def announce(self, count: int) -> None:
        for _ in range(count):
            if self.ring.announcer.announce(numbered(self.number)):
                self.queue.append(numbered(self.number))
                self.number += 1
            else:
                assert len(self.queue) == ENTRIES

    @rule(count=st.integers(1, ENTRIES))
    def hear(self, count: int) -> None:
        for _ in range(count):
            assert hear(self.peer) == (self.queue.popleft() if self.queue else None)

    @invariant()
    def both_count_alike(self) -> None:
        assert self.ring.unheard == len(self.queue)

    def teardown(self) -> None:
        self.peer.close()
        self.ring.close()


TestTalking = Talking.TestCase
TestTalking.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)


CHILD = """
import select, sys
from sparkmirror.pipeline.relay.ring import RingAddress, RingPeer
from tests.unit.pipeline.relay.test_board import hear, numbered
*address, count = map(int, sys.argv[1:])
peer = RingPeer(RingAddress(*address))
peer.listener.listen()
number = 0
while number < count:
    found = hear(peer)
    if found is None:
        assert select.select([peer.called], [], [], 30)[0], f"nobody called after {number}"
        peer.drain_call()
        continue
    assert found == numbered(number), (number, found)
    number += 1
"""


def test_a_writer_in_another_process_hears_each_announcement_once_and_whole(ring: Ring) -> None:
    """Both run at once, so reads and writes of the same entries meet at every distance."""
    count = 20 * ENTRIES
    arguments = [str(number) for number in (*ring.address, count)]
    child = subprocess.Popen([sys.executable, "-c", CHILD, *arguments], stderr=subprocess.PIPE, cwd=ROOT)
    number = 0
    while number < count and child.poll() is None:
        if ring.announcer.announce(numbered(number)):
            number += 1
            ring.call()
    _, problems = child.communicate(timeout=60)
    assert child.returncode == 0, problems.decode()
    assert (ring.announcer.announced, ring.unheard) == (count, 0)
