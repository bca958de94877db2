"""The user's cache directory, filled once and shared by all processes. Called by `spark.warm_start`,
`batch.kernel_files` and `testing`.

What is loaded from it is code: a directory that others may write, or that is another user's, is not used.
"""

import fcntl
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread


def cache_directory() -> Path:
    """`$XDG_CACHE_HOME/sparkmirror`, or `~/.cache/sparkmirror`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sparkmirror"


class OpenToOthers(OSError):
    """A cache that somebody else could have filled, or could change."""


def publish_once(directory: Path, fill: Callable[[Path], None]) -> Path:
    """`directory`, filled by `fill(scratch directory)` if it is not there yet.

    It appears whole or not at all, and one process fills it while the others wait. What `fill` raises is raised on.
    Raises OpenToOthers for a directory that is not this user's alone.
    """
    if not directory.is_dir():
        own_directory(directory.parent)
        with _locked(directory.with_name(f".{directory.name}.lock")):
            if not directory.is_dir():
                _fill(directory, fill)
    require_own(directory)
    return directory


def fill_once(directory: Path, fill: Callable[[Path], None]) -> Path:
    """`directory`, filled by `fill(directory)` unless that has ended once; what it left when it was interrupted stays.

    One process fills it while the others wait. What `fill` raises is raised on. Raises OpenToOthers as `publish_once`.
    """
    filled = own_directory(directory) / ".filled"
    if not filled.exists():
        with _locked(directory / ".lock"):
            if not filled.exists():
                fill(directory)
                filled.touch()
    return directory


def run_filler(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Run a program that fills a directory, and calls `end_with_parent`: nothing outlives who waits for it. Returns the
    last line of what it said on standard error. Raises OSError with that line where it fails."""
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(
        command, env=environment, stdin=pipe, stdout=nowhere, stderr=pipe, text=True, start_new_session=True
    ) as child:
        assert child.stderr is not None
        last = (child.stderr.read().strip().splitlines() or [""])[-1]
        status = child.wait()
    if status:
        raise OSError(last or f"{' '.join(command)} ended with {status}")
    return last


def end_with_parent(seconds_max: float | None = None) -> None:
    """In a program that `run_filler` runs: when the one that waits is gone, or time is up, so is this process with all
    that it started."""

    def watch() -> None:
        select.select([sys.stdin], [], [], seconds_max)
        os.killpg(0, signal.SIGKILL)

    Thread(target=watch, daemon=True).start()


def own_directory(directory: Path) -> Path:
    """`directory`, made with what is above it where it is not there. Raises OpenToOthers, and OSError."""
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
    require_own(directory)
    return directory


def require_own(directory: Path) -> None:
    """Raises OpenToOthers unless `directory` is this user's and nobody else can write in it, or exchange it.

    What is above it may be root's too, and open to all where each may only change his own (`/tmp`).
    """
    real = directory.resolve(strict=True)
    for place in (real, *real.parents):
        found = place.stat()
        is_trusted = found.st_uid == os.geteuid() or (found.st_uid == 0 and place != real)
        writable = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        is_shared = bool(found.st_mode & stat.S_ISVTX) and place != real
        if not is_trusted:
            raise OpenToOthers(f"{place} belongs to user {found.st_uid}; XDG_CACHE_HOME names another place")
        if writable and not is_shared:
            raise OpenToOthers(
                f"others may write in {place}; use `chmod go-w`, or name another place by XDG_CACHE_HOME"
            )


def _fill(directory: Path, fill: Callable[[Path], None]) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        fill(scratch)
        scratch.rename(directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
