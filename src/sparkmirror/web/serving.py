"""Serves the page, or the probes, as soon as the address is free: of several processes with one file on one machine
one serves, and another goes on when that ends. Owned by `runtime.page`.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from sparkmirror.web.server import AddressTaken, HttpServer

log = logging.getLogger(__name__)


class PageKeeper:
    """`make` opens a server. Calling the keeper tries again; a mirror does not end because its page has no place."""

    def __init__(self, make: Callable[[], HttpServer]) -> None:
        """Raises EnvironmentProblem where nobody could ever listen, ConfigError for a certificate of no use."""
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
