"""The extents of a task's partitions: decides which runs are announced to the writer instead of going through Spark.

A run row opens its partition's extent, and a run that begins where the extent ends, of the same leader epoch and the
same log, may continue it. After anything else (a seek, a gap, another epoch, another task's time with the partition)
the next run does not continue it, goes as a row, and opens another one. Whatever is announced is accounted for in
extent rows, for what observes the query. Owned by `pipeline.fetch.responses`.
"""

from typing import NamedTuple

from sparkmirror.pipeline.fetch.partitions import NO_SLOT, PartitionFetchState
from sparkmirror.pipeline.fetch.runs import Run
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.pipeline.relay.ring import Ring
from sparkmirror.pipeline.relay.schema import EXTENT, Row


class _End(NamedTuple):
    """Where an extent ends, and by `turns` in which log: a topic that was made again has another number."""

    offset: int
    leader_epoch: int
    turns: int


class Extents:
    """By slot on the control page."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._ends: dict[int, _End] = {}
        self._unaccounted: dict[int, Row] = {}

    def __bool__(self) -> bool:
        """Whether something was announced that no extent row accounts for yet."""
        return bool(self._unaccounted)

    def open(self, fetch_state: PartitionFetchState, run: Run) -> None:
        """The run goes as a row."""
        if fetch_state.slot != NO_SLOT:
            self._ends[fetch_state.slot] = _End(run.next_offset, run.leader_epoch, fetch_state.lineage.turns)

    def announce(
        self, fetch_state: PartitionFetchState, run: Run, high_watermark: int, lease: int, fetched_at_ms: int
    ) -> bool:
        """Announce the run; False if it has to go as a row."""
        slot, turns = fetch_state.slot, fetch_state.lineage.turns
        announcer = self._ring.announcer
        if self._ends.get(slot) != (run.first_offset, run.leader_epoch, turns) or not announcer.is_listened_to:
            return False
        announcement = Announcement(
            slot, run.records, run.stop - run.start, self._ring.awaited, run.first_offset, run.next_offset,
            lease, run.max_timestamp, high_watermark, fetched_at_ms,
        )  # fmt: skip
        if not announcer.announce(announcement):
            return False
        self._ends[slot] = _End(run.next_offset, run.leader_epoch, turns)
        self._account(fetch_state, run, high_watermark, fetched_at_ms)
        return True

    def _account(self, fetch_state: PartitionFetchState, run: Run, high_watermark: int, fetched_at_ms: int) -> None:
        where, so_far = fetch_state.partition, self._unaccounted.get(fetch_state.slot)
        row = Row(
            EXTENT, where.topic, where.partition, run.first_offset, run.next_offset, run.batches, run.records,
            run.stop - run.start, run.max_timestamp, high_watermark, fetched_at_ms, run.leader_epoch,
            fetch_state.lineage.turns,
        )  # fmt: skip
        self._unaccounted[fetch_state.slot] = row if so_far is None else _sum(so_far, row)

    def take_rows(self) -> list[Row]:
        """The extent rows that account for what was announced since the last call."""
        rows, self._unaccounted = [*self._unaccounted.values()], {}
        return rows


def _sum(one: Row, later: Row) -> Row:
    """Both as one row; its times are of the run that was older when it was fetched."""
    oldest = max(one, later, key=_age_ms)
    return later._replace(
        first_offset=one.first_offset,
        batches=one.batches + later.batches,
        records=one.records + later.records,
        bytes=one.bytes + later.bytes,
        max_timestamp=oldest.max_timestamp,
        fetched_at=oldest.fetched_at,
    )


def _age_ms(row: Row) -> int:
    return row.fetched_at - row.max_timestamp if row.max_timestamp >= 0 else -1
