"""Makes an `ssl.SSLContext` of PEM files and Java key stores (JKS, PKCS12), and writes nothing to a disk.

`kafka.settings` makes the settings; every connection uses the context. The kind of a store is recognised by its
content, as Java does (`keystore.type.compat`). JKS is read by its published layout
(`sun.security.provider.JavaKeyStore`, `KeyProtector`), so that no JVM is needed, PKCS12 by `cryptography`.
"""

import base64
import hashlib
import os
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from sparkmirror.errors import ConfigError

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
    """TLS of one cluster; an empty trust store means the system's. Stores are read again for each context."""

    trust: Store = Store()
    key: Store = Store()
    key_password: str = field(default="", repr=False)
    check_hostname: bool = True
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    ciphers: tuple[str, ...] = ()
    """The suites of TLS 1.2, by OpenSSL's names; empty means the system's choice."""

    def context(self) -> ssl.SSLContext:
        """A new client context. Raises ConfigError naming the property whose store cannot be used."""
        context = self._bare(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.check_hostname
        self._load_trust(context)
        self._load_key(context)
        return context

    def server_context(self) -> ssl.SSLContext:
        """A context for clients that connect to this process. Raises ConfigError as `context` does."""
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
        """A phrase on what is wrong with our own certificate, as far as this side can tell; "" when nothing is."""
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


_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_DER_SEQUENCE = 0x30
_PRIVATE_KEY, _TRUSTED_CERTIFICATE = 1, 2
_DIGEST_BYTES = 20
_WHITENER = b"Mighty Aphrodite"


class StoreProblem(ValueError):
    """A store that cannot be used; the message is a phrase and holds no secret."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of a JKS: a protected key with its chain, or a certificate that is trusted."""

    key: bytes
    certificates: tuple[bytes, ...]


def trusted_certificates(content: bytes, password: str) -> str:
    """The certificates that a trust store holds, PEM. A JKS may be read without its password. Raises StoreProblem."""
    if content.startswith(_JKS_MAGIC):
        found = [entry.certificates[0] for entry in _read_jks(content, password) if not entry.key]
    else:
        found = _read_pkcs12(content, password)[1]
    if not found:
        raise StoreProblem("it holds no trusted certificate")
    return "".join(_pem("CERTIFICATE", certificate) for certificate in found)


def private_key(content: bytes, password: str, key_password: str) -> str:
    """The first private key of a store and its certificates, PEM, not encrypted. Raises StoreProblem."""
    if content.startswith(_JKS_MAGIC):
        entry = next((entry for entry in _read_jks(content, password) if entry.key), None)
        if entry is None:
            raise StoreProblem("it holds no private key")
        key, chain = _unprotected(entry.key, key_password or password), list(entry.certificates)
    else:
        key, chain = _read_pkcs12(content, password)
        if not key:
            raise StoreProblem("it holds no private key")
    return _pem("PRIVATE KEY", key) + "".join(_pem("CERTIFICATE", certificate) for certificate in chain)


def _pem(label: str, der: bytes) -> str:
    text = base64.encodebytes(der).decode().replace("\n", "")
    lines = "\n".join(text[at : at + 64] for at in range(0, len(text), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"


def _read_jks(content: bytes, password: str) -> list[_Entry]:
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if password and hashlib.sha1(password.encode("utf-16-be") + _WHITENER + body).digest() != digest:
        raise StoreProblem("its password is wrong, or it is damaged")
    try:
        return list(_jks_entries(body))
    except (struct.error, IndexError, UnicodeDecodeError):
        raise StoreProblem("it is damaged") from None


def _jks_entries(body: bytes) -> Iterator[_Entry]:
    version, count = struct.unpack_from(">II", body, 4)
    at = 12

    def field(length_format: str) -> bytes:
        nonlocal at
        (length,) = struct.unpack_from(length_format, body, at)
        start = at + struct.calcsize(length_format)
        at = start + length
        if at > len(body):
            raise IndexError
        return body[start:at]

    def certificate() -> bytes:
        if version == 2:
            field(">H")  # its type, always X.509
        return field(">I")

    for _ in range(count):
        (tag,) = struct.unpack_from(">I", body, at)
        at += 4
        field(">H")  # the alias
        at += 8  # when it was made
        if tag == _TRUSTED_CERTIFICATE:
            yield _Entry(b"", (certificate(),))
        elif tag == _PRIVATE_KEY:
            key = field(">I")
            (length,) = struct.unpack_from(">I", body, at)
            at += 4
            yield _Entry(key, tuple(certificate() for _ in range(length)))
        else:
            raise IndexError


def _unprotected(protected: bytes, password: str) -> bytes:
    """PKCS8 from `EncryptedPrivateKeyInfo` with JavaSoft's key protector: salt, key XOR a SHA-1 stream, digest."""
    secret = _inner_octets(protected)
    salt, covered, digest = secret[:_DIGEST_BYTES], secret[_DIGEST_BYTES:-_DIGEST_BYTES], secret[-_DIGEST_BYTES:]
    phrase = password.encode("utf-16-be")
    stream, block = b"", salt
    while len(stream) < len(covered):
        block = hashlib.sha1(phrase + block).digest()
        stream += block
    plain = bytes(a ^ b for a, b in zip(covered, stream, strict=False))
    if hashlib.sha1(phrase + plain).digest() != digest:
        raise StoreProblem("the password of its key is wrong; set ssl.key.password if it is not the store's")
    return plain


def _inner_octets(der: bytes) -> bytes:
    """The OCTET STRING of SEQUENCE { AlgorithmIdentifier, OCTET STRING }."""
    _, outer, _ = _tag(der, 0)
    _, _, algorithm_end = _tag(der, outer)
    _, start, end = _tag(der, algorithm_end)
    return der[start:end]


def _tag(der: bytes, at: int) -> tuple[int, int, int]:
    """Tag, and where its content begins and ends."""
    length = der[at + 1]
    start = at + 2
    if length & 0x80:
        size = length & 0x7F
        length = int.from_bytes(der[start : start + size], "big")
        start += size
    return der[at], start, start + length


def _read_pkcs12(content: bytes, password: str) -> tuple[bytes, list[bytes]]:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    if content[:1] != bytes([_DER_SEQUENCE]):
        raise StoreProblem("it is neither a JKS nor a PKCS12 store; set its type to PEM if it is PEM text")
    try:
        store = pkcs12.load_pkcs12(content, password.encode() if password else None)
    except ValueError:
        raise StoreProblem("its password is wrong or missing, or it is damaged") from None
    own = [store.cert] if store.cert else []
    chain = [found.certificate.public_bytes(Encoding.DER) for found in (*own, *store.additional_certs)]
    key = store.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()) if store.key else b""
    return key, chain
