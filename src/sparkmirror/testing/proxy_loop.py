"""The loop behind `proxy`: carries TCP connections over loopback as a long link would. A process of its own.

Each direction of a connection is a `Lane`: what is read waits for the one-way delay and is written then; what was
written counts against the window until its acknowledgement would be back, which is how a socket buffer caps the bytes
of a round trip. Run by `proxy` as `python -m sparkmirror.testing.proxy_loop JSON`; orders come as JSON lines on stdin,
each is answered by a line, and the end of stdin ends it.
"""

import json
import os
import selectors
import socket
import struct
import sys
import time
from collections import deque
from contextlib import suppress
from typing import Any

_BLOCK_BYTES = 256 << 10
_SMALL_BYTES = 16 << 10
_UNBOUNDED_BYTES = 64 << 20
_SOCKET_BYTES = 1 << 20
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_IDLE_SECONDS = 60.0


class Wire:
    """The delay, and the bandwidth if it is limited, that all connections of a proxy share in one direction."""

    def __init__(self, delay_seconds: float, bytes_per_second: float) -> None:
        self.delay_seconds = delay_seconds
        self._bytes_per_second = bytes_per_second
        self._free_at = 0.0

    def arrival(self, size: int, now: float) -> float:
        """When bytes that enter now leave at the other end."""
        if self._bytes_per_second:
            self._free_at = max(self._free_at, now) + size / self._bytes_per_second
            return self._free_at + self.delay_seconds
        return now + self.delay_seconds


class Lane:
    """One direction of a connection."""

    def __init__(self, inlet: socket.socket, outlet: socket.socket, wire: Wire, window_bytes: int) -> None:
        self.inlet, self.outlet = inlet, outlet
        self._wire = wire
        self._window_bytes = window_bytes or _UNBOUNDED_BYTES
        self._travelling: deque[tuple[float, memoryview, bytearray | None]] = deque()
        self._unacknowledged: deque[tuple[float, int]] = deque()
        self._occupied_bytes = 0
        self._spare: list[bytearray] = []
        self.ended = False
        self.is_blocked = False

    @property
    def has_room(self) -> bool:
        return not self.ended and self._occupied_bytes < self._window_bytes

    @property
    def is_over(self) -> bool:
        """Whether its sender has finished and all bytes have been delivered."""
        return self.ended and not self._travelling

    def next_event_at(self) -> float:
        soonest = self._unacknowledged[0][0] if self._unacknowledged else float("inf")
        if self._travelling and not self.is_blocked:
            soonest = min(soonest, self._travelling[0][0])
        return soonest

    def read(self, now: float) -> None:
        """Reads the bytes that the window allows. Raises OSError when the sender has closed."""
        while self.has_room:
            block = self._spare.pop() if self._spare else bytearray(_BLOCK_BYTES)
            room = min(self._window_bytes - self._occupied_bytes, _BLOCK_BYTES)
            try:
                size = self.inlet.recv_into(memoryview(block)[:room])
            except BlockingIOError:
                self._spare.append(block)
                return
            self._occupied_bytes += size
            self.ended = not size
            self._enter(block, size, now)

    def _enter(self, block: bytearray, size: int, now: float) -> None:
        arrival = self._wire.arrival(size, now)
        if size <= _SMALL_BYTES:
            self._travelling.append((arrival, memoryview(bytes(block[:size])), None))
            self._spare.append(block)
        else:
            self._travelling.append((arrival, memoryview(block)[:size], block))

    def deliver(self, now: float) -> None:
        """Writes the bytes that are due, and frees the window of acknowledged ones. Raises OSError."""
        while self._unacknowledged and self._unacknowledged[0][0] <= now:
            self._occupied_bytes -= self._unacknowledged.popleft()[1]
        self.is_blocked = False
        while self._travelling and self._travelling[0][0] <= now:
            arrival, data, block = self._travelling[0]
            if not data:
                self.outlet.shutdown(socket.SHUT_WR)
            elif not self._write(arrival, data, block, now):
                return
            self._travelling.popleft()
            if block is not None:
                self._spare.append(block)

    def _write(self, arrival: float, data: memoryview, block: bytearray | None, now: float) -> bool:
        try:
            sent = self.outlet.send(data)
        except BlockingIOError:
            sent = 0
        if sent:
            self._unacknowledged.append((now + self._wire.delay_seconds, sent))
        if sent < len(data):
            self._travelling[0] = (arrival, data[sent:], block)
            self.is_blocked = True
        return not self.is_blocked


