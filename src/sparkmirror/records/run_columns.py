"""Makes batches to produce of the runs that a program writes: which columns there are, and what a payload holds. Pure.

Called by `records.sink`. Columns are those that `kafka-runs` reads (`records.run_rows`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from sparkmirror.batch.any_format import are_old, decode_alike, read_whole
from sparkmirror.batch.columns import check_sums
from sparkmirror.batch.headers import BASE_OFFSET, POSITION, RECORDS, TOTAL_BYTES, Headers
from sparkmirror.batch.piece import Piece, Span
from sparkmirror.errors import ClusterError, ConfigError, ProtocolError
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.record_pieces import encode_batches
from sparkmirror.records.run_rows import TYPES
from sparkmirror.records.sink_columns import absent_partition, absent_topic, topic_names

WRITTEN: Final = ("topic", "partition", "payload")
"""The columns that a write takes; it leaves out the others of a read."""
_CHUNK_BYTES: Final = 8 << 20
_ANY_SIZE: Final = 1 << 31


def check_run_columns(columns: Sequence[tuple[str, str]], topic: str) -> None:
    """Of names and types. Raises ConfigError for what cannot be written; `topic` is that of the option."""
    names = [name for name, _ in columns]
    for wanted in ("payload", "partition"):
        if wanted not in names:
            raise ConfigError(f"A write to kafka-runs needs the column `{wanted}`.", "A batch goes to one partition.")
    if "topic" not in names and not topic:
        raise ConfigError(
            "A write to kafka-runs needs the option `topic`, or a column of this name.",
            'Add .option("topic", "orders").',
        )
    for name, kind in columns:
        if name not in TYPES:
            known = ", ".join(WRITTEN)
            raise ConfigError(f"A run has no `{name}`, and the rows have such a column.", f"Select of {known}.")
        if name in WRITTEN and kind != TYPES[name]:
            raise ConfigError(f"The column `{name}` is {kind}, and is to be {TYPES[name]}.", "Cast it.")


def run_lanes(rows: pa.RecordBatch, topic: str, size_of: Callable[[str], int]) -> dict[TopicPartition, Iterator[Piece]]:
    """The batches of each partition, in the rows' order. `size_of` gives the number of a topic's partitions; `topic`,
    if not empty, is that of all. Raises ClusterError for a row without a place or without batches, and, when they are
    taken, for what is no whole record batches."""
    lanes: dict[TopicPartition, list[memoryview]] = {}
    topics = [topic] * rows.num_rows if topic else topic_names(rows.column("topic"))
    partitions = rows.column("partition").to_pylist()
    for name, number, payload in zip(topics, partitions, rows.column("payload"), strict=True):
        where = _place(name, number, size_of)
        if not payload.is_valid:
            raise ClusterError(f"A row that was to be written to {where} has no payload.", "Filter such rows.")
        lanes.setdefault(where, []).append(memoryview(payload.as_buffer()))
    return {where: _pieces(where, payloads) for where, payloads in lanes.items()}


def _place(topic: str | None, partition: int | None, size_of: Callable[[str], int]) -> TopicPartition:
    if topic is None:
        raise absent_topic()
    if partition is None:
        raise ClusterError(
            f"A row that was to be written to topic {topic} has no partition: in its column `partition` it is null.",
            "A batch has records of many keys and goes to one partition as a whole.",
        )
    count = size_of(topic)
    if not 0 <= partition < count:
        raise absent_partition(topic, partition, count, "A batch goes where its row says. Give the topic more.")
    return TopicPartition(topic, partition)


def _pieces(where: TopicPartition, payloads: Sequence[memoryview]) -> Iterator[Piece]:
    for payload in payloads:
        try:
            yield from pieces_of(payload)
        except ProtocolError as problem:
            raise ClusterError(
                f"A row that was to be written to {where} has a payload that cannot be produced: {problem.args[0]}.",
                "The column `payload` holds what kafka-runs has read, byte for byte.",
            ) from None


def pieces_of(payload: memoryview) -> Iterator[Piece]:
    """The batches, once all of them have been checked. One with holes of compaction, append time or a delete horizon,
    or of an old format, which a broker would not take, or not as it is, is made new, of its codec; the others stay as
    they are. Markers of transactions and empty batches are left out. Raises ProtocolError."""
    headers = read_whole(payload)
    old = are_old(headers)
    if not old.all():
        check_sums(payload, Headers(headers.table[~old], 0))
    headers = Headers(headers.table[(headers.table[:, RECORDS] != 0) & ~headers.are_control], headers.stop)
    passable = headers.passable(_ANY_SIZE)
    kinds = headers.codecs + 8 * are_old(headers) + 16 * passable
    ends = [*(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(headers)]
    row = 0
    for end in ends if len(headers) else ():
        if passable[row]:
            yield from _as_they_are(payload, headers.rows(row, end))
        else:
            yield from _made_new(payload, headers.rows(row, end))
        row = end


def _as_they_are(payload: memoryview, headers: Headers) -> Iterator[Piece]:
    for at, size, first, records in headers.table[:, [POSITION, TOTAL_BYTES, BASE_OFFSET, RECORDS]].tolist():
        yield Piece(bytearray(payload[at : at + size]), (Span(first, records),), records)


def _made_new(payload: memoryview, headers: Headers) -> Iterator[Piece]:
    row, codec = 0, headers.codec_of(0)
    while row < len(headers):
        columns, row = decode_alike(payload, headers, row, enough_bytes=_CHUNK_BYTES, are_checked=True)
        yield from encode_batches(columns, codec)
