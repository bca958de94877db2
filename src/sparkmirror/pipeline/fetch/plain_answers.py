"""Answers that bring data and nothing else: taken whole by compiled code (`batch.plain_answers`).

It announces what they bring, and encodes the next request. Meanwhile the positions of the partitions are in a table
that it reads and writes; `settle` brings them back to where all else of a reader looks for them, and must come before
anything else is done. So nothing else knows of this way. An answer that brings anything unusual, or names a partition
that is not followed, is left to `pipeline.fetch.responses`. Owned by `pipeline.fetch.reader`.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from sparkmirror.batch.loading import OftenDone
from sparkmirror.batch.session_rows import EPOCH, FOUND_COLUMNS, OFFSET
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.model import NO_EPOCH
from sparkmirror.pipeline.fetch.connection import FetchConnection, Frame
from sparkmirror.pipeline.fetch.extents import Extents
from sparkmirror.pipeline.fetch.fetch_session import PartitionKey
from sparkmirror.pipeline.fetch.partitions import NO_SLOT, PartitionFetchState, Partitions
from sparkmirror.pipeline.fetch.responses import FetchResponseReader
from sparkmirror.pipeline.fetch.runs import Run
from sparkmirror.pipeline.relay.ring import Ring

_VERSION_MIN: Final = 15
"""Of a fetch request: before, a replica's number comes first."""
_PARTITIONS_MAX: Final = 256
"""Of a session: a partition is looked for among all."""
_OTHERS: Final = 32
"""So many answers are left to Python after one that had to be: what is unusual often comes again."""
_ANSWER_SECONDS: Final = 150e-6
ROW_BYTES_MAX: Final = 64
_HALF_BYTES: Final = 8
_LOW: Final = 0xFFFFFFFF


class PlainSession:
    """One fetch session while all of its answers are plain."""

    def __init__(
        self, ring: Ring, extents: Extents, connection: FetchConnection,
        followed: Mapping[PartitionKey, PartitionFetchState], clock: Clock,
    ) -> None:  # fmt: skip
        from sparkmirror.batch.machine_code import bind
        from sparkmirror.batch.plain_answers import encode_request, take_answer

        self._ring = ring
        self._extents = extents
        self.connection = connection
        self._clock = clock
        self._keys = sorted(followed)
        self._fetch_states = [followed[key] for key in self._keys]
        rows = [self._row(key, fetch_state) for key, fetch_state in zip(self._keys, self._fetch_states, strict=True)]
        self.table = np.array(rows, np.int64)
        found, self._leases = np.empty((len(rows), FOUND_COLUMNS), np.int64), np.empty(len(rows), np.int64)
        self._take = bind(take_answer, ring.bytes, self.table, found, ring.announcer.entries, self._leases)
        self.frame, self.topics_at = frame, _ = connection.frame_without_topics()
        room = np.empty(len(frame) + ROW_BYTES_MAX * (len(rows) + 1), np.uint8)
        self._encode, self._frame = bind(encode_request, self.table, np.frombuffer(frame, np.uint8), room), room.data

    def _row(self, key: PartitionKey, fetch_state: PartitionFetchState) -> tuple[int, ...]:
        position = self.connection.session.position_of(key)
        assert position is not None and isinstance(key[0], bytes), "what is followed was asked for, by its topic's id"
        topic_id, offset, ends = key[0], fetch_state.offset, (fetch_state.readable, -1)
        high, low = (int.from_bytes(half, signed=True) for half in (topic_id[:_HALF_BYTES], topic_id[_HALF_BYTES:]))
        asked = position.last_epoch, position.current_epoch, position.bytes_max, offset, offset
        return high, low, key[1], fetch_state.slot, *asked, *ends, 0, 0, 0, -1, 0

    def take(self, frame: Frame) -> bool:
        """Take an answer; False, and nothing is done, if it is left to others."""
        ring, announcer, session, region = self._ring, self._ring.announcer, self.connection.session, frame.region
        if region is None or not announcer.is_listened_to:
            return False
        announced: int = self._take(
            region % ring.ring_bytes, len(frame.buffer), region, session.id,
            announcer.announced, announcer.free, ring.awaited, self._clock.time_ns() // 1_000_000,
        )  # fmt: skip
        if announced < 0:
            return False
        session.go_on()
        if announced:
            announcer.count(announced)
            self._extents.is_behind = True
        ring.lend(region, self._leases[:announced].tolist())
        if announced:
            ring.call()
        return True

    def ask(self, bytes_max: int) -> None:
        """Ask for what follows, in an answer of at most so many bytes. Raises OSError."""
        connection = self.connection
        link, epoch = connection.link, connection.session.epoch
        link.correlation += 1
        place: int = self._encode(self.topics_at, link.correlation, epoch, bytes_max)
        connection.send_frame(self._frame[place >> 32 : place & _LOW], bytes_max)

    def settle(self) -> None:
        """Bring all positions back. The session is over then."""
        session, extents = self.connection.session, self._extents
        rows: list[list[int]] = self.table.tolist()
        for key, fetch_state, row in zip(self._keys, self._fetch_states, rows, strict=True):
            offset, asked, readable, high_watermark, batches, records, size, oldest_ms, fetched_ms = row[OFFSET:]
            if batches:
                run = Run(0, size, fetch_state.offset, offset, batches, records, oldest_ms, row[EPOCH])
                extents.note(fetch_state, run, high_watermark, fetched_ms)
                fetch_state.follow(offset, readable, batches, size)
                session.note_asked(key, asked)
            elif high_watermark >= 0:
                fetch_state.readable = readable


