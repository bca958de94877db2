"""When a task's transactions open and close, and how much each may carry. No I/O; owned by
`pipeline.produce.transaction`.
"""

from typing import Final

from sparkmirror.pipeline.produce.pace import TransactionPace
from sparkmirror.pipeline.produce.transaction_phase import TransactionOptions

_BYTES_OF_LOAD: Final = 1 << 20
"""A transaction with this many bytes was sent under load: then the share of time in which data goes out counts."""
_FLOW_TO_PAUSE: Final = 5
_INTERVALS_MAX: Final = 5


class Cadence:
    """Times are monotonic. `resume_at` is when a throttling broker reads again, 0 for now; `status_at` when the next
    status is due."""

    def __init__(self, options: TransactionOptions) -> None:
        self._interval_seconds = options.interval_seconds
        self._status_seconds = options.status_seconds
        self._pace = TransactionPace(options.timeout_ms / 1000)
        self._bytes = 0
        self._opened_at = 0.0
        self._close_at = 0.0
        self._empty_until = 0.0
        self._closed_at = 0.0
        self._pause = 0.0
        self.resume_at = 0.0
        self.status_at = 0.0

    @property
    def is_full(self) -> bool:
        return self._bytes >= self._pace.bytes_max

    def add(self, size_bytes: int) -> None:
        self._bytes += size_bytes

    def open(self, now: float) -> None:
        """A transaction opens. The first record after a pause is committed at once, under load a commit follows every
        interval."""
        self._opened_at = now
        self._close_at = self._closed_at + self._interval
        self._empty_until = now + self._interval_seconds

    @property
    def _interval(self) -> float:
        """Seconds between commits; longer where transactions take long to end, since no data goes out meanwhile."""
        least = self._interval_seconds
        return min(max(least, self._pause * _FLOW_TO_PAUSE), least * _INTERVALS_MAX)

    @property
    def due_at(self) -> float:
        """When the transaction is to end. With the first protocol it must not end before its first batch.

        Unless none comes, because the partition that opened it has failed meanwhile."""
        return self._close_at if self._bytes else max(self._close_at, self._empty_until)

    def throttle(self, until: float) -> None:
        """A broker throttles: commit now and open the next transaction after it, so that none lasts through it."""
        self.resume_at = max(self.resume_at, until)
        self._close_at = 0.0

    def end_pause(self) -> bool:
        """The throttle time is over; whether there was one."""
        had_pause = self.resume_at > 0
        self.resume_at = 0.0
        return had_pause

    def want_status(self) -> None:
        """The next transaction stores the status, whatever the time."""
        self.status_at = 0.0

    def takes_status(self, now: float) -> bool:
        """Whether the transaction that closes now stores the status; the next one is then due later."""
        if now < self.status_at:
            return False
        self.status_at = now + self._status_seconds
        return True

    def close(self, now: float, *, was_open: bool) -> None:
        """No more data is taken."""
        if not was_open:
            self._opened_at = now
        self._closed_at = now

    def commit(self, now: float) -> None:
        """The transaction is committed."""
        self._pause = now - self._closed_at if self._bytes >= _BYTES_OF_LOAD else 0.0
        self._pace.note(self._bytes, now - self._opened_at)

    def forget_transaction(self) -> None:
        self._bytes = 0

    def begin_anew(self) -> None:
        """The transaction is aborted: the target's speed is unknown again."""
        self._pace.begin_anew()
