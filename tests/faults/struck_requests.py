"""Brokers that a test strikes at a request of its choice: before they have it, or before they answer it.

Clients of `StruckCluster.servers` reach each broker by a proxy of this process that reads the frames of requests and
answers. Brokers reach each other, and the test's other clients reach them, without it.
"""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.waiting import wait_until

from sparkmirror.testing.kafka import KafkaCluster
from sparkmirror.testing.layout import FAR, Listener, Node
from sparkmirror.testing.proxy import LongLink

Act = Callable[[int], object]
"""What happens to a broker, whose node id it is given."""
PRODUCE, OFFSET_FETCH, INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = (
    0, 9, 22, 24, 25, 26, 28
)  # fmt: skip
_ACT_SECONDS_MAX = 120.0
_FRAME = struct.Struct(">i")
_REQUEST = struct.Struct(">hhi")


@dataclass
class Strike:
    """`act` at a request of the kind `api` that comes behind `skip` others: before the broker has it, or, with
    `has_acted`, when it has answered. That answer is lost: the connection ends."""

    api: int
    act: Act
    has_acted: bool
    skip: int = 0
    done: threading.Event = field(default_factory=threading.Event)
    problem: Exception | None = None

    def fall(self, node_id: int) -> None:
        try:
            self.act(node_id)
        except Exception as problem:
            self.problem = problem
        finally:
            self.done.set()


class Strikes:
    """Those that wait for their request, each for one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Strike] = []
        self._all: list[Strike] = []

    def at(self, api: int, act: Act = lambda _: None, *, has_acted: bool = False, skip: int = 0) -> Strike:
        strike = Strike(api, act, has_acted, skip)
        with self._lock:
            self._waiting.append(strike)
            self._all.append(strike)
        return strike

    def take(self, api: int) -> Strike | None:
        with self._lock:
            for strike in self._waiting:
                if strike.api == api and not strike.skip:
                    self._waiting.remove(strike)
                    return strike
                strike.skip -= strike.api == api
        return None

    def forget(self) -> None:
        """Those of a test that failed before they fell do not fall in the next one."""
        with self._lock:
            self._all, self._waiting = [], []

    def assert_done(self) -> None:
        """All have fallen, and none failed. What they do is waited for."""
        with self._lock:
            strikes, waiting, self._all, self._waiting = self._all, self._waiting, [], []
        assert not waiting, f"no request came: {[strike.api for strike in waiting]}"
        for strike in strikes:
            assert strike.done.wait(_ACT_SECONDS_MAX), f"what happens at request {strike.api} does not end"
            if strike.problem is not None:
                raise strike.problem


class Front:
    """Listens before one broker. Each connection has a thread for each direction."""

    def __init__(self, node_id: int, server_port: int, strikes: Strikes) -> None:
        self.node_id = node_id
        self._server_port = server_port
        self._strikes = strikes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for sock in list(self._sockets):
            _shut(sock)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                client.close()
                continue
            self._sockets |= {client, server}
            lost: dict[int, Strike] = {}
            for carry in (self._carry_requests, self._carry_answers):
                threading.Thread(target=carry, args=(client, server, lost), daemon=True).start()

    def _carry_requests(self, client: socket.socket, server: socket.socket, lost: dict[int, Strike]) -> None:
        with suppress(OSError):
            while True:
                frame = _frame(client)
                api, _, correlation = _REQUEST.unpack_from(frame, _FRAME.size)
                strike = self._strikes.take(api)
                if strike is not None and strike.has_acted:
                    lost[correlation] = strike
                elif strike is not None:
                    strike.fall(self.node_id)
                server.sendall(frame)
        self._end(client, server)

    def _carry_answers(self, client: socket.socket, server: socket.socket, lost: dict[int, Strike]) -> None:
        with suppress(OSError):
            while True:
                frame = _frame(server)
                (correlation,) = _FRAME.unpack_from(frame, _FRAME.size)
                if correlation in lost:
                    lost[correlation].fall(self.node_id)
                    break
                client.sendall(frame)
        self._end(client, server)

    def _end(self, *sockets: socket.socket) -> None:
        for sock in sockets:
            _shut(sock)
            self._sockets.discard(sock)


class StruckCluster(KafkaCluster):
    """Brokers behind fronts. `strikes` fall on requests of clients that begin at `servers`."""

    def __init__(self, brokers: int, name: str, **more: object) -> None:
        super().__init__(brokers, name=name, far=LongLink(0.0), **more)  # type: ignore[arg-type]
        self.strikes = Strikes()
        self.forgets = more.get("version") == "3.0.0"
        """Whether it may forget to end a transaction until all its brokers run (KAFKA-16352, mended in 3.8)."""
        self._fronts: list[Front] = []

    @property
    def servers(self) -> str:
        return self.servers_from(1)

    def servers_from(self, *node_ids: int) -> str:
        """The addresses of these brokers, of all others behind them."""
        first = [front for front in self._fronts if front.node_id in node_ids]
        others = [front for front in self._fronts if front.node_id not in node_ids]
        return ",".join(f"127.0.0.1:{front.port}" for front in [*first, *others])

    def server(self, node_id: int) -> str:
        """The address of one alone."""
        return f"127.0.0.1:{self._fronts[node_id - 1].port}"

    def close(self) -> None:
        super().close()
        for front in self._fronts:
            front.close()
        self._fronts = []

    def kill(self, node_id: int) -> None:
        self.broker(node_id).kill()

    def revive(self) -> None:
        """All brokers run and see each other."""
        for broker in self.brokers:
            if broker.running:
                broker.resume()
            else:
                broker.launch()
        self.wait_ready()

    def wait_until_led_elsewhere(self, node_id: int, leader_of: Callable[[], int]) -> None:
        wait_until(lambda: leader_of() not in (-1, node_id), f"another broker than {node_id} takes over")

    def _nodes(self, directory: Path, listeners: tuple[Listener, ...]) -> list[Node]:
        """Clients of the far listener are led to the fronts."""
        nodes = super()._nodes(directory, listeners)
        self._fronts = [Front(node.node_id, node.ports[FAR], self.strikes) for node in nodes]
        return [replace(node, far_port=front.port) for node, front in zip(nodes, self._fronts, strict=True)]


def _frame(sock: socket.socket) -> bytes:
    """The next one, with its length. Raises OSError at the end."""
    head = _exactly(sock, _FRAME.size)
    return head + _exactly(sock, _FRAME.unpack(head)[0])


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        block = sock.recv(size - len(data))
        if not block:
            raise OSError("the connection is closed")
        data += block
    return bytes(data)


def _shut(sock: socket.socket) -> None:
    """Both threads of the connection end."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
