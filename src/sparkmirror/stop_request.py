"""The wish to stop, as a signal handler may express it. Made by `runtime.run`.

`threading.Event.set` takes a lock that the interrupted `wait` of the same thread may hold: the handler then waits for
ever, and the mirror never ends. Nothing here takes a lock.
"""

import os
import select
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class StopRequest:
    """Set once, by any thread or signal handler; awaited by any thread."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._is_set = False

    def set(self) -> None:
        self._is_set = True
        os.eventfd_write(self._descriptor, 1)

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Wait until it is set, at most so long; whether it is."""
        if not self._is_set:
            poll = select.poll()
            poll.register(self._descriptor, select.POLLIN)
            poll.poll(seconds * 1000)
        return self._is_set

    def close(self) -> None:
        os.close(self._descriptor)


@contextmanager
def stop_signals() -> Iterator[StopRequest]:
    """SIGTERM and SIGINT set the request; a second SIGINT interrupts."""
    stop = StopRequest()

    def on_signal(number: int, _: object) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    numbers: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, on_signal) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        stop.close()
