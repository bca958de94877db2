"""One partition's log as a broker keeps it: batches, leader epochs, watermarks, producers, open transactions; no I/O.

Source of the rules: org.apache.kafka.storage.internals.log (UnifiedLog, ProducerStateManager, ProducerAppendInfo,
LeaderEpochFileCache) of Apache Kafka 4.3.
"""

import struct
from copy import copy
from dataclasses import dataclass, field

from sparkmirror.batch import crc as crc32c
from sparkmirror.batch.header import ATTRIBUTES_AT, CONTROL, TRANSACTIONAL, BatchHeader, parse_header
from sparkmirror.batch.records import Record, decode_records, encode_batch

_BASE = struct.Struct(">qii")
_ATTRIBUTES = struct.Struct(">h")
_PRODUCER = struct.Struct(">qhi")
_CRC = struct.Struct(">I")
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")

NO_ERROR, OUT_OF_ORDER, BAD_EPOCH, BAD_TXN_STATE, CORRUPT = 0, 45, 47, 48, 2
COORDINATOR_FENCED = 52
_REMEMBERED = 5
SEQUENCES = 1 << 31
"""Sequence numbers begin again behind the last one."""
_NOW_MS = 1 << 62
"""Markers have no time here, and are never old."""


@dataclass(slots=True, eq=False)
class Stored:
    """A batch in the log. `commits` and `coordinator_epoch` are of a marker; `is_aborted` of data, None while its
    transaction is open."""

    base: int
    last: int
    data: bytes
    epoch: int
    producer_id: int
    producer_epoch: int
    sequence: int
    last_sequence: int
    is_transactional: bool
    commits: bool | None = None
    is_aborted: bool | None = False
    coordinator_epoch: int = -1
    _records: list[Record] | None = None

    @property
    def is_control(self) -> bool:
        return self.commits is not None

    @property
    def records(self) -> list[Record]:
        if self._records is None:
            self._records = [] if self.is_control else decode_records(self.data)
        return self._records


