"""The board on the control page: by it a reader announces answers to its writer, past Spark.

An entry says where a run lies in the ring and which offsets it accounts for. What it leaves out, the run row said that
opened the partition's extent (`pipeline.fetch.extents`): that row came through Spark. Entries are taken in order, and
each says how many batches of rows must be taken before it. A full board takes nothing: the run then goes as a row.

Owned by `pipeline.relay.ring`, which has room for it behind its own words. Each word is written by one side only.
"""

import os
import struct
import threading
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

ENTRIES: Final = 1024
_ENTRY: Final = struct.Struct("<4I6q")
_ENTRY_BYTES: Final = _ENTRY.size
_pack_entry, _unpack_entry = _ENTRY.pack_into, _ENTRY.unpack_from
_new_tuple = tuple.__new__
_WORD: Final = 8

# Word numbers; each has a cache line of its own.
_ANNOUNCED, _HEARD, _LISTENS = 0, 8, 16
_ENTRIES_AT: Final = 24 * _WORD
BOARD_BYTES: Final = _ENTRIES_AT + ENTRIES * _ENTRY.size

KEEPS_ORDER: Final = os.uname().machine.lower() in {"x86_64", "amd64", "i686"}
"""Such processors show each other stores in their order, do loads in theirs, and let no store overtake a load."""
_lock = threading.Lock()


def fence() -> None:
    """What this thread read and wrote before comes before what it writes next, and what it read before what it reads
    next. A store may become visible after a later load, the one order that x86 does not keep: a reader that begins to
    wait for memory, and a writer that gives some back meanwhile, may miss each other, and the reader looks again.

    Python has no memory barrier of its own. On ARM to release a lock orders what came before it, and to take it again
    orders what follows: hence twice. No other process uses the lock; its instructions are what counts.
    """
    if KEEPS_ORDER:
        return
    with _lock:
        pass
    with _lock:
        pass


class Announcement(NamedTuple):
    """A run of `size` bytes at `lease` in the ring; `row_batches` must be taken before it. Times are in ms."""

    slot: int
    records: int
    size: int
    row_batches: int
    first_offset: int
    next_offset: int
    lease: int
    max_timestamp: int
    high_watermark: int
    fetched_at_ms: int


class Announcer:
    """The reader's side."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._words = memory.cast("Q")
        self.announced = 0

    @property
    def is_listened_to(self) -> bool:
        """Whether the writer takes announcements."""
        return bool(self._words[_LISTENS])

    @property
    def free(self) -> int:
        """How many entries the board has room for."""
        return ENTRIES - self.unheard

    @property
    def entries(self) -> NDArray[np.uint8]:
        """Where compiled code writes entries: that of number n begins at the nth place, round and round. Its
        memory stays while a caller holds it."""
        return np.frombuffer(self._memory[:], np.uint8, ENTRIES * _ENTRY_BYTES, _ENTRIES_AT)

    def note_announced(self, announced: int) -> None:
        """Compiled code has announced all before that one."""
        self.announced = announced

    def count(self, entries: int) -> None:
        """So many entries were written behind those that are announced."""
        if not KEEPS_ORDER:
            fence()  # they are whole before they count
        self.announced += entries
        self._words[_ANNOUNCED] = self.announced

    @property
    def unheard(self) -> int:
        """How many announcements the writer has not taken yet."""
        return self.announced - self._words[_HEARD]

    def announce(self, announcement: Announcement) -> bool:
        """Put it on the board; False if the board is full, or a damaged header has given it a number that no entry
        holds."""
        if self.free <= 0:
            return False
        try:
            _pack_entry(self._memory, _place(self.announced), *announcement)
        except struct.error:
            return False
        self.count(1)
        return True

    def close(self) -> None:
        self._words.release()
        self._memory.release()


class Listener:
    """The writer's side."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._words = memory.cast("Q")
        self.heard = 0

    def listen(self) -> None:
        """From now on the reader may announce."""
        self._words[_LISTENS] = 1

    def is_next(self, row_batches: int) -> bool:
        """Whether there is an announcement that waits for no more batches of rows than so many."""
        if self._words[_ANNOUNCED] == self.heard:
            return False
        fence()  # no part of the entry was read before it counted
        return self._read(self.heard).row_batches <= row_batches

    def take(self, row_batches: int) -> list[Announcement]:
        """The next announcements, up to one that waits for more batches of rows than so many. Their places on the board
        are then free."""
        announced, heard = self._words[_ANNOUNCED], self.heard
        found: list[Announcement] = []
        if heard == announced:
            return found
        fence()  # no part of an entry was read before it counted
        memory = self._memory
        while heard != announced:
            entry = _new_tuple(Announcement, _unpack_entry(memory, _ENTRIES_AT + heard % ENTRIES * _ENTRY_BYTES))
            if entry.row_batches > row_batches:
                break
            found.append(entry)
            heard += 1
        fence()  # all have been read before their places are free
        self._words[_HEARD] = self.heard = heard
        return found

    def note_heard(self, heard: int) -> None:
        """Compiled code has taken all before that one."""
        self.heard = heard

    def _read(self, number: int) -> Announcement:
        return Announcement._make(_unpack_entry(self._memory, _place(number)))

    def close(self) -> None:
        self._words.release()
        self._memory.release()


def _place(number: int) -> int:
    return _ENTRIES_AT + number % ENTRIES * _ENTRY.size
