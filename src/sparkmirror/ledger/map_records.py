"""Offset maps as records of a compacted topic, and back; pure.

A writer stores a partition's map in chunks: the last one is rewritten while it grows, none is ever touched by another
writer. Folding them in the order of their names gives the whole map (`MapView`), and now and then the driver joins old
ones (`plan_compaction`). Written by `pipeline.produce.mapping`, read by `sync.offset_ledger` and the CLI.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final, NamedTuple
from uuid import UUID

from sparkmirror.batch.offset_bits import BITS_MAX
from sparkmirror.errors import ProtocolError
from sparkmirror.ledger.map_segments import Chunk, Segment
from sparkmirror.ledger.offset_map import WEIGHT_MAX, OffsetMap
from sparkmirror.model import NO_TOPIC_ID, TopicPartition
from sparkmirror.stored_json import Count, Number, TopicName, decode_or_none, encode

CHUNK_WEIGHT_MAX: Final = 256
"""What a chunk weighs (`ledger.offset_map`) when the next one is begun."""
CHUNKS_MAX: Final = 16
"""The most chunks of one partition; more are joined."""
_VERSION: Final = 1
_VERSION_OF_SPLITS: Final = 2
"""Of chunks in which a record became several: a segment's head has one more bit."""
_VERSION_OF_BITS: Final = 3
"""Of chunks of which segments have bits: a segment's head has another one, and the bits follow it."""
_INT64_MAX: Final = (1 << 63) - 1
_RENEWED: Final = b"\1"
_SHIFT_MAX: Final = 70
"""Ten bytes hold 64 bits; longer numbers would take long to put together."""


class ChunkName(NamedTuple):
    """Orders chunks: the assignment's generation, when its writer began (ms), and a number that the writer counts."""

    generation: Count
    began_ms: Count
    number: Count


@dataclass(frozen=True, slots=True)
class MapRecord:
    """One record to write; `value` is None for a tombstone."""

    key: bytes
    value: bytes | None


def encode_key(source_alias: str, partition: TopicPartition, name: ChunkName) -> bytes:
    """Compact JSON, `["A","orders",3,[12,1700000000000,0]]`."""
    return encode([source_alias, partition.topic, partition.partition, name])


def decode_key(key: bytes | None) -> tuple[str, TopicPartition, ChunkName] | None:
    """The flow's source alias, the partition and the chunk's name; None for any other key."""
    found = decode_or_none(key, tuple[str, TopicName, Number, ChunkName])
    if found is None:
        return None
    alias, topic, number, name = found
    partition = TopicPartition(topic, number)
    return (alias, partition, name) if encode_key(alias, partition, name) == key else None


def encode_chunk(chunk: Chunk) -> bytes:
    """A version byte and variable-length integers, each as the difference to what was to be expected: some 4 bytes a
    segment, and a bit for each offset where it has bits. Where they are known follow the 16 bytes of the target's topic
    id, a byte 1 if it has had another log, and, behind a byte that is 1 or 0, those of the source's topic id."""
    version = _version(chunk)
    marks_bits = version - _VERSION
    out = bytearray([version])
    _put(out, len(chunk.segments))
    first = delta = 0
    for segment in chunk.segments:
        head = _fold_sign(segment.first - first) << 1 | segment.exact
        _put(out, head << marks_bits | bool(segment.bits) << 1 | segment.splits)
        _put(out, _fold_sign(segment.delta - delta))
        _put(out, _fold_sign(segment.target - segment.first - segment.delta))
        if segment.bits:
            size = (segment.bits.bit_length() + 7) // 8
            _put(out, size)
            out += segment.bits.to_bytes(size, "little")
        first, delta = segment.first, segment.delta
    _put(out, _fold_sign(chunk.end_source - first))
    _put(out, _fold_sign(chunk.end_target - first - delta))
    if chunk.source_id != NO_TOPIC_ID:
        out += chunk.topic_id.bytes + bytes([chunk.is_renewed]) + chunk.source_id.bytes
    elif chunk.topic_id != NO_TOPIC_ID:
        out += chunk.topic_id.bytes + _RENEWED * chunk.is_renewed
    return bytes(out)


def _version(chunk: Chunk) -> int:
    if any(segment.bits for segment in chunk.segments):
        return _VERSION_OF_BITS
    return _VERSION_OF_SPLITS if any(segment.splits for segment in chunk.segments) else _VERSION


def decode_chunk(value: bytes) -> Chunk:
    """The chunk; raises ProtocolError for bytes that are none."""
    try:
        data = iter(value)
        numbers = _numbers(data)
        version = next(numbers)
        if version not in (_VERSION, _VERSION_OF_SPLITS, _VERSION_OF_BITS):
            raise ValueError
        marks_bits = version - _VERSION
        first = delta = 0
        segments = []
        for _ in range(next(numbers)):
            head = next(numbers)
            head, marks = head >> marks_bits, head & ((1 << marks_bits) - 1)
            first += _unfold_sign(head >> 1)
            delta += _unfold_sign(next(numbers))
            target = first + delta + _unfold_sign(next(numbers))
            bits = _read_bits(data, next(numbers)) if marks & 2 else 0
            segments.append(Segment(first, target, delta, bool(head & 1), bool(marks & 1), bits))
        end_source = first + _unfold_sign(next(numbers))
        end_target = first + delta + _unfold_sign(next(numbers))
        rest = bytes(data)
        ids = _topic_id(rest), rest[16:17] == _RENEWED, _topic_id(rest[17:])
        chunk = Chunk(tuple(segments), end_source, end_target, *ids)
    except (ValueError, StopIteration):
        raise ProtocolError(f"A piece of an offset map cannot be read: {value[:40]!r}.") from None
    if not _is_sound(chunk):
        raise ProtocolError(f"A piece of an offset map is none: {value[:40]!r}.")
    return chunk


