"""Runs blocking work beside a selector loop: dials and metadata look-ups never hold up the other brokers.

Used by the loops of `pipeline.fetch.reader` and `pipeline.produce.sender`; results are collected on the loop's own
thread.
"""

from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one piece of work: exactly one of `result` and `error` is meaningful."""

    key: Hashable
    result: Any
    error: Exception | None


class Background:
    """Runs at most one piece of work per key at a time; `wake` is called from the worker thread when one is done.

    Each `pool` has threads of its own, so many: what blocks there for long keeps no look-up or dial waiting.
    """

    def __init__(self, wake: Callable[[], None], threads: int = 4) -> None:
        self._wake = wake
        self._threads = threads
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._running: set[Hashable] = set()
        self._done: SimpleQueue[Outcome] = SimpleQueue()
        self._waking = Lock()
        self._closed = False

    def submit(self, key: Hashable, work: Callable[[], Any], pool: str = "background") -> None:
        """Start the work, unless the same key is already being worked on."""
        if key in self._running:
            return
        if pool not in self._pools:
            self._pools[pool] = ThreadPoolExecutor(self._threads, thread_name_prefix=f"sparkmirror-{pool}")
        self._running.add(key)
        self._pools[pool].submit(work).add_done_callback(lambda future: self._finish(key, future))

    def _finish(self, key: Hashable, future: "Future[Any]") -> None:
        if future.cancelled():
            return
        problem = future.exception()
        if isinstance(problem, Exception):
            self._done.put(Outcome(key, None, problem))
        else:
            self._done.put(Outcome(key, None if problem else future.result(), None))
        with self._waking:
            if not self._closed:
                self._wake()

    def collect(self) -> list[Outcome]:
        outcomes: list[Outcome] = []
        while True:
            try:
                outcome = self._done.get_nowait()
            except Empty:
                return outcomes
            self._running.discard(outcome.key)
            outcomes.append(outcome)

    def close(self) -> None:
        """Drop work that has not begun. Running work may end later, but `wake` is not called any more.

        Its pipe is closed next, and the number may then be another file's: a wake-up would be a stray byte in it.
        """
        with self._waking:
            self._closed = True
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
