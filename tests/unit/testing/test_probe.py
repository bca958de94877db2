"""The readiness probe, against a socket that plays a broker."""

import socket
import struct
import threading
from collections.abc import Callable

from sparkmirror.testing.probe import alive_brokers

METADATA_V1_NO_TOPICS = bytes.fromhex("00030001 00000007 ffff 00000000")


def broker(node_id: int, rack: bytes | None) -> bytes:
    text = struct.pack(">h", -1) if rack is None else struct.pack(">h", len(rack)) + rack
    return struct.pack(">ih", node_id, 9) + b"127.0.0.1" + struct.pack(">i", 9092) + text


def ask(answer: Callable[[socket.socket], None]) -> tuple[frozenset[int], bytes]:
    """What the probe makes of `answer`, and the request it sent."""
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                requests.append(connection.recv(1024))
                answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        ids = alive_brokers(server.getsockname()[1], wait_seconds=60)
        thread.join(60)
    return ids, requests[0]


def test_ids_are_read_with_and_without_racks_from_an_answer_in_pieces() -> None:
    body = struct.pack(">ii", 7, 2) + broker(1, None) + broker(300, b"rack-b") + struct.pack(">ii", 1, 0)
    response = struct.pack(">i", len(body)) + body

    def answer(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(response), 3):
            connection.sendall(response[at : at + 3])

    ids, request = ask(answer)
    assert ids == {1, 300}
    assert request == struct.pack(">i", len(METADATA_V1_NO_TOPICS)) + METADATA_V1_NO_TOPICS


def test_a_broker_that_hangs_up_counts_as_not_there() -> None:
    assert ask(lambda connection: None)[0] == frozenset()


def test_a_silent_broker_counts_as_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert alive_brokers(server.getsockname()[1], wait_seconds=0.05) == frozenset()


def test_a_closed_port_counts_as_not_there() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        assert alive_brokers(unheard.getsockname()[1]) == frozenset()
