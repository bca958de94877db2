"""The user's cache directory, filled once and shared by all processes. Called by `engine.warm_start` and `testing`."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_directory() -> Path:
    """`$XDG_CACHE_HOME/sparkmirror`, or `~/.cache/sparkmirror`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sparkmirror"


def publish_once(directory: Path, fill: Callable[[Path], None]) -> Path:
    """`directory`, filled by `fill(scratch directory)` if it is not there yet.

    It appears whole or not at all, and one process fills it while the others wait. What `fill` raises is raised on.
    """
    if directory.is_dir():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with _locked(directory.with_name(f".{directory.name}.lock")):
        if not directory.is_dir():
            _fill(directory, fill)
    return directory


def _fill(directory: Path, fill: Callable[[Path], None]) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        fill(scratch)
        scratch.chmod(0o755)
        scratch.rename(directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
