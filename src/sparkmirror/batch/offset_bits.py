"""Which offsets of a stretch of a log have a record: the bits of one integer, the lowest for the first offset; pure.

Filters leave records between holes. A bit for each offset takes less than a range for each record, and costs the same
for one record and for a thousand. Used by `batch.piece` and `ledger.offset_map`.
"""

from collections.abc import Iterator
from typing import Final

BITS_MAX: Final = 4096
"""The most offsets of one stretch."""
RANGE_BITS: Final = 32
"""What a range of offsets takes where it is stored (`ledger.map_records`), about: as much as the bits of so many."""


def count_below(bits: int, at: int) -> int:
    """The records before the offset `at`."""
    return (bits & ((1 << at) - 1)).bit_count()


def offset_of(bits: int, number: int) -> int:
    """The offset of the record `number`, which is below `bits.bit_count()`; the first is 0."""
    low, high = 0, bits.bit_length() - 1
    while low < high:
        middle = (low + high) >> 1
        if count_below(bits, middle + 1) > number:
            high = middle
        else:
            low = middle + 1
    return low


def runs(bits: int) -> Iterator[tuple[int, int]]:
    """The ranges of consecutive offsets that have records: the first offset and the number."""
    at = 0
    while bits:
        hole = (bits & -bits).bit_length() - 1
        bits >>= hole
        records = (~bits & (bits + 1)).bit_length() - 1
        yield at + hole, records
        bits >>= records
        at += hole + records


def newest_starts(bits: int, wanted: int) -> tuple[int, int]:
    """Where the last `wanted` ranges begin that have a hole before them, or as many as there are: the number, and the
    offset of the first of them, 0 where there is none."""
    starts, found, at = bits & ~(bits << 1) & ~1, 0, 0
    while starts and found < wanted:
        at = starts.bit_length() - 1
        starts ^= 1 << at
        found += 1
    return found, at
