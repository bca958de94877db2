"""The request to a token endpoint, and the signed assertions that tell it who asks, in place of a client secret
(RFC 7523, KIP-1139, KIP-1258).

No redirection is followed, because the request carries the secret in a header; answer and time have bounds.
`kafka.security.oauth` makes the settings from a client's `sasl.oauthbearer.assertion.*` and sends the request. Files
are read for each assertion, so a renewed key or assertion counts from the next token on.
"""

import base64
import http.client
import json
import socket
import ssl
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sparkmirror.errors import AuthenticationFailed, ConfigError

ANSWER_BYTES_MAX: Final = 64 << 10
"""The limit of an answer and of a token file: a token goes along with every log-in."""
_PREFIX: Final = "sasl.oauthbearer.assertion."
FILE: Final = f"{_PREFIX}file"
_KEY_FILE: Final = f"{_PREFIX}private.key.file"
_ALGORITHM: Final = f"{_PREFIX}algorithm"
_ISSUER: Final = f"{_PREFIX}claim.iss"
_ALGORITHMS: Final = ("RS256", "ES256")
_BYTES_MAX: Final = 64 << 10
_EXP_SECONDS, _NBF_SECONDS = 300, 60


def fetch(request: urllib.request.Request, context: ssl.SSLContext, seconds_max: float) -> bytes:
    """The body of the answer. Raises HTTPError, OSError, HTTPException, or ValueError for one that is too long.

    `seconds_max` is for all of it: an endpoint that trickles would pass a time-out of each of its bytes.
    """
    sockets: list[socket.socket] = []
    is_late = threading.Event()
    opener = urllib.request.build_opener(
        _NoRedirection, _Plain(sockets.append), _Secured(sockets.append, context=context)
    )
    late = threading.Timer(seconds_max, _hang_up, (sockets, is_late))
    late.daemon = True
    late.start()
    try:
        with opener.open(request, timeout=seconds_max) as answer:
            body: bytes = answer.read(ANSWER_BYTES_MAX + 1)
    except (OSError, http.client.HTTPException):
        if is_late.is_set():
            raise _too_late(seconds_max) from None
        raise
    finally:
        late.cancel()
    if is_late.is_set():
        raise _too_late(seconds_max)
    if len(body) > ANSWER_BYTES_MAX:
        raise ValueError(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
    return body


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """Gives the answer that redirects as an HTTPError."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class _Plain(urllib.request.HTTPHandler):
    """Tells of the sockets that it opens."""

    def __init__(self, note: Callable[[socket.socket], None]) -> None:
        super().__init__()
        self._note = note

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_noting(http.client.HTTPConnection, self._note), req)


class _Secured(urllib.request.HTTPSHandler):
    """The same over TLS."""

    def __init__(self, note: Callable[[socket.socket], None], context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._note = note
        self._tls = context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_noting(http.client.HTTPSConnection, self._note), req, context=self._tls)


def _noting(kind: Any, note: Callable[[socket.socket], None]) -> Any:
    class Noting(kind):
        def connect(self) -> None:
            super().connect()
            note(self.sock)

    return Noting


def _too_late(seconds: float) -> TimeoutError:
    return TimeoutError(f"the answer was not there after {seconds:g} s")


def _hang_up(sockets: list[socket.socket], is_late: threading.Event) -> None:
    is_late.set()
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class Assertion:
    """The source of an assertion: `file` has one made by another program; else it is signed with the key of `key_file`.

    `claims` are `aud`, `iss` and `sub`; `template_file` is JSON with more of `header` and `payload`.
    """

    file: str = ""
    key_file: str = ""
    passphrase: str = field(default="", repr=False)
    algorithm: str = "RS256"
    claims: tuple[tuple[str, str], ...] = ()
    exp_seconds: int = _EXP_SECONDS
    nbf_seconds: int = _NBF_SECONDS
    has_id: bool = False
    template_file: str = ""


def assertion_settings(client: Mapping[str, str], *, required: bool) -> Assertion | None:
    """The assertion's settings; None where neither a file nor an issuer is set, unless `required`. Raises
    ConfigError."""
    values = {key: value.strip() for key, value in client.items() if key.startswith(_PREFIX) and value.strip()}
    if file := values.get(FILE):
        return Assertion(file)
    if not required and _ISSUER not in values:
        return None
    if _KEY_FILE not in values:
        hint = f"Set it to a PEM file with the private key, or {FILE} to an assertion that is made elsewhere."
        raise ConfigError(f"{_KEY_FILE} is missing, and signing an assertion needs it.", hint, key=_KEY_FILE)
    algorithm = values.get(_ALGORITHM, "RS256").upper()
    if algorithm not in _ALGORITHMS:
        raise ConfigError(
            f"{_ALGORITHM}={algorithm} is not supported.", f"Use one of {', '.join(_ALGORITHMS)}.", key=_ALGORITHM
        )
    claims = ((name, values.get(f"{_PREFIX}claim.{name}", "")) for name in ("aud", "iss", "sub"))
    return Assertion(
        key_file=values[_KEY_FILE],
        passphrase=client.get(f"{_PREFIX}private.key.passphrase", ""),
        algorithm=algorithm,
        claims=tuple((name, value) for name, value in claims if value),
        exp_seconds=_seconds(values, f"{_PREFIX}claim.exp.seconds", _EXP_SECONDS),
        nbf_seconds=_seconds(values, f"{_PREFIX}claim.nbf.seconds", _NBF_SECONDS),
        has_id=values.get(f"{_PREFIX}claim.jti.include", "false").lower() == "true",
        template_file=values.get(f"{_PREFIX}template.file", ""),
    )


def _seconds(values: Mapping[str, str], key: str, default: int) -> int:
    text = values.get(key, str(default))
    if not text.isdigit() or int(text) > 86_400:
        raise ConfigError(f"{key}={text} is not a number of seconds up to a day.", key=key)
    return int(text)


def make_assertion(settings: Assertion) -> str:
    """A JWT for one request. Raises AuthenticationFailed; the message holds nothing of the files."""
    if settings.file:
        return _read(settings.file, "assertion").decode(errors="replace").strip()
    template = _template(settings.template_file)
    now = int(time.time())
    header = {**template.get("header", {}), "alg": settings.algorithm, "typ": "JWT"}
    payload = {
        **template.get("payload", {}),
        **dict(settings.claims),
        "iat": now,
        "exp": now + settings.exp_seconds,
        "nbf": now - settings.nbf_seconds,
        **({"jti": str(uuid.uuid4())} if settings.has_id else {}),
    }
    signed = f"{_encoded(header)}.{_encoded(payload)}"
    return f"{signed}.{_base64(_sign(settings, signed.encode()))}"


def _template(file: str) -> dict[str, Any]:
    if not file:
        return {}
    try:
        found = json.loads(_read(file, "template"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(part, dict) for part in found.values()):
        wanted = 'Its content must be like {"header": {"kid": "1"}, "payload": {"client": "mirror"}}.'
        raise AuthenticationFailed(f"The template {file} of the OAuth assertion is no such JSON.", wanted)
    return found


def _sign(settings: Assertion, text: bytes) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    pem = _read(settings.key_file, "private key")
    try:
        key = load_pem_private_key(pem, settings.passphrase.encode() or None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        problem = f"The private key {settings.key_file} of the OAuth assertion cannot be read."
        raise AuthenticationFailed(problem, f"It must be PEM; {_PREFIX}private.key.passphrase opens it.") from None
    if settings.algorithm == "RS256" and isinstance(key, RSAPrivateKey):
        return _rs256(key, text)
    if settings.algorithm == "ES256" and isinstance(key, EllipticCurvePrivateKey) and isinstance(key.curve, SECP256R1):
        return _es256(key, text)
    problem = f"The private key {settings.key_file} of the OAuth assertion is no key for {settings.algorithm}."
    raise AuthenticationFailed(problem, "RS256 takes an RSA key, ES256 one of the curve P-256.")


def _rs256(key: Any, text: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    signature: bytes = key.sign(text, PKCS1v15(), SHA256())
    return signature


def _es256(key: Any, text: bytes) -> bytes:
    """JWS has the two numbers one behind the other, where X.509 has them in DER."""
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256

    first, second = decode_dss_signature(key.sign(text, ECDSA(SHA256())))
    return first.to_bytes(32, "big") + second.to_bytes(32, "big")


def _read(file: str, what: str) -> bytes:
    try:
        with Path(file).open("rb") as opened:
            return opened.read(_BYTES_MAX)
    except OSError as problem:
        raise AuthenticationFailed(
            f"The {what} {file} of the OAuth assertion cannot be read: {problem.strerror}.",
            "It is read where the mirror and its executors run.",
        ) from None


def _encoded(part: Mapping[str, Any]) -> str:
    return _base64(json.dumps(part).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
