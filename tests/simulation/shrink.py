"""Makes a failing history small: as few faults as still fail, and fewer partitions and tasks where that will do."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.simulation.history import Result
from tests.simulation.scripts import Script

Play = Callable[[Script], Result]


def shrink(result: Result, play: Play, tries_max: int = 150) -> Result:
    """The smallest history found that has a problem of the same kind as the first of `result`."""
    kind, best, tries = kind_of(result.problems[0]), result, 0
    is_smaller = True
    while is_smaller and tries < tries_max:
        is_smaller = False
        for script in _smaller(best.script):
            tries += 1
            found = play(script)
            if any(kind_of(problem) == kind for problem in found.problems):
                best, is_smaller = found, True
                break
            if tries >= tries_max:
                break
    return best


def kind_of(problem: str) -> str:
    """A problem without its numbers and names."""
    words = problem.split("] ", 1)[-1].split()
    return " ".join(word for word in words if word.isalpha())[:60]


def _smaller(script: Script) -> Iterator[Script]:
    faults = script.faults
    for half in (faults[: len(faults) // 2], faults[len(faults) // 2 :]):
        if 0 < len(half) < len(faults):
            yield replace(script, faults=half)
    for at in range(len(faults)):
        yield replace(script, faults=(*faults[:at], *faults[at + 1 :]))
    if script.tasks > 1:
        yield replace(script, tasks=1)
    if script.partitions > 1:
        yield replace(script, partitions=1)
    for seconds in (8.0, 15.0):
        if seconds < script.seconds and (not faults or faults[-1].at < seconds):
            yield replace(script, seconds=seconds)
