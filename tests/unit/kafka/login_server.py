"""A port that speaks as much of Kafka's protocol as a log-in takes, and says what a test tells it: no broker of Kafka's
own would say such things.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36
_UNSUPPORTED_VERSION = 35
_SUPPORTED = ((3, 0, 9), (_HANDSHAKE, 1, 1), (_API_VERSIONS, 0, 0), (_AUTHENTICATE, 1, 1))


@contextlib.contextmanager
def login_server(answer: Callable[[int, bytes], bytes]) -> Iterator[int]:
    """Yields its port. `answer` gives what is said to the n-th message of a log-in, n from 0."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    accepted, _ = listener.accept()
                    threading.Thread(target=_serve, args=(accepted, answer), daemon=True).start()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(timeout=60)
    assert not thread.is_alive()


def _serve(connection: socket.socket, answer: Callable[[int, bytes], bytes]) -> None:
    rounds = 0
    with connection, connection.makefile("rb") as stream, contextlib.suppress(OSError):
        while head := stream.read(4):
            request = stream.read(int.from_bytes(head, "big"))
            api, version, correlation, client_id = struct.unpack_from(">hhih", request)
            body = request[10 + client_id :]
            if api == _AUTHENTICATE:
                said = answer(rounds, body[4:])
                rounds += 1
                told = struct.pack(">hhi", 0, -1, len(said)) + said + bytes(8)
            elif api == _HANDSHAKE:
                told = struct.pack(">hi", 0, 1) + body
            else:
                told = struct.pack(">hi", _UNSUPPORTED_VERSION if version else 0, len(_SUPPORTED))
                told += b"".join(struct.pack(">hhh", *one) for one in _SUPPORTED)
            connection.sendall(struct.pack(">ii", 4 + len(told), correlation) + told)
