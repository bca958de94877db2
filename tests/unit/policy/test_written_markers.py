"""Writers of markers without a coordinator, several at once: whatever comes late, none stands behind its hole. A model
of the log and of the writers, which take the steps of `kafka.offset_fillers` in any order."""

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.policy import fillers
from sparkmirror.policy.fillers import Hole, needs_first_marker, plan_written

STEPS = 120
WRITERS_MAX = 40
Sent = tuple[int, int]
"""Epoch and number of markers of a request that may come late, in part or never."""


@dataclass
class Log:
    hole: Hole
    end: int
    newest: int = -1
    """The producer's epoch."""
    holder: int = -1
    """Whose transactions the coordinator takes."""
    under_way: list[Sent] = field(default_factory=list)

    def take(self, sent: Sent) -> bool:
        epoch, count = sent
        if epoch < self.newest:
            return False
        self.newest, self.end = epoch, self.end + count
        return True


@dataclass
class Writer:
    """`seen` is the log's end as it was last asked for."""

    log: Log
    epoch: int
    seen: int
    has_begun: bool = False
    is_over: bool = False

    def step(self, random: Random) -> None:
        hole = self.log.hole
        if not self.has_begun and needs_first_marker(hole, self.seen):
            self.send(1, random)
        elif self.has_begun and (count := plan_written(hole, self.seen)):
            self.send(count, random)
        elif self.seen < hole.stop:
            self.end_transaction()
        else:
            self.is_over = True

    def send(self, count: int, random: Random) -> None:
        """It comes at once, or later: then the writer is over."""
        if random.random() < 0.3:
            self.log.under_way.append((self.epoch, count))
            self.is_over = True
        elif self.log.take((self.epoch, count)):
            self.seen, self.has_begun = self.log.end, True
        else:
            self.is_over = True

    def end_transaction(self) -> None:
        if self.log.holder != self.epoch:
            self.is_over = True
            return
        self.log.end += 1
        self.seen += 1


def play(random: Random, hole: Hole, *, without_first: bool = False) -> Log:
    log, writers = Log(hole, random.randrange(hole.first, hole.stop)), list[Writer]()
    for _ in range(STEPS):
        kind = random.random()
        if (kind < 0.2 and len(writers) < WRITERS_MAX) or not writers:
            log.holder = len(writers)
            writers.append(Writer(log, log.holder, log.end, has_begun=without_first))
        elif kind < 0.35 and log.under_way:
            epoch, count = log.under_way.pop(random.randrange(len(log.under_way)))
            log.take((epoch, random.randint(1, count)))
        elif awake := [one for one in writers if not one.is_over]:
            walker = random.choice(awake)
            for _ in range(random.choice((1, 1, 600))):
                if not walker.is_over:
                    walker.step(random)
    while log.under_way:
        log.take(log.under_way.pop())
    return log


@settings(max_examples=100)
@given(st.randoms(use_true_random=False), st.integers(1, 6000))
def test_no_marker_stands_behind_its_hole(random: Random, size: int) -> None:
    log = play(random, Hole(100, 100 + size))
    assert log.end <= log.hole.stop


def test_without_first_markers_or_without_a_margin_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def overflows(**how: bool) -> bool:
        logs = (play(Random(seed), Hole(100, 2400), **how) for seed in range(300))
        return any(log.end > log.hole.stop for log in logs)

    assert overflows(without_first=True)
    monkeypatch.setattr(fillers, "_UNWRITTEN", 0)
    assert overflows()
