"""Node-local shared memory between a task's reader and its writer: the payload ring and its control page.

A reader receives fetch responses straight into a ring in an anonymous memory file (memfd); rows carry positions in it,
and the writer, a process on the same host, maps the same file through `/proc/<pid>/fd/<n>`. The file has no name, so no
clean-up is needed: the memory is freed when both processes have ended (invariant 6).

Positions only ever grow; the byte lies at `position % size`. A response is one *region*, its runs are *leases*, and a
region is free again (`pipeline.relay.regions`) when the writer has given all its leases back, in any order, through the
completion queue of the control page. That is the backpressure: no free region, no reading from the socket (invariant
9).

Control page: 64-bit words written by one side only (aligned, hence not torn), and behind them the board
(`pipeline.relay.board`). Created by `pipeline.fetch.reader`, opened by `pipeline.produce.writer`.
"""

import contextlib
import errno
import mmap
import os
import secrets
from collections import deque
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.pipeline.relay.board import BOARD_BYTES, Announcer, Listener, fence
from sparkmirror.pipeline.relay.regions import Regions

_MAGIC: Final = 0x5350_4B4D_4952_0001
_PAGE: Final = mmap.PAGESIZE
_COMPLETIONS: Final = 8192
_SLOTS: Final = 4096
RING_BYTES_MIN: Final = 1 << 20

