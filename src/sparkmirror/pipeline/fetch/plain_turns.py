"""Turns of a reader that has caught up, taken by compiled code (`batch.fetch_turns`).

In Python a turn takes 150 µs, on cold caches, some hundred times a second. Compiled code waits for answers, announces
what they bring, calls the writer and asks again, with the tables of `pipeline.fetch.plain_answers`; what the
connections and the ring remember is brought up to date afterwards, of many turns at once. It ends where anything
unusual comes, which is left for Python, and when something else is due. Owned by `pipeline.fetch.reader`.
"""

import selectors
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from sparkmirror.batch.session_rows import (
    ACTIVE_NS,
    ANNOUNCED,
    ANSWER,
    ANSWERED_NS,
    ASKED_NS,
    ASKS_AT_NS,
    BODY_AT,
    BODY_BYTES,
    CORRELATION,
    FILLED,
    FOUND_COLUMNS,
    HEAD_BYTES,
    IS_ASKED,
    LARGE,
    LEASES,
    PATIENT_NS,
    REQUEST_AT,
    REQUEST_STOP,
    SENT_BYTES,
    SESSION_COLUMNS,
    SESSION_EPOCH,
    SHORTEST_NS,
    USED,
)
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.pipeline.fetch.connection import Conversation, FetchConnection, FetchLimits
from sparkmirror.pipeline.fetch.plain_answers import ROW_BYTES_MAX, PlainAnswers, PlainSession
from sparkmirror.pipeline.relay.board import KEEPS_ORDER
from sparkmirror.pipeline.relay.ring import BOARD_WORD, CALLS_WORD, TAKEN_WORD, Ring

_BROKERS_MAX: Final = 16
_ARENA_BYTES: Final = 1 << 20
_ARENA_PARTS: Final = 8
"""No more than this part of the ring."""
_LEASES: Final = 1024
_TURNS_MIN: Final = 4
"""So many answers of all partitions fit into what is noted besides."""
_OTHERS: Final = 32
"""So many turns are Python's after one that found nothing but an answer without room for it: those often come again."""
_NS: Final = 1e9


