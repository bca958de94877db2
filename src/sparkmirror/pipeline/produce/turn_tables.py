"""What compiled code reads and writes while it takes turns of a sender (`batch.produce_turns`). Owned by
`pipeline.produce.plain_turns`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from sparkmirror.batch.produce_turn_rows import (
    CALLED,
    CONNECTION_COLUMNS,
    DUE,
    FILLED,
    HEARD,
    INBOX_BYTES,
    PARTITION_COLUMNS,
    REQUEST_COLUMNS,
    REQUEST_ROOM_BYTES,
    REQUESTS,
    ROW_BATCHES,
    RUN_COLUMNS,
    RUNS,
    STATE_WORDS,
    TOPIC_COLUMNS,
    USED,
    WAKE,
)
from sparkmirror.batch.ready_rows import JOINED
from sparkmirror.kafka.wire.data_requests import TopicKey, encode_topic_key
from sparkmirror.pipeline.produce.arrivals import Arrivals
from sparkmirror.pipeline.produce.connection import ProduceConnection
from sparkmirror.pipeline.produce.direct_buffer import DirectBuffer, Following
from sparkmirror.pipeline.relay.ring import BOARD_WORD, WAITING_WORD, RingPeer

if TYPE_CHECKING:
    from numpy.typing import NDArray

PARTITIONS_MAX: Final = 256
"""One is encoded after looking at all."""
CONNECTIONS_MAX: Final = 8
_RUNS: Final = 512
_REQUESTS: Final = 256
_ROOM_BYTES: Final = 4 << 20
_LEAVE_NS: Final = 60_000_000
"""As `pipeline.produce.sender` leaves answers."""
NS: Final = 1e9

Row = Sequence[int]


class Followed(NamedTuple):
    """A partition whose runs compiled code may send on, with the key of its topic over its connection."""

    buffer: DirectBuffer
    slot: int
    connection: ProduceConnection
    key: TopicKey
    head: Following


class TurnTables:
    """What compiled code reads and writes."""

    def __init__(self, peer: RingPeer, wake: int) -> None:
        from sparkmirror.batch.system_calls import WORDS

        self._page, self._memory = peer.page, peer.bytes
        self._runs, self._requests = _table(_RUNS, RUN_COLUMNS), _table(_REQUESTS, REQUEST_COLUMNS)
        self._partitions, self._connections = _table(0, PARTITION_COLUMNS), _table(0, CONNECTION_COLUMNS)
        self._topics, self._heads = _table(0, TOPIC_COLUMNS), np.empty(0, np.uint8)
        self._room = np.empty(_ROOM_BYTES, np.uint8)
        self._frame = np.empty(REQUEST_ROOM_BYTES, np.uint8)
        self._inbox = np.empty(CONNECTIONS_MAX * INBOX_BYTES, np.uint8)
        self._state, self._words = np.zeros(STATE_WORDS, np.int64), np.zeros(WORDS, np.int64)
        self._state[CALLED], self._state[WAKE] = peer.called, wake
        self._given: tuple[Any, ...] = ()
        self._take: Callable[..., int] | None = None

    def fill_in(self, followed: list[Followed], arrivals: Arrivals, request_ms: int) -> list[ProduceConnection]:
        """What holds now. Puts the partitions in the order of their rows, and returns the connections in theirs."""
        connections = list(dict.fromkeys(one.connection for one in followed))
        numbers = {connection: number for number, connection in enumerate(connections)}
        pairs = dict.fromkeys((one.connection, one.key) for one in followed)
        topics = {pair: number for number, pair in enumerate(pairs)}
        followed.sort(key=lambda one: (numbers[one.connection], topics[one.connection, one.key]))
        heads = [connection.request_head(request_ms) for connection in connections]
        keys = [encode_topic_key(key) for _, key in topics]
        places = _places([*heads, *keys])
        rows = [
            (one.slot, one.head.position, numbers[one.connection], topics[one.connection, one.key],
             one.buffer.target.partition, *one.head[1:], 0, -1)
            for one in followed
        ]  # fmt: skip
        over = [
            (connection.link.socket.fileno(), connection.link.correlation, *place, connection.requests_max, 0, 0, 0, 0)
            for connection, place in zip(connections, places, strict=False)
        ]
        self._bind(rows, over, places[len(heads) :], b"".join([*heads, *keys]))
        state = self._state
        assert arrivals.listener is not None, "what is taken was announced"
        state[HEARD], state[ROW_BATCHES] = arrivals.listener.heard, arrivals.row_batches
        if state[DUE] and state[USED]:  # batches may lie in that room yet
            self._room, self._take = np.empty(_ROOM_BYTES, np.uint8), None
        state[USED : DUE + 1] = 0
        return connections

    def _bind(self, rows: Sequence[Row], over: Sequence[Row], topics: Sequence[Row], heads: bytes) -> None:
        """The kernel has arrays of these sizes; where they are the same as before it is bound already."""
        sizes = len(rows), len(over), len(topics), len(heads)
        if sizes != self._given:
            self._given, self._take = sizes, None
            self._partitions = _table(len(rows), PARTITION_COLUMNS)
            self._connections = _table(len(over), CONNECTION_COLUMNS)
            self._topics, self._heads = _table(len(topics), TOPIC_COLUMNS), np.empty(len(heads), np.uint8)
        self._partitions[:] = rows
        self._connections[:] = over
        self._topics[:] = topics
        self._heads[:] = np.frombuffer(heads, np.uint8)

    def take_turns(self, until: float) -> int:
        """Returns why they ended."""
        if self._take is None:
            from sparkmirror.batch.machine_code import bind
            from sparkmirror.batch.produce_turns import take_turns

            self._take = bind(
                take_turns, self._page, self._memory, self._partitions, self._runs, self._requests, self._connections,
                self._topics, self._heads, self._room, self._frame, self._inbox, self._state, self._words,
            )  # fmt: skip
        return self._take(BOARD_WORD, WAITING_WORD, int(until * NS), _LEAVE_NS)

    @property
    def heard(self) -> int:
        return int(self._state[HEARD])

    @property
    def runs(self) -> list[list[int]]:
        found: list[list[int]] = self._runs[: int(self._state[RUNS])].tolist()
        return found

    @property
    def requests(self) -> list[list[int]]:
        found: list[list[int]] = self._requests[: int(self._state[REQUESTS])].tolist()
        return found

    def memory(self, outcome: int) -> memoryview:
        """Where the batch lies that became of a run."""
        return self._room.data if outcome == JOINED else self._memory.data

    def received(self) -> Iterable[bytes]:
        """What came over each connection and was not taken."""
        for number, filled in enumerate(self._connections[:, FILLED].tolist()):
            begin = number * INBOX_BYTES
            yield self._inbox[begin : begin + filled].tobytes()


def _table(rows: int, columns: int) -> "NDArray[np.int64]":
    return np.zeros((rows, columns), np.int64)


def _places(parts: Sequence[bytes]) -> list[tuple[int, int]]:
    """Where each lies among all of them, and its size."""
    places, at = [], 0
    for part in parts:
        places.append((at, len(part)))
        at += len(part)
    return places
