"""Serves the status page, and probes on a port of their own, from threads of the driver. Opened by `runtime.page`."""

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Self

import uvicorn
from starlette.applications import Starlette

from sparkmirror.config.flow.settings import StatusSettings
from sparkmirror.config.keys.status_keys import PROBES_LISTEN, STATUS_LISTEN
from sparkmirror.config.types import Address
from sparkmirror.errors import EnvironmentProblem
from sparkmirror.web.api import PageRequests, make_routes
from sparkmirror.web.app import Document, make_app, make_probes_app
from sparkmirror.web.arrivals import Arrivals
from sparkmirror.web.certificate import Certificate
from sparkmirror.web.health import Health
from sparkmirror.web.listener import Listener
from sparkmirror.web.threads import limit_threads

log = logging.getLogger(__name__)

_STOP_SECONDS_MAX = 2.0
_BACKLOG = 1024
_HEADER_BYTES_MAX = 16 << 10


class AddressTaken(EnvironmentProblem):
    """Another program listens there, maybe another process with the same file."""


class HttpServer:
    """A context manager. Listens from the start, serves from `start` on, and is gone after `close`."""

    what = ""
    """The subject of sentences about it."""
    key = ""
    """The setting that says where it listens."""

    def __init__(self, listen: Address, app: Starlette, settings: StatusSettings, ended: threading.Event) -> None:
        """Sets `ended` when it closes. Raises AddressTaken, another EnvironmentProblem, or ConfigError."""
        self._certificate = Certificate(settings.tls) if settings.tls else None
        self._per_ip_max = settings.max_connections_per_ip
        self._ended = ended
        self._socket = self._listen(listen)
        host, port = self._socket.getsockname()[:2]
        self.address = Address(listen.host if port == listen.port else host, port)
        config = uvicorn.Config(
            app, http="h11", ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
            proxy_headers=False, timeout_graceful_shutdown=1, log_level="critical",
            h11_max_incomplete_event_size=_HEADER_BYTES_MAX,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name=f"sparkmirror-{self.key}", daemon=True)

    def start(self) -> Self:
        self._thread.start()
        log.info("%s is at %s://%s/", self.what, "https" if self._certificate else "http", self.address)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Answers under way are cut off after a second."""
        self._ended.set()
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS_MAX)
        self._socket.close()

    def _serve(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        """uvicorn listens nowhere itself: the door hands it connections."""
        limit_threads()
        self._server.config.load()
        listener = Listener(self._socket, self._server, Arrivals(self._per_ip_max), self._certificate)
        listener.open()
        try:
            await self._server.serve([])
        finally:
            listener.close()

    def _listen(self, address: Address) -> socket.socket:
        try:
            family, kind, protocol, _, place = socket.getaddrinfo(
                address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listening = socket.socket(family, kind, protocol)
        except OSError as problem:
            raise self._cannot_listen(address, problem) from None
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(place)
            listening.listen(_BACKLOG)
        except OSError as problem:
            listening.close()
            raise self._cannot_listen(address, problem) from None
        return listening

    def _cannot_listen(self, address: Address, problem: OSError) -> EnvironmentProblem:
        kind = AddressTaken if problem.errno == errno.EADDRINUSE else EnvironmentProblem
        hint = f"Choose another `{self.key}`, or leave it out; port 0 takes any free one."
        return kind(f"{self.what} cannot listen at {address}: {problem.strerror}.", hint)


class PageServer(HttpServer):
    """The page, all that it asks for, and the probes."""

    what = "The status page"
    key = STATUS_LISTEN.name

    def __init__(
        self,
        settings: StatusSettings,
        health: Health,
        documents: Mapping[str, Document] | None = None,
        desk: PageRequests | None = None,
    ) -> None:
        """Without a `desk` there are only `documents`. Raises as HttpServer does."""
        ended = threading.Event()
        routes = make_routes(desk, ended.is_set) if desk else ()
        super().__init__(settings.listen, make_app(settings, health, documents or {}, routes), settings, ended)


class ProbesServer(HttpServer):
    """`/healthz` and `/readyz` alone, in plain HTTP: supervisors have no certificates of ours."""

    what = "The probes' port"
    key = PROBES_LISTEN.name

    def __init__(self, settings: StatusSettings, health: Health) -> None:
        """Raises as HttpServer does."""
        plain = replace(settings, tls=None)
        super().__init__(settings.probes_listen, make_probes_app(health), plain, threading.Event())