@dataclass(slots=True, eq=False)
class Producer:
    """What the leader remembers of one producer id."""

    epoch: int = -1
    batches: list[Stored] = field(default_factory=list)
    first_open: int | None = None

    coordinator_epoch: int = -1
    latest_ms: int = -1
    """The time of its last batch or marker: by it the leader forgets the producer."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1


@dataclass(frozen=True, slots=True)
class Aborted:
    """A transaction that was aborted: `[first, marker]` of `producer_id`."""

    producer_id: int
    first: int
    marker: int


class PartitionLog:
    """`high_watermark` is what consumers see; what lies behind it is not replicated yet."""

    def __init__(self) -> None:
        self.batches: list[Stored] = []
        self.start = 0
        self.end = 0
        self.high_watermark = 0
        self.epoch = 0
        self.epochs: list[tuple[int, int]] = [(0, 0)]
        self.producers: dict[int, Producer] = {}
        self.aborted: list[Aborted] = []
        self.is_compacted = False
        self.sequences = SEQUENCES
        self._deleted: list[Stored] = []
        self._former_start = 0

    def begin_at(self, offset: int) -> None:
        """An empty log whose first record will have this offset, as after years of retention."""
        self.start = self.end = self.high_watermark = offset
        self.epochs = [(0, offset)]

    def copied(self) -> "PartitionLog":
        """The log as it is now, of a broker that hears of no other."""
        log = copy(self)
        log.batches, log.epochs, log.aborted = list(self.batches), list(self.epochs), list(self.aborted)
        log.producers = {producer_id: copy(producer) for producer_id, producer in self.producers.items()}
        return log

    # Leaders.

    def begin_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        if not self.epochs or self.epochs[-1][0] < epoch:
            self.epochs.append((epoch, self.end))

    def end_of_epoch(self, epoch: int) -> tuple[int, int] | None:
        """As OffsetsForLeaderEpoch: the epoch found and where it ends; None for one later than all that are known."""
        if self.epochs and self.epochs[-1][0] == epoch:
            return epoch, self.end
        higher = next((one for one in self.epochs if one[0] > epoch), None)
        if higher is None:
            return None
        floor = [one for one in self.epochs if one[0] <= epoch]
        return (floor[-1][0] if floor else epoch), higher[1]

    # Reading.

    @property
    def last_stable(self) -> int:
        lowest = self.high_watermark
        for one in self.producers.values():
            if one.first_open is not None and one.first_open < lowest:
                lowest = min(lowest, max(one.first_open, self.start))
        return lowest

    def at(self, offset: int) -> int:
        """The index of the first batch that has this offset or a later one."""
        low, high = 0, len(self.batches)
        while low < high:
            middle = (low + high) // 2
            if self.batches[middle].last < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def read(self, offset: int, end: int) -> list[Stored]:
        """Whole batches below `end`."""
        found: list[Stored] = []
        for index in range(self.at(offset), len(self.batches)):
            one = self.batches[index]
            if one.last >= end:
                break
            found.append(one)
        return found

    def read_bytes(self, offset: int, end: int, bytes_max: int, *, whole: bool) -> bytes:
        """What lies below `end`, cut off where the bytes are `bytes_max`. A first batch that has more comes alone:
        `whole`, or not at all."""
        found: list[bytes] = []
        left = bytes_max
        for index in range(self.at(offset), len(self.batches)):
            one = self.batches[index]
            if one.last >= end:
                break
            if not found and len(one.data) > left:
                return one.data if whole else b""
            if left <= 0:
                break
            found.append(one.data[:left])
            left -= len(one.data)
        return b"".join(found)

    def aborted_in(self, offset: int, end: int) -> list[Aborted]:
        return [one for one in self.aborted if one.marker >= offset and one.first < end]

    def visible(self, *, committed: bool) -> list[Record]:
        """The records that a consumer sees from the beginning."""
        end = self.last_stable if committed else self.high_watermark
        found: list[Record] = []
        for one in self.batches:
            if one.last >= end:
                break
            if one.is_control or (committed and one.is_aborted):
                continue
            found += one.records if one.base >= self.start else [r for r in one.records if r.offset >= self.start]
        return found

    # Writing.

    def append(self, data: bytes, *, is_open: bool = False) -> tuple[int, int]:
        """A producer's batch: error and base offset. `is_open`: the coordinator knows the transaction."""
        header = parse_header(data, 0)
        if header.crc != crc32c.value(data[ATTRIBUTES_AT:]):
            return CORRUPT, -1
        if header.producer_id < 0:
            return NO_ERROR, self._add(header, data).base
        producer = self.producers.get(header.producer_id) or Producer()
        if (known := self.duplicate(header)) is not None:
            return NO_ERROR, known.base
        error = self._judge(producer, header, is_open=is_open)
        if error:
            return error, -1
        return NO_ERROR, self._add(header, data).base

    def duplicate(self, header: BatchHeader) -> Stored | None:
        """What the leader takes this batch for: one of the producer's last, by its sequence numbers."""
        producer = self.producers.get(header.producer_id) or Producer()
        last_sequence = (header.base_sequence + header.last_offset_delta) % self.sequences
        for known in producer.batches:
            if (known.producer_epoch, known.sequence, known.last_sequence) == (
                header.producer_epoch, header.base_sequence, last_sequence,
            ):  # fmt: skip
                return known
        return None

    def _judge(self, producer: Producer, header: BatchHeader, *, is_open: bool) -> int:
        if header.producer_epoch < producer.epoch:
            return BAD_EPOCH
        if header.producer_epoch != producer.epoch:
            if header.base_sequence != 0 and producer.epoch != -1:
                return OUT_OF_ORDER
        elif header.base_sequence != (producer.last_sequence + 1) % self.sequences:
            return OUT_OF_ORDER
        if header.is_transactional:
            if producer.first_open is None and not is_open:
                return BAD_TXN_STATE
        elif producer.first_open is not None:
            return BAD_TXN_STATE
        return NO_ERROR

    def _add(self, header: BatchHeader, data: bytes) -> Stored:
        base, last = self.end, self.end + header.last_offset_delta
        placed = bytearray(data)
        _BASE.pack_into(placed, 0, base, header.batch_length, self.epoch)
        stored = Stored(
            base, last, bytes(placed), self.epoch, header.producer_id, header.producer_epoch, header.base_sequence,
            (header.base_sequence + header.last_offset_delta) % self.sequences, header.is_transactional,
            is_aborted=None if header.is_transactional else False,
        )  # fmt: skip
        self._keep(stored)
        return stored

    def add_marker(self, producer_id: int, producer_epoch: int, *, commits: bool, coordinator_epoch: int = 0) -> int:
        """The end of a producer's transaction, if it has one; an error where a newer epoch wrote, or a newer
        coordinator (ProducerAppendInfo.appendEndTxnMarker)."""
        producer = self.producers.get(producer_id) or Producer()
        if producer_epoch < producer.epoch:
            return BAD_EPOCH
        if coordinator_epoch < producer.coordinator_epoch:
            return COORDINATOR_FENCED
        record = Record(0, -1, _MARKER_KEY.pack(0, int(commits)), _MARKER_VALUE.pack(0, coordinator_epoch))
        data = bytearray(encode_batch([record], base_offset=self.end))
        header = parse_header(data, 0)
        _BASE.pack_into(data, 0, self.end, header.batch_length, self.epoch)
        _ATTRIBUTES.pack_into(data, ATTRIBUTES_AT, TRANSACTIONAL | CONTROL)
        _PRODUCER.pack_into(data, 43, producer_id, producer_epoch, -1)
        _CRC.pack_into(data, 17, crc32c.value(bytes(data[ATTRIBUTES_AT:])))
        place = self.end, self.end, bytes(data), self.epoch
        self._keep(
            Stored(*place, producer_id, producer_epoch, -1, -1, True, commits, coordinator_epoch=coordinator_epoch)
        )
        return NO_ERROR

    def _keep(self, stored: Stored) -> None:
        self.batches.append(stored)
        self.end = stored.last + 1
        self._note(stored)

    def _note(self, stored: Stored) -> None:
        """What the leader learns from a batch, when it is appended and when the log is loaded."""
        if not self.epochs or self.epochs[-1][0] < stored.epoch:
            self.epochs.append((stored.epoch, stored.base))
        if stored.producer_id < 0:
            return
        producer = self.producers.setdefault(stored.producer_id, Producer())
        producer.latest_ms = _NOW_MS if stored.is_control else parse_header(stored.data, 0).max_timestamp
        if stored.producer_epoch != producer.epoch:
            producer.epoch = stored.producer_epoch
            producer.batches = []
        if stored.is_control:
            producer.coordinator_epoch = stored.coordinator_epoch
            self._end_transaction(producer, stored)
            return
        producer.batches = [*producer.batches[1 - _REMEMBERED :], stored]
        if stored.is_transactional and producer.first_open is None:
            producer.first_open = stored.base

    def _end_transaction(self, producer: Producer, marker: Stored) -> None:
        first, producer.first_open = producer.first_open, None
        if first is None:
            return
        for one in self.batches[self.at(first) :]:
            if one.producer_id == marker.producer_id and one.is_aborted is None:
                one.is_aborted = not marker.commits
        if not marker.commits:
            self.aborted.append(Aborted(marker.producer_id, first, marker.base))

    def replicate(self) -> None:
        """All replicas in sync have all."""
        self.high_watermark = self.end

    # What happens to logs.

    def truncate(self, end: int) -> None:
        """A leader that has less: whole batches from `end` on are gone."""
        index = self.at(end)
        if index < len(self.batches):
            end = max(min(self.batches[index].base, end), self.start)
        self.batches = self.batches[:index]
        self.end = min(end, self.end)
        self.high_watermark = min(self.high_watermark, self.end)
        self.epochs = [one for one in self.epochs if one[1] < self.end or one[1] == 0] or [(0, 0)]
        self._reload()

    def _reload(self) -> None:
        batches, self.producers, self.aborted = self.batches, {}, []
        self.batches = []
        for one in batches:
            self.batches.append(one)
            if one.is_transactional and not one.is_control:
                one.is_aborted = None
            self._note(one)

    def delete_records(self, offset: int) -> None:
        """DeleteRecords, or retention: nothing before `offset` can be read any more."""
        self._former_start = self._former_start if self._deleted else self.start
        self.start = max(self.start, min(offset, self.high_watermark))
        index = self.at(self.start)
        self._deleted += self.batches[:index]
        self.batches = self.batches[index:]
        later = [one for one in self.epochs if one[1] > self.start]
        before = [one for one in self.epochs if one[1] <= self.start]
        self.epochs = [*([(before[-1][0], self.start)] if before else []), *later]

    def restore_deleted(self) -> bool:
        """As a broker that was killed before it wrote down where its log starts; whether anything came back."""
        if not self._deleted:
            return False
        self.batches, self._deleted = [*self._deleted, *self.batches], []
        self.start = self._former_start
        self.epochs = [(self.epochs[0][0], self.start), *self.epochs[1:]]
        return True

    def forget_producers(self, before_ms: int) -> list[int]:
        """The leader forgets those whose last batch or marker has an earlier time, and no transaction open; their ids
        (ProducerStateManager.removeExpiredProducers)."""
        gone = [one for one, it in self.producers.items() if it.latest_ms < before_ms and it.first_open is None]
        for producer_id in gone:
            del self.producers[producer_id]
        return gone
