"""Reads batches of a flow that keeps offsets back from the target's log, where its answer leaves open whether the log
took them, or had others of their sequence numbers. Owned by `pipeline.produce.aligned_offsets`.

A log tells a batch by its sequence numbers alone, and these count records: a process that slept may have sent, under
the same ones, what it had read before the source lost it. The content tells. Times are not compared: the target may
stamp its own.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final, NamedTuple

from sparkmirror.batch.header import parse_header
from sparkmirror.batch.records import Record, decode_records
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.kafka.background import Background
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.batch_owners import OwnedBatch, OwnerReader
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.aligned_buffer import AlignedBuffer
from sparkmirror.pipeline.produce.queued_records import Batch

READ_BACK: Final = "read back"
_RETRY_SECONDS: Final = 20.0
_PAUSE_SECONDS: Final = 0.2


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

    def __init__(self, target: ClientSettings, background: Background, clock: Clock = SYSTEM_CLOCK) -> None:
        self._target = target
        self._background = background
        self._clock = clock
        self._waiting: dict[TopicPartition, list[Sent]] = {}
        self._read: dict[TopicPartition, list[Sent]] = {}
        self._readers: dict[TopicPartition, OwnerReader] = {}

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()

    def add(self, buffer: AlignedBuffer, batch: Batch, came_at_ms: int) -> None:
        """The target has answered that the batch stands where it is to."""
        sent = Sent(buffer, batch, bytes(batch.data), batch.spans[0].first_offset, came_at_ms)
        self._waiting.setdefault(buffer.source, []).append(sent)
        self._begin(buffer.source)

    def _begin(self, source: TopicPartition) -> None:
        if source in self._read or source not in self._waiting:
            return
        some = self._read[source] = self._waiting.pop(source)
        where, route = some[0].buffer.target, some[0].buffer.route
        reader = self._readers.setdefault(where, OwnerReader(self._target, where))
        pool = f"read-back-{route[1].link.address if route else 'elsewhere'}"  # a silent broker holds up its own alone
        self._background.submit((READ_BACK, source), partial(find_other, reader, some, self._clock), pool)

    def take(self, source: TopicPartition) -> list[Sent]:
        """The batches that were read back, oldest first, without those that the partition has dropped meanwhile."""
        found = self._read.pop(source)
        self._begin(source)
        return [sent for sent in found if sent.buffer.has_under_way(sent.batch)]


def find_other(reader: OwnerReader, batches: Iterable[Sent], clock: Clock = SYSTEM_CLOCK) -> dict[int, int]:
    """By the first offset of each batch whose place has something else: where that is. A leader may have moved, and is
    looked for again for a while. Raises ClusterError, ProtocolError."""
    found, ends_at = dict[int, int | None](), clock.monotonic() + _RETRY_SECONDS
    for sent in batches:
        while sent.first not in found:
            try:
                found[sent.first] = first_other(sent.data, sent.first, reader.read(sent.first, sent.stop))
            except ClusterUnreachable:
                if clock.monotonic() > ends_at:
                    raise
                clock.sleep(_PAUSE_SECONDS)
    return {first: offset for first, offset in found.items() if offset is not None}


def first_other(sent: bytes, first: int, log: Iterable[OwnedBatch]) -> int | None:
    """The first offset from `first` on at which the log has something else than the batch that was sent; None without
    one. What the log no longer has is no other. Raises ProtocolError for a batch that cannot be read."""
    own = OwnedBatch(parse_header(sent, 0)._replace(base_offset=first), memoryview(sent))
    records: list[Record] | None = None
    for batch in log:
        if batch.has_same_bytes(own):
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
        if first <= found.offset < stop and found.content != records[found.offset - first].content:
            return found.offset
    return None
