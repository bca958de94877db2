"""Which source offsets the records of one batch come from: made by whoever makes the batch, kept by
`pipeline.produce.buffer`."""

from typing import NamedTuple


class Span(NamedTuple):
    """`records` records with the consecutive source offsets from `first_offset` on.

    A batch has the spans of its records in their order: one where it passes through untouched, more where the source
    has holes (compaction, transaction markers) or where batches were merged.
    """

    first_offset: int
    records: int
