"""How many requests are answered at once, of one peer and in all; probes are not counted. Put in by `web.app`.

It stands behind the guard, so who may not ask at all takes no place.
"""

from collections import Counter
from http import HTTPStatus
from typing import Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from sparkmirror.config.flow.settings import StatusSettings
from sparkmirror.web.arrivals import peer_of

PROBES: Final = ("/healthz", "/readyz")
_PER_PEER = "status.max.connections.per.ip"
_IN_ALL = "status.max.connections"
_CLOSE: Final = {"Connection": "close", "Retry-After": "5"}


class RequestLimits:
    """Runs on the server's loop only, so it does without a lock."""

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
