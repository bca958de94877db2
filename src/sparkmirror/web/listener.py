"""Accepts connections to a port and closes those that only occupy it. Runs on the event loop of `web.server`.

It accepts a few connections in each turn of the loop and reads what they have sent before it accepts more, so that a
probe is read before later connections could displace it. `web.arrivals` decides which connections are closed.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sparkmirror.web.arrivals import HEADER_SECONDS_MAX, Arrival, Arrivals, peer_of

log = logging.getLogger(__name__)

_TAKEN_AT_ONCE: Final = 4
_LOOK_SECONDS: Final = 0.25
_PAUSE_SECONDS: Final = 0.1
_STALLED_SECONDS_MAX: Final = 30.0
_FAREWELL_SECONDS_MAX: Final = 2.0
_NO_MORE_FILES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Caller(H11Protocol):
    """uvicorn's connection, which also reports when a header has arrived and when it was answered."""

    def __init__(self, listener: "Listener", arrival: Arrival, server: uvicorn.Server) -> None:
        super().__init__(server.config, server.server_state, {}, asyncio.get_running_loop())
        self._listener = listener
        self._arrival = arrival
        self._stalled: asyncio.TimerHandle | None = None

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._listener.arrivals.ask(self._arrival)

    def on_response_complete(self) -> None:
        self._listener.arrivals.answered(self._arrival, self.loop.time())
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self.resume_writing()
        self._listener.forget(self._arrival)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Closes a client that has read nothing of an answer for half a minute: it has gone, or wants to occupy this
        process."""
        super().pause_writing()
        self._stalled = self.loop.call_later(_STALLED_SECONDS_MAX, self.transport.abort)

    def resume_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        super().resume_writing()


class Listener:
    """Listens on one socket, which the caller closes. With `context` connections use TLS."""

    def __init__(
        self,
        listening: socket.socket,
        server: uvicorn.Server,
        arrivals: Arrivals,
        context: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self.arrivals = arrivals
        self._listening = listening
        self._server = server
        self._context = context
        self._inside: dict[Arrival, Callable[[], object]] = {}
        self._opening: set[asyncio.Task[None]] = set()
        self._looking: asyncio.TimerHandle | None = None
        listening.setblocking(False)

    def open(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._listening, self._take)
        self._looking = loop.call_later(_LOOK_SECONDS, self._look)

    def close(self) -> None:
        """Accepts no more connections; existing ones stay."""
        asyncio.get_running_loop().remove_reader(self._listening)
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def forget(self, arrival: Arrival) -> None:
        """Its connection is closed."""
        if self._inside.pop(arrival, None) is not None:
            self.arrivals.leave(arrival)

    def _take(self) -> None:
        for _ in range(_TAKEN_AT_ONCE):
            try:
                connection, address = self._listening.accept()
            except OSError as problem:
                if problem.errno in _NO_MORE_FILES:
                    self._make_room()
                return
            connection.setblocking(False)
            self._admit(connection, Arrival(peer_of(address[0]), asyncio.get_running_loop().time()))

    def _admit(self, connection: socket.socket, arrival: Arrival) -> None:
        going = self.arrivals.enter(arrival)
        opening = asyncio.get_running_loop().create_task(self._open(connection, arrival))
        self._opening.add(opening)
        opening.add_done_callback(partial(self._opened, connection, arrival))
        self._inside[arrival] = opening.cancel
        if going is not None:
            self._put_out(going)

    async def _open(self, connection: socket.socket, arrival: Arrival) -> None:
        """Makes a transport of a connection; with TLS this waits for the handshake."""
        secured: dict[str, Any] = {} if self._context is None else {
            "ssl": self._context(),
            "ssl_handshake_timeout": HEADER_SECONDS_MAX,
            "ssl_shutdown_timeout": _FAREWELL_SECONDS_MAX,
        }  # fmt: skip
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
            lambda: Caller(self, arrival, self._server), connection, **secured
        )
        if arrival in self._inside:
            self._inside[arrival] = transport.abort

    def _opened(self, connection: socket.socket, arrival: Arrival, opening: asyncio.Task[None]) -> None:
        """A task that was cancelled before its first step has closed nothing itself."""
        self._opening.discard(opening)
        problem = None if opening.cancelled() else opening.exception()
        if opening.cancelled() or problem is not None:
            connection.close()
            self.forget(arrival)
        if problem is not None and not isinstance(problem, OSError):
            log.warning("A connection to the status page failed: %s: %s", type(problem).__name__, problem)

    def _make_room(self) -> None:
        """Makes room when no file descriptor is left: it closes the connection with the longest wait before it
        accepts the next."""
        going = self.arrivals.first_to_go()
        if going is not None:
            self._put_out(going)
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listening)
        loop.call_later(_PAUSE_SECONDS if going is None else 0, self._go_on)

    def _go_on(self) -> None:
        if self._looking is not None:
            asyncio.get_running_loop().add_reader(self._listening, self._take)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        for arrival in self.arrivals.late(loop.time()):
            self._put_out(arrival)
        self._looking = loop.call_later(_LOOK_SECONDS, self._look)

    def _put_out(self, arrival: Arrival) -> None:
        end = self._inside.get(arrival)
        self.forget(arrival)
        if end is not None:
            end()
