"""Serves the status page, and the probes on a port of their own, from threads of the driver. `runtime.page` opens
it."""

import asyncio
import errno
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

import uvicorn
from starlette.applications import Starlette

from sparkmirror.config.flow.settings import StatusSettings
from sparkmirror.config.keys.status_keys import PROBES_LISTEN, STATUS_LISTEN
from sparkmirror.config.types import Address
from sparkmirror.errors import ConfigError, EnvironmentProblem
from sparkmirror.kafka.security.tls import TlsSettings
from sparkmirror.web.api import PageRequests, make_routes
from sparkmirror.web.app import Document, make_app, make_probes_app
from sparkmirror.web.arrivals import Arrivals
from sparkmirror.web.health import Health
from sparkmirror.web.listener import Listener
from sparkmirror.web.threads import limit_threads

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 10.0
_STOP_SECONDS_MAX = 2.0
_BACKLOG = 1024
_HEADER_BYTES_MAX = 16 << 10


class Certificate:
    """The certificate of the server; it is read again when its file has changed. Called for the TLS context of each
    new connection, on one thread."""

    def __init__(self, settings: TlsSettings) -> None:
        """Raises ConfigError that names the property whose store cannot be used."""
        self._settings = settings
        self._look_at = time.monotonic() + _LOOK_SECONDS
        self._version = self._changed_ns()
        try:
            self._context = settings.server_context()
        except ConfigError as problem:
            raise ConfigError(f"status.{problem.args[0]}", problem.hint, key=f"status.{problem.key}") from None

    def __call__(self) -> ssl.SSLContext:
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_SECONDS
            self._look()
        return self._context

    def _look(self) -> None:
        """Reads the file again if it has changed. A file that cannot be used, for example half written, is read
        again at its next change."""
        if (version := self._changed_ns()) == self._version:
            return
        self._version = version
        try:
            self._context = self._settings.server_context()
        except ConfigError as problem:
            log.warning("The status page keeps its old certificate: status.%s", problem.args[0])

    def _changed_ns(self) -> int:
        """The time of the last change; 0 for PEM text of the mirror's file, and for a file that does not exist."""
        try:
            return Path(self._settings.key.file).stat().st_mtime_ns if self._settings.key.file else 0
        except OSError:
            return 0


class AddressTaken(EnvironmentProblem):
    """Another program listens on the address, for example another process with the same file."""


class HttpServer:
    """A context manager. It listens from its creation, serves from `start` on, and ends with `close`."""

    what = ""
    """The subject of error sentences about the server."""
    key = ""
    """The setting with the server's address."""

    def __init__(self, listen: Address, app: Starlette, settings: StatusSettings, ended: threading.Event) -> None:
        """It sets `ended` when it closes. Raises AddressTaken, another EnvironmentProblem, or ConfigError."""
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
        """Closes the server; answers under way are cut off after a second."""
        self._ended.set()
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS_MAX)
        self._socket.close()

    def _serve(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        """Runs uvicorn, which does not listen itself: the listener passes it connections."""
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
    """The server of the page, its requests, and the probes."""

    what = "The status page"
    key = STATUS_LISTEN.name

    def __init__(
        self,
        settings: StatusSettings,
        health: Health,
        documents: Mapping[str, Document] | None = None,
        desk: PageRequests | None = None,
    ) -> None:
        """Without a `desk` it serves `documents` only. Raises as HttpServer does."""
        ended = threading.Event()
        routes = make_routes(desk, ended.is_set) if desk else ()
        super().__init__(settings.listen, make_app(settings, health, documents or {}, routes), settings, ended)


class ProbesServer(HttpServer):
    """The server of `/healthz` and `/readyz` alone, in plain HTTP, because supervisors do not have the mirror's
    certificates."""

    what = "The probes' port"
    key = PROBES_LISTEN.name

    def __init__(self, settings: StatusSettings, health: Health) -> None:
        """Raises as HttpServer does."""
        plain = replace(settings, tls=None)
        super().__init__(settings.probes_listen, make_probes_app(health), plain, threading.Event())


class PageKeeper:
    """Serves by the server that `make` opens. While another program has the address, each call tries again: of
    several processes with one file on a machine one serves, and another takes over when that process ends."""

    def __init__(self, make: Callable[[], HttpServer]) -> None:
        """Raises EnvironmentProblem where no program could listen, ConfigError for a certificate that cannot be
        used."""
        self._make = make
        self._lock = threading.Lock()
        self._server: HttpServer | None = None
        self._is_closed = False
        try:
            self._serve()
        except AddressTaken as problem:
            log.warning("%s This process serves it as soon as it is free.", problem.args[0])

    def __call__(self) -> None:
        with suppress(AddressTaken):
            self._serve()

    def _serve(self) -> None:
        with self._lock:
            if self._server is None and not self._is_closed:
                self._server = self._make().start()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._server is not None:
                self._server.close()
