"""When to ask the JVM whether a query still runs. Owned by `runtime.running_flow`.

To ask costs some 2 ms over two processes, which an idle mirror pays for nothing as long as nothing has happened.
"""

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sparkmirror.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_SECONDS: Final = 5.0
"""A JVM that stands still does not say that a query has ended: one that is asked shows it by not answering."""


class QueryWatch:
    """Of one query, from its start on."""

    def __init__(self, query: "StreamingQuery", clock: Clock = SYSTEM_CLOCK) -> None:
        self.query = query
        self._clock = clock
        self._look_at = 0.0
        self._has_ended = threading.Event()
        threading.Thread(target=self._await_end, name="query-end", daemon=True).start()

    def _await_end(self) -> None:
        with suppress(Exception):  # of the query, which `RunningFlow.poll` asks for it, or of a JVM that is gone
            self.query.awaitTermination()
        self._has_ended.set()

    @property
    def is_due(self) -> bool:
        """Whether the JVM is to be asked: from the query's end on, and every five seconds before."""
        if self._has_ended.is_set():
            return True
        now = self._clock.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + _LOOK_SECONDS
        return True
