"""Encodes records, given as rows or columns, as batches for target partitions. No I/O but that of `sizes`.

Called by `pipeline.produce.record_writer` and `pipeline.produce.repartition`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from sparkmirror.batch.record_headers import encode_headers
from sparkmirror.errors import RecordTooLarge, SparkMirrorError
from sparkmirror.model import TopicPartition

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sparkmirror.batch.columns import Columns
    from sparkmirror.batch.header import Codec
    from sparkmirror.batch.piece import Piece


_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_INTERNAL = re.compile(r"__.*|mm2-.*")

Sizes = Callable[[str, TopicPartition], int]
"""`sizes(topic, source)`: the number of a target topic's partitions; `source` is the partition of a record for it."""


class Unroutable(SparkMirrorError):
    """A transform gave a record a target that cannot exist."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The source partition of some rows, the topic that it is mirrored to by itself, and the codec it came with."""

    source: TopicPartition
    remote_topic: str
    codec: "Codec"


def make_pieces(rows: Sequence[pa.RecordBatch], origin: Origin, sizes: Sizes) -> list[tuple[TopicPartition, "Piece"]]:
    """The records of `rows` (columns of `pipeline.relay.schema`, written form) as batches, in their order per
    partition.

    Raises Unroutable for a topic that cannot be, and what `sizes` raises.
    """
    if not any(batch.num_rows for batch in rows):
        return []
    table = pa.Table.from_batches(rows).combine_chunks()
    (whole,) = table.to_batches()
    columns = _columns(whole)
    pieces: list[tuple[TopicPartition, Piece]] = []
    for target, picked in _lanes(whole, columns, origin, sizes):
        pieces.extend((target, piece) for piece in encode_batches(picked, origin.codec))
    return pieces


def _columns(rows: pa.RecordBatch) -> "Columns":
    import numpy as np

    from sparkmirror.batch.columns import Columns

    headers = pa.array(encode_headers(rows.column("headers")), pa.binary())
    content: list[Any] = []
    places = np.empty((rows.num_rows, 6), np.int32)
    base = 0
    for at, array in enumerate((rows.column("key"), rows.column("value"), headers)):
        data, starts, lengths = _bytes_of(array)
        content.append(data)
        places[:, 2 * at] = starts + base
        places[:, 2 * at + 1] = lengths
        base += len(data)
    offsets = rows.column("offset").to_numpy()
    timestamps = rows.column("timestamp").fill_null(-1).to_numpy()
    return Columns(np.concatenate(content), np.array(offsets), np.array(timestamps), places)


def _bytes_of(array: pa.Array) -> "tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int32]]":
    """All bytes of a binary array, and the place and length of each element; a length of -1 is null."""
    import numpy as np

    _, edges, data = array.buffers()
    offsets = np.frombuffer(edges, np.int32)[array.offset : array.offset + len(array) + 1]
    first, stop = int(offsets[0]), int(offsets[-1])
    content = np.frombuffer(data, np.uint8)[first:stop] if stop > first else np.zeros(0, np.uint8)
    lengths = np.where(array.is_null().to_numpy(zero_copy_only=False), -1, np.diff(offsets))
    return content, offsets[:-1] - first, lengths.astype(np.int32)


def _lanes(
    rows: pa.RecordBatch, columns: "Columns", origin: Origin, sizes: Sizes
) -> "Iterator[tuple[TopicPartition, Columns]]":
    """The records by target partition, in order."""
    import numpy as np

    topics = rows.column("target_topic").dictionary_encode()
    if topics.indices.null_count:
        at = rows.column("offset")[topics.indices.is_null().index(True).as_py()]
        raise Unroutable(f"{origin.source}: the transforms give the record at offset {at} no topic")
    names, codes = topics.dictionary.to_pylist(), topics.indices.to_numpy()
    for code, name in enumerate(names):
        of_topic = np.arange(len(columns)) if len(names) == 1 else np.flatnonzero(codes == code)
        partitions = _partitions(rows, columns, of_topic, name, origin, sizes)
        for partition in np.unique(partitions).tolist():
            picked = of_topic[partitions == partition]
            yield TopicPartition(name, partition), pick(columns, picked)


def _partitions(
    rows: pa.RecordBatch,
    columns: "Columns",
    picked: "NDArray[np.int64]",
    topic: str,
    origin: Origin,
    sizes: Sizes,
) -> "NDArray[np.int64]":
    """The partition that the plan asks for; if it asks for none, or for one that does not exist, the key's.

    A record without a key then goes to its source partition's number, which keeps the order.
    """
    import numpy as np

    column = rows.column("target_partition")
    wanted: NDArray[np.int64] = column.fill_null(-1).to_numpy()[picked].astype(np.int64)
    if topic == origin.remote_topic and bool((wanted == origin.source.partition).all()):
        return wanted  # the same partition of the mirrored topic, which the topic job creates
    if not _TOPIC.fullmatch(topic) or topic in (".", "..") or _INTERNAL.fullmatch(topic):
        raise Unroutable(f"{origin.source}: the transforms send records to `{topic}`, which cannot be a topic for data")
    count = sizes(topic, origin.source)
    leaderless = np.flatnonzero((wanted < 0) | (wanted >= count))
    if len(leaderless):
        wanted[leaderless] = partitions_by_key(pick(columns, picked[leaderless]), origin.source.partition, count)
    return wanted


BATCH_BYTES_MAX: Final = 512 << 10
_ALONE_BYTES_MAX: Final = 1 << 30
"""A record larger than a batch goes alone: the target decides whether to accept it."""


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
