"""How much batches may take when they are unpacked: each by itself, and all that a process holds at a time.

Used by all modules that unpack batches of mirrored topics: `batch.rewrite`, `pipeline.produce.packing`,
`pipeline.produce.repartition`, `pipeline.fetch.record_rows`, `verify`.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sparkmirror.batch.content_size import read_claim
from sparkmirror.batch.header import Codec

SHARE_MAX: Final = 100
"""So many times its size a batch may become: applications' records become 2 to 20 times theirs."""
UNPACKED_BYTES_MAX: Final = 128 << 20
"""What a process holds of unpacked batches, unless the flow says otherwise."""
INTERNAL_BYTES_MAX: Final = 1 << 20
"""Of a batch of an internal topic: its writers make smaller ones."""
_FREE_PART: Final = 8
_BLOCK_BYTES: Final = 128 << 10
"""A block of zstd, which may hold so much however small it is."""
_TURN_SECONDS: Final = 1.0
_BROKER_BYTES_PER_SECOND: Final = 1 << 30
"""What the thread of a broker unpacks, to check a batch that it is sent."""
USUAL_SHARE: Final = 1.5
"""What a compressed byte becomes, where nothing is known of a partition yet."""


CONTENT_HINT: Final = "raise unpacked.bytes.max, or leave the topic out"


class UnpackingBusy(Exception):
    """The process holds as much as it may: to be tried again in a moment."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What one batch may take unpacked: `free_bytes` in any case, beyond that SHARE_MAX times its size, and never more
    than `bytes_max`."""

    free_bytes: int
    bytes_max: int

    def of(self, packed_bytes: int) -> int:
        return min(max(self.free_bytes, packed_bytes * SHARE_MAX), self.bytes_max)


def bound_for(bytes_max: int) -> Bound:
    """For batches that must be unpacked in a process that may hold so many bytes."""
    return Bound(bytes_max // _FREE_PART, bytes_max)


USUAL_BOUND: Final = bound_for(UNPACKED_BYTES_MAX)


class UnpackingBudget:
    """What one process may hold of unpacked batches. Thread-safe; nobody waits in it.

    `bound` is for batches that must be unpacked, `merging_bound` for those that could pass through as well.
    """

    def __init__(self, bytes_max: int = UNPACKED_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.bound = bound_for(bytes_max)
        self.merging_bound = Bound(min(_BLOCK_BYTES, bytes_max), bytes_max)
        self.held_bytes = 0
        self._lock = threading.Lock()
        self._next: object = None
        self._next_until = 0.0

    def take(self, holder: object, size_bytes: int) -> bool:
        """Whether `holder` may have so much more. Who is refused comes before others, while he asks once a second:
        small ones would otherwise keep out a large one for ever. Where nothing is held, all is granted.
        """
        with self._lock:
            now = time.monotonic()
            is_turn = self._next in (None, holder) or now > self._next_until
            if is_turn and (not self.held_bytes or self.held_bytes + size_bytes <= self.bytes_max):
                self._next = None
                self.held_bytes += size_bytes
                return True
            if is_turn:
                self._next, self._next_until = holder, now + _TURN_SECONDS
            return False

    def give_back(self, size_bytes: int) -> None:
        with self._lock:
            self.held_bytes -= size_bytes


class Held:
    """A part of a budget, in use."""

    def __init__(self, budget: UnpackingBudget, size_bytes: int) -> None:
        self._budget = budget
        self._size_bytes = size_bytes

    def resize(self, size_bytes: int) -> None:
        """So much it is, as has turned out; what is there already cannot be refused."""
        self._budget.give_back(self._size_bytes - size_bytes)
        self._size_bytes = size_bytes


class Unpacking:
    """What is known of one partition's batches: `share` is what a compressed byte of them became last.

    `is_poor` once they were found to become more than SHARE_MAX times their size: from then on none is unpacked that
    need not be. `owed_seconds` is what the target's broker has been given to unpack by then: it unpacks what passes
    as it is, to check it.
    """

    __slots__ = ("budget", "is_poor", "owed_seconds", "share")

    def __init__(self, budget: UnpackingBudget | None = None) -> None:
        self.budget = budget or UnpackingBudget()
        self.is_poor = False
        self.owed_seconds = 0.0
        self.share = USUAL_SHARE

    def pay(self) -> None:
        """The others have had their time for what was owed."""
        self.owed_seconds = 0.0

    @contextmanager
    def holding(self, size_bytes: int) -> Iterator[Held]:
        """Raises UnpackingBusy."""
        if not self.budget.take(self, size_bytes):
            raise UnpackingBusy
        held = Held(self.budget, size_bytes)
        try:
            yield held
        finally:
            held.resize(0)

    def note(self, packed_bytes: int, content_bytes: int) -> None:
        """So many bytes of compressed batches have become so many."""
        self.share = content_bytes / max(packed_bytes, 1)
        self.is_poor |= content_bytes > self.budget.merging_bound.of(packed_bytes)

    def note_passed(self, codec: Codec, content: memoryview) -> None:
        """A batch with this compressed `content` passes as it is."""
        claim = read_claim(codec, content)
        content_bytes = claim.content_bytes if claim else self.share * len(content)
        self.is_poor |= content_bytes > self.budget.merging_bound.of(len(content))
        if self.is_poor and content_bytes > SHARE_MAX * len(content):
            self.owed_seconds += content_bytes / _BROKER_BYTES_PER_SECOND
