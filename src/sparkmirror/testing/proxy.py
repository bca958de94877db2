"""A long link on loopback: a TCP proxy that delays, caps and breaks. Called by `kafka`, the benchmarks and the tests.

    with LinkProxy(LongLink(round_trip_seconds=0.1), [server_port]) as proxy:
        socket.create_connection(("127.0.0.1", proxy.ports[0]))

The work is done in a process of its own (`proxy_loop`), which ends with this one, however it ends.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from sparkmirror.errors import SparkMirrorError


@dataclass(frozen=True, slots=True)
class LongLink:
    """The properties of a link. Each direction takes half the round trip.

    `window_bytes` is the number of bytes that a connection carries per round trip and direction, as a socket buffer
    limits it (Linux lets a send buffer grow to 4 MiB), 0 for no limit. `bytes_per_second` is the bandwidth of each
    direction of each proxied port, shared by its connections, 0 for no limit.
    """

    round_trip_seconds: float
    window_bytes: int = 4 << 20
    bytes_per_second: float = 0


class LinkProxy:
    """Forwards connections to 127.0.0.1:`ports[i]` to `server_ports[i]`, with the delays of `link`. Faults apply to
    the routes whose numbers (places in `server_ports`) are given, or to all."""

    def __init__(self, link: LongLink, server_ports: Sequence[int], listen_ports: Sequence[int] = ()) -> None:
        """Takes free ports without `listen_ports`. Raises SparkMirrorError when one cannot be had."""
        self.link = link
        spec = {
            "delay_seconds": link.round_trip_seconds / 2,
            "window_bytes": link.window_bytes,
            "bytes_per_second": link.bytes_per_second,
            "routes": list(zip(listen_ports or [0] * len(server_ports), server_ports, strict=True)),
        }
        self._child = subprocess.Popen(
            [sys.executable, "-m", "sparkmirror.testing.proxy_loop", json.dumps(spec)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self.ports: tuple[int, ...] = tuple(self._hear()["ports"])

    @property
    def pid(self) -> int:
        return self._child.pid

    def cut(self, *routes: int) -> None:
        """Resets all connections and refuses new ones."""
        self._order("cut", routes)

    def freeze(self, *routes: int) -> None:
        """A black hole: connections stay open, new ones are accepted, and no byte passes."""
        self._order("freeze", routes)

    def halve(self, *routes: int) -> None:
        """Half-open connections: the server loses them, the client does not notice. New ones are refused."""
        self._order("halve", routes)

    def delay(self, round_trip_seconds: float, *routes: int) -> None:
        """Sets another round trip for bytes that are sent from now on."""
        self._order("delay", routes, seconds=round_trip_seconds / 2)

    def heal(self, *routes: int) -> None:
        """Ends the fault: frozen connections continue, half-open ones are reset, new ones are accepted."""
        self._order("heal", routes)

    def close(self) -> None:
        """Ends the process, and with it all connections. May be called twice."""
        if self._child.stdin is not None and self._child.stdout is not None:
            self._child.stdin.close()
            self._child.wait()
            self._child.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _order(self, verb: str, routes: Sequence[int], **details: float) -> None:
        assert self._child.stdin is not None
        order = {"do": verb, "routes": list(routes) or list(range(len(self.ports))), **details}
        self._child.stdin.write(json.dumps(order).encode() + b"\n")
        self._child.stdin.flush()
        self._hear()

    def _hear(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            self.close()
            raise SparkMirrorError("The proxy of a long link has ended; what it said stands on stderr.")
        answer: dict[str, Any] = json.loads(line)
        return answer
