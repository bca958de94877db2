"""The certificate that the page shows to browsers: read again when its file has changed. Made by `web.server`."""

import logging
import ssl
import time
from pathlib import Path
from typing import Final

from sparkmirror.errors import ConfigError
from sparkmirror.kafka.security.tls import TlsSettings

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 10.0


class Certificate:
    """Called for the context of each new connection, on one thread."""

    def __init__(self, settings: TlsSettings) -> None:
        """Raises ConfigError naming the property whose store cannot be used."""
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
        """A file that cannot be used, maybe half written, is read again when it changes once more."""
        if (version := self._changed_ns()) == self._version:
            return
        self._version = version
        try:
            self._context = self._settings.server_context()
        except ConfigError as problem:
            log.warning("The status page keeps its old certificate: status.%s", problem.args[0])

    def _changed_ns(self) -> int:
        """0 for PEM text of the mirror's file, and for a file that is away."""
        try:
            return Path(self._settings.key.file).stat().st_mtime_ns if self._settings.key.file else 0
        except OSError:
            return 0
