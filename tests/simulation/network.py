"""Simulated links between processes and brokers: sockets that carry bytes with delay, break, or fall silent."""

import struct
from collections import deque
from typing import Any, Final

from tests.simulation import wire
from tests.simulation.cluster import Cluster
from tests.simulation.scheduler import Process, World

_SIZE = struct.Struct(">i")
_LARGE_BYTES = 200
"""So many an answer has with records, or with many partitions."""
_COUNTED: Final = (struct.pack(">h", wire.PRODUCE), struct.pack(">h", wire.FETCH))
"""Requests that a quota of bytes counts."""
EVENT_READ: Final = 1
EVENT_WRITE: Final = 2


class SimSocket:
    """The client's end of a connection to one broker. Both directions keep their order; a broker answers one by one."""

    def __init__(self, net: "Network", process: Process, cluster: Cluster, node: int) -> None:
        self.net = net
        self.process = process
        self.cluster = cluster
        self.node = node
        self.is_broken = False
        self.is_closed = False
        self.is_silent = False
        self.timeout: float | None = None
        self.selector: SimSelector | None = None
        self._out = bytearray()
        self.has_come = bytearray()
        """What can be read."""
        self._requests: deque[bytes] = deque()
        self._is_busy = self._counts = False
        self._muted_until = 0.0
        """A quota holds the connection back: the broker has answered, and reads no request until then."""
        self._arrives_at = self._answers_at = 0.0
        self._waiter: Any = None

    # As the product uses sockets.

    def settimeout(self, seconds: float | None) -> None:
        self.timeout = seconds

    def setblocking(self, flag: bool) -> None:
        self.timeout = None if flag else 0.0

    def sendall(self, data: Any) -> None:
        self._send(bytes(data))

    def send(self, data: Any) -> int:
        self._send(bytes(data))
        return len(data)

    def sendmsg(self, parts: list[Any]) -> int:
        data = b"".join(parts)
        self._send(data)
        return len(data)

    def _send(self, data: bytes) -> None:
        if self.is_broken or self.is_closed:
            raise BrokenPipeError("the connection is gone")
        if not self._out and len(data) >= 4 and _SIZE.unpack_from(data)[0] == len(data) - 4:
            self._dispatch(data[4:])
            return
        self._out += data
        while len(self._out) >= 4:
            (size,) = _SIZE.unpack_from(self._out)
            if len(self._out) < 4 + size:
                return
            frame = bytes(self._out[4 : 4 + size])
            del self._out[: 4 + size]
            self._dispatch(frame)

    def _dispatch(self, frame: bytes) -> None:
        world = self.net.world
        self._arrives_at = max(self._arrives_at, world.now + self.net.delay(self.cluster))
        world.at(self._arrives_at, self._arrive, frame)

    def _arrive(self, frame: bytes) -> None:
        if not self.is_broken and not self.is_silent:
            self._requests.append(frame)
            self._work()

    def _work(self) -> None:
        node, world = self.cluster.nodes[self.node], self.net.world
        if self._is_busy or not self._requests or self.is_broken:
            return
        if node.frozen_until > world.now:
            world.at(node.frozen_until + world.hiccup(), self._work)
            return
        if self._muted_until > world.now:
            world.at(self._muted_until, self._work)
            return
        self._is_busy = True
        self.cluster.asking = self.process
        frame = self._requests.popleft()
        self._counts = frame[:2] in _COUNTED
        self.cluster.handle(self.node, frame, self._answer)

    def _answer(self, data: bytes) -> None:
        self._is_busy = False
        world = self.net.world
        if self._counts:
            self._muted_until = world.now + self.cluster.held_back_ms / 1000
        if not self.is_broken and not self.is_silent:
            self._answers_at = max(self._answers_at, world.now + self.net.delay(self.cluster))
            cut = world.random.randrange(len(data)) if world.random.random() < 0.05 else 0
            stop = self.net.stop_in_answer(self, len(data))
            if cut or stop:
                cut = cut or len(data) // 2
                world.at(self._answers_at, self._receive, data[:cut])
                self._answers_at += stop or world.hiccup()
            world.at(self._answers_at, self._receive, data[cut:])
        else:
            self.cluster.note("doubt")
        world.after(0.0, self._work)

    def _receive(self, data: bytes) -> None:
        if not self.is_broken and not self.is_closed:
            self.has_come += data
            self._rouse()

    def _rouse(self) -> None:
        if self.selector is not None:
            self.selector.wake()
        if self._waiter is not None:
            self._waiter.wake()

    @property
    def is_readable(self) -> bool:
        return bool(self.has_come) or self.is_broken

    def recv(self, size: int) -> bytes:
        self._await()
        found = bytes(self.has_come[:size])
        del self.has_come[:size]
        return found

    def recv_into(self, buffer: Any) -> int:
        found = self.recv(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def recvmsg_into(self, buffers: list[Any], space: int) -> tuple[int, list[Any], int, None]:
        return self.recv_into(buffers[0]), [], 0, None

    def setsockopt(self, *option: int) -> None:
        """The time at which something came is not told."""

    def _await(self) -> None:
        if self.is_closed:
            raise OSError("the socket is closed")
        if self.is_readable:
            return
        if self.timeout == 0.0:
            raise BlockingIOError
        world = self.net.world
        thread, until = world.thread(), world.now + (60.0 if self.timeout is None else self.timeout)
        self._waiter = thread
        while not self.is_readable:
            if world.now >= until:
                raise TimeoutError("timed out")
            thread.park(until)
        self._waiter = None

    def close(self) -> None:
        self.is_closed = True
        self.hang_up()

    # Trouble.

    def hang_up(self) -> None:
        """Either side, or the way between, has ended it: what is under way is lost, what came can still be read."""
        if not self.is_broken:
            self.is_broken = True
            self.net.sockets.pop(self, None)
            self._rouse()


class SimSelector:
    """A selector over simulated sockets. A pipe's end is told apart by being a number: its owner wakes us."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sockets: dict[SimSocket, _Key] = {}
        self._pipes: dict[int, _Key] = {}
        self._thread: Any = None
        self.roused: set[int] = set()

    def register(self, what: Any, events: int, data: Any) -> None:
        if isinstance(what, int):
            self._pipes[what] = _Key(what, data)
            self._world.pipes.setdefault(what, []).append(self)
            if what in self._world.dead_ends:
                self.rouse(what)
            return
        if what in self._sockets:
            raise KeyError("registered already")
        self._sockets[what] = _Key(what, data)
        what.selector = self

    def modify(self, what: Any, events: int, data: Any) -> None:
        self._sockets[what] = _Key(what, data)

    def unregister(self, what: Any) -> None:
        if isinstance(what, int):
            del self._pipes[what]
            return
        del self._sockets[what]
        what.selector = None

    def get_map(self) -> dict[Any, Any]:
        return {**self._sockets, **self._pipes}

    def select(self, timeout: float | None = None) -> list[tuple[Any, int]]:
        world = self._world
        self._thread = world.thread()
        until = world.now + (1.0 if timeout is None else max(timeout, 0.0))
        self._thread.park(world.now + world.hiccup())
        while not (found := self._ready()) and world.now < until:
            self._thread.park(until)
        return found

    def _ready(self) -> list[tuple[Any, int]]:
        found = [(key, EVENT_READ) for sock, key in self._sockets.items() if sock.has_come or sock.is_broken]
        roused, ends = self.roused, self._world.dead_ends
        if roused or ends:
            found += [(key, EVENT_READ) for number, key in self._pipes.items() if number in roused or number in ends]
            roused.clear()
        if len(found) > 1:
            world = self._world
            world.random.shuffle(found)
        return found

    def wake(self) -> None:
        if self._thread is not None:
            self._thread.wake()

    def rouse(self, number: int) -> None:
        self.roused.add(number)
        self.wake()

    def close(self) -> None:
        for sock in self._sockets:
            sock.selector = None
        self._sockets.clear()


class _Key:
    __slots__ = ("data", "fileobj")

    def __init__(self, fileobj: Any, data: Any) -> None:
        self.fileobj = fileobj
        self.data = data


class Network:
    """All connections, and how long a message takes."""

    def __init__(self, world: World, clusters: list[Cluster]) -> None:
        self.world = world
        self.clusters = {cluster.alias: cluster for cluster in clusters}
        self.sockets: dict[SimSocket, None] = {}
        self.slow: dict[str, float] = {}
        self.stops: dict[tuple[str, int], tuple[float, float]] = {}
        """Brokers that stop in the middle of each large answer, for how long, and until when."""
        self.loss = 0.0
        self.announced: Any = None
        """What a reader has announced last to its writer, of `tests.simulation.announcements`."""
        self.ordered: Any = None
        """The writer that has ordered its reader last to read again."""

    def stop_in_answer(self, sock: SimSocket, size: int) -> float:
        """For how long the broker stops in the middle of an answer of this size."""
        seconds, until = self.stops.get((sock.cluster.alias, sock.node), (0.0, 0.0))
        return seconds if self.world.now < until and size >= _LARGE_BYTES else 0.0

    def delay(self, cluster: Cluster) -> float:
        """Mostly a fraction of a millisecond, now and then tens of them."""
        draw = self.world.random.random()
        base = 0.0001 + 0.0005 * draw if draw < 0.95 else 0.02 * self.world.random.random()
        return base + self.slow.get(cluster.alias, 0.0) * self.world.random.random()

    def connect(self, host: str, process: Process) -> SimSocket:
        """To a broker by its name. Raises OSError."""
        alias, _, number = host.rpartition("-")
        cluster = self.clusters[alias]
        self.world.sleep(self.delay(cluster))
        if not cluster.nodes[int(number)].is_up:
            raise ConnectionRefusedError(f"{host} refuses")
        sock = SimSocket(self, process, cluster, int(number))
        self.sockets[sock] = None
        return sock

    def down(self, cluster: Cluster, node: int) -> None:
        for sock in [one for one in self.sockets if one.cluster is cluster and one.node == node]:
            sock.hang_up()

    def leave(self, process: Process) -> None:
        for sock in [one for one in self.sockets if one.process is process]:
            sock.hang_up()
