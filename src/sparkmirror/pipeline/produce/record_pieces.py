"""Encodes records, given as rows or columns, as batches for target partitions. No I/O but that of `sizes`.

Called by `pipeline.produce.record_writer` and `pipeline.produce.repartition`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from sparkmirror.batch.piece import Piece, Span
from sparkmirror.batch.rewrite import Limits, clamp
from sparkmirror.errors import RecordTooLarge, SparkMirrorError
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.kept_records import Kept, Part, are_at_home, as_piece, decode_batch, join, join_few
from sparkmirror.pipeline.relay.options import CONTENT_COLUMNS
from sparkmirror.policy.naming import can_hold_data

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sparkmirror.batch.columns import Columns
    from sparkmirror.batch.header import Codec


RANGE_BYTES_MAX: Final = (1 << 31) - 1
"""Of all that became of a run, whose bytes are counted in 32 bits."""

Sizes = Callable[[str, TopicPartition], int]
"""`sizes(topic, source)`: the number of a target topic's partitions; `source` is the partition of a record for it."""


Asked = Callable[[str], Limits]
"""`asked(topic)`: what batches for a target topic must be."""
UNLIMITED: Final = Limits(1 << 30)


def any_batch(_topic: str) -> Limits:
    return UNLIMITED


class Unroutable(SparkMirrorError):
    """A transform gave a record a target that cannot exist."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The source partition of some rows, the topic that it is mirrored to by itself, and the codec it came with."""

    source: TopicPartition
    remote_topic: str
    codec: "Codec"


Pieces = tuple[tuple[TopicPartition, "Piece"], ...]


def make_pieces(
    rows: Sequence[pa.RecordBatch], kept: Kept, origin: Origin, sizes: Sizes, asked: Asked = any_batch
) -> Pieces:
    """The records of `rows` (columns of `pipeline.relay.schema`, written form), all of one run, as batches, in their
    order per partition.

    A batch that goes where it belongs, with all its records as they came, stays as it came, if it is as it is `asked`
    to be. Raises Unroutable for a topic that cannot be, and what `pipeline.produce.kept_records.join` and
    `sizes` raise.
    """
    if not any(batch.num_rows for batch in rows):
        return ()
    home = TopicPartition(origin.remote_topic, origin.source.partition)
    limits = asked(home.topic)
    if (piece := join_few(rows, kept, home, limits)) is not None:
        return ((home, piece),)
    _check_size(rows, kept.returned, origin)
    whole = rows[0] if len(rows) == 1 else pa.concat_batches(rows)
    pieces: list[tuple[TopicPartition, Piece]] = []
    for part in join(whole, kept, home, origin.codec, limits, BATCH_BYTES_MAX):
        if part.piece is not None:
            pieces.append((home, part.piece))
            continue
        if part.columns is None and are_at_home(part.rows, kept.returned, home).all():
            pieces.append((home, _as_it_came(part)))
            continue
        columns = decode_batch(part.batch, kept.bound) if part.columns is None else part.columns
        for target, picked in _lanes(part.rows, columns, kept.returned, origin, sizes):
            made = encode_batches(picked, origin.codec, asked(target.topic))
            pieces.extend((target, piece) for piece in made)
    return tuple(pieces)


def staying(pieces: Pieces, origin: Origin) -> tuple["Piece", ...]:
    """The batches, where no step can send a record elsewhere, or make several of one. Raises Unroutable if one did: a
    position between two batches would not say what of its record the target has."""
    home = TopicPartition(origin.remote_topic, origin.source.partition)
    for target, piece in pieces:
        if target != home or any(span.more for span in piece.spans):
            at = f"offset {piece.spans[0].first_offset}"
            raise Unroutable(f"{origin.source}: what the transforms make from {at} on no step of theirs can make")
    return tuple([piece for _, piece in pieces])


def _check_size(rows: Sequence[pa.RecordBatch], returned: frozenset[str], origin: Origin) -> None:
    if not returned.isdisjoint(CONTENT_COLUMNS) and (size := sum(batch.nbytes for batch in rows)) > RANGE_BYTES_MAX:
        what = f"make {size >> 20} MiB of the records that came together up to offset {_last_offset(rows)}"
        raise Unroutable(f"{origin.source}: the transforms {what}, more than {RANGE_BYTES_MAX >> 20}")


def _last_offset(rows: Sequence[pa.RecordBatch]) -> int:
    return int(rows[-1].column("offset")[-1].as_py())


