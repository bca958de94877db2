"""Limits what goes out before an answer shows the target's speed, for requests and for transactions. No I/O.

A broker with a quota answers at once with a throttle time, and reads nothing from the connection during it (KIP-219):
requests that are already under way there wait for that time, and for those of all requests before them. So a connection
begins with one small request, and a throttled connection has one request under way at a time. `RequestPace` belongs to
`pipeline.produce.connection`, `TransactionPace` to `pipeline.produce.transaction`.
"""

from typing import Final

REQUEST_BYTES_MAX: Final = 8 << 20
TRANSACTION_BYTES_MAX: Final = 256 << 20
_REQUEST_BYTES_FIRST: Final = 256 << 10
_REQUEST_BYTES_LEAST: Final = 64 << 10
_REQUESTS_USUAL: Final = 5
_TRANSACTION_BYTES_FIRST: Final = 1 << 20
_TRANSACTION_BYTES_LEAST: Final = 16 << 10
_LONG_PAUSE_SECONDS: Final = 1.0
"""A request with a longer throttle time was too large: the next one is sized for about this time."""
_TIMEOUT_PARTS: Final = 6
_REQUESTS_ENOUGH: Final = 64
"""More are never under way (`pipeline.produce.connection`)."""


class RequestPace:
    """The pace of one connection: the requests that may be under way, and the bytes after which a request is full.

    Positions go out in one request (`in_one`): a second one would wait for the throttle time of the first.
    """

    def __init__(self, *, in_one: bool = False) -> None:
        self.requests_max = 1
        self._bytes_least = REQUEST_BYTES_MAX if in_one else _REQUEST_BYTES_LEAST
        self.bytes_max = max(_REQUEST_BYTES_FIRST, self._bytes_least)

    @property
    def is_full(self) -> bool:
        """Whether answers without a throttle time change nothing that counts any more."""
        return self.bytes_max >= REQUEST_BYTES_MAX and self.requests_max > _REQUESTS_ENOUGH

    @property
    def is_slow(self) -> bool:
        """Whether less may be under way than small requests need."""
        return self.requests_max < _REQUESTS_USUAL or self.bytes_max < _REQUEST_BYTES_FIRST

    def note(self, sent_bytes: int, pause_seconds: float) -> None:
        """A request of so many bytes was answered with a throttle time in seconds, 0.0 for none."""
        self.requests_max = 1 if pause_seconds else self.requests_max + 1
        if pause_seconds > _LONG_PAUSE_SECONDS:
            self.bytes_max = max(int(sent_bytes * _LONG_PAUSE_SECONDS / pause_seconds), self._bytes_least)
        else:
            self.bytes_max = min(self.bytes_max * 2, REQUEST_BYTES_MAX)


class TransactionPace:
    """The pace of one task: the bytes that a transaction may carry, so that it ends long before the coordinator aborts
    it.

    `timeout_seconds` is the coordinator's time-out. An aborted transaction is sent again in smaller parts: at the same
    size it would be aborted again.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self._seconds_max = timeout_seconds / _TIMEOUT_PARTS
        self.bytes_max = _TRANSACTION_BYTES_FIRST

    def note(self, sent_bytes: int, seconds: float) -> None:
        """A transaction of so many bytes was committed, `seconds` after its first batch went out."""
        if seconds > self._seconds_max:
            self.bytes_max = max(int(sent_bytes * self._seconds_max / seconds), _TRANSACTION_BYTES_LEAST)
        elif sent_bytes >= self.bytes_max and seconds < self._seconds_max / 2:
            self.bytes_max = min(self.bytes_max * 2, TRANSACTION_BYTES_MAX)

    def begin_anew(self) -> None:
        """The open transaction is aborted: the target's speed is unknown again."""
        self.bytes_max = _TRANSACTION_BYTES_FIRST
