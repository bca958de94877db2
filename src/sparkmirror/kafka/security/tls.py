"""From PEM and Java stores to an `ssl.SSLContext`; settings are made by `kafka.settings`, every connection uses it."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from sparkmirror.errors import ConfigError
from sparkmirror.kafka.security.keystore import StoreProblem, private_key, trusted_certificates

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True)
class Store:
    """Certificates or a key: a file, PEM or a Java store with a password, or PEM text; nothing at all by default."""

    file: str = ""
    pem: str = field(default="", repr=False)
    is_pem: bool = True
    password: str = field(default="", repr=False)

    def __bool__(self) -> bool:
        return bool(self.file or self.pem)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS of one cluster; an empty trust store means the system's. Stores are read anew for each context."""

    trust: Store = Store()
    key: Store = Store()
    key_password: str = field(default="", repr=False)
    check_hostname: bool = True
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    ciphers: tuple[str, ...] = ()
    """Of TLS 1.2, by OpenSSL's names; empty means the system's choice."""

    def context(self) -> ssl.SSLContext:
        """A new client context. Raises ConfigError naming the property whose store cannot be used."""
        context = self._bare(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.check_hostname
        self._load_trust(context)
        self._load_key(context)
        return context

    def server_context(self) -> ssl.SSLContext:
        """A new context for those who connect to us. Raises ConfigError as `context` does."""
        context = self._bare(ssl.PROTOCOL_TLS_SERVER)
        self._load_key(context)
        return context

    def _bare(self, kind: int) -> ssl.SSLContext:
        context = ssl.SSLContext(kind)
        context.minimum_version = min(_VERSIONS[version] for version in self.versions)
        context.maximum_version = max(_VERSIONS[version] for version in self.versions)
        if self.ciphers:
            context.set_ciphers(":".join(self.ciphers))
        return context

    def key_problem(self) -> str:
        """What is wrong with our own certificate, as a phrase, as far as can be told from here; "" when nothing is."""
        from cryptography.x509 import load_pem_x509_certificates

        try:
            certificate = load_pem_x509_certificates(self._key_pem().encode())[0]
        except (OSError, ValueError):
            return "it cannot be read"
        ended = certificate.not_valid_after_utc
        return f"it expired on {ended:%Y-%m-%d}" if ended < datetime.now(UTC) else ""

    def _key_pem(self) -> str:
        store = self.key
        if not store.file:
            return store.pem
        content = Path(store.file).read_bytes()
        return content.decode() if store.is_pem else private_key(content, store.password, self.key_password)

    def _load_trust(self, context: ssl.SSLContext) -> None:
        store = self.trust
        if store.file:
            with _naming("ssl.truststore.location", store.file):
                content = Path(store.file).read_bytes()
                pem = content.decode() if store.is_pem else trusted_certificates(content, store.password)
                context.load_verify_locations(cadata=pem)
        elif store.pem:
            with _naming("ssl.truststore.certificates"):
                context.load_verify_locations(cadata=store.pem)
        else:
            context.load_default_certs()

    def _load_key(self, context: ssl.SSLContext) -> None:
        if not self.key:
            return
        # Without a password OpenSSL would ask for one on the terminal: an empty one makes it fail instead.
        key = "ssl.keystore.location" if self.key.file else "ssl.keystore.key"
        with _naming(key, self.key.file), _in_memory(self._key_pem()) as path:
            context.load_cert_chain(path, password=self.key_password if self.key.is_pem else "")


@contextmanager
def _naming(key: str, path: str = "") -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        where = f" ({path})" if path else ""
        hint = "Check that the file exists and is readable, its type (JKS, PKCS12 or PEM) and its passwords."
        raise ConfigError(f"{key}{where} cannot be used: {_reason(error)}.", hint, key=key) from None


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, StoreProblem):
        return str(error)
    if isinstance(error, ssl.SSLError):
        # OpenSSL's reasons for PEM that it cannot read say little: only the one of a wrong password is of use.
        return "the password of its key is wrong" if "DECRYPT" in str(error).upper() else "it is not PEM text"
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else "it is not PEM text"


@contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """A path that leads to `text` without the text ever being on a disk; OpenSSL reads key files by path only."""
    descriptor = os.memfd_create("key")
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
