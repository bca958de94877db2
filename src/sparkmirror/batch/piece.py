"""A batch of the rewrite path that is ready to be produced, and which source offsets its records come from.

Made by `batch.columns`, sent by `pipeline.produce.buffer`.
"""

from dataclasses import dataclass
from typing import NamedTuple


class Span(NamedTuple):
    """`records` records with the consecutive source offsets from `first_offset` on.

    A batch has the spans of its records in their order: one where it passes through untouched, more where the source
    has holes (compaction, transaction markers) or where batches were merged.
    """

    first_offset: int
    records: int


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One v2 batch with base offset 0 and dense offsets, for `batch.header.stamp` to give it a producer.

    `spans` are the maximal ranges of consecutive source offsets of its `records` records, in their order.
    """

    data: bytearray
    spans: tuple[Span, ...]
    records: int
