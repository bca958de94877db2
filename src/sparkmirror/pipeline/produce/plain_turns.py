"""Turns of a sender that has nothing but small runs to send on, taken by compiled code (`batch.produce_turns`).

A mirror that has caught up has some hundred turns a second, each on cold caches: in Python one takes 300 µs. Compiled
code waits for the reader, sends what it announces and reads the answers, and notes what it did; the books are kept
afterwards, of many turns at once, by the code that keeps them else. Until then the partitions' positions are where they
were, and the reader's memory is not given back. It ends where anything unusual comes, which is left for Python, and
when timers are due. Owned by `pipeline.produce.sender`.
"""

from typing import Final

from sparkmirror.batch.loading import OftenDone
from sparkmirror.batch.produce_turn_rows import ANSWER, NEWS, TIME
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.pipeline.produce.arrivals import Arrivals
from sparkmirror.pipeline.produce.connection import ProduceConnection
from sparkmirror.pipeline.produce.direct_buffer import DirectBuffer
from sparkmirror.pipeline.produce.open_extents import Route
from sparkmirror.pipeline.produce.task_parts import Parts
from sparkmirror.pipeline.produce.turn_books import TurnBooks
from sparkmirror.pipeline.produce.turn_tables import CONNECTIONS_MAX, PARTITIONS_MAX, Followed, TurnTables
from sparkmirror.pipeline.relay.board import KEEPS_ORDER
from sparkmirror.pipeline.relay.ring import RingPeer

_TURN_SECONDS: Final = 250e-6
"""What a turn of Python's takes more."""
_OTHERS: Final = 32
"""So many turns are Python's after one that had to be: what is unusual often comes again."""
_MISSES_MAX: Final = 8
"""So many turns it waits for all answers, which in between are read as soon as they come."""
_MANY_OTHERS: Final = 1024
"""And so many where there are too many partitions, which costs more to find."""
_USUAL: Final = frozenset({TIME, NEWS})


class PlainTurns:
    """`take` takes turns if it can."""

    def __init__(
        self, peer: RingPeer | None, wake: int, arrivals: Arrivals, parts: Parts, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """`wake` is the pipe by which this process calls the sender."""
        self._peer = peer
        self._wake = wake
        self._arrivals = arrivals
        self._parts = parts
        self._books = TurnBooks(peer, parts)
        self._without_kernels = OftenDone(clock)
        self._tables: TurnTables | None = None
        self._others = self._misses = 0
        self._is_active = False
        self._is_possible = peer is not None and KEEPS_ORDER and clock is SYSTEM_CLOCK

    def note_turn(self) -> None:
        """A turn was taken by Python that compiled code might have taken."""
        self._is_active = True
        if self._others:
            self._others -= 1
        if self._is_possible and self._tables is None and self._without_kernels.kernels_pay(_TURN_SECONDS):
            self.load()

    @property
    def is_due(self) -> bool:
        """Whether turns are to be taken as soon as nothing is under way."""
        return self._is_active and self._tables is not None and not self._others

    def load(self) -> None:
        """Use compiled code from here on; waits for it where it is not loaded."""
        assert self._peer is not None, "it takes what the reader announces"
        self._tables = TurnTables(self._peer, self._wake)

    def take(self, until: float) -> list[ProduceConnection] | None:
        """Take turns until then, or something unusual comes. Returns the connections that are to be served next; None
        if this is no time for it, and nothing was done."""
        tables = self._tables
        if tables is None or not self.is_due:
            return None
        if not self._is_free:
            self._misses += 1
            if self._misses > _MISSES_MAX:
                self._others, self._misses = _OTHERS, 0
            return None
        self._misses = 0
        followed = self._followed(until)
        if not 0 < len(followed) <= PARTITIONS_MAX:
            self._others = _OTHERS if not followed else _MANY_OTHERS
            return None
        connections = tables.fill_in(followed, self._arrivals, self._parts.dispatch.request_ms)
        reason = tables.take_turns(until)
        assert self._arrivals.listener is not None, "what was taken was announced"
        self._arrivals.listener.note_heard(tables.heard)
        runs = self._books.keep(tables, followed, connections)
        self._is_active = runs > 0
        if reason not in _USUAL and runs < _OTHERS:
            self._others = _OTHERS
        return connections if reason == ANSWER else []

    @property
    def _is_free(self) -> bool:
        """Whether nothing else is to be done."""
        parts = self._parts
        return parts.direct.is_open and not parts.effects and parts.dispatch.waits_for_nothing

    def _followed(self, until: float) -> list[Followed]:
        """The partitions whose runs may be sent on; where there are too many, one too many."""
        parts = self._parts
        found: list[Followed] = []
        for slot, where, route in parts.extents.routes:
            buffer = parts.gate.buffers.get(where)
            if isinstance(buffer, DirectBuffer) and self._may_follow(buffer, route, until):
                connection = parts.dispatch.connection_of(buffer)
                if connection is not None and connection.is_plain(until):
                    key = parts.brokers.topic_key(connection, buffer.target.topic)
                    found.append(Followed(buffer, slot, connection, key, buffer.following))
            if len(found) > PARTITIONS_MAX:
                break
        return found if len({id(one.connection) for one in found}) <= CONNECTIONS_MAX else []

    def _may_follow(self, buffer: DirectBuffer, route: Route, until: float) -> bool:
        return buffer.may_follow(route.leader_epoch, route.turns, self._parts.guarantee.identity, until)
