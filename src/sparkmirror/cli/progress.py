"""How far long work has come, and about how long the rest takes. Called by the verbs that read logs.

On a terminal bars that are gone in the end; elsewhere a line now and then, so that a pipe or a journal tells it too.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sparkmirror.cli.output import say
from sparkmirror.clock import show_age

Tell = Callable[[str, int, int], None]
"""`tell(what, done, total)`, as often as one likes."""
_LINE_SECONDS = 10.0


@contextmanager
def progress(unit: str) -> Iterator[Tell]:
    """What to tell; `unit` is what is counted, as in `offsets`. All on stderr."""
    if sys.stderr.isatty():
        with _bars(unit) as tell:
            yield tell
    else:
        yield Lines(unit).tell


@contextmanager
def _bars(unit: str) -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    words = TextColumn("{task.description}", markup=False)
    columns = (words, BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    known: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:

        def tell(what: str, done: int, total: int) -> None:
            if what not in known:
                known[what] = shown.add_task(what, total=total)
            shown.update(known[what], completed=done, total=total, visible=done < total)

        yield tell


class Lines:
    """A line every ten seconds, with an estimate by the rate since the work was first told of."""

    def __init__(self, unit: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._unit = unit
        self._clock = clock
        self._began: dict[str, tuple[float, int]] = {}
        self._said_at = clock()

    def tell(self, what: str, done: int, total: int) -> None:
        now = self._clock()
        since, first = self._began.setdefault(what, (now, done))
        if now - self._said_at < _LINE_SECONDS or done >= total:
            return
        self._said_at = now
        rate = (done - first) / max(now - since, 0.001)
        left = f", about {show_age((total - done) / rate)} left" if rate > 0 else ""
        say(f"{what}: {done:,} of {total:,} {self._unit}, {done / total:.0%}{left}")
