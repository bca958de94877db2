"""A batch of the rewrite path that is ready to be produced, and which source offsets its records come from.

Made by `batch.columns`, sent by `pipeline.produce.buffer`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

from sparkmirror.batch.offset_bits import offset_of, runs


class Span(NamedTuple):
    """`records` records with the consecutive source offsets from `first_offset` on, and `more` of the last of these
    offsets: a transform made several records of that one. With `bits` not all of these offsets have a record, but
    those whose bits are set (`batch.offset_bits`), the first and the last among them.

    A batch has the spans of its records in their order: one where it passes through untouched, more where the source
    has holes (compaction, transaction markers) or where batches were merged. Where a batch begins inside of what was
    made of one record, its first span has 0 records, from the following offset on.
    """

    first_offset: int
    records: int
    more: int = 0
    bits: int = 0

    @property
    def next_offset(self) -> int:
        """The source offset behind its last one."""
        return self.first_offset + (self.bits.bit_length() or self.records)

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Its consecutive source offsets, in order: the first, and how many."""
        if not self.bits:
            yield self.first_offset, self.records
        for at, records in runs(self.bits):
            yield self.first_offset + at, records

    def part(self, begin: int, end: int) -> Self:
        """Its records from the number `begin` up to `end`, which is more; without what else became of them."""
        if not self.bits:
            return self._replace(first_offset=self.first_offset + begin, records=end - begin, more=0)
        low, high = offset_of(self.bits, begin), offset_of(self.bits, end - 1)
        bits = (self.bits & ((2 << high) - 1)) >> low
        records = end - begin
        return self._replace(
            first_offset=self.first_offset + low, records=records, more=0, bits=bits * (records <= high - low)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One v2 batch with base offset 0 and dense offsets, for `batch.header.stamp` to give it a producer.

    `spans` has the source offsets of its `records` records, in their order: maximal ranges, or many of them as the bits
    of one. Several records may have one source offset (`Span.more`).
    """

    data: bytearray
    spans: tuple[Span, ...]
    records: int
