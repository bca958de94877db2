"""A tiny OAuth token endpoint on loopback, which gives unsecured tokens (JWS `none`) for client credentials."""

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ID, SECRET = "mirror", "client-secret-9"


class TokenEndpoint(ThreadingHTTPServer):
    """A context manager. Tokens live `life_seconds`; `asked` are the forms it was sent.

    With `answers` (status, JSON) it gives these instead, one after the other, the last one for ever.
    """

    daemon_threads = True

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: list[tuple[int, Any]] = []
        self.life_seconds = 3600
        super().__init__(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/token"

    def server_close(self) -> None:
        self.shutdown()
        self._thread.join()
        super().server_close()

    def answer(self, login: str, form: str) -> tuple[int, Any]:
        self.asked.append(form)
        if self.answers:
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if login != "Basic " + base64.b64encode(f"{ID}:{SECRET}".encode()).decode():
            return 401, {"error": "invalid_client", "error_description": f"{login} is wrong"}
        return 200, {"access_token": unsecured_token(self.life_seconds), "expires_in": self.life_seconds}


class _Handler(BaseHTTPRequestHandler):
    server: TokenEndpoint

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        status, answer = self.server.answer(self.headers["Authorization"], form)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, format: str, *arguments: object) -> None:
        """Silence."""


def unsecured_token(life_seconds: int) -> str:
    now = int(time.time())
    claims = {"sub": ID, "iat": min(now, now + life_seconds - 60), "exp": now + life_seconds, "scope": "kafka"}
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in ({"alg": "none"}, claims))
    return ".".join(part.rstrip("=") for part in parts) + "."
