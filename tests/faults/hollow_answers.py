"""A proxy before one broker that makes its answers to one fetch empty, as tiered storage does that does not answer.

The broker itself answers: what is asked for from one offset on is asked for from the log's end on, where there is
nothing. A process's worth of threads is enough for a few connections.
"""

import socket
import struct
import threading
from contextlib import suppress
from typing import Self

_FETCH = 1
_OFFSET = struct.Struct(">q")


class HollowProxy:
    """Listens on `port`; connections go on to 127.0.0.1:`server_port` once that is known."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.server_port = 0
        self._swap: tuple[bytes, bytes] | None = None
        self.fetches = 0
        self._sockets: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.cut()

    def hollow(self, offset: int, end: int) -> None:
        """From now on a fetch from `offset` finds nothing, though the log goes on up to `end`."""
        self._swap = (_OFFSET.pack(offset), _OFFSET.pack(end))

    def heal(self) -> None:
        """The records are there again. Fetch sessions remember where they were led: connections are cut."""
        self._swap = None
        self.cut()

    def cut(self) -> None:
        for sock in list(self._sockets):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self.server_port))
            except OSError:
                return
            self._sockets |= {client, server}
            for ends in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, inlet: socket.socket, outlet: socket.socket, is_request: bool) -> None:
        """Whole frames of requests, blocks of answers."""
        with suppress(OSError, struct.error):
            while data := (self._request(inlet) if is_request else inlet.recv(1 << 16)):
                outlet.sendall(data)
        for sock in (inlet, outlet):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _request(self, inlet: socket.socket) -> bytes:
        head = _exactly(inlet, 4)
        body = _exactly(inlet, struct.unpack(">i", head)[0])
        swap = self._swap
        if struct.unpack_from(">h", body)[0] == _FETCH:
            self.fetches += 1
            if swap is not None:
                body = body.replace(*swap)
        return head + body


def _exactly(inlet: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        block = inlet.recv(size - len(data))
        if not block:
            raise OSError("the connection is closed")
        data += block
    return data
