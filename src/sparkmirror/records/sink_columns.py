"""Makes records of the rows that a program writes: which columns there are, and where each record goes. Pure.

Called by `records.sink`. Columns are those of Spark's Kafka connector, and `timestamp`, which is kept.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparkmirror.batch.arrow_content import CONTENT, put_content
from sparkmirror.batch.columns import Columns
from sparkmirror.errors import ClusterError, ConfigError
from sparkmirror.model import TopicPartition
from sparkmirror.policy.partitioner import murmur2_partitions

_HEADERS: Final = "array<struct<key:string,value:binary>>"
TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": (_HEADERS,),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
"""The columns that a write takes, with their types as Spark writes them."""
LEFT_OUT: Final = frozenset({"offset", "timestampType"})
"""Columns of a read, which the topic that is written to gives by itself."""
_TOGETHER_MIN: Final = 500
"""So many records without a key and a partition go to one partition, for batches of some size."""
_HEADER_TYPE: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def check_columns(columns: Sequence[tuple[str, str]], topic: str) -> None:
    """Of names and types. Raises ConfigError for what cannot be written; `topic` is that of the option."""
    names = [name for name, _ in columns]
    if "value" not in names:
        raise ConfigError("A write to kafka-records needs the column `value`.", "A null value is a tombstone.")
    if "topic" not in names and not topic:
        raise ConfigError(
            "A write to kafka-records needs the option `topic`, or a column of this name.",
            'Add .option("topic", "orders").',
        )
    for name, kind in columns:
        if name not in TYPES and name not in LEFT_OUT:
            known = ", ".join(TYPES)
            raise ConfigError(
                f"A Kafka record has no `{name}`, and the rows have such a column.", f"Select of {known}."
            )
        if name in TYPES and kind.replace(" ", "") not in TYPES[name]:
            wanted = " or ".join(TYPES[name])
            raise ConfigError(f"The column `{name}` is {kind}, and is to be {wanted}.", "Cast it.")


def records_of(rows: pa.RecordBatch, now_ms: int) -> Columns:
    """The records in the rows' order; those without a timestamp get `now_ms`. Their offsets count them."""
    count = rows.num_rows
    places = np.empty((count, 6), np.int32)
    content: list[NDArray[np.uint8]] = []
    put_content({name: _content(rows, name) for name in CONTENT}, content, places)
    return Columns(np.concatenate(content), np.arange(count), _timestamps(rows, now_ms), places)


def _content(rows: pa.RecordBatch, name: str) -> pa.Array:
    wanted = _HEADER_TYPE if name == "headers" else pa.binary()
    if name not in rows.schema.names:
        return pa.nulls(rows.num_rows, wanted)
    found = rows.column(name).cast(wanted)
    if name == "headers" and pc.struct_field(found.flatten(), "key").null_count:
        raise ClusterError(
            "A row that was to be written has a header without a name: in its column `headers`, a `key` is null.",
            "Leave such headers out with filter(headers, h -> h.key is not null).",
        )
    return found


def _timestamps(rows: pa.RecordBatch, now_ms: int) -> NDArray[np.int64]:
    if "timestamp" not in rows.schema.names:
        return np.full(rows.num_rows, now_ms, np.int64)
    column = rows.column("timestamp").cast(pa.timestamp("us", rows.column("timestamp").type.tz))
    micros = column.cast(pa.int64())
    milliseconds: NDArray[np.int64] = micros.fill_null(0).to_numpy() // 1000
    return np.where(micros.is_null().to_numpy(zero_copy_only=False), now_ms, milliseconds)


def topic_names(topics: pa.Array) -> list[str]:
    """Of a column; None is null. Raises ClusterError for what is no text."""
    try:
        return list(topics.to_pylist())
    except UnicodeDecodeError as problem:
        raise ClusterError(
            f"A row that was to be written has the topic {problem.object!r}, which is no text, in its column `topic`.",
            "Spark makes text of any bytes. Filter such rows: is_valid_utf8(topic).",
        ) from None


def absent_topic() -> ClusterError:
    """Of a row that says no topic."""
    return ClusterError(
        "A row that was to be written has no topic: its column `topic` is null.",
        "Filter such rows, or set the option topic.",
    )


def absent_partition(topic: str, wanted: int, count: int, hint: str) -> ClusterError:
    """Of a row that is to go to a partition that its topic, of `count` partitions, does not have."""
    said = f"A row that was to be written asks for partition {wanted} of topic {topic}, which has {count}."
    return ClusterError(said, hint)


class Placement:
    """Where records go. `size_of` gives the number of a topic's partitions; `topic`, if not empty, is that of all."""

    def __init__(self, topic: str, size_of: Callable[[str], int], first: int = 0) -> None:
        """Records without a key and a partition are dealt out from the partition number `first` on."""
        self._topic = topic
        self._size_of = size_of
        self._dealt = itertools.count(first)

    def lanes(self, rows: pa.RecordBatch, records: Columns) -> Iterator[tuple[TopicPartition, Columns]]:
        """The records of each partition, in their order. Raises ClusterError for one that has no place."""
        for topic, picked in self._topics(rows):
            partitions = self._partitions(rows, records, topic, picked)
            for number in np.unique(partitions).tolist():
                yield TopicPartition(topic, number), records.pick(picked[partitions == number])

    def _topics(self, rows: pa.RecordBatch) -> Iterator[tuple[str, NDArray[np.int64]]]:
        if self._topic:
            yield self._topic, np.arange(rows.num_rows)
            return
        topics = rows.column("topic").dictionary_encode()
        if topics.indices.null_count:
            raise absent_topic()
        codes = topics.indices.to_numpy()
        for code, name in enumerate(topic_names(topics.dictionary)):
            yield name, np.flatnonzero(codes == code)

    def _partitions(
        self, rows: pa.RecordBatch, records: Columns, topic: str, picked: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The partition that a row asks for; else that of its key, as Java's producer chooses it; else any."""
        count = self._size_of(topic)
        wanted = np.full(len(picked), -1, np.int64)
        if "partition" in rows.schema.names:
            wanted = rows.column("partition").fill_null(-1).to_numpy()[picked].astype(np.int64)
            self._check(wanted, rows.column("partition").is_null().to_numpy(zero_copy_only=False)[picked], topic, count)
        open_rows = np.flatnonzero(wanted < 0)
        if not len(open_rows):
            return wanted
        keyed = records.pick(picked[open_rows])
        lengths = keyed.key_lengths.astype(np.int64)
        found = murmur2_partitions(keyed.content, keyed.key_starts.astype(np.int64), np.maximum(lengths, 0), count)
        keyless = np.flatnonzero(lengths < 0)
        found[keyless] = self._deal(len(keyless), count)
        wanted[open_rows] = found
        return wanted

    def _check(self, wanted: NDArray[np.int64], absent: NDArray[np.bool_], topic: str, count: int) -> None:
        wrong = wanted[~absent & ((wanted < 0) | (wanted >= count))]
        if len(wrong):
            hint = "Leave the column `partition` out to have it chosen by the key."
            raise absent_partition(topic, int(wrong[0]), count, hint)

    def _deal(self, records: int, count: int) -> NDArray[np.int64]:
        together = max(-(-records // count), _TOGETHER_MIN)
        found: NDArray[np.int64] = (np.arange(records) // together + next(self._dealt)) % count
        return found
