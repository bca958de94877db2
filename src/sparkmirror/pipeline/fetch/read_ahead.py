"""Reads ahead in one partition over a long link: several fetches are under way, on disjoint ranges of offsets. Pure.

With one fetch at a time a link carries one response a round trip. A read-ahead also asks for the following ranges,
before it knows where the response before them ends: the measured bytes per offset predict the begin of each, rather too
low than too high. Answers are taken strictly in the order of offsets. Overlaps are trimmed at a batch boundary; a hole
between two answers is fetched before the answer behind it is taken (invariants 1 and 2).

A range that begins where a known batch ends is asked with that batch's leader epoch, and the broker tells if the log
was truncated meanwhile. A range with a predicted begin has no such check: it is taken only if its first batch has the
leader epoch of the batch before, since a truncation would have ended that epoch; otherwise it is fetched again. Owned
by `pipeline.fetch.read_ahead_connections`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice

from sparkmirror.batch.header import BatchHeader, iterate_headers
from sparkmirror.kafka.wire.data_requests import FetchedPartition
from sparkmirror.model import NO_EPOCH
from sparkmirror.pipeline.fetch.partitions import PartitionFetchState

_MARGIN_MIN = 0.02
_MARGIN_MAX = 0.5
_RANGE_BATCHES = 8
"""Batches in a range: on average one of them comes twice or in part."""


class FetchStep(Enum):
    """What to do with the first range: wait for it, take it, or skip it; start over from the position; or give the
    partition back to its session, with the answer passed to the response reader (TELL) or without (OVER)."""

    WAIT = "wait"
    TAKE = "take"
    PASS = "pass"
    RESTART = "restart"
    TELL = "tell"
    OVER = "over"


@dataclass(slots=True, eq=False)
class Range:
    """One fetch from `start` on; `last_epoch` is that of the batch before, -1 where the start is predicted.

    Once answered, `next_offset` and `final_epoch` tell of its last whole batch, -1 when it has none.
    """

    start: int
    bytes_max: int
    last_epoch: int
    is_asked: bool = False
    fetched: FetchedPartition | None = None
    buffer: memoryview = field(default_factory=lambda: memoryview(b""))
    next_offset: int = -1
    final_epoch: int = NO_EPOCH
    is_abandoned: bool = False

    @property
    def outstanding_bytes(self) -> int:
        """The bytes that it takes of the window: the size of its answer, or the largest possible one."""
        return self.bytes_max if self.fetched is None else len(self.buffer)


class ReadAhead:
    """One partition's ranges, in the order of offsets. `position` is the fetch state's offset as the read-ahead left
    it."""

    def __init__(self, fetch_state: PartitionFetchState, node: int, range_bytes_min: int, range_bytes_max: int) -> None:
        self.fetch_state = fetch_state
        self.node = node
        self.position = fetch_state.offset
        self.ranges: list[Range] = []
        self._range_bytes = min(max(int(_RANGE_BATCHES * fetch_state.batch_bytes), range_bytes_min), range_bytes_max)
        self._margin = _MARGIN_MIN

    @property
    def outstanding_bytes(self) -> int:
        return sum(one.outstanding_bytes for one in self.ranges)

    @property
    def range_bytes(self) -> int:
        return self._range_bytes

    def next_range(self) -> Range | None:
        """The range to ask for next; None if the log's readable end, or the partition's end, is reached."""
        one = self._unasked() or self._extend()
        if one is not None:
            one.is_asked = True
        return one

    @property
    def must_ask(self) -> bool:
        """Whether a range must be asked for even if the window is full: the first one, a hole, or a lost request."""
        return not self.ranges or self._unasked() is not None

    def _unasked(self) -> Range | None:
        return next((one for one in self.ranges if not one.is_asked), None)

    def _extend(self) -> Range | None:
        fetch_state = self.fetch_state
        start, epoch = fetch_state.offset, fetch_state.leader_epoch
        if self.ranges:
            last = self.ranges[-1]
            is_known = last.next_offset >= 0
            start, epoch = (last.next_offset, last.final_epoch) if is_known else (self._expected_end(last), NO_EPOCH)
        if start >= fetch_state.stop:
            return None
        self.ranges.append(Range(start, self._range_bytes, epoch))
        return self.ranges[-1]

    def _expected_end(self, before: Range) -> int:
        """Rather too low than too high: an overlap costs bytes, a hole costs a round trip.

        Of the bytes asked for, the last batch may be cut off, and the first may begin before the range.
        """
        whole = before.bytes_max * (1 - self._margin) - 1.5 * self.fetch_state.batch_bytes
        return before.start + max(int(whole / max(self.fetch_state.bytes_per_offset, 0.01)), 1)

    def answer(self, one: Range, fetched: FetchedPartition, buffer: memoryview) -> None:
        """Store an answer, and note the hole behind it if there is one.

        Raises ProtocolError for batches that cannot be read.
        """
        one.fetched, one.buffer = fetched, buffer
        for _, header in iterate_headers(buffer, fetched.start, fetched.stop):
            one.next_offset, one.final_epoch = header.next_offset, header.partition_leader_epoch
        at = self.ranges.index(one)
        if one.next_offset >= 0 and at + 1 < len(self.ranges):
            self._fill(at + 1, one, self.ranges[at + 1].start - one.next_offset)

    def _fill(self, at: int, before: Range, hole: int) -> None:
        if hole <= 0:
            self._margin = max(self._margin * 0.98, _MARGIN_MIN)
            return
        self._margin = min(self._margin * 2, _MARGIN_MAX)
        size = int(hole * self.fetch_state.bytes_per_offset + 2 * self.fetch_state.batch_bytes)
        self.ranges.insert(at, Range(before.next_offset, min(size, self._range_bytes), before.final_epoch))

    def judge(self) -> FetchStep:
        """The next step for the first range."""
        if not self.ranges or self.ranges[0].fetched is None:
            return FetchStep.WAIT
        first = self.ranges[0]
        is_verified = first.start == self.position and first.last_epoch == self.fetch_state.leader_epoch
        if first.fetched is not None and (first.fetched.error or first.fetched.diverging_offset >= 0):
            return FetchStep.TELL if is_verified else FetchStep.RESTART
        if first.next_offset < 0:
            return FetchStep.OVER if is_verified else FetchStep.RESTART
        if first.start > self.position:
            return FetchStep.RESTART
        if first.next_offset <= self.position:
            return FetchStep.PASS
        return FetchStep.TAKE if is_verified or self._continues(first) else FetchStep.RESTART

    def _continues(self, first: Range) -> bool:
        known = self.fetch_state.leader_epoch
        return known == NO_EPOCH or any(
            header.partition_leader_epoch == known for _, header in islice(self._fresh(first), 1)
        )

    def _fresh(self, first: Range) -> Iterator[tuple[int, BatchHeader]]:
        """The batches at or beyond the position, each with its place in the buffer."""
        assert first.fetched is not None
        for at, header in iterate_headers(first.buffer, first.fetched.start, first.fetched.stop):
            if header.next_offset > self.position:
                yield at, header

    def trimmed(self) -> tuple[FetchedPartition, memoryview]:
        """The first range's answer and its bytes, from the first new batch on.

        With aborted transactions nothing is trimmed: a marker in the overlap may end one of them.
        """
        first = self.ranges[0]
        fetched = first.fetched
        assert fetched is not None
        start = fetched.start if fetched.aborted else next((at for at, _ in self._fresh(first)), fetched.start)
        return fetched._replace(start=0, stop=fetched.stop - start), first.buffer[start : fetched.stop]

    def took(self) -> None:
        """The first range is done: the position follows the fetch state."""
        self.ranges.pop(0)
        self.position = self.fetch_state.offset

    def restart(self) -> None:
        """Forget all ranges; later answers to them are ignored."""
        for one in self.ranges:
            one.is_abandoned = True
        self.ranges.clear()
