"""From columns of records to batches for the partitions of one target topic: pure.

Called by `pipeline.produce.repartition` and `pipeline.produce.record_pieces`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sparkmirror.errors import RecordTooLarge
from sparkmirror.model import TopicPartition

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sparkmirror.batch.columns import Columns
    from sparkmirror.batch.header import Codec
    from sparkmirror.batch.piece import Piece

BATCH_BYTES_MAX: Final = 512 << 10
_ALONE_BYTES_MAX: Final = 1 << 30
"""A record that is larger than a batch should be goes alone: the target judges it."""


def partitions_by_key(columns: "Columns", keyless: int, count: int) -> "NDArray[np.int64]":
    """Where Java's producer puts each record in a topic of `count` partitions; one without a key goes to `keyless`."""
    import numpy as np

    from sparkmirror.policy.partitioner import murmur2_partitions

    starts, lengths = (column.astype(np.int64) for column in (columns.key_starts, columns.key_lengths))
    found = murmur2_partitions(columns.content, starts, np.maximum(lengths, 0), count)
    return np.where(lengths < 0, keyless % count, found)


def encode_lanes(
    columns: "Columns", partitions: "NDArray[np.int64]", topic: str, codec: "Codec"
) -> "Iterator[tuple[TopicPartition, Piece]]":
    """The records as batches of the partition that `partitions` gives each, in their order there."""
    import numpy as np

    for partition in np.unique(partitions).tolist():
        picked = np.flatnonzero(partitions == partition)
        for piece in encode_batches(pick(columns, picked), codec):
            yield TopicPartition(topic, partition), piece


def pick(columns: "Columns", rows: "NDArray[np.int64]") -> "Columns":
    """The records at `rows`, over the same bytes."""
    if len(rows) == len(columns):
        return columns
    return replace(
        columns, offsets=columns.offsets[rows], timestamps=columns.timestamps[rows], places=columns.places[rows]
    )


def encode_batches(columns: "Columns", codec: "Codec") -> "Iterator[Piece]":
    """The records as batches of BATCH_BYTES_MAX; a larger one stands alone."""
    from sparkmirror.batch.encoding import encode

    first = 0
    while first < len(columns):
        try:
            for piece in encode(columns.rows(first, len(columns)), codec, BATCH_BYTES_MAX):
                first += piece.records
                yield piece
        except RecordTooLarge:
            yield from encode(columns.rows(first, first + 1), codec, _ALONE_BYTES_MAX)
            first += 1
