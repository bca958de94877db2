"""MirrorMaker's three internal records, byte for byte: offset syncs, checkpoints, heartbeats; pure.

Java's `MirrorClient`, `RemoteClusterUtils` and a MirrorMaker that takes over read what is written here. Sources:
`OffsetSync`, `Checkpoint` and `Heartbeat` of connect-mirror 4.3 (strings with a 16-bit length, big-endian integers, a
version in the values of the latter two). Never write tombstones to these topics: Java's readers die of them.
"""

from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import Self

from sparkmirror.errors import ProtocolError
from sparkmirror.model import FlowName, TopicPartition

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_TWO_INT64 = Struct(">qq")
_CHECKPOINT = Struct(">hqq")
_HEARTBEAT = Struct(">hq")
_VERSION = 0


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The record at `upstream` of a source partition lies at `downstream` on the target."""

    partition: TopicPartition
    upstream: int
    downstream: int

    def key(self) -> bytes:
        return _string(self.partition.topic) + _INT32.pack(self.partition.partition)

    def value(self) -> bytes:
        return _TWO_INT64.pack(self.upstream, self.downstream)

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None) -> Self:
        """Raises ProtocolError for a tombstone and for bytes that are no sync."""
        with_key, with_value = _Reader(key, "an offset sync"), _Reader(value, "an offset sync")
        return cls(with_key.partition(), *with_value.offsets(*with_value.unpack(_TWO_INT64)))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group's committed offset and its translation, both the next to read. `partition` is the target's."""

    group: str
    partition: TopicPartition
    upstream: int
    downstream: int
    metadata: str = ""

    def key(self) -> bytes:
        return _string(self.group) + _string(self.partition.topic) + _INT32.pack(self.partition.partition)

    def value(self) -> bytes:
        return _CHECKPOINT.pack(_VERSION, self.upstream, self.downstream) + _string(self.metadata)

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None) -> Self:
        """Raises ProtocolError for a tombstone and for bytes that are no checkpoint."""
        with_key, with_value = _Reader(key, "a checkpoint"), _Reader(value, "a checkpoint")
        group = with_key.string()
        partition = with_key.partition()
        _, upstream, downstream = with_value.unpack(_CHECKPOINT)
        return cls(group, partition, *with_value.offsets(upstream, downstream), with_value.string())


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A mirror of `flow` could write to its target at `timestamp_ms`."""

    flow: FlowName
    timestamp_ms: int

    def key(self) -> bytes:
        return _string(self.flow.source) + _string(self.flow.target)

    def value(self) -> bytes:
        return _HEARTBEAT.pack(_VERSION, self.timestamp_ms)

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None) -> Self:
        """Raises ProtocolError for a tombstone and for bytes that are no heartbeat."""
        with_key, with_value = _Reader(key, "a heartbeat"), _Reader(value, "a heartbeat")
        return cls(FlowName(with_key.string(), with_key.string()), with_value.unpack(_HEARTBEAT)[1])


class _Reader:
    """Reads one buffer from its beginning; what follows the last field is ignored, as in Java."""

    def __init__(self, data: bytes | None, what: str) -> None:
        if data is None:
            raise ProtocolError(f"This is not {what}: it has no key or no value.")
        self._data = data
        self._what = what
        self._at = 0

    def unpack(self, layout: Struct) -> tuple[int, ...]:
        try:
            found = layout.unpack_from(self._data, self._at)
        except StructError:
            raise self._problem() from None
        self._at += layout.size
        return found

    def string(self) -> str:
        size = self.unpack(_INT16)[0]
        raw = self._data[self._at : self._at + size]
        if size < 0 or len(raw) < size:
            raise self._problem()
        self._at += size
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self._problem() from None

    def partition(self) -> TopicPartition:
        topic, number = self.string(), self.unpack(_INT32)[0]
        if not topic or number < 0:
            raise self._problem()
        return TopicPartition(topic, number)

    def offsets(self, upstream: int, downstream: int) -> tuple[int, int]:
        """-1 is what MirrorMaker writes for one that is not known."""
        if min(upstream, downstream) < -1:
            raise self._problem()
        return upstream, downstream

    def _problem(self) -> ProtocolError:
        return ProtocolError(f"This is not {self._what}: {self._data[:80]!r}.")


def _string(text: str) -> bytes:
    raw = text.encode()
    return _INT16.pack(len(raw)) + raw
