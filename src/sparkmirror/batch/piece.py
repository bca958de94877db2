"""A batch of the rewrite path that is ready to be produced, and which source offsets its records come from.

Made by `batch.columns`, sent by `pipeline.produce.buffer`.
"""

from dataclasses import dataclass
from typing import NamedTuple


class Span(NamedTuple):
    """`records` records with the consecutive source offsets from `first_offset` on, and `more` of the last of these
    offsets: a transform made several records of that one.

    A batch has the spans of its records in their order: one where it passes through untouched, more where the source
    has holes (compaction, transaction markers) or where batches were merged. Where a batch begins inside of what was
    made of one record, its first span has 0 records, from the following offset on.
    """

    first_offset: int
    records: int
    more: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One v2 batch with base offset 0 and dense offsets, for `batch.header.stamp` to give it a producer.

    `spans` are the maximal ranges of consecutive source offsets of its `records` records, in their order. Several
    records may have one source offset (`Span.more`).
    """

    data: bytearray
    spans: tuple[Span, ...]
    records: int
