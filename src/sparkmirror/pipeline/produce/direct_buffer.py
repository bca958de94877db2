"""A partition buffer that hands a run on at once where nothing waits before it: one whole batch, or a few small ones
that become one.

A mirror that is caught up has little else. Owned by `pipeline.produce.gate`, which makes them for source partitions.
"""

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from sparkmirror.batch.append_time import settle_append_time
from sparkmirror.batch.header import (
    APPEND_TIME,
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    Codec,
    parse_header,
    refusal,
)
from sparkmirror.batch.joining import JOINED_BYTES_MAX, join, leading_batches
from sparkmirror.batch.merging import PASSED_BYTES_MIN
from sparkmirror.batch.piece import Span
from sparkmirror.errors import ProtocolError
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.in_flight import REMEMBERED_SECONDS
from sparkmirror.pipeline.produce.packing import UNLIMITED_BYTES
from sparkmirror.pipeline.produce.partition_state import State
from sparkmirror.pipeline.produce.queued_records import Batch, QueuedRecords
from sparkmirror.pipeline.produce.ready_batches import Asked, ReadyBatch
from sparkmirror.pipeline.relay.board import Announcement

_new_tuple = tuple.__new__


class Following(NamedTuple):
    """Of the runs that come next: the first offset, the leader epoch, the most bytes of a batch, and of a run that is
    joined (0 for none), the producer and the sequence of the stamp, and where the target's log ends at least."""

    position: int
    leader_epoch: int
    bytes_max: int
    joined_bytes_max: int
    producer_id: int
    producer_epoch: int
    sequence: int
    end: int


