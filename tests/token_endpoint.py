"""A tiny OAuth token endpoint on loopback, which gives unsecured tokens (JWS `none`) for client credentials, or for an
assertion that its `public_key` verifies."""

import base64
import json
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.hashes import SHA256

ID, SECRET = "mirror", "client-secret-9"


class TokenEndpoint(ThreadingHTTPServer):
    """A context manager. Tokens live `life_seconds`; `asked` are the forms it was sent.

    With `answers` (status, JSON) it gives these instead, one after the other, the last one for ever.
    """

    daemon_threads = True

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: list[tuple[int, Any]] = []
        self.logins: list[str] = []
        self.asserted: list[dict[str, Any]] = []
        self.public_key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey | None = None
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
        self.logins.append(login)
        if self.answers:
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        fields = dict(urllib.parse.parse_qsl(form))
        if assertion := fields.get("client_assertion") or fields.get("assertion"):
            if login or not self._is_signed(assertion):
                return 401, {"error": "invalid_client", "error_description": f"{assertion} is wrong"}
        elif login != "Basic " + base64.b64encode(f"{ID}:{SECRET}".encode()).decode():
            return 401, {"error": "invalid_client", "error_description": f"{login} is wrong"}
        return 200, {"access_token": unsecured_token(self.life_seconds), "expires_in": self.life_seconds}

    def _is_signed(self, assertion: str) -> bool:
        """Whether the key's owner signed it just now; its claims are kept in `asserted`."""
        signed, _, signature = assertion.rpartition(".")
        header, claims = (json.loads(_decoded(part)) for part in signed.split("."))
        try:
            if isinstance(self.public_key, rsa.RSAPublicKey) and header["alg"] == "RS256":
                self.public_key.verify(_decoded(signature), signed.encode(), padding.PKCS1v15(), SHA256())
            elif isinstance(self.public_key, ec.EllipticCurvePublicKey) and header["alg"] == "ES256":
                numbers = (int.from_bytes(_decoded(signature)[at : at + 32], "big") for at in (0, 32))
                der = utils.encode_dss_signature(*numbers)
                self.public_key.verify(der, signed.encode(), ec.ECDSA(SHA256()))
            else:
                return False
        except InvalidSignature:
            return False
        self.asserted.append(claims)
        return bool(claims.get("nbf", 0) <= time.time() < claims.get("exp", time.time() + 1))


class _Handler(BaseHTTPRequestHandler):
    server: TokenEndpoint

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        status, answer = self.server.answer(self.headers.get("Authorization", ""), form)
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


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
