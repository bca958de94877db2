"""Who may ask what of the status page: judged before any route, and the headers that every answer carries.

On loopback everybody on this machine may look; what changes something takes the token. On any other address nothing is
shown without the token but the page's own files and `/healthz`. The token travels in the `Authorization` header, which
a browser never adds by itself: a foreign page cannot use it. On loopback the `Host` header must be a name of loopback,
so that a foreign page cannot reach this one by pointing its own name here. Used by `web.app`.
"""

import hmac
import logging
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sparkmirror.config.status import StatusSettings, is_loopback

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


class Guard:
    """The outermost part of the application; `settings` say where it listens and which token counts."""

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
        """The refusal; None for what is allowed."""
        if self._settings.is_loopback and not _is_local(headers.get("host", "")):
            hint = "Open it by localhost or 127.0.0.1."
            return refuse(HTTPStatus.MISDIRECTED_REQUEST, "This address is not known by that name.", hint)
        changes = method not in _READING
        if changes and not _same_origin(headers):
            return refuse(HTTPStatus.FORBIDDEN, "Another site's page may not give orders here.")
        is_open = path in _OPEN_PATHS or path.startswith(_OPEN_BELOW)
        if changes or not (is_open or self._settings.is_loopback):
            return self._check_token(headers)
        return None

    def _check_token(self, headers: Headers) -> JSONResponse | None:
        if not self._settings.token:
            hint = "Set `status.token` in the mirror's file to give orders here, or use `sparkmirror pause`."
            return refuse(HTTPStatus.FORBIDDEN, "The mirror's file has no `status.token`, so nothing is changed.", hint)
        scheme, _, given = headers.get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(given.strip().encode(), self._settings.token.encode())
        if scheme.lower() == "bearer" and is_right:
            return None
        sentence = "This needs the token." if not given else "That is not the token."
        answer = refuse(HTTPStatus.UNAUTHORIZED, sentence, "It is `status.token` of the mirror's file.")
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer


def refuse(status: HTTPStatus, sentence: str, hint: str = "") -> JSONResponse:
    """An answer that says why not, for people."""
    return JSONResponse({"error": sentence, "hint": hint}, status)


def _is_local(host: str) -> bool:
    """Whether a Host header means loopback."""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return name is not None and is_loopback(name)


def _same_origin(headers: Headers) -> bool:
    """What no browser sends is another program's, which can say what it likes."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host")
