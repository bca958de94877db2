"""A client of the page without a library: real requests to a real server."""

import http.client
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from sparkmirror.config.flow.settings import StatusSettings
from sparkmirror.config.types import Address
from sparkmirror.web.app import Document
from sparkmirror.web.health import Health
from sparkmirror.web.server import HttpServer, PageServer

TOKEN, READ_ONLY_TOKEN = "k7mWq2ZxP9sTb4Vd", "n3LfR8yHc6JgXe1U"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class Served:
    """A server and what it was made of."""

    server: HttpServer
    health: Health
    documents: dict[str, Document] = field(default_factory=dict)

    def ask(self, path: str, method: str = "GET", body: str = "", **headers: str) -> Answer:
        """Header names with `_` for `-`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.address.port, timeout=60)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body or None, named)
            answer = connection.getresponse()
            lowered = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, lowered, answer.read())
        finally:
            connection.close()


def serve(settings: StatusSettings, documents: Mapping[str, Document]) -> Iterator[Served]:
    health = Health()
    with PageServer(settings, health, documents).start() as server:
        yield Served(server, health)


@pytest.fixture(scope="module")
def documents() -> dict[str, Document]:
    return {}


@pytest.fixture(scope="module")
def local(documents: dict[str, Document]) -> Iterator[Served]:
    """On loopback with a token."""
    yield from serve(StatusSettings(Address("127.0.0.1", 0), TOKEN, read_only_token=READ_ONLY_TOKEN), documents)


@pytest.fixture(scope="module")
def tokenless(documents: dict[str, Document]) -> Iterator[Served]:
    """On loopback without one."""
    yield from serve(StatusSettings(Address("localhost", 0)), documents)


@pytest.fixture(scope="module")
def public(documents: dict[str, Document]) -> Iterator[Served]:
    """As if other machines could reach it: the guard goes by what is configured."""

    class Everywhere(StatusSettings):
        is_loopback = property(lambda self: False)

    yield from serve(Everywhere(Address("127.0.0.1", 0), TOKEN, read_only_token=READ_ONLY_TOKEN), documents)
