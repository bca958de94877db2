"""What the deep path makes: batches that are ready to be produced. Made by `batch.columns`, sent by
`pipeline.produce.buffer`."""

from dataclasses import dataclass

from sparkmirror.batch.span import Span


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One v2 batch with base offset 0 and dense offsets, for `batch.header.stamp` to give it a producer.

    `spans` are the maximal ranges of consecutive source offsets of its `records` records, in their order.
    """

    data: bytearray
    spans: tuple[Span, ...]
    records: int
