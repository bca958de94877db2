"""Starting a connection against things that are not a Kafka broker we may use."""

import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sparkmirror.errors import AuthenticationFailed, ClusterUnreachable
from sparkmirror.kafka.connection import ClusterConnection
from sparkmirror.kafka.patience import impatient
from sparkmirror.kafka.settings import client_settings
from sparkmirror.model import Cluster

QUICKLY_SECONDS = 60.0
"""On whatever machine; whoever waits for the time-out takes four times as long."""


@contextlib.contextmanager
def server(greet: Callable[[socket.socket], object]) -> Iterator[int]:
    """A listener on 127.0.0.1 that hands each connection to `greet` and then closes it; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    accepted, _ = listener.accept()
                    with accepted, contextlib.suppress(OSError):
                        greet(accepted)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(timeout=60)
    assert not thread.is_alive()


@contextlib.contextmanager
def unheard() -> Iterator[int]:
    """A port that refuses connections, and that nobody else takes meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def connect(port: int, seconds_max: float = 4 * QUICKLY_SECONDS, **client: str) -> None:
    properties = {key.replace("_", "."): value for key, value in client.items()}
    cluster = Cluster("A", {"bootstrap.servers": f"localhost:{port}"} | properties)
    ClusterConnection(client_settings(cluster, "test"), seconds_max).close()


def test_a_cluster_that_is_not_there_is_given_up_in_time_and_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    started = time.monotonic()
    with unheard() as port, pytest.raises(ClusterUnreachable, match=f"localhost:{port}") as caught:
        connect(port, seconds_max=0.3)
    assert time.monotonic() - started < 9, "it may take 0.3 s here, 10 by default"
    assert "A.bootstrap.servers" in caught.value.hint
    assert not set(threading.enumerate()) - before


@pytest.mark.parametrize("host", ["localhost", "no-such-host.invalid"])
def test_a_person_does_not_wait_for_a_cluster_that_is_not_there(host: str) -> None:
    """By a limit that the test would not live to see."""
    with unheard() as port, impatient(), pytest.raises(ClusterUnreachable, match=host):
        connect(port, bootstrap_servers=f"{host}:{port}")


def test_a_person_waits_for_a_broker_that_is_silent() -> None:
    """It may be busy: nothing says that it is not there."""
    started = time.monotonic()
    with server(lambda accepted: accepted.recv(1000)) as port, impatient(), pytest.raises(ClusterUnreachable):
        connect(port, seconds_max=2.0)
    assert time.monotonic() - started >= 2.0


def test_an_http_server_is_recognised() -> None:
    def answer(accepted: socket.socket) -> None:
        """As real ones do, it waits for a whole line."""
        heard = b""
        while not heard.endswith(b"\r\n\r\n"):
            if not (more := accepted.recv(1000)):
                return
            heard += more
        accepted.sendall(b"HTTP/1.0 404 Not Found\r\n\r\n")

    with server(answer) as port, pytest.raises(ClusterUnreachable, match="an HTTP server answers") as caught:
        connect(port, seconds_max=1.0)
    assert "A.bootstrap.servers" in caught.value.hint


def test_an_untrusted_certificate_is_said_at_once(localhost_pem: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "server.pem"
    file.write_text("".join(localhost_pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    started = time.monotonic()
    with (
        server(lambda accepted: context.wrap_socket(accepted, server_side=True).close()) as port,
        pytest.raises(AuthenticationFailed, match="certificate we do not trust") as caught,
    ):
        connect(port, security_protocol="SSL")
    assert time.monotonic() - started < QUICKLY_SECONDS
    assert "A.ssl.truststore" in caught.value.hint


def test_a_port_that_answers_tls_with_something_else_is_said_at_once() -> None:
    started = time.monotonic()
    with (
        server(lambda accepted: accepted.sendall(b"\x00\x00\x00\x0bno tls here")) as port,
        pytest.raises(AuthenticationFailed, match="TLS handshake failed") as caught,
    ):
        connect(port, security_protocol="SSL")
    assert time.monotonic() - started < QUICKLY_SECONDS
    assert "TLS listener" in caught.value.hint


def test_a_port_that_hangs_up_during_tls_is_tried_twice_and_then_said() -> None:
    calls: list[bytes] = []
    started = time.monotonic()
    with (
        server(lambda accepted: calls.append(accepted.recv(65536))) as port,
        pytest.raises(AuthenticationFailed, match="TLS handshake failed"),
    ):
        connect(port, security_protocol="SSL")
    assert time.monotonic() - started < QUICKLY_SECONDS
    assert len(calls) >= 2


def test_the_clients_own_log_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with unheard() as port, pytest.raises(ClusterUnreachable):
        connect(port, seconds_max=0.1)
    assert [record.name for record in caplog.records if record.name.startswith("kafka")] == []
