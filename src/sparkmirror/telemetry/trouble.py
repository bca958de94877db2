"""Keeps what outlasts an epoch: partitions that failed and have not moved since, and restarts; pure.

Each attempt of a task starts without failures, so its records alone do not show that an earlier attempt failed.
`telemetry.board` feeds this module with each record, and with the history record (`telemetry.history`), which has
what an earlier process saw.
"""

from collections.abc import Mapping
from typing import Final

from sparkmirror.model import TopicPartition
from sparkmirror.telemetry.history import Failing, HistoryRecord, Waiting
from sparkmirror.telemetry.records import FlowRecord, PartitionRecord, PartitionState, TaskRecord

_RESTARTS_MAX: Final = 100
_SAME_MS: Final = 1500
"""Two readers date one record at most so far apart, because each corrects the timestamp to its own clock."""


class Trouble:
    """`failing` holds partitions that have not moved since they failed. `waiting` holds partitions that the source
    refused and has not served since, with the last reason. `held_since` is the time (ms since 1970) since which these
    and paused partitions have not run. `restarts` are the times of restarts, the oldest first."""

    def __init__(self) -> None:
        self.failing: dict[TopicPartition, Failing] = {}
        self.waiting: dict[TopicPartition, str] = {}
        self.held_since: dict[TopicPartition, int] = {}
        self.restarts: list[int] = []

    def take_partition(self, before: PartitionRecord | None, record: PartitionRecord) -> None:
        where = record.source
        failing = self.failing.get(where)
        if record.state is PartitionState.FAILED:
            since_ms = record.at_ms if failing is None or has_moved(failing, record) else failing.since_ms
            self.failing[where] = Failing(where.topic, where.partition, since_ms, record.offset, record.reason)
        elif failing is not None and has_moved(failing, record):
            del self.failing[where]
        if self._goes_on_waiting(record):
            return
        if record.state is PartitionState.RUNNING:
            self.held_since.pop(where, None)
        elif before is None or before.state is not record.state:
            self.held_since[where] = record.at_ms

    def _goes_on_waiting(self, record: PartitionRecord) -> bool:
        """Whether the partition still waits for the source. A new epoch reports it RUNNING before the source answers,
        so the state alone does not show it."""
        has_waited = record.source in self.waiting
        if record.state is PartitionState.WAITING:
            self.waiting[record.source] = record.reason
        elif has_answered(record):
            self.waiting.pop(record.source, None)
        return has_waited and record.source in self.waiting

    def take_task(self, before: TaskRecord | None, record: TaskRecord) -> None:
        """Count a restart where the task began another attempt within an epoch."""
        if before is None or (before.run, before.epoch) != (record.run, record.epoch):
            return
        if before.producer_epoch != record.producer_epoch:
            self._restarted(record.at_ms)

    def take_process(self, before: FlowRecord | None, record: FlowRecord) -> None:
        """Count a restart where the process started the query again."""
        if before is not None and before.run == record.run and record.restarts > before.restarts:
            self._restarted(record.at_ms)

    def _restarted(self, at_ms: int) -> None:
        if not self.restarts or at_ms > self.restarts[-1]:
            self.restarts = [*self.restarts, at_ms][-_RESTARTS_MAX:]

    def take_history(self, history: HistoryRecord, partitions: Mapping[TopicPartition, PartitionRecord]) -> None:
        """Add what an earlier process saw, where later records do not contradict it."""
        last_ms = max(history.restarts, default=0) + _SAME_MS
        self.restarts = [*history.restarts, *(at_ms for at_ms in self.restarts if at_ms > last_ms)][-_RESTARTS_MAX:]
        for failing in history.failing:
            where, record = failing.partition_of, partitions.get(failing.partition_of)
            if where not in self.failing and (record is None or not has_moved(failing, record)):
                self.failing[where] = failing
        for waiting in history.waiting:
            self._recall(waiting, partitions.get(waiting.partition_of))

    def _recall(self, waiting: Waiting, record: PartitionRecord | None) -> None:
        """Add a waiting partition, unless the source has answered since or another cause holds the partition."""
        where = waiting.partition_of
        if where not in self.waiting and record is not None and has_answered(record):
            return
        self.waiting.setdefault(where, waiting.reason)
        self.held_since[where] = min(self.held_since.get(where, waiting.since_ms), waiting.since_ms)

    def forget(self, where: TopicPartition) -> None:
        """Drop a partition that the flow no longer mirrors."""
        self.failing.pop(where, None)
        self.waiting.pop(where, None)
        self.held_since.pop(where, None)


def has_answered(record: PartitionRecord) -> bool:
    """Whether the record shows that the source has answered (it has an end), or that another cause holds the
    partition."""
    return record.state is not PartitionState.WAITING and (
        record.state is not PartitionState.RUNNING or record.end is not None
    )


def has_moved(failing: Failing, record: PartitionRecord) -> bool:
    """Whether the partition has left the offset at which it failed, or has nothing left to mirror."""
    if record.offset is None:
        return False
    is_at_end = record.state is PartitionState.RUNNING and record.end is not None and record.offset >= record.end
    return record.offset != failing.offset or is_at_end
