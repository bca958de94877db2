"""Histories that resemble one that failed once: what led to one defect leads near to others, and back to itself where
the protocol is broken there. As fuzzers keep what brought them somewhere, and change that a little."""

from collections.abc import Sequence
from random import Random

from tests.simulation.faults import Fault

_DROPPED_SHARE, _OTHER_DRAW_SHARE = 0.15, 0.5
_SHIFTS_SECONDS = (0.0, 0.0, 0.02, 0.2, 1.0)
_ADDED_MAX = 3
_FAULTS_MAX = 16
_FEW = (1, 1, 2)


def vary(random: Random, faults: Sequence[Fault], others: Sequence[Fault], seconds: float) -> tuple[Fault, ...]:
    """The faults, some of them at other times or places, some left out, and a few of the others."""
    found = [_moved(random, fault, seconds) for fault in faults if random.random() >= _DROPPED_SHARE]
    found += random.sample(others, min(random.randint(0, _ADDED_MAX), len(others)))
    return tuple(sorted(found[:_FAULTS_MAX] or faults, key=lambda fault: fault.at))


def change_few(random: Random, faults: Sequence[Fault], others: Sequence[Fault]) -> tuple[Fault, ...]:
    """All of the faults but for one or two, which are left out, moved a bit, or joined by another one."""
    found = list(faults)
    for _ in range(random.choice(_FEW)):
        at = random.randrange(len(found)) if found else 0
        way = random.choice(("drop", "move", "move", "add")) if found else "add"
        if way == "drop" and len(found) > 1:
            del found[at]
        elif way == "add" and others:
            found.append(random.choice(others))
        elif found:
            found[at] = _moved(random, found[at], max(fault.at for fault in found) + 1.0)
    return tuple(sorted(found, key=lambda fault: fault.at))


def _moved(random: Random, fault: Fault, seconds: float) -> Fault:
    at = fault.at + random.choice(_SHIFTS_SECONDS) * random.uniform(-1, 1)
    draw = random.getrandbits(32) if random.random() < _OTHER_DRAW_SHARE else fault.draw
    return fault._replace(at=round(min(max(at, 0.02), seconds), 4), draw=draw)
