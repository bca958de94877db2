"""Memory of the reader's process alone, for answers that the ring has no room for.

Called by `pipeline.fetch.connection`; a connection whose answers never pass to a writer has no other.
"""

import mmap
from typing import Final

_SMALL_BYTES: Final = 1 << 20


class PrivateMemory:
    """A ring without room: a connection that has it receives responses into memory of the process."""

    ring_bytes: Final = 0
    untaken: Final = 0
    unheard: Final = 0
    aside_bytes = 0

    def reserve(self, size: int, _filler: object = None) -> int | None:
        raise AssertionError(f"{size} bytes were asked of memory that has none")

    def slice(self, start: int, size: int) -> memoryview:
        raise AssertionError(f"no region lies at {start} ({size} bytes)")

    def lend(self, region: int, leases: list[int]) -> None:
        raise AssertionError(f"no region lies at {region} ({len(leases)} leases)")


def private_memory(size: int) -> memoryview:
    """Memory that fills as the answer arrives: the length that a broker announces may be false."""
    return memoryview(bytearray(size) if size <= _SMALL_BYTES else mmap.mmap(-1, size))
