"""How waiting batches are packed: passed through, rebuilt, or merged, and held back for a while by `linger.ms`. Owned
by `pipeline.produce.buffer`.

`prepare` looks at the head of a buffer's queue before each batch. What cannot pass through (`batch.header.refusal`) is
rebuilt by `batch.rewrite`. Small batches become one, also across runs: a few by `batch.joining`, many where
`batch.merging` says that it pays. As in Java's producer, the linger time runs from the first record on, and a full
batch is sent at once.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from sparkmirror.batch.append_time import settle_append_time
from sparkmirror.batch.header import BatchHeader, Codec, refusal
from sparkmirror.batch.headers import LEADER_EPOCH, NEXT_OFFSET, POSITION, TOTAL_BYTES, read_headers
from sparkmirror.batch.joining import JOINED_BYTES_MAX, join, leading_batches, may_join
from sparkmirror.batch.loading import kernels_pay, kernels_soon
from sparkmirror.batch.merging import MERGED_BYTES_MAX, PASSED_BYTES_MIN, Traffic, choose, may_pay, passing_seconds
from sparkmirror.batch.piece import Piece, Span
from sparkmirror.batch.rewrite import Limits, rewrite
from sparkmirror.batch.unpacking import UNPACKED_BYTES_MAX, Unpacking
from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.pipeline.produce.limits import TopicLimits
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords, fuse, slice_spans


class Linger:
    """Holds the batches of one target partition back, by their bytes. With 0 seconds nothing is held back."""

    __slots__ = ("_batch_bytes", "_bytes", "_clock", "_ends_at", "_is_told", "_seconds")

    def __init__(self, seconds: float, batch_bytes: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._seconds = seconds
        self._batch_bytes = batch_bytes
        self._bytes = 0
        self._ends_at = -inf
        self._is_told = False

    def add(self, size_bytes: int) -> None:
        if not self._bytes and self._seconds:
            self._ends_at = self._clock.monotonic() + self._seconds
            self._is_told = False
        self._bytes += size_bytes
        if self._bytes >= self._batch_bytes:
            self._ends_at = -inf

    @property
    def holds_back(self) -> bool:
        return self._ends_at > 0 and self._ends_at > self._clock.monotonic()

    def tell_end(self) -> float:
        """The monotonic time at which the linger time ends; returned once, 0 after that and while nothing is held
        back."""
        if self._is_told or not self.holds_back:
            return 0.0
        self._is_told = True
        return self._ends_at

    def begin_anew(self) -> None:
        """No batch waits any more."""
        self._bytes = 0
        self._ends_at = -inf

    def stop(self) -> None:
        """Hold nothing back from now on."""
        self._seconds = 0.0
        self._ends_at = -inf


UNLIMITED_BYTES: Final = 1 << 30
_PASS_BATCHES: Final = 16
"""After merging was found not to pay, this many batches pass before it is considered again."""

_LONG_SECONDS: Final = 0.05
"""In a process that compiles kernels at the same time, passing batches takes several times as long."""


@dataclass(frozen=True, slots=True)
class Packing:
    """What a flow asks for: `codec` for all its records (None: each batch keeps its own); `clamp_timestamps` gives
    records from further in the future than the target allows the latest time that it does; `merging` may be off. Small
    batches are merged up to `batch_bytes`, and wait so long for more (0: only for room on the connection). A process
    holds at most `unpacked_bytes_max` of unpacked batches. With `keeps_offsets` no batch has a hole in its source
    offsets.
    """

    codec: Codec | None = None
    clamp_timestamps: bool = False
    merging: bool = True
    batch_bytes: int = MERGED_BYTES_MAX
    linger_seconds: float = 0.0
    unpacked_bytes_max: int = UNPACKED_BYTES_MAX
    keeps_offsets: bool = False

    passes_all: bool = field(init=False)
    """Whether batches go out at once and, as far as the flow says, as they are."""

    def __post_init__(self) -> None:
        passes_all = self.codec is None and not self.clamp_timestamps and not self.linger_seconds
        object.__setattr__(self, "passes_all", passes_all)

    def prepare(
        self,
        queue: deque[QueuedRecords],
        limits: TopicLimits,
        traffic: Callable[[], Traffic],
        unpacking: Unpacking,
        apart_until: int = 0,
        is_far: bool = True,
    ) -> QueuedRecords:
        """The queue's head, with its next batch or with the range that is being rebuilt. Below the source offset
        `apart_until` none are put together, and on a target that is not far no large ones. Raises ProtocolError."""
        queued = queue[0]
        queued.seek_batch()
        header = queued.header
        if queued.rewriting is not None or header is None:
            return queued
        if header.has_append_time:
            batch = queued.data[queued.at : queued.at + header.total_bytes]
            queued.header = header = settle_append_time(batch, header) or header
        if self._must_rewrite(header, queued, limits):
            self._rewrite(queued, limits, traffic(), unpacking)
        elif (is_far or header.batch_length < PASSED_BYTES_MIN) and self._may_put_together(
            queued, header, unpacking, apart_until
        ):
            queued = self._put_together(header, queued, queue, limits, traffic(), unpacking)
        return queued

    def _may_put_together(
        self, queued: QueuedRecords, header: BatchHeader, unpacking: Unpacking, apart_until: int
    ) -> bool:
        if not self.merging or unpacking.is_poor:
            return False
        return queued.at >= queued.pass_until and header.base_offset >= apart_until

    def _put_together(
        self,
        header: BatchHeader,
        queued: QueuedRecords,
        queue: deque[QueuedRecords],
        limits: TopicLimits,
        traffic: Traffic,
        unpacking: Unpacking,
    ) -> QueuedRecords:
        """The queue's head, where the next batch may be joined or merged with those behind it."""
        waiting_bytes = _waiting_bytes(queue, traffic.max_batch_bytes)
        if waiting_bytes == header.total_bytes:
            return queued
        if waiting_bytes <= JOINED_BYTES_MAX and may_join(header) and not self.clamp_timestamps:
            queued = _fuse_head(queue, JOINED_BYTES_MAX)
            if not queued.seek_batch() or _join(queued, min(limits.merged_bytes, self.batch_bytes), unpacking):
                return queued
            queued.pass_until = queued.at + _PASS_BATCHES * header.total_bytes
        if not unpacking.is_poor and self._may_merge(header, waiting_bytes, traffic):
            queued = _fuse_head(queue, traffic.merged_bytes_max(header.codec))
            self._merge(queued, header, limits, traffic, unpacking)
        return queued

    def awaits_kernels(self, queue: deque[QueuedRecords], traffic: Callable[[], Traffic]) -> bool:
        """Whether kernels are being loaded and so many small batches wait that passing them would take much longer."""
        if not self.merging or not kernels_soon() or not queue[0].can_give(sys.maxsize):
            return False
        header = queue[0].header
        assert header is not None, "`can_give` has found it"
        return passing_seconds(_waiting_bytes(queue) // header.total_bytes, traffic()) > _LONG_SECONDS

    def refit(self, batch: Batch, limits: TopicLimits, unpacking: Unpacking) -> list[Batch]:
        """Split a batch that the target refused into batches within its limits, or in two where its size limit is not
        known. Raises as `rewrite`."""
        halved = limits.is_halved(len(batch.data))
        if len(batch.data) <= limits.merged_bytes and not halved and not self.clamp_timestamps:
            return [batch]
        wanted = self._wanted(limits)
        if limits.max_message_bytes is None:
            most = -(-batch.records // 2) if halved else None
            wanted = replace(wanted, max_batch_bytes=UNLIMITED_BYTES, max_records=most)
        fresh: list[Batch] = []
        first = 0
        for piece in rewrite(batch.data, 0, wanted, unpacking):
            spans = slice_spans(batch.spans, first, piece.records)
            reached = spans[-1].next_offset
            data = memoryview(piece.data)
            fresh.append(
                Batch(data, batch.sequence + first, spans, piece.records, reached, batch.lineage, batch.queued)
            )
            first += piece.records
        fresh[-1].next_offset = batch.next_offset
        for one in fresh:
            one.refusals = batch.refusals
        batch.queued.open_batches += len(fresh) - 1
        return fresh

    def _wanted(self, limits: TopicLimits) -> Limits:
        return Limits(limits.merged_bytes, self.codec, self._clamp_to_ms(limits), self.keeps_offsets)

    def asked(self, limits: TopicLimits) -> Limits:
        """What batches that are made of records must be; as long as the topic's size limit is not known, there is
        none."""
        return Limits(limits.max_message_bytes or UNLIMITED_BYTES, self.codec, self._clamp_to_ms(limits))

    def _clamp_to_ms(self, limits: TopicLimits) -> int | None:
        return self._latest_ms(limits) if self.clamp_timestamps else None

    def _must_rewrite(self, header: BatchHeader, queued: QueuedRecords, limits: TopicLimits) -> bool:
        if header.base_offset < queued.first_offset:
            return True
        if self.codec is not None and header.codec is not self.codec:
            return True
        if self.clamp_timestamps and header.max_timestamp > self._latest_ms(limits):
            return True
        return refusal(header, limits.max_message_bytes or UNLIMITED_BYTES) is not None

    def _latest_ms(self, limits: TopicLimits) -> int:
        """The latest timestamp that a record may have, in ms; a minute less than allowed, since clocks differ."""
        return time.time_ns() // 1_000_000 + max(limits.timestamp_room_ms - 60_000, 0)

    def _may_merge(self, header: BatchHeader, waiting_bytes: int, traffic: Traffic) -> bool:
        if not may_pay(header.total_bytes, header.codec, waiting_bytes, traffic):
            return False
        return kernels_pay(passing_seconds(waiting_bytes // header.total_bytes, traffic))

    def _merge(
        self, queued: QueuedRecords, header: BatchHeader, limits: TopicLimits, traffic: Traffic, unpacking: Unpacking
    ) -> None:
        if queued.seek_batch() and not self._rewrite(queued, limits, traffic, unpacking, only_if_several=True):
            queued.pass_until = queued.at + _PASS_BATCHES * header.total_bytes

    def _rewrite(
        self,
        queued: QueuedRecords,
        limits: TopicLimits,
        traffic: Traffic,
        unpacking: Unpacking,
        *,
        only_if_several: bool = False,
    ) -> bool:
        stop = min(queued.at + 2 * min(traffic.max_batch_bytes, MERGED_BYTES_MAX), len(queued.data))
        headers = read_headers(queued.data, queued.at, stop)
        if not len(headers):  # one batch, larger than what may be merged
            headers = read_headers(queued.data, queued.at, len(queued.data))
        is_alone = unpacking.is_poor or not self.merging
        count = 1 if is_alone else choose(headers, 0, traffic, is_rewritten=not only_if_several)
        if only_if_several and count < 2:
            return False
        last = headers.table[count - 1]
        end = int(last[POSITION] + last[TOTAL_BYTES])
        data, wanted = queued.data[queued.at : end], self._wanted(limits)
        bound = unpacking.budget.merging_bound if only_if_several else unpacking.budget.bound

        def make(first_offset: int) -> Iterator[Piece]:
            return rewrite(data, first_offset, wanted, unpacking, bound)

        queued.rewrite(end, int(last[NEXT_OFFSET]), int(last[LEADER_EPOCH]), make, is_one=count == 1)
        return True


PASS_OR_MERGE: Final = Packing()
AS_THEY_ARE: Final = Packing(merging=False)
"""For batches of this process's own, such as the ledger's."""


def _waiting_bytes(queue: deque[QueuedRecords], enough_bytes: int = sys.maxsize) -> int:
    """The bytes in the queue that are not handed out, counted up to more than `enough_bytes`."""
    waiting_bytes = 0
    for queued in queue:
        waiting_bytes += queued.left_bytes
        if waiting_bytes > enough_bytes:
            break
    return waiting_bytes


def _join(queued: QueuedRecords, bytes_max: int, unpacking: Unpacking) -> bool:
    """Make one batch of the next ones of a run, if they are few and small, and there are several."""
    batches = leading_batches(queued.data[queued.at :], min(bytes_max, JOINED_BYTES_MAX))
    joined = join(batches, unpacking) if len(batches) > 1 else None
    if joined is None:
        return False
    last = batches[-1][1]
    first, end = batches[0][1].base_offset, last.next_offset
    pieces = [Piece(joined, (Span(first, end - first),), end - first)]
    stop = queued.at + sum(len(data) for data, _ in batches)

    def make(first_offset: int) -> Iterator[Piece]:
        return iter(pieces if first_offset < end else ())

    queued.rewrite(stop, end, last.partition_leader_epoch, make, is_one=False)
    return True


def _fuse_head(queue: deque[QueuedRecords], bytes_max: int) -> QueuedRecords:
    """Join the next batches of several runs into one run, if the head alone would make a small batch."""
    fused = fuse(queue, bytes_max)
    if fused is None:
        return queue[0]
    while queue and queue[0].handed_out:
        queue.popleft()
    queue.appendleft(fused)
    return fused
