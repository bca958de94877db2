"""A schema registry on loopback, for tests: what Confluent's documentation says of the calls that the mirror makes.

Source: https://docs.confluent.io/platform/current/schema-registry/develop/api.html. It is no program that people run,
since none is among the packages that the tests may have; it keeps schemas in memory and compares them as texts.
"""

import base64
import hashlib
import json
import re
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote

from tests.loopback_server import LoopbackServer

Schema = dict[str, Any]


class SchemaRegistry(LoopbackServer):
    """A context manager. Ids begin with `first`; `asked` are the calls; with `login` others are refused; while
    `refuses` is set no schema is taken, as where it is not compatible; `refused` are subjects under which none is, with
    the status of the answer; `broken` is the status and content of each answer, and while `silent` is set no answer
    comes."""

    def __init__(self, first: int = 1, login: str = "") -> None:
        self.ids: dict[int, Schema] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.login = login
        self.refuses = False
        self.refused: dict[str, int] = {}
        self.broken: tuple[int, Any] | None = None
        self.silent = threading.Event()
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
        if self.broken is not None:
            return self.broken
        if found := re.fullmatch(r"/schemas/guids/([0-9a-f-]{36})(/ids)?", path):
            numbers = [number for number, schema in self.ids.items() if guid_of(schema) == found[1]]
            if found[2]:
                return 200, [{"context": ".", "id": number} for number in numbers]
            if not numbers:
                return 404, {"error_code": 40403, "message": "Schema not found"}
            return 200, self.ids[numbers[0]] | {"guid": found[1]}
        if found := re.fullmatch(r"/schemas/ids/(\d+)(/subjects)?", path):
            number = int(found[1])
            if number not in self.ids:
                return 404, {"error_code": 40403, "message": "Schema not found"}
            named = [subject for subject, versions in self.subjects.items() if number in versions]
            return 200, named if found[2] else self.ids[number] | {"guid": guid_of(self.ids[number])}
        if found := re.fullmatch(r"/subjects/([^/]+)/versions/(\d+|latest)", path):
            versions = self.subjects.get(unquote(found[1]), [])
            if not versions:
                return 404, {"error_code": 40401, "message": "Subject not found"}
            version = len(versions) if found[2] == "latest" else int(found[2])
            if version > len(versions):
                return 404, {"error_code": 40402, "message": "Version not found"}
            number = versions[version - 1]
            return 200, {"subject": unquote(found[1]), "version": version, "id": number, **self.ids[number]}
        found = re.fullmatch(r"/subjects/([^/]+)(/versions)?", path)
        assert found and method == "POST" and body is not None, f"{method} {path} is not expected"
        if self.refuses:
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
        subject = unquote(found[1])
        if subject in self.refused:
            return self.refused[subject], {"error_code": self.refused[subject], "message": "Subject is refused"}
        for one in body.get("references", ()):
            if one["version"] > len(self.subjects.get(one["subject"], [])):
                return 422, {"error_code": 42201, "message": f"No schema reference found for subject {one['subject']}"}
        if found[2]:
            return 200, {"id": self.register(subject, body)}
        for version, number in enumerate(self.subjects.get(subject, []), 1):
            if self.ids[number] == body:
                return 200, {"subject": subject, "version": version, "id": number, **body}
        return 404, {"error_code": 40403, "message": "Schema not found"}


def guid_of(schema: Schema) -> str:
    """Of what the schema is, so that registries with the same schema have the same one."""
    return str(uuid.UUID(bytes=hashlib.md5(json.dumps(schema, sort_keys=True).encode()).digest()))


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
        while self.server.silent.is_set():
            time.sleep(0.05)
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""
