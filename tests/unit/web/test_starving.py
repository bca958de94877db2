"""However many connections are opened to the page's port: probes are answered within a second, and the page goes on."""

import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest

from sparkmirror.config.keys.status_keys import MAX_CONNECTIONS_PER_IP
from sparkmirror.testing.certificates import make_certificates

PROMISED_SECONDS = 1.0
IDLE, SLOW, STREAMS = 1000, 200, 60
PROBES = ("/healthz", "/readyz")
PATIENCE_SECONDS = 60
ANSWERED = b"HTTP/1.1 200 OK"


@dataclass(frozen=True, slots=True)
class Served:
    """The ports of a server, and how to speak to the first."""

    page: int
    probes: int
    context: ssl.SSLContext | None = None

    def secured(self, connection: socket.socket) -> socket.socket:
        return self.context.wrap_socket(connection, server_hostname="localhost") if self.context else connection


@dataclass(slots=True)
class Crowd:
    """Connections to the page's port, from one address or from several of 127/8."""

    served: Served
    addresses: int
    stack: ExitStack
    connections: list[socket.socket] = field(default_factory=list)

    def connect(self) -> socket.socket:
        """And say nothing."""
        raw = socket.socket()
        raw.bind((f"127.0.0.{2 + len(self.connections) % self.addresses}", 0))
        raw.settimeout(PATIENCE_SECONDS)
        raw.connect(("127.0.0.1", self.served.page))
        self.connections.append(self.stack.enter_context(raw))
        return raw

    def say(self, text: bytes) -> socket.socket:
        connection = self.stack.enter_context(self.served.secured(self.connect()))
        connection.sendall(text)
        return connection

    @contextmanager
    def trickling(self, slow: list[socket.socket]) -> Iterator[None]:
        """Headers that never end, a sign at a time."""
        ended = threading.Event()

        def trickle() -> None:
            while not ended.wait(0.3):
                for connection in list(slow):
                    try:
                        connection.send(b"x")
                    except OSError:
                        slow.remove(connection)

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def answer(port: int, path: str, seconds: float, address: str = "127.0.0.1", served: Served | None = None) -> bytes:
    """How the answer begins, all of it within so many seconds. Raises TimeoutError."""
    ends_at = time.monotonic() + seconds
    with socket.create_connection(("127.0.0.1", port), seconds, (address, 0)) as raw:
        raw.settimeout(max(0.001, ends_at - time.monotonic()))
        with served.secured(raw) if served else raw as connection:
            connection.sendall(get(path))
            connection.settimeout(max(0.001, ends_at - time.monotonic()))
            return connection.recv(len(ANSWERED))


def is_closed(connection: socket.socket) -> bool:
    try:
        return not connection.recv(1 << 20)
    except OSError:
        return True


@pytest.fixture
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    """In TLS where the test says so."""
    command, context = [sys.executable, "-m", "tests.unit.web.crowded_server"], None
    if getattr(request, "param", "plain") == "TLS":
        files = make_certificates(tmp_path / "tls")
        command.append(str(files.broker_file))
        context = ssl.create_default_context(cafile=str(files.ca_file))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        page, probes = map(int, server.stdout.readline().split())
        yield Served(page, probes, context)
        server.communicate(timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("served", "addresses"), [("plain", 1), ("plain", 16), ("TLS", 16)], indirect=["served"], ids=str
)
def test_probes_are_answered_within_a_second_despite_other_connections(served: Served, addresses: int) -> None:
    with ExitStack() as stack:
        crowd = Crowd(served, addresses, stack)
        streams = [crowd.say(get("/api/events")) for _ in range(STREAMS)]
        for _ in range(SLOW // 2):
            crowd.say(get("/api/readiness?flow=A-%3EB"))
        slow = [crowd.say(b"GET /api/state HTTP/1.1\r\nX-Slow: ") for _ in range(SLOW // 2)]
        with crowd.trickling(slow):
            idle = [crowd.connect() for _ in range(IDLE)]
            took = []
            for path in PROBES * 10:
                for address in ("127.0.0.1", "127.0.0.2"):  # one of its own, and that of the crowd
                    began = time.monotonic()
                    assert answer(served.page, path, PATIENCE_SECONDS, address, served) == ANSWERED
                    between = time.monotonic()
                    assert answer(served.probes, path, PATIENCE_SECONDS, address) == ANSWERED
                    took += [between - began, time.monotonic() - between]
                time.sleep(0.1)
        # The median: a machine that stands still for a moment says nothing about the server.
        assert median(took) <= PROMISED_SECONDS
        assert streams[0].recv(len(ANSWERED)) == ANSWERED, "who came first is served"
        assert all(map(is_closed, idle)), "who asks for nothing is put out"


def test_an_address_has_its_share_of_answers_and_others_have_theirs(served: Served) -> None:
    with ExitStack() as stack:
        crowd = Crowd(served, 1, stack)
        streams = [crowd.say(get("/api/events")) for _ in range(MAX_CONNECTIONS_PER_IP.default + 8)]
        told = Counter(stream.recv(12) for stream in streams)
        assert told == {b"HTTP/1.1 200": MAX_CONNECTIONS_PER_IP.default, b"HTTP/1.1 429": 8}
        assert answer(served.page, "/api/state", PATIENCE_SECONDS, "127.0.0.2")[9:12] == b"429"
        assert answer(served.page, "/api/state", PATIENCE_SECONDS, "127.0.0.3") == ANSWERED
        streams[0].close()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while answer(served.page, "/api/state", PATIENCE_SECONDS, "127.0.0.2") != ANSWERED:
            assert time.monotonic() < deadline, "a closed stream gives its place back"


def test_a_connection_lives_from_answer_to_answer_and_no_longer_than_five_seconds_between(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.page), PATIENCE_SECONDS) as connection:
        for _ in range(3):
            connection.sendall(get("/healthz"))
            told = b""
            while not told.endswith(b"ok\n"):
                told += connection.recv(1 << 16)
            assert told.startswith(ANSWERED)
        connection.sendall(b"GET /api/state HTTP/1.1\r\nHost: ")
        assert is_closed(connection), "the second header never ends"
