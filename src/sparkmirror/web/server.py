"""Serves the status page from a thread of the driver. Opened by `engine.run` where a file says `status.listen`."""

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import Mapping
from typing import Self

import uvicorn

from sparkmirror.config.status import StatusSettings
from sparkmirror.config.types import Address
from sparkmirror.errors import EnvironmentProblem
from sparkmirror.web.api import Desk, make_routes
from sparkmirror.web.app import Document, make_app
from sparkmirror.web.health import Health

log = logging.getLogger(__name__)

_STOP_SECONDS_MAX = 2.0
_BACKLOG = 128


class AddressTaken(EnvironmentProblem):
    """Another program listens there, maybe another process with the same file."""


class PageServer:
    """A context manager. Listens from the start, serves from `start` on, and is gone after `close`."""

    def __init__(
        self,
        settings: StatusSettings,
        health: Health,
        documents: Mapping[str, Document] | None = None,
        desk: Desk | None = None,
    ) -> None:
        """Without a `desk` there are only `documents`. Raises AddressTaken, or another EnvironmentProblem."""
        self._socket = _listen(settings.listen)
        host, port = self._socket.getsockname()[:2]
        self.address = Address(settings.listen.host if port == settings.listen.port else host, port)
        config = uvicorn.Config(
            make_app(settings, health, documents or {}, make_routes(desk, self._is_closing) if desk else ()),
            http="h11", ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
            proxy_headers=False, timeout_graceful_shutdown=1, limit_concurrency=256, log_level="critical",
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="sparkmirror-page", daemon=True)

    def start(self) -> Self:
        self._thread.start()
        log.info("The status page is at http://%s/", self.address)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Answers under way are cut off after a second."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS_MAX)
        self._socket.close()

    def _is_closing(self) -> bool:
        return self._server.should_exit

    def _serve(self) -> None:
        asyncio.run(self._server.serve([self._socket]))


def _listen(address: Address) -> socket.socket:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as problem:
        raise _cannot_listen(address, problem) from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(_BACKLOG)
    except OSError as problem:
        listening.close()
        raise _cannot_listen(address, problem) from None
    return listening


def _cannot_listen(address: Address, problem: OSError) -> EnvironmentProblem:
    kind = AddressTaken if problem.errno == errno.EADDRINUSE else EnvironmentProblem
    hint = "Choose another `status.listen`, or leave it out; port 0 takes any free one."
    return kind(f"The status page cannot listen at {address}: {problem.strerror}.", hint)