# Word numbers of the control page.
_W_MAGIC, _W_PEER, _W_ERROR, _W_DONE_TAIL, _W_DONE_HEAD, _W_WAITING, _W_SLOT_CHANGES, _W_INLINE_FREED = range(8)
_W_THROTTLED, _W_LIMITED, _W_TAKEN, _W_CALLS, _W_MARK = 8, 9, 10, 11, 12
_W_COMPLETIONS: Final = 64
_W_SLOTS: Final = _W_COMPLETIONS + _COMPLETIONS
_SLOT_WORDS: Final = 5
"""The count of its orders, and two places that are written in turn with the last one: offset, and turns with the
pause."""
_BOARD_AT: Final = -(-(_W_SLOTS + _SLOT_WORDS * _SLOTS) * 8 // 64) * 64
_CONTROL_BYTES: Final = -(-(_BOARD_AT + BOARD_BYTES) // _PAGE) * _PAGE

WAITING_WORD, TAKEN_WORD, CALLS_WORD, BOARD_WORD = _W_WAITING, _W_TAKEN, _W_CALLS, _BOARD_AT // 8
"""Where compiled code finds them on the control page."""
FLOWING, PAUSED = 0, 1


class RingAddress(NamedTuple):
    """The reader's memory for its writer: process id, and file descriptors of the memory, of the pipe that wakes the
    reader, and of the one by which it calls the writer. `mark` is the ring's own: a process may have closed it, and
    have another one, of another task, under the same number by now."""

    pid: int
    memory: int
    wake: int
    call: int
    ring_bytes: int
    mark: int = 0


class SlotOrder(NamedTuple):
    """What the writer asks of one partition: go on from `offset`, or pause.

    `turns` identifies the log of that offset: the number of its rewrites (`ledger.lineage`) that the writer has taken.
    """

    slot: int
    paused: bool
    offset: int
    turns: int


class Ring(Regions):
    """The reader's side. `ring_bytes` is 0 if the system gave no shared memory; all payload then goes inline."""

    def __init__(self, ring_bytes: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self._memory = os.memfd_create("sparkmirror-ring", os.MFD_CLOEXEC)
        super().__init__(_allocate(self._memory, ring_bytes), clock)
        self._map = mmap.mmap(self._memory, _CONTROL_BYTES + self.ring_bytes)
        view = memoryview(self._map)
        self._words = view[:_BOARD_AT].cast("Q")
        self.announcer = Announcer(_board_of(view))
        self.data = view[_CONTROL_BYTES:]
        self.wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._call_reader, self._call_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._words[_W_MAGIC], self._words[_W_MARK] = _MAGIC, secrets.randbits(63)
        self._slot_changes = 0
        self._slot_seen: dict[int, int] = {}
        self._inline_sent = 0
        self._given = 0
        self.awaited = 0
        """How many batches of rows the writer must have taken before what is announced from here on."""

    @property
    def address(self) -> RingAddress:
        numbers = self._memory, self._wake_writer, self._call_reader
        return RingAddress(os.getpid(), *numbers, self.ring_bytes, self._words[_W_MARK])

    def slice(self, start: int, size: int) -> memoryview:
        offset = start % self.ring_bytes
        return self.data[offset : offset + size]

    @property
    def bytes(self) -> NDArray[np.uint8]:
        """All of the ring, for compiled code. Its memory stays while a caller holds it."""
        return np.frombuffer(self.data[:], np.uint8)

    @property
    def page(self) -> NDArray[np.int64]:
        """The control page, for compiled code."""
        return np.frombuffer(self._map, np.int64, _CONTROL_BYTES // 8)

    @property
    def given(self) -> int:
        """How many batches of rows have gone to Spark."""
        return self._given

    @property
    def call_writer(self) -> int:
        """The pipe by which `call` wakes the writer."""
        return self._call_writer

    def collect(self) -> None:
        """Free the regions whose leases the writer has given back."""
        tail = self._words[_W_DONE_TAIL]
        head = self._words[_W_DONE_HEAD]
        if head == tail:
            return
        fence()  # no entry was read before it counted
        while head != tail:
            region = self._region_of.pop(self._words[_W_COMPLETIONS + head % _COMPLETIONS], None)
            if region is not None:
                region.leases -= 1
            head += 1
        fence()  # all have been read before their places are free
        self._words[_W_DONE_HEAD] = head
        self._release_front()

    def note_inline(self, size: int) -> None:
        self._inline_sent += size

    def note_given(self, *, is_awaited: bool = True) -> None:
        """Count a batch of rows that goes to Spark, on its way to the writer. If `is_awaited`, what is announced from
        here on comes behind its rows."""
        self._given += 1
        if is_awaited:
            self.awaited = self._given

    def call(self) -> None:
        """Wake the writer's sender, after each answer of which something was announced; the benchmarks count them."""
        self._words[_W_CALLS] += 1
        try:  # noqa: SIM105 - for each answer, and `suppress` is three calls
            os.write(self._call_writer, b"\0")
        except OSError:
            pass

    @property
    def untaken(self) -> int:
        """How many batches of rows are still on their way; 0 if the writer does not count what it takes."""
        taken = self._words[_W_TAKEN]
        return self._given - taken if taken else 0

    @property
    def unheard(self) -> int:
        """How many announcements the writer has not taken yet."""
        return self.announcer.unheard

    def note_throttled(self, ms: int) -> None:
        """Add a throttle time of a source broker (its quota); the writer reports it in the task's status."""
        self._words[_W_THROTTLED] += ms

    def note_limited(self, ms: int) -> None:
        """Add the time for which the flow's own rate limits held partitions back."""
        self._words[_W_LIMITED] += ms

    @property
    def inline_outstanding_bytes(self) -> int:
        return self._inline_sent - self._words[_W_INLINE_FREED]

    @property
    def peer(self) -> int:
        """The writer's process id; 0 until it has opened the ring."""
        return self._words[_W_PEER]

    @property
    def peer_failed(self) -> bool:
        return bool(self._words[_W_ERROR])

    def set_waiting(self, waiting: bool) -> None:
        """Tell the writer whether memory is waited for that it can give back; one that waits is called for that."""
        waits, waited = int(waiting and not self.awaits_filler), self._words[_W_WAITING]
        self._words[_W_WAITING] = waits
        if waits > waited:
            self.call()

    def wake(self) -> None:
        """End the reader's wait, from any thread of it."""
        with contextlib.suppress(OSError):
            os.write(self._wake_writer, b"\0")

    def drain_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake_reader, 4096)

    def slot_orders(self, slots: range) -> list[SlotOrder]:
        """Orders of the writer that have come since the last call."""
        changes = self._words[_W_SLOT_CHANGES]
        if changes == self._slot_changes:
            return []
        self._slot_changes = changes
        fence()  # no count was read before the change
        counts = [(slot, self._words[_W_SLOTS + _SLOT_WORDS * slot]) for slot in slots]
        return [self._slot_order(slot, count) for slot, count in counts if count != self._slot_seen.get(slot, 0)]

    def _slot_order(self, slot: int, count: int) -> SlotOrder:
        """The order of that count, or a later one: every second order overwrites its place."""
        first = _W_SLOTS + _SLOT_WORDS * slot
        while True:
            fence()  # no part of the order was read before it counted
            place = first + 1 + 2 * (count & 1)
            offset, word = self._words[place], self._words[place + 1]
            fence()  # it was read whole before the count is looked at again
            before, count = count, self._words[first]
            if before == count:
                self._slot_seen[slot] = count
                return SlotOrder(slot, bool(word & 1), offset, word >> 1)

    def close(self) -> None:
        self._words.release()
        self.announcer.close()
        self.data.release()
        with contextlib.suppress(BufferError):
            self._map.close()
        for descriptor in (self._memory, self.wake_reader, self._wake_writer, self._call_reader, self._call_writer):
            os.close(descriptor)


class RingPeer:
    """The writer's side: maps the reader's ring, gives leases back and gives orders. Raises OSError if it cannot."""

    def __init__(self, address: RingAddress) -> None:
        self._address = address
        memory = os.open(f"/proc/{address.pid}/fd/{address.memory}", os.O_RDWR | os.O_CLOEXEC)
        try:
            self._map = mmap.mmap(memory, _CONTROL_BYTES + address.ring_bytes)
        except ValueError as problem:  # shorter than a ring: another process or file has the number by now
            raise OSError(f"descriptor {address.memory} of process {address.pid} is no ring: {problem}") from problem
        finally:
            os.close(memory)
        view = memoryview(self._map)
        self._words = view[:_BOARD_AT].cast("Q")
        self.listener = Listener(_board_of(view))
        self.data = view[_CONTROL_BYTES:]
        if self._words[_W_MAGIC] != _MAGIC:
            raise OSError(f"process {address.pid} shows no ring of ours at descriptor {address.memory}")
        if self._words[_W_MARK] != address.mark:
            raise OSError(errno.ENOENT, f"process {address.pid} has another ring at descriptor {address.memory}")
        self._wake = os.open(f"/proc/{address.pid}/fd/{address.wake}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        # Opened for both, a pipe is never at its end: one whose reader is gone would be readable for ever.
        self.called = os.open(f"/proc/{address.pid}/fd/{address.call}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._unreported: deque[int] = deque()
        self._words[_W_PEER] = os.getpid()

    def slice(self, lease: int, size: int) -> memoryview:
        offset = lease % self._address.ring_bytes
        return self.data[offset : offset + size]

    @property
    def ring_bytes(self) -> int:
        return self._address.ring_bytes

    @property
    def bytes(self) -> NDArray[np.uint8]:
        """All of the ring, for compiled code. Its memory stays while a caller holds it."""
        return np.frombuffer(self.data[:], np.uint8)

    @property
    def page(self) -> NDArray[np.int64]:
        """The control page, for compiled code."""
        return np.frombuffer(self._map, np.int64, _CONTROL_BYTES // 8)

    @property
    def reader_waits(self) -> bool:
        """Whether the reader has a response on its way, and no region for it before leases come back."""
        return bool(self._words[_W_WAITING])

    @property
    def throttled_ms(self) -> int:
        """The sum of the source brokers' throttle times since the task began, in ms."""
        return self._words[_W_THROTTLED]

    @property
    def limited_ms(self) -> int:
        """How long the flow's own rate limits have held partitions back, in ms."""
        return self._words[_W_LIMITED]

    def note_taken(self, batches: int) -> None:
        """The number of the reader's batches of rows that have come through Spark."""
        self._words[_W_TAKEN] += batches

    def give_back(self, lease: int) -> None:
        self._unreported.append(lease)

    def publish(self) -> None:
        """Make completions visible to the reader; those for which the queue has no room stay for the next call."""
        if not self._unreported:
            return
        tail = self._words[_W_DONE_TAIL]
        room = _COMPLETIONS - (tail - self._words[_W_DONE_HEAD])
        while self._unreported and room:
            self._words[_W_COMPLETIONS + tail % _COMPLETIONS] = self._unreported.popleft()
            tail += 1
            room -= 1
        fence()  # the entries are whole before they count
        self._words[_W_DONE_TAIL] = tail
        self._poke_if_waiting()

    def free_inline(self, size: int) -> None:
        self._words[_W_INLINE_FREED] += size
        self._poke_if_waiting()

    def order(self, slot: int, *, paused: bool, offset: int, turns: int) -> None:
        """Pause a partition at the reader, or resume it from `offset` of the log that `turns` identifies."""
        first = _W_SLOTS + _SLOT_WORDS * slot
        count = self._words[first] + 1
        place = first + 1 + 2 * (count & 1)
        self._words[place], self._words[place + 1] = offset, turns << 1 | int(paused)
        fence()  # the order is whole before it counts
        self._words[first] = count
        fence()  # and counts before it is looked for
        self._words[_W_SLOT_CHANGES] += 1
        self._poke()

    def fail(self) -> None:
        """Tell the reader to end at once: a writer's exception stays invisible to Spark while the reader reads on."""
        self._words[_W_ERROR] = 1
        self._poke()

    def _poke_if_waiting(self) -> None:
        if self._words[_W_WAITING]:
            self._poke()

    def _poke(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._wake, b"\0")

    def drain_call(self) -> None:
        try:  # noqa: SIM105 - as `Ring.call`
            os.read(self.called, 4096)
        except BlockingIOError:
            pass

    def close(self) -> None:
        self._words.release()
        self.listener.close()
        self.data.release()
        with contextlib.suppress(BufferError):
            self._map.close()
        os.close(self._wake)
        os.close(self.called)


def slot_count() -> int:
    """How many partitions of a task can be paused one by one."""
    return _SLOTS


def _board_of(view: memoryview) -> memoryview:
    return view[_BOARD_AT : _BOARD_AT + BOARD_BYTES]


def _allocate(memory: int, ring_bytes: int) -> int:
    """Size the file so that every page exists before it is touched: a missing page would be a SIGBUS, not an error."""
    os.posix_fallocate(memory, 0, _CONTROL_BYTES)
    size = ring_bytes
    while size >= RING_BYTES_MIN:
        try:
            os.posix_fallocate(memory, _CONTROL_BYTES, size)
            return size
        except OSError:
            size = size // 2 // _PAGE * _PAGE
    os.ftruncate(memory, _CONTROL_BYTES)
    return 0
