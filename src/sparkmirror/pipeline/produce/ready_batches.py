"""Has compiled code make the batches of a turn's small runs (`batch.small_runs`), once that is loaded.

Loading pays where runs come often: some 20 µs each is what it spares. Owned by `pipeline.produce.direct_path`.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from sparkmirror.batch.loading import kernels_pay
from sparkmirror.batch.machine_code import Bytes, Integers
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.pipeline.relay.ring import RingPeer

_RUN_SECONDS: Final = 20e-6
_OFTEN_SECONDS: Final = 0.1
"""Runs that come seldom do not count: an idle mirror has no use for kernels."""
_ROOM_BYTES_MIN: Final = 4096
"""Beyond the bytes of what is joined: a record may become some bytes longer."""
_ROW: Final = struct.Struct("9q48x")
_ANSWER: Final = struct.Struct("72x6q")
_COLUMNS: Final = _ROW.size // 8
_REFUSED: Final = 0
_JOINED: Final = 2

_Make = Callable[[Bytes, Integers, Bytes], int]


class Asked(NamedTuple):
    """A run at `lease` of the reader's memory, and what its batch must be: of these offsets and this leader epoch, of
    at most `bytes_max`; of runs of several batches at most `joined_bytes_max` become one, 0 for none. Behind that, the
    producer that it is stamped with."""

    lease: int
    size: int
    first_offset: int
    leader_epoch: int
    bytes_max: int
    joined_bytes_max: int
    producer_id: int
    producer_epoch: int
    sequence: int


class ReadyBatch(NamedTuple):
    """A stamped batch; `base_offset` is its first record's offset on the source."""

    data: memoryview
    base_offset: int
    records: int
    codec: int


class ReadyBatches:
    """`is_loaded` says whether `make` may be called."""

    def __init__(self, peer: RingPeer | None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._peer = peer
        self._clock = clock
        self._make: _Make | None = None
        self._table = np.empty((0, _COLUMNS), np.int64)
        self._room = np.empty(_ROOM_BYTES_MIN, np.uint8)
        self._noted_at = 0.0

    @property
    def is_loaded(self) -> bool:
        return self._make is not None

    def note_others(self, runs: int) -> None:
        """So many runs became batches without compiled code, in this turn."""
        now = self._clock.monotonic()
        is_often, self._noted_at = now - self._noted_at < _OFTEN_SECONDS, now
        if is_often and kernels_pay(_RUN_SECONDS * runs):
            from sparkmirror.batch.small_runs import make_ready

            self._make = make_ready

    def make(self, asked: Sequence[Asked], joined_bytes: int) -> list[ReadyBatch | None]:
        """A batch of each run; None for one that is not usual, which is as it was. `joined_bytes` is the size of all
        runs that may have several batches. What passes is stamped where it lies."""
        peer, make = self._peer, self._make
        assert peer is not None and make is not None, "compiled code is loaded, and works in the reader's memory"
        if len(asked) > len(self._table):
            self._table = np.empty((2 * len(asked), _COLUMNS), np.int64)
        if joined_bytes + _ROOM_BYTES_MIN > len(self._room):
            self._room = np.empty(joined_bytes + _ROOM_BYTES_MIN, np.uint8)
        ring_bytes, room = peer.ring_bytes, self._room
        table = self._table[: len(asked)]
        words = table.data.cast("B")
        for row, (lease, *rest) in enumerate(asked):
            _ROW.pack_into(words, row * _ROW.size, lease % ring_bytes, *rest)
        make(peer.bytes, table, room)
        found: list[ReadyBatch | None] = []
        for outcome, at, size, base_offset, records, codec in _ANSWER.iter_unpack(words):
            if outcome == _REFUSED:
                found.append(None)
            elif outcome == _JOINED:
                found.append(ReadyBatch(room.data[at : at + size], base_offset, records, codec))
                self._room = _NO_ROOM
            else:
                found.append(ReadyBatch(peer.data[at : at + size], base_offset, records, codec))
        return found


_NO_ROOM: Final = np.empty(0, np.uint8)
