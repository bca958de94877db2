"""Reads batches of a flow that keeps offsets back from the target's log, where its answer leaves open whether the log
took them, or had others of their sequence numbers. Owned by `pipeline.produce.aligned_offsets`.

A log tells a batch by its sequence numbers alone, and these count records: a process that slept may have sent, under
the same ones, what it had read before the source lost it. The content tells. Times are not compared: the target may
stamp its own.
"""

from collections.abc import Iterable
from contextlib import closing
from functools import partial
from typing import Final, NamedTuple

from sparkmirror.batch.header import CODEC_MASK, HEADER_BYTES, parse_header
from sparkmirror.batch.records import Record, decode_records
from sparkmirror.kafka.background import Background
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.batch_owners import OwnedBatch, OwnerReader
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.aligned_buffer import AlignedBuffer
from sparkmirror.pipeline.produce.queued_records import Batch

READ_BACK: Final = "read back"
_POOL: Final = "read back"
"""A log may keep its reader waiting for half a minute: leaders are looked up and dialled by other threads."""


class Sent(NamedTuple):
    """A batch with its bytes, of which the reader's memory may be gone by the time that they are compared, and when its
    answer came, in ms since 1970, 0 for now. It is to stand at `first`."""

    buffer: AlignedBuffer
    batch: Batch
    data: bytes
    first: int
    came_at_ms: int

    @property
    def stop(self) -> int:
        return self.first + self.batch.records


class ReadBack:
    """One piece of work at a time for each partition, which takes all that have come by then."""

    def __init__(self, target: ClientSettings, background: Background) -> None:
        self._target = target
        self._background = background
        self._waiting: dict[TopicPartition, list[Sent]] = {}
        self._read: dict[TopicPartition, list[Sent]] = {}

    def add(self, buffer: AlignedBuffer, batch: Batch, came_at_ms: int) -> None:
        """The target has answered that the batch stands where it is to."""
        sent = Sent(buffer, batch, bytes(batch.data), batch.spans[0].first_offset, came_at_ms)
        self._waiting.setdefault(buffer.source, []).append(sent)
        self._begin(buffer.source)

    def _begin(self, source: TopicPartition) -> None:
        if source in self._read or source not in self._waiting:
            return
        some = self._read[source] = self._waiting.pop(source)
        work = partial(find_other, self._target, some[0].buffer.target, some)
        self._background.submit((READ_BACK, source), work, _POOL)

    def take(self, source: TopicPartition) -> list[Sent]:
        """The batches that were read back, oldest first, without those that the partition has dropped meanwhile."""
        found = self._read.pop(source)
        self._begin(source)
        return [sent for sent in found if sent.buffer.has_under_way(sent.batch)]


def find_other(settings: ClientSettings, where: TopicPartition, batches: Iterable[Sent]) -> dict[int, int]:
    """By the first offset of each batch whose place has something else: where that is. Raises ClusterError."""
    with closing(OwnerReader(settings, where)) as reader:
        found = {sent.first: first_other(sent.data, sent.first, reader.read(sent.first, sent.stop)) for sent in batches}
    return {first: offset for first, offset in found.items() if offset is not None}


def first_other(sent: bytes, first: int, log: Iterable[OwnedBatch]) -> int | None:
    """The first offset from `first` on at which the log has something else than the batch that was sent; None without
    one. What the log no longer has is no other. Raises ProtocolError for a batch that cannot be read."""
    header, own = parse_header(sent, 0), memoryview(sent)[HEADER_BYTES:]
    records: list[Record] | None = None
    for batch in log:
        is_same_codec = not (batch.header.attributes ^ header.attributes) & CODEC_MASK
        if (batch.first, batch.stop) == (first, first + header.records_count) and is_same_codec and batch.body == own:
            continue
        records = decode_records(sent) if records is None else records
        other = _first_different(records, first, batch)
        if other is not None:
            return other
    return None


def _first_different(records: list[Record], first: int, batch: OwnedBatch) -> int | None:
    stop = first + len(records)
    if batch.is_filler:
        return max(batch.first, first)
    for found in decode_records(batch.data):
        if first <= found.offset < stop and _content(found) != _content(records[found.offset - first]):
            return found.offset
    return None


def _content(record: Record) -> object:
    return record.key, record.value, record.headers