class PlainAnswers:
    """Of all brokers of a task."""

    def __init__(
        self, ring: Ring, partitions: Partitions, response_reader: FetchResponseReader, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._ring = ring
        self._extents = response_reader.extents
        self._partitions = partitions
        self._response_reader = response_reader
        self._clock = clock
        self._is_loaded = False
        self._sessions: dict[int, PlainSession] = {}
        self._others: dict[int, int] = {}
        self._without_kernels = OftenDone(clock)

    @property
    def is_loaded(self) -> bool:
        return self._is_loaded

    def sessions_of(self, connections: Mapping[int, FetchConnection]) -> dict[int, PlainSession]:
        """The sessions of all brokers that have anything to answer, where compiled code may take what comes of any;
        else none."""
        found: dict[int, PlainSession] = {}
        for node, connection in connections.items():
            session = self._sessions.get(node)
            if session is None or session.connection is not connection:
                if not connection.waiting:
                    if node in self._partitions.nodes:
                        return {}
                    continue
                if self._others.get(node) or self._response_reader.rows:
                    return {}
                if (session := self._open(node, connection)) is None:
                    return {}
                self._sessions[node] = session
            found[node] = session
        return found

    def note_announced(self) -> None:
        """Something was announced over one of the sessions."""
        self._extents.is_behind = True

    def leave_to_others(self, node: int) -> None:
        """The broker's next answers are left to others: what is unusual often comes again."""
        self._others[node] = _OTHERS

    def take(self, node: int, connection: FetchConnection, frame: Frame) -> bool:
        """Take an answer; False if it is left to others: after `settle`."""
        if len(frame.buffer) > frame.asked_bytes or connection.link.is_far:
            return False
        if self._response_reader.rows:  # they go first
            return False
        session = self._sessions.get(node)
        self._is_loaded = self._is_loaded or self._without_kernels.kernels_pay(_ANSWER_SECONDS)
        if not self._is_loaded:
            return False
        if session is None or session.connection is not connection:
            session = self._open(node, connection)
        if session is None:
            return False
        if session.take(frame):
            self._sessions[node] = session
            return True
        self.leave_to_others(node)
        return False

    def _open(self, node: int, connection: FetchConnection) -> PlainSession | None:
        """None if this is no time for it."""
        if (left := self._others.get(node, 0)) > 0:
            self._others[node] = left - 1
            return None
        if connection.version < _VERSION_MIN or not self._response_reader.is_plain:
            return None
        asked = self._partitions.asked_of(node)
        if asked is None or not 0 < len(asked) <= _PARTITIONS_MAX:
            self._others[node] = 0 if asked is None else _OTHERS
            return None
        followed = {key: one for key, one in asked.items() if self._is_followed(key, one, connection)}
        if not followed:
            self._others[node] = _OTHERS
            return None
        return PlainSession(self._ring, self._extents, connection, followed, self._clock)

    def _is_followed(self, key: PartitionKey, fetch_state: PartitionFetchState, connection: FetchConnection) -> bool:
        """Whether an answer that continues the partition is announced, and nothing else would be done."""
        if not fetch_state.is_followed or fetch_state.is_chased or fetch_state.paused or fetch_state.slot == NO_SLOT:
            return False
        epochs, position = fetch_state.lineage.epochs, connection.session.position_of(key)
        epoch = epochs[-1][0] if epochs else NO_EPOCH
        if position is None or (position.offset, position.last_epoch) != (fetch_state.offset, epoch):
            return False
        return self._extents.is_continued(fetch_state, epoch)

    def ask(self, node: int, bytes_max: int) -> bool:
        """Ask a broker for what follows; False if others do. Raises OSError."""
        session = self._sessions.get(node)
        if session is None:
            return False
        session.ask(bytes_max)
        return True

    def settle(self) -> None:
        """Bring the positions of all partitions back."""
        if self._sessions:
            sessions, self._sessions = self._sessions, {}
            for session in sessions.values():
                session.settle()
            self._extents.is_behind = False
