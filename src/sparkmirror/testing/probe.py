"""Asks a broker which brokers it sees, without the Kafka client that tests are about. Called by `kafka` to know when a
cluster is ready.

It uses Metadata v1 request and response as in the Kafka protocol guide.
"""

import socket
import struct

_METADATA, _VERSION, _CORRELATION = 3, 1, 7
_NO_TOPICS = 0
_REQUEST = struct.pack(">hhihi", _METADATA, _VERSION, _CORRELATION, -1, _NO_TOPICS)


def alive_brokers(port: int, wait_seconds: float = 2.0) -> frozenset[int]:
    """The ids of the brokers that the broker at 127.0.0.1:`port` (a PLAINTEXT listener) knows to be alive. Empty
    when it does not answer in time, because it starts, is paused or has ended."""
    try:
        with socket.create_connection(("127.0.0.1", port), wait_seconds) as connection:
            connection.settimeout(wait_seconds)
            connection.sendall(struct.pack(">i", len(_REQUEST)) + _REQUEST)
            (size,) = struct.unpack(">i", _receive(connection, 4))
            return _broker_ids(_receive(connection, size))
    except OSError:
        return frozenset()


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            raise ConnectionResetError("the broker closed the connection")
        received += piece
    return received


def _broker_ids(response: bytes) -> frozenset[int]:
    _correlation, count = struct.unpack_from(">ii", response)
    ids, at = set(), 8
    for _ in range(count):
        node_id, host_size = struct.unpack_from(">ih", response, at)
        at += 6 + host_size + 4
        (rack_size,) = struct.unpack_from(">h", response, at)
        at += 2 + max(rack_size, 0)
        ids.add(node_id)
    return frozenset(ids)
