"""From PEM stores to an `ssl.SSLContext`; built by `kafka.settings`, used by every connection, ours or the client's."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sparkmirror.errors import ConfigError

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS of one cluster. Stores are PEM: a path, or the text itself; an empty trust store means the system's."""

    trust_file: str = ""
    trust_pem: str = ""
    key_file: str = ""
    key_pem: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    check_hostname: bool = True
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")

    def context(self) -> ssl.SSLContext:
        """A new client context. Raises ConfigError naming the property whose store cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.check_hostname
        context.minimum_version = min(_VERSIONS[version] for version in self.versions)
        context.maximum_version = max(_VERSIONS[version] for version in self.versions)
        self._load_trust(context)
        self._load_key(context)
        return context

    def _load_trust(self, context: ssl.SSLContext) -> None:
        if self.trust_file:
            with _naming("ssl.truststore.location", self.trust_file):
                context.load_verify_locations(cadata=Path(self.trust_file).read_text(encoding="utf-8"))
        elif self.trust_pem:
            with _naming("ssl.truststore.certificates"):
                context.load_verify_locations(cadata=self.trust_pem)
        else:
            context.load_default_certs()

    def _load_key(self, context: ssl.SSLContext) -> None:
        # Without a password OpenSSL would ask for one on the terminal: an empty one makes it fail instead.
        if self.key_file:
            with _naming("ssl.keystore.location", self.key_file):
                context.load_cert_chain(self.key_file, password=self.key_password)
        elif self.key_pem:
            with _naming("ssl.keystore.key"), _in_memory(self.key_pem) as path:
                context.load_cert_chain(path, password=self.key_password)


@contextmanager
def _naming(key: str, path: str = "") -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        where = f" ({path})" if path else ""
        reason = error.strerror or type(error).__name__ if isinstance(error, OSError) else "it is not PEM text"
        hint = "Check that the file exists, is readable and PEM, and that ssl.key.password fits."
        raise ConfigError(f"{key}{where} cannot be used: {reason}.", hint, key=key) from None


@contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """A path that leads to `text` without the text ever being on a disk; OpenSSL reads key files by path only."""
    descriptor = os.memfd_create("key")
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
