"""Loads the kernels beside the work that goes on: importing numba takes half a second, compiling once 4 s.

Asked by the reader and the sender, whose loops must not stand still for so long.
"""

import sys
from functools import cache
from threading import Thread


def kernels_ready() -> bool:
    """Whether a kernel answers at once. The first call of a process begins to load them, in a thread.

    Who must have a kernel need not ask: using one waits until it is loaded.
    """
    return not _loader().is_alive()


def kernels_loaded() -> bool:
    """As `kernels_ready`, but does not begin to load them."""
    return "sparkmirror.batch.kernels" in sys.modules and kernels_ready()


@cache
def _loader() -> Thread:
    loader = Thread(target=_load, name="kernels", daemon=True)
    loader.start()
    return loader


def _load() -> None:
    try:
        from sparkmirror.batch import kernels  # noqa: F401
    except Exception:
        return  # The first use imports them again and raises this where it can be told.