class Connection:
    """A client's connection and the proxy's connection to the server, joined by two lanes."""

    def __init__(self, route: "Route", client: socket.socket, server: socket.socket) -> None:
        self.route = route
        self.sockets = [client, server]
        self.lanes = [
            Lane(client, server, route.forth, route.window_bytes),
            Lane(server, client, route.back, route.window_bytes),
        ]
        for sock in self.sockets:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def wanted_events(self, sock: socket.socket) -> int:
        if self.route.is_frozen:
            return 0
        wants = 0
        for lane in self.lanes:
            if lane.inlet is sock and lane.has_room:
                wants |= selectors.EVENT_READ
            if lane.outlet is sock and lane.is_blocked:
                wants |= selectors.EVENT_WRITE
        return wants

    def close(self, *, reset: bool) -> None:
        for sock in self.sockets:
            if reset:
                with suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            sock.close()


class Route:
    """One listening port and the server for it."""

    def __init__(self, listen_port: int, server_port: int, link: dict[str, Any]) -> None:
        self.listen_port, self.server_port = listen_port, server_port
        self.forth = Wire(link["delay_seconds"], link["bytes_per_second"])
        self.back = Wire(link["delay_seconds"], link["bytes_per_second"])
        self.window_bytes: int = link["window_bytes"]
        self.is_frozen = False
        self.listener: socket.socket | None = None

    def listen(self) -> socket.socket:
        if self.listener is None:
            self.listener = socket.create_server(("127.0.0.1", self.listen_port), backlog=128)
            self.listen_port = self.listener.getsockname()[1]
            self.listener.setblocking(False)
        return self.listener

    def stop_listening(self) -> None:
        if self.listener is not None:
            self.listener.close()
            self.listener = None

    def connect(self) -> tuple[socket.socket, socket.socket] | None:
        """Accepts a client and connects to the server; if the server is down, the client is reset."""
        assert self.listener is not None
        try:
            client, _ = self.listener.accept()
        except OSError:
            return None
        server = socket.socket()
        for sock in (client, server):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BYTES)
        try:
            server.connect(("127.0.0.1", self.server_port))
        except OSError:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            client.close()
            server.close()
            return None
        return client, server


