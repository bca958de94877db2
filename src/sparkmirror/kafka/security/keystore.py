"""Java key stores, JKS and PKCS12, as PEM text in memory; called by `kafka.security.tls`. Nothing is written to a disk.

The kind is told by the content, as Java does (`keystore.type.compat`). JKS is read by its published layout
(`sun.security.provider.JavaKeyStore`, `KeyProtector`), so that no JVM is needed, PKCS12 by `cryptography`.
"""

import base64
import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass

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