class PlainTurns:
    """`take` takes turns if it can."""

    def __init__(
        self,
        ring: Ring,
        answers: PlainAnswers,
        selector: selectors.BaseSelector,
        limits: FetchLimits,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._ring = ring
        self._answers = answers
        self._selector = selector
        self._limits = limits
        self._others = 0
        is_possible = KEEPS_ORDER and clock is SYSTEM_CLOCK and ring.ring_bytes > 0
        self._is_possible = is_possible and isinstance(selector, selectors.EpollSelector)

    def take(self, connections: Mapping[int, FetchConnection], bytes_max: int, until: float) -> list[int] | None:
        """Take turns until then, or something unusual comes, asking for answers of so many bytes. Returns the brokers
        of which an answer is here, whole or in part; None if this is no time for it, and nothing was done."""
        ring = self._ring
        if not (self._is_possible and self._answers.is_loaded and ring.announcer.is_listened_to):
            return None
        if self._others:
            self._others -= 1
            return None
        sessions = self._answers.sessions_of(connections)
        talks = [connections[node].conversation(bytes_max, until) for node in sessions]
        talking = [one for one in talks if one is not None]
        if not 0 < len(sessions) <= _BROKERS_MAX or len(talking) < len(talks):
            return None
        arena_bytes = min(_ARENA_BYTES, ring.ring_bytes // _ARENA_PARTS, bytes_max)
        arena = ring.reserve(arena_bytes)
        if arena is None:
            return None
        turns = _Turns(ring, list(sessions.values()), talking, arena, arena_bytes)
        sockets = {node: session.connection.link.socket for node, session in sessions.items()}
        for sock in sockets.values():
            self._selector.unregister(sock)
        try:
            reason = turns.take(self._selector, bytes_max, self._limits, until)
        finally:
            for node, sock in sockets.items():
                self._selector.register(sock, selectors.EVENT_READ, node)
        if turns.announced:
            self._answers.note_announced()
        elif reason == LARGE:
            self._others = _OTHERS
        nodes = list(sessions)
        for number in turns.unusual:
            self._answers.leave_to_others(nodes[number])
        return [nodes[number] for number in turns.settle()]


class _Turns:
    """One call of compiled code."""

    def __init__(
        self, ring: Ring, sessions: Sequence[PlainSession], talks: Sequence[Conversation], arena: int, arena_bytes: int
    ) -> None:
        self._ring = ring
        self._sessions = sessions
        self._arena = arena
        self._arena_bytes = arena_bytes
        self._table = np.concatenate([one.table for one in sessions])
        frames = b"".join([one.frame for one in sessions])
        self._frames = np.frombuffer(frames, np.uint8)
        self._room = np.empty(
            max(len(one.frame) for one in sessions) + ROW_BYTES_MAX * (len(self._table) + 1), np.uint8
        )
        self._found = np.empty((len(self._table), FOUND_COLUMNS), np.int64)
        self._heads = np.empty(HEAD_BYTES * len(sessions), np.uint8)
        self._rows = np.array(self._list(talks), np.int64)
        self._state: list[int] = []
        self._leases: list[int] = []
        self.unusual: list[int] = []
        self._bytes_max = 0

    def _list(self, talks: Sequence[Conversation]) -> list[list[int]]:
        """The sessions' rows."""
        rows: list[list[int]] = []
        row = frame = 0
        for session, talk in zip(self._sessions, talks, strict=True):
            link, state = session.connection.link, session.connection.session
            behind, size = row + len(session.table), len(session.frame)
            times = [_ns(at) for at in talk[1:]]
            about = [link.socket.fileno(), state.id, state.epoch, link.correlation, row, behind]
            rows.append([*about, frame, size, session.topics_at, talk.is_asked, *times, 0, 0, 0, 0, 0, 0, 0])
            row, frame = behind, frame + size
        assert len(rows[0]) == SESSION_COLUMNS, "a number for each column"
        return rows

    def take(self, selector: selectors.BaseSelector, bytes_max: int, limits: FetchLimits, until: float) -> int:
        """Until then, or something unusual comes. Returns why they ended."""
        from sparkmirror.batch.fetch_turns import take_turns
        from sparkmirror.batch.system_calls import WORDS

        ring, self._bytes_max = self._ring, bytes_max
        assert isinstance(selector, selectors.EpollSelector), "it can be waited for"
        counts = [0, 0, ring.announcer.announced, ring.awaited, ring.given]
        arena = [self._arena % ring.ring_bytes, self._arena, self._arena_bytes]
        others = [selector.fileno(), ring.call_writer, bytes_max, _ns(limits.rest_seconds), limits.half_rest_bytes]
        state = np.array([*arena, *counts, *others], np.int64)
        leases = np.empty(_LEASES + _TURNS_MIN * len(self._table), np.int64)
        reason: int = take_turns(
            ring.page, ring.bytes, ring.announcer.entries, self._table, self._found, self._rows, self._heads,
            self._frames, self._room, leases, state, np.zeros(WORDS, np.int64),
            BOARD_WORD, TAKEN_WORD, CALLS_WORD, _ns(until),
        )  # fmt: skip
        self._state, self._leases = state.tolist(), leases[: int(state[LEASES])].tolist()
        if reason == ANSWER:
            rows: list[list[int]] = self._rows.tolist()
            self.unusual = [number for number, row in enumerate(rows) if 0 < row[BODY_BYTES] == row[FILLED]]
        return reason

    @property
    def announced(self) -> int:
        return len(self._leases)

    def settle(self) -> list[int]:
        """Bring up to date what was as before. Returns the numbers of the sessions of which an answer is here."""
        ring, state = self._ring, self._state
        ring.announcer.note_announced(state[ANNOUNCED])
        at = 0
        for session in self._sessions:
            size = len(session.table)
            session.table[:] = self._table[at : at + size]
            at += size
        here = [number for number, row in enumerate(self._rows.tolist()) if self._settle(number, row)]
        ring.give_up(self._arena, state[USED])
        ring.lend(self._arena, self._leases)
        return here

    def _settle(self, number: int, row: Sequence[int]) -> bool:
        """Whether an answer of the session is here."""
        connection = self._sessions[number].connection
        connection.link.correlation = row[CORRELATION]
        connection.session.go_on_to(row[SESSION_EPOCH])
        times = [row[column] / _NS for column in (ASKED_NS, ASKS_AT_NS, ANSWERED_NS, PATIENT_NS, ACTIVE_NS)]
        connection.go_on(Conversation(bool(row[IS_ASKED]), *times), self._bytes_max, row[SHORTEST_NS] / _NS)
        if row[SENT_BYTES] < row[REQUEST_STOP] - row[REQUEST_AT]:
            connection.owe(self._room[row[REQUEST_AT] + row[SENT_BYTES] : row[REQUEST_STOP]].tobytes())
        filled, size, begin = row[FILLED], row[BODY_BYTES], HEAD_BYTES * number
        body = self._ring.slice(self._arena + row[BODY_AT], filled if size else 0)
        connection.take_back(self._heads[begin : begin + (0 if size else filled)].tobytes(), size, body)
        return filled > 0 or connection.owes


def _ns(seconds: float) -> int:
    return int(seconds * _NS)
