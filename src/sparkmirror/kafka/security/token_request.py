"""One request to a token endpoint: no redirection is followed, answer and time have bounds. Called by
`kafka.security.oauth`.

The secret is in a header, which urllib would carry along to wherever an answer sends it.
"""

import http.client
import socket
import ssl
import threading
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

ANSWER_BYTES_MAX: Final = 64 << 10
"""Of an answer, and of a token file: a token goes along with every log-in."""


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
