"""Deletes the status records of tasks and partitions that a flow has no more, and writes those of partitions that no
task has yet, since their start is being filled. Owned by `planning.planner`.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ClusterError
from sparkmirror.kafka.publish import Record, publish
from sparkmirror.model import Topic, TopicPartition
from sparkmirror.planning.start_fills import FillNotes, StartFill
from sparkmirror.telemetry.filling import FillGauge, Filling
from sparkmirror.telemetry.records import NO_TASK, PartitionRecord, PartitionState, encode_key, encode_record

log = logging.getLogger(__name__)

_FILL_SECONDS: Final = 2.0
"""So often a start that is being filled is reported; one that takes less time is not."""
_REFUSED_SECONDS: Final = 30.0
"""After a report that the target did not take, so that filling does not wait for each."""


class StatusRecords:
    """Those of one flow. `gone` are the partitions that were taken back in the last round."""

    def __init__(self, flow: FlowConfig, run: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self._flow = flow
        self._run = run
        self._clock = clock
        self.gone: set[TopicPartition] = set()
        self._left: set[TopicPartition] = set()
        self._gauges: dict[TopicPartition, FillGauge] = {}
        self._reported: dict[TopicPartition, float] = {}
        self._silent_until = 0.0

    def begin_epoch(self, ended: Collection[int], known: Iterable[TopicPartition], topics: Mapping[str, Topic]) -> None:
        """An epoch begins without the tasks that have `ended`, and without partitions whose topics are gone, or left
        out by a file that has changed: of those that are `known`, by the ledger, which has each from its start. Raises
        ClusterError."""
        self._forget("task", [(task,) for task in sorted(ended)])
        left = {where for where in known if _is_left(where, topics)}
        with suppress(ClusterError):  # what is not deleted now is with the next epoch
            self._forget("partition", [(where.topic, where.partition) for where in sorted(left - self._left)])
            self._left = left

    def forget_gone(
        self,
        partitions: Collection[TopicPartition],
        gone: Iterable[list[TopicPartition]],
        topics: Mapping[str, Topic],
    ) -> None:
        """Of partitions that are not mirrored any more, a round after their release: their task may tell until then.
        Of those whose start is filled, when their topic is gone. Raises ClusterError."""
        if self.gone:
            self._forget("partition", [(tp.topic, tp.partition) for tp in sorted(self.gone.difference(partitions))])
        unfilled = {where for where in self._reported if _is_left(where, topics)}
        for where in unfilled:
            self._drop(where)
        self.gone = unfilled.union(*gone)

    def _forget(self, kind: str, names: Sequence[tuple[str | int, ...]]) -> None:
        keys = (encode_key(kind, self._flow.name.source, *name) for name in names)
        if gone := [(key, None) for key in keys]:
            publish(self._flow.target, self._flow.ledger_topics.status, gone)

    def note_waiting(self, waits: Mapping[TopicPartition, str]) -> None:
        """Reports partitions that get no task yet, and why; a task that gets one reports it from then on."""
        due = [
            encode_record(
                self._flow.name.source,
                PartitionRecord(
                    where.topic, where.partition, self._run, NO_TASK, 0, state=PartitionState.FAILED, reason=why,
                    target_topic=self._flow.remote_topic(where.topic),
                ),
            )
            for where, why in sorted(waits.items())
        ]  # fmt: skip
        try:
            publish(self._flow.target, self._flow.ledger_topics.status, due)
        except ClusterError as problem:
            log.debug("%s: partitions that wait were not reported: %s", self._flow.name, problem)

    # Starts that are being filled.

    def fill_notes(self, left: Callable[[TopicPartition], None]) -> FillNotes:
        return FillNotes(left, self.note_fills)

    def note_fills(self, fills: Sequence[StartFill]) -> None:
        """Reports what is due: the last one, at the end, before any task has the partition. A report that the target
        refuses holds up nothing."""
        now = self._clock.monotonic()
        due = [record for fill in fills if (record := self._note(fill, now)) is not None]
        if not due or now < self._silent_until:
            return
        try:
            publish(self._flow.target, self._flow.ledger_topics.status, due)
        except ClusterError as problem:
            self._silent_until = self._clock.monotonic() + _REFUSED_SECONDS
            log.debug("%s: how far starts are filled was not reported: %s", self._flow.name, problem)

    def _note(self, fill: StartFill, now: float) -> Record | None:
        gauge = self._gauges.get(fill.where)
        if gauge is None or gauge.stop != fill.stop or gauge.reached > fill.reached:
            gauge = self._gauges[fill.where] = FillGauge(fill.first, fill.stop, now, fill.reached, is_start=True)
            self._reported.pop(fill.where, None)
            filling = gauge.show()
        else:
            filling = gauge.note(now, fill.reached)
        is_over, reported_at = fill.reached >= fill.stop, self._reported.get(fill.where)
        if is_over:
            self._drop(fill.where)
        if (is_over and reported_at is None) or (not is_over and now - (reported_at or gauge.begun_at) < _FILL_SECONDS):
            return None
        if not is_over:
            self._reported[fill.where] = now
        return encode_record(self._flow.name.source, self._describe(fill, filling))

    def _drop(self, where: TopicPartition) -> None:
        self._gauges.pop(where, None)
        self._reported.pop(where, None)

    def _describe(self, fill: StartFill, filling: Filling) -> PartitionRecord:
        where = fill.where
        return PartitionRecord(
            where.topic, where.partition, self._run, NO_TASK, 0, target_topic=fill.remote.topic, offset=fill.stop,
            end=fill.source_end, filling=filling,
        )  # fmt: skip


def _is_left(where: TopicPartition, topics: Mapping[str, Topic]) -> bool:
    """Whether the flow mirrors it no more."""
    return where.topic not in topics or where.partition >= topics[where.topic].partitions
