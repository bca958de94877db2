"""Writers of markers without a coordinator, one after the other and asleep: whatever comes late, none stands behind its
hole. A model of log, coordinator and writers, which take the steps of `kafka.offset_fillers` in any order."""

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.policy import fillers
from sparkmirror.policy.fillers import Hole, plan_written

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
    marking: int | None = None
    """The epoch whose marker the coordinator has still to write: it has answered that the transaction ends."""
    under_way: list[Sent] = field(default_factory=list)

    def take(self, sent: Sent) -> bool:
        epoch, count = sent
        if epoch < self.newest:
            return False
        self.newest, self.end = epoch, self.end + count
        return True

    def mark(self) -> None:
        """The coordinator writes what it has to: before it gives a newer epoch, too."""
        if self.marking is not None:
            self.newest, self.marking = self.marking, None
            self.end += 1

    def take_over(self) -> int:
        self.mark()
        self.holder += 1
        return self.holder


@dataclass
class Writer:
    """`seen` is the log's end as it was last asked for."""

    log: Log
    epoch: int
    seen: int
    has_begun: bool
    """Whether its first marker, that of a transaction, is there."""
    is_over: bool = False
    has_asked: bool = False

    def step(self, random: Random) -> None:
        hole = self.log.hole
        if self.seen == hole.stop:
            self.is_over = True
        elif self.has_asked:
            self.log.mark()
            self.seen, self.has_begun, self.has_asked = self.log.end, True, False
        elif self.has_begun and (count := plan_written(hole, self.seen)):
            self.send(count, random)
        elif self.log.holder != self.epoch:
            self.is_over = True
        elif not self.has_begun:
            self.log.marking, self.has_asked = self.epoch, True
        else:
            self.log.end += 1
            self.seen += 1

    def send(self, count: int, random: Random) -> None:
        """It comes at once, or later: then the writer is over."""
        if random.random() < 0.3:
            self.log.under_way.append((self.epoch, count))
            self.is_over = True
        elif self.log.take((self.epoch, count)):
            self.seen = self.log.end
        else:
            self.is_over = True


def play(random: Random, hole: Hole, *, has_first: bool = True) -> Log:
    log, writers = Log(hole, hole.first), list[Writer]()
    for _ in range(STEPS):
        kind = random.random()
        if (kind < 0.2 and len(writers) < WRITERS_MAX) or not writers:
            epoch = log.take_over()
            writers.append(Writer(log, epoch, log.end, has_begun=not has_first))
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
    log.mark()
    return log


@settings(max_examples=300)
@given(st.integers(0), st.integers(1, 6000))
def test_no_marker_stands_behind_its_hole(seed: int, size: int) -> None:
    log = play(Random(seed), Hole(100, 100 + size))
    assert log.end <= log.hole.stop


def test_without_first_markers_or_without_a_margin_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def overflows(**how: bool) -> bool:
        logs = (play(Random(seed), Hole(100, 2400), **how) for seed in range(300))
        return any(log.end > log.hole.stop for log in logs)

    assert overflows(has_first=False)
    monkeypatch.setattr(fillers, "_UNWRITTEN", 0)
    assert overflows()
