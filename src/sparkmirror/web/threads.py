"""Limits the threads on which the page's answers are made, so that neither the page nor the mirror waits for them.

A request to a cluster may take as long as the cluster does, so such requests have threads of their own. Used by
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
    """Runs `make` on a thread on which it may wait for a cluster. Raises its errors."""
    return await run_sync(make, limiter=_SLOW)