def _as_it_came(part: Part) -> "Piece":
    first, records = part.rows.column("offset")[0].as_py(), part.rows.num_rows
    return as_piece(bytearray(part.batch), (Span(first, records),), records)


def _lanes(
    rows: pa.RecordBatch, columns: "Columns", returned: frozenset[str], origin: Origin, sizes: Sizes
) -> "Iterator[tuple[TopicPartition, Columns]]":
    """The records by target partition, in order."""
    import numpy as np

    names, codes = _topics(rows, returned, origin)
    for code, name in enumerate(names):
        of_topic = np.arange(len(columns)) if len(names) == 1 else np.flatnonzero(codes == code)
        wanted = np.full(len(of_topic), origin.source.partition)
        if "target_partition" in returned:
            wanted = rows.column("target_partition").fill_null(-1).to_numpy()[of_topic].astype(np.int64)
        partitions = _partitions(columns, of_topic, wanted, name, origin, sizes)
        for partition in np.unique(partitions).tolist():
            picked = of_topic[partitions == partition]
            yield TopicPartition(name, partition), columns.pick(picked)


def _topics(
    rows: pa.RecordBatch, returned: frozenset[str], origin: Origin
) -> "tuple[list[str], NDArray[np.int32] | None]":
    """The topics that the records go to, and which of them each goes to."""
    if "target_topic" not in returned:
        return [origin.remote_topic], None
    topics = rows.column("target_topic").dictionary_encode()
    if topics.indices.null_count:
        at = rows.column("offset")[topics.indices.is_null().index(True).as_py()]
        raise Unroutable(f"{origin.source}: the transforms give the record at offset {at} no topic")
    codes = topics.indices.to_numpy()
    try:
        return topics.dictionary.to_pylist(), codes
    except UnicodeDecodeError as problem:  # Spark makes text of any bytes
        code = topics.dictionary.cast(pa.binary()).to_pylist().index(problem.object)
        at = rows.column("offset")[codes.tolist().index(code)]
        what = f"a topic whose name is no text: {problem.object!r}"
        raise Unroutable(f"{origin.source}: the transforms send the record at offset {at} to {what}") from None


def _partitions(
    columns: "Columns",
    picked: "NDArray[np.int64]",
    wanted: "NDArray[np.int64]",
    topic: str,
    origin: Origin,
    sizes: Sizes,
) -> "NDArray[np.int64]":
    """The partition that the plan asks for; if it asks for none, or for one that does not exist, the key's.

    A record without a key then goes to its source partition's number, which keeps the order.
    """
    import numpy as np

    if topic == origin.remote_topic and bool((wanted == origin.source.partition).all()):
        return wanted  # the same partition of the mirrored topic, which the topic job creates
    if not can_hold_data(topic):
        raise Unroutable(f"{origin.source}: the transforms send records to `{topic}`, which cannot be a topic for data")
    count = sizes(topic, origin.source)
    leaderless = np.flatnonzero((wanted < 0) | (wanted >= count))
    if len(leaderless):
        wanted[leaderless] = partitions_by_key(columns.pick(picked[leaderless]), origin.source.partition, count)
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
    columns: "Columns", partitions: "NDArray[np.int64]", topic: str, codec: "Codec", limits: Limits = UNLIMITED
) -> "Iterator[tuple[TopicPartition, Piece]]":
    """The records as batches of the partition that `partitions` gives each, in their order there."""
    import numpy as np

    for partition in np.unique(partitions).tolist():
        picked = np.flatnonzero(partitions == partition)
        for piece in encode_batches(columns.pick(picked), codec, limits):
            yield TopicPartition(topic, partition), piece


def encode_batches(columns: "Columns", codec: "Codec", limits: Limits = UNLIMITED) -> "Iterator[Piece]":
    """The records as batches of BATCH_BYTES_MAX, or of the size that the topic takes, with the `codec` that they came
    with unless the flow asks for another. A record that is larger stands alone: the target decides."""
    from sparkmirror.batch.encoding import encode

    columns = clamp(columns, limits.clamp_to_ms)
    codec = codec if limits.codec is None else limits.codec
    bytes_max = min(BATCH_BYTES_MAX, limits.max_batch_bytes)
    first, before = 0, -1
    while first < len(columns):
        try:
            for piece in encode(columns.rows(first, len(columns)), codec, bytes_max, before=before):
                first += piece.records
                before = int(columns.offsets[first - 1])
                yield piece
        except RecordTooLarge:
            yield from encode(columns.rows(first, first + 1), codec, _ALONE_BYTES_MAX, before=before)
            before = int(columns.offsets[first])
            first += 1
