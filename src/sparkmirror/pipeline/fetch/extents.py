"""The extents of a task's partitions: decides which runs are announced to the writer instead of going through Spark.

A run row opens its partition's extent, and a run that begins where the extent ends, of the same leader epoch and the
same log, may continue it. After anything else (a seek, a gap, another epoch, another task's time with the partition)
the next run does not continue it, goes as a row, and opens another one. Whatever is announced is accounted for in
extent rows, for what observes the query. Owned by `pipeline.fetch.responses`.
"""

from typing import Final

from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.fetch.partitions import NO_SLOT, PartitionFetchState
from sparkmirror.pipeline.fetch.runs import Run
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.pipeline.relay.ring import Ring
from sparkmirror.pipeline.relay.schema import EXTENT, Row

EXTENT_BYTES_MAX: Final = 64 << 20
"""When so much was announced, extent rows account for it at once, and not when their time has come."""
_End = tuple[int, int, int]
"""Where an extent ends: offset, leader epoch, and by `turns` in which log: a topic that was made again has another
number."""
_new_tuple = tuple.__new__


class _Account:
    """What was announced of one partition since the last extent row; its times are of the run that was oldest when it
    was fetched. Changed with each announcement, so a class of slots: to make a row each time cost more than the rest.
    """

    __slots__ = (
        "_age_ms", "_batches", "_bytes", "_fetched_at_ms", "_first_offset", "_high_watermark", "_leader_epoch",
        "_max_timestamp", "_next_offset", "_records", "_turns", "_where",
    )  # fmt: skip

    def __init__(self, where: TopicPartition, first: Run, turns: int) -> None:
        self._where = where
        self._first_offset = first.first_offset
        self._leader_epoch, self._turns = first.leader_epoch, turns
        self._batches = self._records = self._bytes = 0
        self._age_ms, self._max_timestamp = 0, -1

    def add(self, run: Run, high_watermark: int, fetched_at_ms: int) -> None:
        self._next_offset = run.next_offset
        self._batches += run.batches
        self._records += run.records
        self._bytes += run.stop - run.start
        self._high_watermark = high_watermark
        if self._max_timestamp < 0 or 0 <= run.max_timestamp < fetched_at_ms - self._age_ms:
            self._max_timestamp, self._fetched_at_ms = run.max_timestamp, fetched_at_ms
            self._age_ms = fetched_at_ms - run.max_timestamp

    def row(self) -> Row:
        return Row(
            EXTENT, self._where.topic, self._where.partition, self._first_offset, self._next_offset, self._batches,
            self._records, self._bytes, self._max_timestamp, self._high_watermark, self._fetched_at_ms,
            self._leader_epoch, self._turns,
        )  # fmt: skip


class Extents:
    """By slot on the control page."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._ends: dict[int, _End] = {}
        self._unaccounted: dict[int, _Account] = {}
        self._unaccounted_bytes = 0
        self.is_behind = False
        """Whether something was announced that is not noted here yet."""

    def __bool__(self) -> bool:
        """Whether something was announced that no extent row accounts for yet."""
        return bool(self._unaccounted) or self.is_behind

    @property
    def are_due(self) -> bool:
        """Whether so much was announced that extent rows have to account for it."""
        return self._unaccounted_bytes >= EXTENT_BYTES_MAX

    def open(self, fetch_state: PartitionFetchState, run: Run) -> None:
        """The run goes as a row."""
        if fetch_state.slot != NO_SLOT:
            self._ends[fetch_state.slot] = (run.next_offset, run.leader_epoch, fetch_state.lineage.turns)

    def announce(
        self, fetch_state: PartitionFetchState, run: Run, high_watermark: int, lease: int, fetched_at_ms: int
    ) -> bool:
        """Announce the run; False if it has to go as a row."""
        slot, turns = fetch_state.slot, fetch_state.lineage.turns
        start, stop, first_offset, next_offset, _, records, max_timestamp, leader_epoch = run
        announcer = self._ring.announcer
        if self._ends.get(slot) != (first_offset, leader_epoch, turns) or not announcer.is_listened_to:
            return False
        told = slot, records, stop - start, self._ring.awaited, first_offset, next_offset
        announcement = _new_tuple(Announcement, (*told, lease, max_timestamp, high_watermark, fetched_at_ms))
        if not announcer.announce(announcement):
            return False
        self.note(fetch_state, run, high_watermark, fetched_at_ms)
        return True

    def is_continued(self, fetch_state: PartitionFetchState, epoch: int) -> bool:
        """Whether a run of that leader epoch continues the partition's extent."""
        end = (fetch_state.offset, epoch, fetch_state.lineage.turns)
        return self._ends.get(fetch_state.slot) == end

    def note(self, fetch_state: PartitionFetchState, run: Run, high_watermark: int, fetched_at_ms: int) -> None:
        """The run was announced, or several that count as one, with the times of the oldest."""
        slot, turns = fetch_state.slot, fetch_state.lineage.turns
        self._ends[slot] = (run.next_offset, run.leader_epoch, turns)
        account = self._unaccounted.get(slot)
        if account is None:
            account = self._unaccounted[slot] = _Account(fetch_state.partition, run, turns)
        account.add(run, high_watermark, fetched_at_ms)
        self._unaccounted_bytes += run.stop - run.start

    def take_rows(self) -> list[Row]:
        """The extent rows that account for what was announced since the last call."""
        accounts, self._unaccounted, self._unaccounted_bytes = self._unaccounted, {}, 0
        return [account.row() for account in accounts.values()]