def _read_bits(data: Iterator[int], size: int) -> int:
    """Raises ValueError where there are fewer bytes, or more than a segment has, or the first offset has no record."""
    packed = bytes(islice(data, min(size, BITS_MAX // 8)))
    bits = int.from_bytes(packed, "little")
    if len(packed) < size or not bits & 1:
        raise ValueError
    return bits


def _is_sound(chunk: Chunk) -> bool:
    """Whether it has segments, in their order, within what offsets can be."""
    bounds = [*(segment.first for segment in chunk.segments), chunk.end_source]
    is_ordered = bounds[0] >= 0 and all(one <= other for one, other in pairwise(bounds))
    numbers = [bounds[-1], chunk.end_target, *(number for one in chunk.segments for number in (one.target, one.delta))]
    return bool(chunk.segments) and is_ordered and all(abs(number) <= _INT64_MAX for number in numbers)


class MapView:
    """The offset maps of one flow, folded from the records of its topic. Holds one source alias only."""

    def __init__(self, source_alias: str) -> None:
        self._source_alias = source_alias
        self._chunks: dict[TopicPartition, dict[ChunkName, Chunk]] = {}
        self._maps: dict[TopicPartition, OffsetMap] = {}

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions that have a map."""
        return sorted(self._chunks)

    def take(self, key: bytes | None, value: bytes | None) -> TopicPartition | None:
        """Fold in one record; returns the partition it is about, if it is this flow's. A damaged one counts as lost."""
        match decode_key(key):
            case (self._source_alias, partition, name):
                self._store(partition, name, value)
                return partition
        return None

    def map_of(self, partition: TopicPartition) -> OffsetMap | None:
        """The whole map as of now; None where nothing is stored."""
        chunks = self._chunks.get(partition)
        if not chunks:
            return None
        if (found := self._maps.get(partition)) is None:
            found = self._maps[partition] = _fold(chunks)
        return found

    def records(self) -> Iterator[MapRecord]:
        """The whole view as records, for an empty topic."""
        for partition, chunks in sorted(self._chunks.items()):
            for name, chunk in sorted(chunks.items()):
                yield MapRecord(encode_key(self._source_alias, partition, name), encode_chunk(chunk))

    def plan_compaction(self, source_starts: dict[TopicPartition, int]) -> list[MapRecord]:
        """Records that join the chunks of partitions with too many, all but the newest, below the log start pruned.

        The joined chunk takes the newest name of those it replaces; their tombstones come after it, so that a process
        that reads meanwhile, or after a crash in between, misses nothing.
        """
        records: list[MapRecord] = []
        for partition, chunks in self._chunks.items():
            if len(chunks) > CHUNKS_MAX:
                records += self._join(partition, sorted(chunks)[:-1], source_starts.get(partition, 0))
        return records

    def _store(self, partition: TopicPartition, name: ChunkName, value: bytes | None) -> None:
        self._maps.pop(partition, None)
        chunks = self._chunks.setdefault(partition, {})
        try:
            chunk = None if value is None else decode_chunk(value)
        except ProtocolError:
            chunk = None
        if chunk is None:
            chunks.pop(name, None)
        else:
            chunks[name] = chunk
        if not chunks:
            del self._chunks[partition]

    def _join(self, partition: TopicPartition, names: list[ChunkName], source_start: int) -> Iterator[MapRecord]:
        joined = _fold({name: self._chunks[partition][name] for name in names})
        joined.prune(source_start)
        joined.shrink(WEIGHT_MAX)
        yield MapRecord(encode_key(self._source_alias, partition, names[-1]), encode_chunk(joined.as_chunk()))
        for name in names[:-1]:
            yield MapRecord(encode_key(self._source_alias, partition, name), None)


def _fold(chunks: dict[ChunkName, Chunk]) -> OffsetMap:
    names = sorted(chunks)
    whole = OffsetMap(chunks[names[0]].segments[0].first)
    for name in names:
        whole.extend(chunks[name])
    return whole


def _topic_id(rest: bytes) -> UUID:
    """Raises ValueError for a part of one."""
    return UUID(bytes=rest[:16]) if rest else NO_TOPIC_ID


def _fold_sign(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def _unfold_sign(number: int) -> int:
    return -((number + 1) >> 1) if number & 1 else number >> 1


def _put(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _numbers(data: Iterable[int]) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > _SHIFT_MAX:
            raise ValueError
        if not byte & 0x80:
            yield number
            number = shift = 0