class ProxyLoop:
    """All routes of one proxy, until `run`'s order stream ends."""

    def __init__(self, routes: list[Route], orders: int, answers: int) -> None:
        self._routes = routes
        self._orders, self._answers = orders, answers
        self._unread = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(orders, selectors.EVENT_READ, "orders")
        self._connections: dict[Connection, None] = {}
        self._orphans: list[socket.socket] = []
        self._watched: dict[socket.socket, int] = {}
        self._accepting: set[Route] = set()
        self._ended = False

    def run(self) -> None:
        for route in self._routes:
            self._open(route)
        self._answer({"ports": [route.listen_port for route in self._routes]})
        while not self._ended:
            for key, events in self._selector.select(self._timeout()):
                self._serve(key.data, key.fileobj, events)
            self._deliver()

    def _timeout(self) -> float:
        moving = [c for c in self._connections if not c.route.is_frozen]
        soonest = min((lane.next_event_at() for c in moving for lane in c.lanes), default=float("inf"))
        return min(max(soonest - time.monotonic(), 0.0), _IDLE_SECONDS)

    def _serve(self, what: Any, sock: Any, events: int) -> None:
        if what == "orders":
            self._take_orders()
        elif isinstance(what, Route):
            self._accept(what)
        elif what in self._connections and events & selectors.EVENT_READ:
            try:
                next(lane for lane in what.lanes if lane.inlet is sock).read(time.monotonic())
            except OSError:
                self._end(what, reset=True)

    def _accept(self, route: Route) -> None:
        pair = route.connect()
        if pair is not None:
            self._connections[Connection(route, *pair)] = None

    def _deliver(self) -> None:
        now = time.monotonic()
        for connection in list(self._connections):
            if not connection.route.is_frozen:
                try:
                    for lane in connection.lanes:
                        lane.deliver(now)
                except OSError:
                    self._end(connection, reset=True)
                    continue
                if all(lane.is_over for lane in connection.lanes):
                    self._end(connection, reset=False)
                    continue
            for sock in connection.sockets:
                self._watch(sock, connection)

    def _watch(self, sock: socket.socket, connection: Connection) -> None:
        wanted, watched = connection.wanted_events(sock), self._watched.get(sock, 0)
        if wanted == watched:
            return
        if not watched:
            self._selector.register(sock, wanted, connection)
        elif not wanted:
            self._selector.unregister(sock)
        else:
            self._selector.modify(sock, wanted, connection)
        self._watched[sock] = wanted

    def _forget(self, sock: socket.socket) -> None:
        if self._watched.pop(sock, 0):
            self._selector.unregister(sock)

    def _end(self, connection: Connection, *, reset: bool) -> None:
        self._connections.pop(connection, None)
        for sock in connection.sockets:
            self._forget(sock)
        connection.close(reset=reset)

    # Orders.

    def _open(self, route: Route) -> None:
        listener = route.listen()
        if route not in self._accepting:
            self._accepting.add(route)
            self._selector.register(listener, selectors.EVENT_READ, route)

    def _leave(self, route: Route) -> None:
        """Stops answering; the kernel still accepts connections."""
        if route in self._accepting:
            self._accepting.discard(route)
            self._selector.unregister(route.listen())

    def _shut(self, route: Route) -> None:
        self._leave(route)
        route.stop_listening()

    def _take_orders(self) -> None:
        received = os.read(self._orders, 1 << 16)
        self._ended = not received
        *lines, self._unread = (self._unread + received).split(b"\n")
        for line in lines:
            order = json.loads(line)
            for at in order["routes"]:
                self._obey(order["do"], self._routes[at], order.get("seconds", 0.0))
            self._answer({})

    def _obey(self, verb: str, route: Route, seconds: float) -> None:
        if verb == "delay":
            route.forth.delay_seconds = route.back.delay_seconds = seconds
        elif verb == "heal":
            route.is_frozen = False
            self._drop_orphans()
            self._open(route)
        elif verb == "freeze":
            route.is_frozen = True
            route.listen()
            self._leave(route)
        else:
            self._shut(route)
            for connection in [c for c in self._connections if c.route is route]:
                self._end(connection, reset=True) if verb == "cut" else self._halve(connection)

    def _halve(self, connection: Connection) -> None:
        """Closes the server's side without telling the client."""
        client, server = connection.sockets
        self._connections.pop(connection)
        for sock in (client, server):
            self._forget(sock)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        server.close()
        self._orphans.append(client)

    def _drop_orphans(self) -> None:
        for sock in self._orphans:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            sock.close()
        self._orphans.clear()

    def _answer(self, answer: dict[str, Any]) -> None:
        os.write(self._answers, json.dumps(answer).encode() + b"\n")


def main() -> None:
    link = json.loads(sys.argv[1])
    routes = [Route(listen, server, link) for listen, server in link["routes"]]
    ProxyLoop(routes, sys.stdin.fileno(), sys.stdout.fileno()).run()


if __name__ == "__main__":
    main()
