"""What answers at a cluster's address where no broker does: an HTTP server. `kafka.connection` asks after a failure.

A broker that gets the question takes it for a request that is too long, and closes the connection.
"""

import socket
from contextlib import suppress

from sparkmirror.errors import ClusterUnreachable, SparkMirrorError
from sparkmirror.kafka.settings import ClientSettings, split_address

_QUESTION = b"GET / HTTP/1.0\r\n\r\n"
_ANSWER = b"HTTP/"
_SECONDS_MAX = 1.0


def with_cause(error: SparkMirrorError, settings: ClientSettings) -> SparkMirrorError:
    """The error, or one that says that HTTP is spoken at the address."""
    if not isinstance(error, ClusterUnreachable):
        return error
    for address in settings.bootstrap_servers:
        if _speaks_http(address):
            return ClusterUnreachable(
                f"Cluster {settings.alias}: at {address} an HTTP server answers, not a broker.",
                f"Give the address of a broker's listener in {settings.alias}.bootstrap.servers.",
            )
    return error


def _speaks_http(address: str) -> bool:
    with suppress(OSError), socket.create_connection(split_address(address), timeout=_SECONDS_MAX) as asked:
        asked.sendall(_QUESTION)
        return asked.recv(len(_ANSWER)) == _ANSWER
    return False
