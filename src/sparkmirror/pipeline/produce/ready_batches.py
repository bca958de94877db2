"""Has compiled code make the batches of a turn's small runs (`batch.small_runs`), once that is loaded.

Loading pays where runs come often: some 20 µs each is what it spares. Owned by `pipeline.produce.direct_path`.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkmirror.batch.loading import OftenDone
from sparkmirror.batch.ready_rows import ASKED_COLUMNS, COLUMNS, JOINED, REFUSED
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.pipeline.relay.ring import RingPeer

_RUN_SECONDS: Final = 20e-6
_GROWTH_BYTES: Final = 4096
"""Beyond the bytes of what is joined: a record may become some bytes longer."""
_ROOM_BYTES: Final = 256 << 10
_ROWS: Final = 64
_ROW: Final = struct.Struct(f"{ASKED_COLUMNS}q{8 * (COLUMNS - ASKED_COLUMNS)}x")
_ANSWER: Final = struct.Struct(f"{8 * ASKED_COLUMNS}x{COLUMNS - ASKED_COLUMNS}q")


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
        self._without_kernels = OftenDone(clock)
        self._make: Callable[[int, int], int] | None = None
        self._table: NDArray[np.int64] = np.empty((0, COLUMNS), np.int64)
        self._room: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._used_bytes = 0

    @property
    def is_loaded(self) -> bool:
        return self._make is not None

    def note_others(self, runs: int) -> None:
        """So many runs became batches without compiled code, in this turn."""
        if self._without_kernels.kernels_pay(_RUN_SECONDS * runs):
            self.load()

    def load(self) -> None:
        """Use compiled code from here on; waits for it where it is not loaded."""
        from sparkmirror.batch.machine_code import bind
        from sparkmirror.batch.small_runs import make_ready

        assert self._peer is not None, "it works in the reader's memory"
        self._make = bind(make_ready, self._peer.bytes, self._table, self._room)

    def make(self, asked: Sequence[Asked], joined_bytes: int) -> list[ReadyBatch | None]:
        """A batch of each run; None for one that is not usual, which is as it was. `joined_bytes` is the size of all
        runs that may have several batches. What passes is stamped where it lies."""
        make = self._have_room(len(asked), joined_bytes)
        peer, room = self._peer, self._room.data
        assert peer is not None, "it works in the reader's memory"
        ring_bytes, words = peer.ring_bytes, self._table.data.cast("B")
        for row, (lease, *rest) in enumerate(asked):
            _ROW.pack_into(words, row * _ROW.size, lease % ring_bytes, *rest)
        self._used_bytes = make(len(asked), self._used_bytes)
        found: list[ReadyBatch | None] = []
        for outcome, at, size, base_offset, records, codec in _ANSWER.iter_unpack(words[: len(asked) * _ROW.size]):
            if outcome == REFUSED:
                found.append(None)
            else:
                memory = room if outcome == JOINED else peer.data
                found.append(ReadyBatch(memory[at : at + size], base_offset, records, codec))
        return found

    def _have_room(self, runs: int, joined_bytes: int) -> Callable[[int, int], int]:
        """The kernel, with room for so many runs, of which so many bytes may be joined. A room that is used up is freed
        when no batch lies in it any more."""
        needed_bytes = joined_bytes + _GROWTH_BYTES
        if runs > len(self._table) or self._used_bytes + needed_bytes > len(self._room):
            self._table = np.empty((max(runs, _ROWS, len(self._table)), COLUMNS), np.int64)
            self._room, self._used_bytes = np.empty(max(needed_bytes, _ROOM_BYTES), np.uint8), 0
            self.load()
        assert self._make is not None, "it is loaded"
        return self._make
