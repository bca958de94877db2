"""What has arrived for a task's sender, in the reader's order: rows that came through Spark, and announcements of the
control page, which overtake them.

The reader counts on both ways. An announcement says how many batches of rows it comes behind, and a batch how many
announcements its rows come behind; the reader announces nothing while rows wait to be given to Spark. So one of the two
is always next, once it is here. Only extent rows may come late: no announcement waits for them. No I/O beyond the
control page; owned by `pipeline.produce.sender`.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sparkmirror.pipeline.produce.delivery import Arrival
from sparkmirror.pipeline.relay.board import Announcement, Listener


class _RowBatch(NamedTuple):
    announced: int
    rows: tuple[Arrival, ...]


class Arrivals:
    """`put` is called by the row thread, everything else by the sender thread. Without a `listener` all comes as
    rows."""

    def __init__(self, listener: Listener | None) -> None:
        self.listener = listener
        self._waiting: deque[_RowBatch] = deque()
        self._rows: deque[Arrival] = deque()
        self._batches = 0

    def put(self, rows: Iterable[Arrival], announced: int) -> None:
        """A batch of rows, before which the reader made so many announcements."""
        self._waiting.append(_RowBatch(announced, tuple(rows)))

    def take_announced(self) -> Sequence[Announcement]:
        """The announcements that come next; none where a row does, or as long as they are not here."""
        return () if self._rows or self.listener is None else self.listener.take(self._batches)

    def take_row(self) -> Arrival | None:
        """The row that comes next, after `take_announced` had nothing; None as long as it is not here."""
        while not self._rows:
            if not self._may_begin_batch():
                return None
            self._rows.extend(self._waiting.popleft().rows)
            self._batches += 1
        return self._rows.popleft()

    @property
    def row_batches(self) -> int:
        """How many batches of rows were begun."""
        return self._batches

    def __bool__(self) -> bool:
        """Whether there is something to take."""
        return bool(self._rows) or self._is_announced() or self._may_begin_batch()

    def _is_announced(self) -> bool:
        return self.listener is not None and self.listener.is_next(self._batches)

    def _may_begin_batch(self) -> bool:
        heard = 0 if self.listener is None else self.listener.heard
        return bool(self._waiting) and self._waiting[0].announced <= heard
