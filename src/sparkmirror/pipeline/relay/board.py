"""The board on the control page: by it a reader announces small answers to its writer, past Spark.

An entry says where a run lies in the ring and which offsets it accounts for. What it leaves out, the run row said that
opened the partition's extent (`pipeline.fetch.extents`): that row came through Spark. Entries are taken in order, and
each says how many batches of rows must be taken before it. A full board takes nothing: the run then goes as a row.

Owned by `pipeline.relay.ring`, which has room for it behind its own words. Each word is written by one side only.
"""

import struct
import threading
from typing import Final, NamedTuple

ENTRIES: Final = 1024
_ENTRY: Final = struct.Struct("<4I6q")
_WORD: Final = 8

# Word numbers; each has a cache line of its own.
_ANNOUNCED, _HEARD, _LISTENS = 0, 8, 16
_ENTRIES_AT: Final = 24 * _WORD
BOARD_BYTES: Final = _ENTRIES_AT + ENTRIES * _ENTRY.size

_lock = threading.Lock()


def fence() -> None:
    """A full memory barrier: what this thread wrote before is visible before what it reads or writes next.

    Python has none of its own, and processors keep stores behind loads (x86) or reorder most accesses (ARM). To take a
    free lock is a locked instruction on x86. On ARM to release one orders what came before it, and to take it again
    orders what follows: hence twice. No other process uses the lock; its instructions are what counts.
    """
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
    def unheard(self) -> int:
        """How many announcements the writer has not taken yet."""
        return self.announced - self._words[_HEARD]

    def announce(self, announcement: Announcement) -> bool:
        """Put it on the board; False if the board is full."""
        if self.unheard >= ENTRIES:
            return False
        _ENTRY.pack_into(self._memory, _place(self.announced), *announcement)
        fence()  # the entry is whole before it counts
        self.announced += 1
        self._words[_ANNOUNCED] = self.announced
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
        self._next: Announcement | None = None

    def listen(self) -> None:
        """From now on the reader may announce."""
        self._words[_LISTENS] = 1

    def peek(self) -> Announcement | None:
        """The next announcement; None if there is none yet."""
        if self._next is None and self._words[_ANNOUNCED] != self.heard:
            fence()  # no part of the entry was read before it counted
            self._next = Announcement._make(_ENTRY.unpack_from(self._memory, _place(self.heard)))
            fence()  # it has been read before its place is free
        return self._next

    def take(self, row_batches: int) -> Announcement | None:
        """The next announcement, whose place on the board is then free; None if there is none yet, or it waits for more
        batches of rows than so many."""
        found = self._next
        if found is None:
            if self._words[_ANNOUNCED] == self.heard:
                return None
            found = self.peek()
        if found is None or found.row_batches > row_batches:
            return None
        self._next = None
        self.heard = heard = self.heard + 1
        self._words[_HEARD] = heard
        return found

    def close(self) -> None:
        self._words.release()
        self._memory.release()


def _place(number: int) -> int:
    return _ENTRIES_AT + number % ENTRIES * _ENTRY.size
