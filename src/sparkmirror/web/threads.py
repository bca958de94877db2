"""Limits the threads on which the page's answers are made, so that neither the page nor the mirror beside it waits for
them.

A question to a cluster may take as long as the cluster does, so such questions have threads of their own. Used by
`web.app` and `web.api`.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import anyio
from anyio.to_thread import current_default_thread_limiter, run_sync

T = TypeVar("T")

_QUICK_MAX: Final = 4
_SLOW_MAX: Final = 4
_SLOW: Final = anyio.CapacityLimiter(_SLOW_MAX)


def limit_threads() -> None:
    """Limits the threads for quick answers, once on the loop: files, states, lists, all that starlette runs on a
    thread."""
    current_default_thread_limiter().total_tokens = _QUICK_MAX


async def run_slowly(make: Callable[[], T]) -> T:
    """`make` on a thread, where it may wait for a cluster. Raises what it raises."""
    return await run_sync(make, limiter=_SLOW)
