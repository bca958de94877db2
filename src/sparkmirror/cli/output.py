"""Prints for verbs: `--format` and `--watch` as arguments, pages and JSON as output, and the progress of long work.

Progress is bars on a terminal, which are removed at the end, and a line from time to time elsewhere, so that a pipe or
a journal records it too. Called by the verbs.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sparkmirror.clock import show_age
from sparkmirror.shown import show_lines

if TYPE_CHECKING:
    from sparkmirror.kafka.log_offsets import LogOffsets
    from sparkmirror.views.table import Page


_WATCH_SECONDS = 2.0
_CLEAR = "\x1b[2J\x1b[H"


def say(text: str) -> None:
    """Prints a note beside the answer, on stderr. Names and messages in it come from outside: control characters are
    escaped."""
    print(show_lines(text), file=sys.stderr, flush=True)


def answer(text: str) -> None:
    """A piece of the answer, on stdout, as `say` shows it."""
    print(show_lines(text), flush=True)


def add_format(parser: argparse.ArgumentParser, more: Sequence[str] = ()) -> None:
    """`--format table|json`, and `more` that only this verb can draw."""
    parser.add_argument(
        "--format", choices=("table", "json", *more), default="table", help="how to print (default: table)"
    )


def add_log_format(parser: argparse.ArgumentParser) -> None:
    """`--log-format text|json`, of the commands that run a mirror."""
    words = "how to say what happens, on stderr (default: log.format of FILE, else text)"
    parser.add_argument("--log-format", choices=("text", "json"), default="", help=words)


def add_watch(parser: argparse.ArgumentParser) -> None:
    """`--watch`, of the verbs that show what changes."""
    parser.add_argument("--watch", action="store_true", help="again every two seconds, until Ctrl-C")


def show(args: argparse.Namespace, as_json: Any, render: "Callable[[], Page]") -> None:
    """One answer: JSON, or the page that `render` makes; with `--watch` a line of JSON."""
    if args.format == "json":
        print(json.dumps(as_json, indent=None if getattr(args, "watch", False) else 2), flush=True)
        return
    from sparkmirror.views.table import page_lines, show_page

    page = render()
    if sys.stdout.isatty():
        from rich.console import Console

        show_page(page, Console())
    else:
        print("\n".join(page_lines(page)), flush=True)


def tell_unknown(found: "LogOffsets") -> None:
    """Warns on stderr of partitions whose offsets the cluster does not tell."""
    if found.unknown:
        from sparkmirror.kafka.log_offsets import name_unknown

        say(f"warning: {found.alias} does not tell the offsets of {name_unknown(found.unknown)}")


@contextmanager
def working(sentence: str) -> Iterator[None]:
    """Shows on a terminal that work goes on and for how long, and removes that at the end."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(sentence, total=None)
        yield


def show_again(args: argparse.Namespace, once: Callable[[], None]) -> int:
    """`once`, with `--watch` every two seconds on a clean screen; the exit status. Raises what `once` raises."""
    while True:
        if args.watch and args.format == "table" and sys.stdout.isatty():
            print(_CLEAR, end="")
        once()
        if not args.watch:
            return 0
        time.sleep(_WATCH_SECONDS)


Tell = Callable[[str, int, int], None]
"""`tell(what, done, total)`, as often as one likes."""
_LINE_SECONDS = 10.0


@contextmanager
def progress(unit: str) -> Iterator[Tell]:
    """A function that reports progress; `unit` is the thing that is counted, as in `offsets`. All on stderr."""
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
    """A line every ten seconds, with an estimate by the rate since the work was first reported."""

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
