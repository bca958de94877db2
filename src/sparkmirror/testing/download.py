"""Shows how far a download is that another program carries out, by the bytes that it has written so far.

Called by `testing.jars` (Ivy downloads) and `testing.demo_data` (pip does), at first use alone.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_LOOK_SECONDS: Final = 0.25
_LINE_SECONDS: Final = 10.0
_MEGA: Final = 1_000_000

Show = Callable[[int], None]
"""Called with the bytes that are there."""


@contextmanager
def showing_download(what: str, directory: Path, size_bytes: int) -> Iterator[None]:
    """While the block downloads `what`, of about `size_bytes`, into `directory`: a bar on stderr with the time that is
    left, or a line every ten seconds where stderr is no terminal."""
    ended = threading.Event()
    with _bar(what, size_bytes) if sys.stderr.isatty() else _lines(what, size_bytes) as show:

        def watch() -> None:
            while not ended.wait(_LOOK_SECONDS):
                show(min(count_bytes(directory), size_bytes))

        watcher = threading.Thread(target=watch, name="sparkmirror-download", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def count_bytes(directory: Path) -> int:
    """All bytes of the files below `directory`, which others make and delete meanwhile."""
    total = 0
    for folder, _, names in os.walk(directory):  # it leaves out what is gone, as `rglob` does not before Python 3.13
        for name in names:
            with suppress(OSError):
                total += Path(folder, name).stat().st_size
    return total


@contextmanager
def _bar(what: str, size_bytes: int) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    words = TextColumn("{task.description}", markup=False)
    columns = (words, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(f"Downloading {what}", total=size_bytes)
        yield lambda done: shown.update(task, completed=done)


@contextmanager
def _lines(what: str, size_bytes: int) -> Iterator[Show]:
    began = said_at = time.monotonic()
    print(f"Downloading {what}, {size_bytes / _MEGA:.0f} MB.", file=sys.stderr, flush=True)

    def show(done: int) -> None:
        nonlocal said_at
        now = time.monotonic()
        if now - said_at < _LINE_SECONDS:
            return
        said_at = now
        left = f", about {(size_bytes - done) * (now - began) / done:.0f} s left" if done > size_bytes / 20 else ""
        print(
            f"Downloading {what}: {done / _MEGA:.0f} of {size_bytes / _MEGA:.0f} MB{left}", file=sys.stderr, flush=True
        )

    yield show
    print(f"Downloaded {what} in {time.monotonic() - began:.0f} s.", file=sys.stderr, flush=True)
