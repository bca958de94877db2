"""Connections to the brokers of one cluster, each lent to one request at a time, on the thread that asks.

kafka-python's client hands each request to a thread with an event loop and back: 1 to 2.5 ms of CPU where this takes a
third of it, and 15 ms for its start. Used by `kafka.connection`.
"""

import random
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from threading import Lock
from typing import Any, Final

from kafka.errors import KafkaConnectionError, UnknownBrokerIdError
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.metadata import MetadataRequest

from sparkmirror.errors import ClusterUnreachable, ProtocolError
from sparkmirror.kafka.settings import ClientSettings, split_address
from sparkmirror.kafka.wire.link import SETUP_SECONDS_MAX, Link, dial

Address = tuple[str, int]
_LEAST_SECONDS: Final = 0.001


@dataclass(slots=True, eq=False)
class _Line:
    """A link and what it needs to be lent again."""

    link: Link
    address: Address
    versions: BrokerVersionData
    used_at: float = 0.0


class BrokerLinks:
    """Connections are opened when they are first needed, and kept while they work. Thread-safe."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._lock = Lock()
        self._free: list[_Line] = []
        self._lent: set[_Line] = set()
        self._brokers: dict[int, Address] = {}
        self._silent: Address | None = None
        self._is_closed = False

    def open(self, seconds_max: float) -> None:
        """Connects to the first broker that answers, and learns of the others. Raises as `ask`."""
        self._learn(time.monotonic() + seconds_max)

    def close(self) -> None:
        """Ends all connections, those too that wait for an answer. Idempotent."""
        with self._lock:
            self._is_closed = True
            for line in self._lent:
                with suppress(OSError):
                    line.link.socket.shutdown(socket.SHUT_RDWR)
            for line in self._free:
                line.link.close()
            self._free = []

    def ask(self, request: Any, node_id: int | None, seconds_max: float) -> Any:
        """The answer of that broker, or of any. Raises OSError, ClusterUnreachable and kafka-python's errors where
        there is none; AuthenticationFailed and ProtocolError."""
        ends_at = time.monotonic() + seconds_max
        line = self._line(node_id, ends_at)
        return self._exchange(line, request, ends_at)

    def forget_brokers(self) -> None:
        """The next request to a certain broker looks for its address."""
        with self._lock:
            self._brokers = {}

    def _exchange(self, line: _Line, request: Any, ends_at: float) -> Any:
        try:
            answer = _ask(line, request, max(ends_at - time.monotonic(), _LEAST_SECONDS))
        except BaseException as problem:
            self._silent = line.address if isinstance(problem, OSError) else self._silent
            self._drop(line)
            raise
        line.used_at = time.monotonic()
        with self._lock:
            if line.address == self._silent:
                self._silent = None
            self._lent.discard(line)
            if not self._is_closed:
                self._free.append(line)
                return answer
        line.link.close()
        return answer

    def _line(self, node_id: int | None, ends_at: float) -> _Line:
        """A connection for this caller alone."""
        if node_id is None:
            found = self._take(None)
            return found or self._dial_any(ends_at)
        if node_id not in self._brokers:
            self._learn(ends_at)
        if (address := self._brokers.get(node_id)) is None:
            raise UnknownBrokerIdError(node_id)
        return self._take(address) or self._dial(address, ends_at)

    def _take(self, address: Address | None) -> _Line | None:
        """The connection that was used last, to that broker or to any that is not silent."""
        now = time.monotonic()
        with self._lock:
            self._refuse_closed()
            for line in reversed(list(self._free)):
                if now > min(line.link.reauthenticate_at, line.used_at + self._settings.idle_seconds_max):
                    self._free.remove(line)
                    line.link.close()
                elif line.address == address or (address is None and line.address != self._silent):
                    self._free.remove(line)
                    self._lent.add(line)
                    return line
        return None

    def _dial_any(self, ends_at: float) -> _Line:
        problem: Exception = KafkaConnectionError("no broker is known")
        for address in self._addresses():
            try:
                return self._dial(address, ends_at)
            except ClusterUnreachable as unreachable:
                problem = unreachable
                if time.monotonic() >= ends_at:
                    break
        raise problem

    def _addresses(self) -> Iterator[Address]:
        """Known brokers in any order, a silent one last, then the bootstrap servers."""
        known = list(self._brokers.values())
        random.shuffle(known)
        bootstrap = [split_address(server) for server in self._settings.bootstrap_servers]
        yield from sorted(dict.fromkeys([*known, *bootstrap]), key=lambda address: address == self._silent)

    def _dial(self, address: Address, ends_at: float) -> _Line:
        seconds = max(min(ends_at - time.monotonic(), SETUP_SECONDS_MAX), _LEAST_SECONDS)
        link = dial(*address, self._settings, seconds_max=seconds)
        line = _Line(link, address, BrokerVersionData(api_versions=dict(link.versions)))
        with self._lock:
            if self._is_closed:
                link.close()
            self._refuse_closed()
            self._lent.add(line)
        return line

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise KafkaConnectionError("closed")

    def _drop(self, line: _Line) -> None:
        with self._lock:
            self._lent.discard(line)
        line.link.close()

    def _learn(self, ends_at: float) -> None:
        """Asks any broker which brokers there are."""
        line = self._line(None, ends_at)
        answer = self._exchange(line, MetadataRequest(topics=[], allow_auto_topic_creation=False), ends_at)
        brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        if not brokers:
            raise KafkaConnectionError("the broker knows no brokers yet")
        with self._lock:
            self._brokers = brokers


def _ask(line: _Line, request: Any, seconds: float) -> Any:
    link = line.link
    link.socket.settimeout(seconds)
    frame = link.encode(request, line.versions.api_version(request))
    kind = request.header.get_response_class()
    data = BytesIO(link.exchange(frame))
    try:
        if kind.parse_header(data).correlation_id != link.correlation:
            raise ValueError("it answers another request")
        return kind.decode(data)
    except Exception as strange:  # any exception of kafka-python's decoder
        what = getattr(kind, "__name__", "an answer")
        raise ProtocolError(f"broker {link.address} sent what cannot be read as {what}: {strange}") from strange
