"""Reserves loopback ports until a broker takes them, and again while it restarts. Called by `kafka`."""

import random
import socket
from contextlib import closing, suppress
from types import TracebackType
from typing import Self

from sparkmirror.errors import EnvironmentProblem

# Below the ephemeral range of Linux and macOS, so that no outgoing connection takes one while its broker is down.
PORTS = range(20000, 32000)


class PortReservation:
    """Distinct TCP ports of 127.0.0.1 that no other reservation on this machine gets until this one is closed.

    A UDP socket bound to the same number marks a port: the broker does not use UDP, and the socket closes when its
    process ends.
    """

    def __init__(self, count: int) -> None:
        """Raises EnvironmentProblem when fewer than `count` ports are free."""
        self._marks: list[socket.socket] = []
        for port in random.sample(PORTS, len(PORTS)):
            if len(self._marks) == count:
                break
            self._try(port)
        if len(self._marks) < count:
            self.close()
            raise EnvironmentProblem(
                f"Fewer than {count} TCP ports of 127.0.0.1 from {PORTS.start} to {PORTS.stop - 1} are free.",
                "end the programs that hold them",
            )

    @property
    def ports(self) -> tuple[int, ...]:
        return tuple(mark.getsockname()[1] for mark in self._marks)

    def close(self) -> None:
        for mark in self._marks:
            mark.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _try(self, port: int) -> None:
        mark = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with suppress(OSError), closing(socket.socket()) as tcp:
            mark.bind(("127.0.0.1", port))
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tcp.bind(("127.0.0.1", port))
            self._marks.append(mark)
            return
        mark.close()
