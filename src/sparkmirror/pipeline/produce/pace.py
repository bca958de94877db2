"""How much goes out before an answer says how fast the target takes it: of requests, and of a transaction. No I/O.

A broker with a quota answers at once, says for how long it will not read on, and means it: what is already under way
on that connection waits for all of that time, and for that of each request before it (KIP-219). So a connection begins
with one small request, and one that was throttled has one under way at a time. `RequestPace` belongs to
`pipeline.produce.connection`, `TransactionPace` to `pipeline.produce.transaction`.
"""

from typing import Final

REQUEST_BYTES_MAX: Final = 8 << 20
TRANSACTION_BYTES_MAX: Final = 256 << 20
_REQUEST_BYTES_FIRST: Final = 256 << 10
_REQUEST_BYTES_LEAST: Final = 64 << 10
_TRANSACTION_BYTES_FIRST: Final = 1 << 20
_TRANSACTION_BYTES_LEAST: Final = 16 << 10
_LONG_PAUSE_SECONDS: Final = 1.0
"""A request that costs a longer pause was too large: the next is to cost about so much."""
_TIMEOUT_PARTS: Final = 6


class RequestPace:
    """One connection: how many requests may be under way, and after how many bytes one is full.

    Positions go out whole (`in_one`): the second of two requests would wait for the pause that the first one costs.
    """

    def __init__(self, *, in_one: bool = False) -> None:
        self.requests_max = 1
        self._bytes_least = REQUEST_BYTES_MAX if in_one else _REQUEST_BYTES_LEAST
        self.bytes_max = max(_REQUEST_BYTES_FIRST, self._bytes_least)

    def note(self, sent_bytes: int, pause_seconds: float) -> None:
        """A request of so many bytes was answered; the broker asks for a pause, 0.0 for none."""
        self.requests_max = 1 if pause_seconds else self.requests_max + 1
        if pause_seconds > _LONG_PAUSE_SECONDS:
            self.bytes_max = max(int(sent_bytes * _LONG_PAUSE_SECONDS / pause_seconds), self._bytes_least)
        else:
            self.bytes_max = min(self.bytes_max * 2, REQUEST_BYTES_MAX)


class TransactionPace:
    """One task: how many bytes a transaction may carry, so that it ends long before the coordinator aborts it.

    `timeout_seconds` is what the coordinator allows. An aborted transaction is sent again: were it as large again, the
    target would never get beyond it.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self._seconds_max = timeout_seconds / _TIMEOUT_PARTS
        self.bytes_max = _TRANSACTION_BYTES_FIRST

    def note(self, sent_bytes: int, seconds: float) -> None:
        """A transaction of so many bytes was committed, so long after its first batch went out."""
        if seconds > self._seconds_max:
            self.bytes_max = max(int(sent_bytes * self._seconds_max / seconds), _TRANSACTION_BYTES_LEAST)
        elif sent_bytes >= self.bytes_max and seconds < self._seconds_max / 2:
            self.bytes_max = min(self.bytes_max * 2, TRANSACTION_BYTES_MAX)

    def begin_anew(self) -> None:
        """What was open is aborted: how fast the target is, is not known any more."""
        self.bytes_max = _TRANSACTION_BYTES_FIRST
