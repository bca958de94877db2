"""The object files of compiled kernels, in the user's cache: made once, all together, by a process of its own.

Called by `batch.machine_code`. The process that asks first has them made, others wait; when it ends, the next one goes
on where it was. What is damaged is not used.
"""

import hashlib
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import llvmlite
import llvmlite.binding as llvm

from sparkmirror.cache import cache_directory, end_with_parent, fill_once, run_filler

log = logging.getLogger(__name__)

KERNEL_MODULES: Final = (
    "kernels",
    "lz4_blocks",
    "small_runs",
    "produce_turns",
    "plain_answers",
    "fetch_turns",
    "json_members",
    "picking",
    "compare",
)
_CHECKSUM_BYTES: Final = hashlib.sha256().digest_size
_NICENESS: Final = 10
"""Of the process that compiles: a mirror that passes batches meanwhile comes first."""

_filled: Path | None = None
"""In the process that makes them all: where it puts them."""


def load(name: str) -> bytes | None:
    """The object file of that kernel; None where there is none, or not a whole one."""
    directory = _directory()
    if directory is None:
        return None
    try:
        content = (directory / name).read_bytes()
    except OSError:
        return None
    checksum, code = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
    return code if hashlib.sha256(code).digest() == checksum else None


def keep(name: str, code: bytes) -> None:
    """Where files are kept. It appears whole; of two processes that compile at once the later one replaces it."""
    directory = _directory()
    if directory is None:
        return
    try:
        with NamedTemporaryFile(dir=directory, prefix=f".{name}-", delete=False) as file:
            file.write(hashlib.sha256(code).digest() + code)
        Path(file.name).replace(directory / name)
    except OSError as problem:
        log.warning("The kernel %s could not be kept, so the next process compiles it again: %s", name, problem)


def fill(directory: Path, modules: Sequence[str]) -> None:
    """Compile the kernels of these modules into `directory`, those that are not there yet. The process ends with the
    one that waits for it."""
    global _filled
    _filled = directory
    os.nice(_NICENESS)
    end_with_parent()
    for module in modules:
        importlib.import_module(f"sparkmirror.batch.{module}")


def _directory() -> Path | None:
    return _filled or _kept()


@cache
def _kept() -> Path | None:
    """None where no cache can be written, or others could write there: then every process compiles for itself.

    The files are of these sources, since a kernel has the constants of its neighbours in it, of this processor, and of
    the numba and the LLVM that are installed.
    """
    sources = sorted(Path(__file__).parent.glob("*.py"))
    numba = find_spec("numba")
    made_by = Path(numba.origin).stat().st_mtime_ns if numba and numba.origin else 0
    marks = f"{llvmlite.__version__} {made_by} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    version = hashlib.sha256(b"".join(source.read_bytes() for source in sources) + marks.encode()).hexdigest()[:16]
    try:
        return fill_once(cache_directory() / "kernels" / version, _compile_all)
    except OSError as problem:
        log.warning("Kernels cannot be kept in the user's cache, so each process compiles its own: %s", problem)
        return None


def _compile_all(directory: Path) -> None:
    """By another process, which leaves the interpreter of this one alone. Raises OSError."""
    log.info("Compiling kernels, once for this machine and version; this takes half a minute.")
    command = [sys.executable, "-m", "sparkmirror.batch.compiling", str(directory), *KERNEL_MODULES]
    run_filler(command, {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