class DirectBuffer(PartitionBuffer):
    """What `hand_on` does not do, `accept` and `next_batch` do."""

    __slots__ = ()

    def is_next(self, run: Announcement, leader_epoch: int, turns: int, identity: tuple[int, int]) -> bool:
        """Whether the run continues the partition, and may go out as soon as it is here."""
        return run.first_offset == self.position and self._goes_on(leader_epoch, turns, identity)

    def _goes_on(self, leader_epoch: int, turns: int, identity: tuple[int, int]) -> bool:
        return (
            self.state is State.FLOWING
            and turns == self.turns
            and leader_epoch == self._handed_on.leader_epoch
            and not self._waiting.runs
            and self._in_flight.takes_fresh(identity)
            and not (self.rests or self.unpacking.is_poor)
            and self._packing.passes_all
            and self._target is not None
        )

    def may_follow(self, leader_epoch: int, turns: int, identity: tuple[int, int], until: float) -> bool:
        """Whether each run that continues the partition `is_next` until then, and the target will say where it stands:
        nothing is under way, and the log knows the producer."""
        extent, in_flight = self.extent, self._in_flight
        return (
            self.may_be_made
            and self._goes_on(leader_epoch, turns, identity)
            and in_flight.is_known
            and not in_flight.batches
            and until - self.progressed_at < REMEMBERED_SECONDS
            and extent is not None
            and extent.end > 0
            and extent.topic == self.target.topic
            and not self.gaps
        )

    @property
    def following(self) -> Following:
        """What the batches of the next runs must be, and the stamp that the first gets."""
        in_flight, bytes_max = self._in_flight, self.limits.max_message_bytes or UNLIMITED_BYTES
        extent = self.extent
        end = 0 if extent is None else extent.end
        epoch, joined_bytes_max = self._handed_on.leader_epoch, self._joined_bytes_max(self.position)
        return Following(
            self.position, epoch, bytes_max, joined_bytes_max, *in_flight.identity, in_flight.next_sequence, end
        )

    def goes_on_in(self, topic_id: UUID | None) -> bool:  # noqa: ARG002
        """Whether records may go to the target's topic with that id, None while it is not known."""
        return True

    def hand_on(self, run: Announcement, data: memoryview, free: Callable[[], None]) -> Batch | None:
        """The batch of a run that `is_next`, stamped. None for a run that does not pass as it is: it is not taken."""
        header = self._lone_header(run, data)
        if header is None:
            joined = self._join(run, data)
            if joined is None:
                return None
            data, header = joined
        sequence = self._in_flight.stamp(data, header, transactional=False)
        return self._send(run, data, sequence, Span(header.base_offset, header.records_count), free)

    def pass_next(self, identity: tuple[int, int]) -> Batch | None:
        """The next batch, stamped, where it is a large one amid a run, and passes as it is: what `next_batch` does with
        it, in few functions, since what runs once a batch runs on cold caches. None where there is more to look at;
        nothing is done then. Only at least once, and near a target that may have other offsets."""
        in_flight, runs = self._in_flight, self._waiting.runs
        if not runs or not in_flight.takes_fresh(identity) or self.state is not State.FLOWING:
            return None
        queued = runs[0]
        header, at, run = queued.header, queued.at, queued.data
        if header is None or not at or self.rests or self.unpacking.is_poor or not self._packing.passes_all:
            return None
        stop = at + header.batch_length + LOG_OVERHEAD_BYTES
        if header.batch_length < PASSED_BYTES_MIN or header.base_offset < queued.first_offset:
            return None
        following = _header_amid(run, stop)
        if following is None or following.base_offset < header.base_offset:
            return None
        if header.partition_leader_epoch != self._handed_on.leader_epoch:
            return None
        if refusal(header, self.limits.max_message_bytes or UNLIMITED_BYTES) is not None:
            return None
        data, records = run[at:stop], header.records_count
        sequence = in_flight.stamp(data, header, transactional=False)
        queued.at, queued.header, queued.leader_epoch = stop, following, header.partition_leader_epoch
        queued.open_batches += 1
        span, reached, now = Span(header.base_offset, records), header.base_offset + records, self._clock.monotonic()
        batch = Batch(data, sequence, (span,), records, reached, self._handed_on, queued, now)
        in_flight.batches.append(batch)
        return batch

    @property
    def may_be_made(self) -> bool:
        """Whether compiled code may make its batches: `asked` says what such a one must be."""
        return not self.keeps_offsets

    def asked(self, run: Announcement) -> Asked:
        """What the batch of a run that `is_next` must be, and the stamp that it gets."""
        in_flight, epoch = self._in_flight, self._handed_on.leader_epoch
        bytes_max = self.limits.max_message_bytes or UNLIMITED_BYTES
        joined_bytes_max = self._joined_bytes_max(run.first_offset)
        bounds = run.lease, run.size, run.first_offset, epoch, bytes_max, joined_bytes_max
        return _new_tuple(Asked, (*bounds, *in_flight.identity, in_flight.next_sequence))

    def hand_on_made(
        self, run: Announcement, made: ReadyBatch, free: Callable[[], None], now: float | None = None
    ) -> Batch:
        """The batch that compiled code has made, and stamped, as `asked`; at `now`, if it did so before."""
        if made.codec:
            self.unpacking.note_passed(Codec(made.codec), made.data[HEADER_BYTES:])
        sequence = self._in_flight.take_sequence(made.records, transactional=False)
        return self._send(run, made.data, sequence, Span(made.base_offset, made.records), free, now)

    def pass_written(self, next_offset: int, records: int, end: int, now: float, seconds: float) -> None:
        """Runs up to there that `may_follow`, of so many records, went out and were acknowledged, the last one at
        `now`, the quickest after so many seconds; the target's log ends behind them."""
        self._in_flight.take_sequence(records, transactional=False)
        self.round_trip.measure(seconds)
        self.position = next_offset
        self.move_to(next_offset, self._handed_on)
        self.progressed_at, self.failures = now, 0
        if self.extent is not None:
            self.extend(self.extent._replace(end=end))

    def _send(
        self,
        run: Announcement,
        data: memoryview,
        sequence: int,
        span: Span,
        free: Callable[[], None],
        now: float | None = None,
    ) -> Batch:
        """The stamped batch goes out."""
        in_flight, handed_on = self._in_flight, self._handed_on
        if now is None:
            now = self._clock.monotonic()
        if not in_flight.batches:
            if now - self.progressed_at > REMEMBERED_SECONDS:
                in_flight.doubt()
            self.progressed_at = now
        queued = QueuedRecords.handed_on(data, self.position, run.next_offset, free, run.fetched_at_ms)
        queued.leader_epoch = handed_on.leader_epoch
        batch = Batch(data, sequence, (span,), span.records, run.next_offset, handed_on, queued, now)
        in_flight.batches.append(batch)
        self.position = run.next_offset
        return batch

    def _join(self, run: Announcement, data: memoryview) -> tuple[memoryview, BatchHeader] | None:
        """All of the run as one batch; None if it is not a few small batches that can be one."""
        if run.size > self._joined_bytes_max(run.first_offset):
            return None
        batches = leading_batches(data)
        if len(batches) < 2 or sum([len(one) for one, _ in batches]) != run.size:
            return None
        first = batches[0][1]
        if first.base_offset < run.first_offset or first.partition_leader_epoch != self._handed_on.leader_epoch:
            return None
        joined = join(batches, self.unpacking)
        return None if joined is None else (memoryview(joined), parse_header(joined, 0))

    def _joined_bytes_max(self, first_offset: int) -> int:
        """The most bytes of batches from there on that may become one; 0 where none may."""
        packing = self._packing
        if not packing.merging or first_offset < self.apart_until:
            return 0
        return min(JOINED_BYTES_MAX, packing.batch_bytes, self.limits.merged_bytes)

    def _lone_header(self, run: Announcement, data: memoryview) -> BatchHeader | None:
        try:
            header = parse_header(data, 0)
        except ProtocolError:
            return None
        attributes = header.attributes
        if header.batch_length + LOG_OVERHEAD_BYTES != run.size or header.base_offset < run.first_offset:
            return None
        if attributes & CONTROL:
            return None
        if header.partition_leader_epoch != self._handed_on.leader_epoch:
            return None
        if attributes & APPEND_TIME:
            header = settle_append_time(data, header) or header
        if refusal(header, self.limits.max_message_bytes or UNLIMITED_BYTES) is not None:
            return None
        if attributes & CODEC_MASK:
            self.unpacking.note_passed(header.codec, data[HEADER_BYTES:])
        return header


def _header_amid(run: memoryview, at: int) -> BatchHeader | None:
    """That of the batch with records which begins there; None if there is none, or not all of it."""
    try:
        header = parse_header(run, at)
    except ProtocolError:
        return None
    is_whole = at + header.batch_length + LOG_OVERHEAD_BYTES <= len(run)
    return header if is_whole and not header.attributes & CONTROL else None
