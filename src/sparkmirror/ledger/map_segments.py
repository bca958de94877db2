"""A segment of an offset map: source offsets whose records lie on the target one behind the other; pure.

A segment of constant distance takes a few bytes however long it is. Where holes are close to each other, as behind a
filter, it has a bit for each source offset instead. Used by `ledger.offset_map`, stored by `ledger.map_records`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from sparkmirror.batch.offset_bits import RANGE_BITS, count_below, offset_of, runs
from sparkmirror.model import NO_TOPIC_ID


class Segment(NamedTuple):
    """Source offsets from `first` on, up to the next segment's.

    `target` is where the first record at or after `first` lies. The record `o` lies at `o + delta` if the segment is
    `exact`, and not before that otherwise. `splits` if the last of its offsets became several records, up to where the
    next segment's lie. With `bits` only the offsets have a record whose bits are set (`batch.offset_bits`), from
    `base` on, and lie one behind the other.
    """

    first: int
    target: int
    delta: int
    exact: bool = True
    splits: bool = False
    bits: int = 0

    @property
    def base(self) -> int:
        """The source offset of its first record."""
        return self.target - self.delta

    @property
    def weight(self) -> int:
        return 1 + self.bits.bit_length() // RANGE_BITS

    @property
    def last_delta(self) -> int:
        """The distance of its last record."""
        return self.delta + self.bits.bit_count() - self.bits.bit_length()

    def place(self, offset: int) -> int:
        """Where the source offset lies, as if the segment had no end."""
        at = offset - self.base
        if self.bits and at < self.bits.bit_length():
            return self.target + count_below(self.bits, max(at, 0))
        return offset + self.last_delta

    def source_of(self, target_offset: int) -> int:
        """The source offset that lies there, as if the segment had no end."""
        number = target_offset - self.target
        if 0 <= number < self.bits.bit_count():
            return self.base + offset_of(self.bits, number)
        return target_offset - self.last_delta

    def ranges(self) -> Iterator[tuple[int, int, int]]:
        """(first source offset, records, first target offset) where it has bits."""
        target = self.target
        for at, records in runs(self.bits):
            yield self.base + at, records, target
            target += records


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a map as it is stored: segments, how far they reach on either side, and both sides' topics.

    `is_renewed` says that the partition was mirrored to another log before, which the target does not have any more.
    """

    segments: tuple[Segment, ...]
    end_source: int
    end_target: int
    topic_id: UUID = NO_TOPIC_ID
    is_renewed: bool = False
    source_id: UUID = NO_TOPIC_ID


def join(segments: Sequence[Segment]) -> Segment:
    """One segment for several: each of its offsets translates to no more than before."""
    if len(segments) == 1:
        return segments[0]
    head = segments[0]
    return Segment(head.first, head.target, min(segment.last_delta for segment in segments), exact=False)
