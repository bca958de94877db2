"""Connections to the brokers of one cluster, each lent to one request at a time, on the thread that asks.

kafka-python's client hands each request to a thread with an event loop and back: 1 to 2.5 ms of CPU where this takes a
third of it, and 15 ms for its start. Used by `kafka.connection`.
"""

import random
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from threading import Lock
from typing import Any, Final

from kafka.errors import KafkaConnectionError, KafkaError, UnknownBrokerIdError
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.metadata import MetadataRequest

from sparkmirror.errors import ClusterUnreachable, ProtocolError, SparkMirrorError
from sparkmirror.kafka.settings import ClientSettings, split_address
from sparkmirror.kafka.wire.link import SETUP_SECONDS_MAX, Link, dial

Address = tuple[str, int]
_LEAST_SECONDS: Final = 0.001
_LOOK_SECONDS: Final = 30.0
_WITNESS_SECONDS_MAX: Final = 2.0


@dataclass(slots=True, eq=False)
class _Line:
    """A link and what it needs to be lent again."""

    link: Link
    address: Address
    versions: BrokerVersionData
    used_at: float = 0.0


class BrokerLinks:
    """Connections are opened when they are first needed, and kept while they work. Thread-safe.

    Any request goes to the server that was asked last, but for those that were silent and have not answered since, the
    latest last; and, twice a minute at most, but for one that another broker contradicts (`_look_again`).
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._lock = Lock()
        self._free: list[_Line] = []
        self._lent: set[_Line] = set()
        self._brokers: dict[int, Address] = {}
        self._silent: dict[Address, float] = {}
        self._cut_off: set[Address] = set()
        self._looked_at = time.monotonic()
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
            if isinstance(problem, OSError):
                self._silent[line.address] = time.monotonic()
            self._drop(line)
            raise
        line.used_at = time.monotonic()
        with self._lock:
            self._silent.pop(line.address, None)
            self._lent.discard(line)
            if not self._is_closed:
                self._free.append(line)
                return answer
        line.link.close()
        return answer

    def _line(self, node_id: int | None, ends_at: float) -> _Line:
        """A connection for this caller alone."""
        if node_id is None:
            if self._is_look_due():
                self._look_again(ends_at)
            return self._take(None) or self._dial_any(ends_at)
        if node_id not in self._brokers:
            self._learn(ends_at)
        if (address := self._brokers.get(node_id)) is None:
            raise UnknownBrokerIdError(node_id)
        return self._take(address) or self._dial(address, ends_at)

    def _is_look_due(self) -> bool:
        """Whether this caller is to look."""
        with self._lock:
            is_due = time.monotonic() >= self._looked_at + _LOOK_SECONDS
            self._looked_at = time.monotonic() if is_due else self._looked_at
            return is_due

    def _look_again(self, ends_at: float) -> None:
        """Gives up the server that is asked now, where a broker that it lists as living does not list all that it does:
        it slept, or is cut off from its controller, and says what it knew. The others have struck it off by then; a
        broker that the list still has was not struck off itself, so its own is newer."""
        if (line := self._take(None)) is None:
            return
        address, known = line.address, self._listed(line, ends_at)
        theirs = self._witness(address, known, min(ends_at, time.monotonic() + _WITNESS_SECONDS_MAX))
        with self._lock:
            self._free.sort(key=lambda one: one.address == address)  # it stays the one that is asked
            if not known.keys() <= theirs.keys():
                self._cut_off.add(address)
                self._brokers = theirs

    def _witness(self, address: Address, known: dict[int, Address], ends_at: float) -> dict[int, Address]:
        """The living brokers by the word of another one than that; those that are `known` where none gives it."""
        others = [one for one in known.values() if one != address]
        random.shuffle(others)
        for other in sorted(others, key=lambda one: self._silent.get(one, 0.0))[:1]:
            with suppress(OSError, SparkMirrorError, KafkaError):
                return self._listed(self._take(other) or self._dial(other, ends_at), ends_at)
        return known

    def _take(self, address: Address | None) -> _Line | None:
        """The connection that was used last, to that broker or to any that is neither silent nor cut off."""
        now = time.monotonic()
        with self._lock:
            self._refuse_closed()
            for line in reversed(list(self._free)):
                if now > min(line.link.reauthenticate_at, line.used_at + self._settings.idle_seconds_max):
                    self._free.remove(line)
                    line.link.close()
                elif line.address == address or (address is None and not self._is_doubted(line.address)):
                    self._free.remove(line)
                    self._lent.add(line)
                    return line
        return None

    def _is_doubted(self, address: Address) -> bool:
        return address in self._silent or address in self._cut_off

    def _dial_any(self, ends_at: float) -> _Line:
        problem: Exception = KafkaConnectionError("no broker is known")
        for address in self._addresses():
            try:
                line = self._dial(address, ends_at)
            except ClusterUnreachable as unreachable:
                problem = unreachable
                if time.monotonic() >= ends_at:
                    break
            else:
                self._cut_off.discard(address)  # nobody else answers
                return line
        raise problem

    def _addresses(self) -> list[Address]:
        """Known brokers in any order, then the bootstrap servers; those that are cut off behind them, and silent ones
        last, the latest at the end."""
        known = list(self._brokers.values())
        random.shuffle(known)
        bootstrap = [split_address(server) for server in self._settings.bootstrap_servers]
        every = dict.fromkeys([*known, *bootstrap])
        return sorted(every, key=lambda address: (self._silent.get(address, 0.0), address in self._cut_off))

    def _dial(self, address: Address, ends_at: float) -> _Line:
        seconds = max(min(ends_at - time.monotonic(), SETUP_SECONDS_MAX), _LEAST_SECONDS)
        try:
            link = dial(*address, self._settings, seconds_max=seconds)
        except ClusterUnreachable:
            self._silent[address] = time.monotonic()
            raise
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
        brokers = self._listed(self._line(None, ends_at), ends_at)
        with self._lock:
            self._brokers = brokers

    def _listed(self, line: _Line, ends_at: float) -> dict[int, Address]:
        """The living brokers, by that server's word."""
        answer = self._exchange(line, MetadataRequest(topics=[], allow_auto_topic_creation=False), ends_at)
        if not answer.brokers:
            raise KafkaConnectionError("the broker knows no brokers yet")
        return {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}


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
