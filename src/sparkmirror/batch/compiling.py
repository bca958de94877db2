"""How the loops of `batch.kernels` and `batch.compare` are compiled by numba, and what they are given.

Compiled once per machine and version of this package, into the user's cache. Importing it costs 0.8 s and 60 MB.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from sparkmirror.cache import cache_directory, own_directory

Int64: TypeAlias = Any
"""A number in compiled code: 64 bits, and it wraps as Java's do."""
Bytes: TypeAlias = NDArray[np.uint8]
Integers: TypeAlias = NDArray[np.int64]
Places: TypeAlias = NDArray[np.int32]
Kernel = TypeVar("Kernel", bound=Callable[..., Any])

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
ROOM = types.Array(types.uint8, 1, "C")
INTEGERS = types.Array(types.int64, 1, "C")
TABLE = types.Array(types.int64, 2, "C")
PLACE = types.Array(types.int32, 1, "C")
PLACES = types.Array(types.int32, 2, "C")
"""A kernel's parameters: bytes to read, bytes to write, numbers, tables of them, places, tables of these."""


def _choose_cache() -> str | None:
    """Where numba is to keep what it compiled, in the user's cache; None where that cannot be written, or where others
    could: then every process compiles for itself.

    numba looks at the time of a kernel's own file alone, but the constants of its neighbours are compiled in too.
    """
    sources = sorted(Path(__file__).parent.glob("*.py"))
    version = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    directory = cache_directory() / "kernels" / version
    try:
        own_directory(directory).chmod(0o700)  # numba makes directories in it as the umask says
    except OSError:
        return None
    return str(directory)


_cache = _choose_cache()


def kernel(signature: Any) -> Callable[[Kernel], Kernel]:
    """Compiles a function for one signature, or loads what was compiled before; other users' cache stays theirs."""

    def compile_now(function: Kernel) -> Kernel:
        others = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = _cache or others
        try:
            compiled: Kernel = numba.njit(signature, cache=_cache is not None, nogil=True)(function)
        finally:
            numba.config.CACHE_DIR = others
        return compiled

    return compile_now


def part(function: Kernel) -> Kernel:
    """A function that is compiled into the kernels that call it."""
    compiled: Kernel = numba.njit(nogil=True, forceinline=True)(function)
    return compiled
