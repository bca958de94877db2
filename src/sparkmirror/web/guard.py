"""Authorizes requests to the status page and limits their number, before any route, and adds headers to each answer.

On loopback every user of this machine may read; changes require the token. On any other address all requests but those
for the page's own files and the probes require the token, or the read-only token. A token travels in the
`Authorization` header, which a browser never adds by itself, so that another site's page cannot use it. On loopback the
`Host` header must be a name of loopback, so that another site cannot reach this page by pointing its own name here.
Used by `web.app`.
"""

import hmac
import logging
from collections import Counter
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sparkmirror.config.flow.settings import StatusSettings, is_loopback
from sparkmirror.web.arrivals import peer_of

log = logging.getLogger(__name__)

_READING = ("GET", "HEAD")
_OPEN_PATHS = ("/", "/healthz", "/readyz")
_OPEN_BELOW = "/static/"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
PROBES: Final = ("/healthz", "/readyz")
_PER_PEER = "status.max.connections.per.ip"
_IN_ALL = "status.max.connections"
_CLOSE: Final = {"Connection": "close", "Retry-After": "5"}


class Guard:
    """The outermost layer of the application; `settings` give its address and tokens."""

    def __init__(self, app: ASGIApp, settings: StatusSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        begun = False
        path = str(scope["path"])

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-cache" if path.startswith(_OPEN_BELOW) else "no-store")
            await send(message)

        refused = self._judge(str(scope["method"]), path, Headers(scope=scope))
        try:
            await (refused or self._app)(scope, receive, send_with_headers)
        except Exception as problem:  # It would reach a person as a stack trace of the server's.
            log.warning("The status page failed at %s: %s: %s", scope["path"], type(problem).__name__, problem)
            if begun:
                raise
            await refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "The page failed.", "The mirror's log says why.")(
                scope, receive, send_with_headers
            )

    def _judge(self, method: str, path: str, headers: Headers) -> JSONResponse | None:
        """The refusal of a request; None if it is allowed."""
        if self._settings.is_loopback and not _is_local(headers.get("host", "")):
            hint = "Open it by localhost or 127.0.0.1."
            return refuse(HTTPStatus.MISDIRECTED_REQUEST, "This address is not known by that name.", hint)
        if method not in _READING:
            return self._judge_order(headers)
        is_open = path in _OPEN_PATHS or path.startswith(_OPEN_BELOW) or self._settings.is_loopback
        tokens = (self._settings.token, self._settings.read_only_token)
        return None if is_open or _has_one_of(tokens, headers) else self._ask_for_token(headers)

    def _judge_order(self, headers: Headers) -> JSONResponse | None:
        try:
            is_ours = _same_origin(headers)
        except ValueError:
            return refuse(HTTPStatus.BAD_REQUEST, "The `Origin` of this request is no address.")
        if not is_ours:
            return refuse(HTTPStatus.FORBIDDEN, "Another site's page may not give orders here.")
        if not self._settings.token:
            hint = "Set `status.token` in the mirror's file to give orders here, or use `sparkmirror pause`."
            return refuse(HTTPStatus.FORBIDDEN, "The mirror's file has no `status.token`, so nothing is changed.", hint)
        if _has_one_of((self._settings.token,), headers):
            return None
        if _has_one_of((self._settings.read_only_token,), headers):
            hint = "Orders take `status.token` of the mirror's file."
            return refuse(HTTPStatus.FORBIDDEN, "This token only shows.", hint)
        return self._ask_for_token(headers)

    def _ask_for_token(self, headers: Headers) -> JSONResponse:
        sentence = "That is not the token." if _given(headers) else "This needs the token."
        answer = refuse(HTTPStatus.UNAUTHORIZED, sentence, "It is `status.token` of the mirror's file.")
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer


def _given(headers: Headers) -> str:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _has_one_of(tokens: Sequence[str], headers: Headers) -> bool:
    """Compares each token in constant time, so that the time of the answer tells nothing about it."""
    given = _given(headers).encode()
    found = [hmac.compare_digest(given, token.encode()) for token in tokens if token]
    return any(found)


def refuse(status: HTTPStatus, sentence: str, hint: str = "") -> JSONResponse:
    """A refusal with its reason, for people."""
    return JSONResponse({"error": sentence, "hint": hint}, status)


def _is_local(host: str) -> bool:
    """Whether a Host header is a name of loopback."""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return name is not None and is_loopback(name)


def _same_origin(headers: Headers) -> bool:
    """Whether the request comes from this page. A request without an Origin comes from another program, which could
    send any Origin. Raises ValueError for an Origin that is no address."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host")


class RequestLimits:
    """Limits the requests under way. It runs only on the server's event loop, so it uses no lock."""

    def __init__(self, app: ASGIApp, settings: StatusSettings) -> None:
        self._app = app
        self._settings = settings
        self._asking: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        peer = peer_of(scope["client"][0] if scope["client"] else "")
        if refusal := self._refusal(peer):
            await refusal(scope, receive, send)
            return
        self._asking[peer] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._asking[peer] -= 1
            if not self._asking[peer]:
                del self._asking[peer]

    def _refusal(self, peer: str) -> JSONResponse | None:
        if self._asking[peer] >= self._settings.max_connections_per_ip:
            status, sentence, key = HTTPStatus.TOO_MANY_REQUESTS, "Your address asks for too much at once.", _PER_PEER
        elif self._asking.total() >= self._settings.max_connections:
            status, sentence, key = HTTPStatus.SERVICE_UNAVAILABLE, "Too many ask at once.", _IN_ALL
        else:
            return None
        hint = f"Close other pages, or raise `{key}` in the mirror's file."
        return JSONResponse({"error": sentence, "hint": hint}, status, _CLOSE)
