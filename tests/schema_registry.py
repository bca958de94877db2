"""A schema registry on loopback, for tests: what Confluent's documentation says of the calls that the mirror makes.

Source: https://docs.confluent.io/platform/current/schema-registry/develop/api.html. It is no program that people run,
since none is among the packages that the tests may have; it keeps schemas in memory and compares them as texts.
"""

import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote

from tests.loopback_server import LoopbackServer

Schema = dict[str, Any]


class SchemaRegistry(LoopbackServer):
    """A context manager. Ids begin with `first`; `asked` are the calls; with `login` others are refused; while
    `refuses` is set no schema is taken, as where it is not compatible."""

    def __init__(self, first: int = 1, login: str = "") -> None:
        self.ids: dict[int, Schema] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.login = login
        self.refuses = False
        self._next = first
        self._lock = threading.Lock()
        super().__init__(_Handler)

    def register(self, subject: str, schema: Schema) -> int:
        """As a producer's serializer does."""
        with self._lock:
            number = next((number for number, known in self.ids.items() if known == schema), self._next)
            self._next += number == self._next
            self.ids[number] = schema
            versions = self.subjects.setdefault(subject, [])
            versions += [] if number in versions else [number]
            return number

    def answer(self, method: str, path: str, body: Schema | None) -> tuple[int, Any]:
        self.asked.append(f"{method} {path}")
        if found := re.fullmatch(r"/schemas/ids/(\d+)(/subjects)?", path):
            number = int(found[1])
            if number not in self.ids:
                return 404, {"error_code": 40403, "message": "Schema not found"}
            named = [subject for subject, versions in self.subjects.items() if number in versions]
            return 200, named if found[2] else self.ids[number]
        if found := re.fullmatch(r"/subjects/([^/]+)/versions/(\d+)", path):
            versions = self.subjects.get(unquote(found[1]), [])
            if int(found[2]) > len(versions):
                return 404, {"error_code": 40402, "message": "Version not found"}
            number = versions[int(found[2]) - 1]
            return 200, {"subject": unquote(found[1]), "version": int(found[2]), "id": number, **self.ids[number]}
        found = re.fullmatch(r"/subjects/([^/]+)(/versions)?", path)
        assert found and method == "POST" and body is not None, f"{method} {path} is not expected"
        if self.refuses:
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
        subject = unquote(found[1])
        for one in body.get("references", ()):
            if one["version"] > len(self.subjects.get(one["subject"], [])):
                return 422, {"error_code": 42201, "message": f"No schema reference found for subject {one['subject']}"}
        if found[2]:
            return 200, {"id": self.register(subject, body)}
        for version, number in enumerate(self.subjects.get(subject, []), 1):
            if self.ids[number] == body:
                return 200, {"subject": subject, "version": version, "id": number, **body}
        return 404, {"error_code": 40403, "message": "Schema not found"}


class _Handler(BaseHTTPRequestHandler):
    server: SchemaRegistry

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: Schema | None) -> None:
        login = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
        if self.server.login and login != self.server.login:
            status, content = 401, {"error_code": 401, "message": "Unauthorized"}
        else:
            status, content = self.server.answer(self.command, self.path, body)
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""
