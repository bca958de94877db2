"""The long link: what it delays, caps and breaks. A server of one thread stands behind it."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from sparkmirror.testing.proxy import LinkProxy, LongLink

Dial = Callable[[LongLink], tuple[LinkProxy, socket.socket, socket.socket]]


@pytest.fixture
def dial() -> Iterator[Dial]:
    """A proxy, and the two ends of a connection over it: client's and server's."""
    with ExitStack() as cleanup:

        def dial(link: LongLink) -> tuple[LinkProxy, socket.socket, socket.socket]:
            listener = cleanup.enter_context(socket.create_server(("127.0.0.1", 0)))
            proxy = cleanup.enter_context(LinkProxy(link, [listener.getsockname()[1]]))
            client = cleanup.enter_context(socket.create_connection(("127.0.0.1", proxy.ports[0]), timeout=60))
            server, _ = listener.accept()
            server.settimeout(60)
            return proxy, client, cleanup.enter_context(server)

        yield dial


def receive_all(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        received = sock.recv(1 << 20)
        assert received, f"the connection ended after {len(data)} of {size} bytes"
        data += received
    return bytes(data)


def send_aside(sock: socket.socket, data: bytes) -> threading.Thread:
    sender = threading.Thread(target=sock.sendall, args=(data,), daemon=True)
    sender.start()
    return sender


def test_a_question_and_its_answer_take_one_round_trip(dial: Dial) -> None:
    _, client, server = dial(LongLink(0.05))
    started = time.monotonic()
    client.sendall(b"question")
    assert server.recv(100) == b"question"
    assert time.monotonic() - started >= 0.025
    server.sendall(b"answer")
    assert client.recv(100) == b"answer"
    assert time.monotonic() - started >= 0.05


def test_bytes_come_out_as_they_went_in_and_an_end_is_passed_on(dial: Dial) -> None:
    _, client, server = dial(LongLink(0.002, window_bytes=100_000))
    data = bytes(range(256)) * 4000
    sender = send_aside(client, data)
    assert receive_all(server, len(data)) == data
    sender.join(60)
    client.shutdown(socket.SHUT_WR)
    assert server.recv(1) == b"", "the end of what the client sends"
    server.sendall(b"still heard")
    assert client.recv(100) == b"still heard"


def test_no_more_than_the_window_passes_in_a_round_trip(dial: Dial) -> None:
    _, client, server = dial(LongLink(0.02, window_bytes=50_000))
    started = time.monotonic()
    sender = send_aside(client, bytes(200_000))
    receive_all(server, 200_000)
    assert time.monotonic() - started >= 3.5 * 0.02, "four windows: three round trips and a half"
    sender.join(60)


def test_bandwidth_is_shared_by_all_connections(dial: Dial) -> None:
    _, client, server = dial(LongLink(0.0, window_bytes=0, bytes_per_second=2_000_000))
    started = time.monotonic()
    sender = send_aside(client, bytes(100_000))
    receive_all(server, 100_000)
    assert time.monotonic() - started >= 0.04
    sender.join(60)


def test_a_cut_resets_and_refuses_until_it_is_healed(dial: Dial) -> None:
    proxy, client, _ = dial(LongLink(0.0))
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.ports[0]), timeout=60)
    proxy.heal()
    socket.create_connection(("127.0.0.1", proxy.ports[0]), timeout=60).close()


def test_a_black_hole_swallows_nothing_it_only_waits(dial: Dial) -> None:
    proxy, client, server = dial(LongLink(0.0))
    proxy.freeze()
    client.sendall(b"late")
    server.settimeout(0.03)
    with pytest.raises(TimeoutError):
        server.recv(1)
    with socket.create_connection(("127.0.0.1", proxy.ports[0]), timeout=60) as other:
        other.settimeout(0.03)
        with pytest.raises(TimeoutError):
            other.recv(1)
    proxy.heal()
    socket.create_connection(("127.0.0.1", proxy.ports[0]), timeout=60).close()
    server.settimeout(60)
    assert server.recv(100) == b"late"


def test_of_a_half_open_connection_only_the_server_knows(dial: Dial) -> None:
    proxy, client, server = dial(LongLink(0.0))
    proxy.halve()
    with pytest.raises(ConnectionResetError):
        server.recv(1)
    client.settimeout(0.03)
    client.sendall(b"nobody hears this")
    with pytest.raises(TimeoutError):
        client.recv(1)
    proxy.heal()
    client.settimeout(60)
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_a_server_that_is_away_resets_its_clients() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        with LinkProxy(LongLink(0.0), [unheard.getsockname()[1]]) as proxy, pytest.raises(ConnectionResetError):
            socket.create_connection(("127.0.0.1", proxy.ports[0]), timeout=60).recv(1)


def test_the_delay_may_change_while_connections_are_open(dial: Dial) -> None:
    proxy, client, server = dial(LongLink(0.0))
    proxy.delay(0.2)
    started = time.monotonic()
    client.sendall(b"question")
    assert server.recv(100) == b"question"
    assert time.monotonic() - started >= 0.1
