"""Counters and latencies of a task and each of its partitions since the task started, for status records.

Filled by `pipeline.produce.answer_taker` and `pipeline.produce.gate`, written by `pipeline.produce.reports`. Latency is
measured per acknowledged batch, not per record: the batch's header says when its first and its newest record were
produced; half of its records count with the one, half with the other. Negative latencies come from clocks that differ,
and count as zero.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.ledger.gaps import Gap
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.produce.buffer import PartitionBuffer
from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.pipeline.produce.queued_records import Batch
from sparkmirror.pipeline.produce.used_cpu import used_seconds
from sparkmirror.pipeline.relay.board import Announcement
from sparkmirror.pipeline.relay.plan_row import PlanRow
from sparkmirror.telemetry.brakes import OWN_LIMITS, SOURCE_QUOTA, TARGET_QUOTA, Brakes
from sparkmirror.telemetry.filling import Filling
from sparkmirror.telemetry.histogram import Histogram
from sparkmirror.telemetry.records import BEAT_SECONDS, TaskRecord
from sparkmirror.telemetry.window import Window

_NAMED_MAX: Final = 100
_NOTED_MAX: Final = 512
_RECENT_MS: Final = 30_000
_RATE_SECONDS: Final = 2.0
_times = struct.Struct(">qq").unpack_from
TIMES_AT: Final = 27
"""Where a batch's header has baseTimestamp and maxTimestamp (Kafka protocol, record batch)."""


class TaskMetrics:
    """Counters of one attempt of a task, and a meter for each of its partitions.

    `throttled_ms` and `source_throttled_ms` are pauses that brokers asked for by quota; `limited_ms` is how long the
    flow's own rate limits held partitions back. `touched` are the partitions that may be due for a report, those that
    waited longest first.
    """

    def __init__(self, plan: PlanRow, clock: Clock = SYSTEM_CLOCK) -> None:
        self._plan = plan
        self._clock = clock
        self.records = 0
        self.bytes = 0
        self.batches = 0
        self.retries = 0
        self.duplicates = 0
        self.gaps = 0
        self.lost_records = 0
        self.refused_gaps = 0
        self.throttled_ms = 0
        self.source_throttled_ms = 0
        self.limited_ms = 0
        self.leased_bytes = 0
        self.failed: dict[TopicPartition, str] = {}
        self.retry_at_ms: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.faults: dict[TopicPartition, str] = {}
        self.fillings: dict[TopicPartition, Filling] = {}
        self.meters: dict[TopicPartition, PartitionMetrics] = {}
        self.touched: dict[TopicPartition, None] = {}
        self._noted: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._behind: dict[TopicPartition, PartitionBuffer] = {}
        self._unanswered: set[TopicPartition] = set()
        self._read_up: set[TopicPartition] = set()
        self._stalled_since_ms: int | None = None
        self._progress = (0, 0, 0, 0, 0)
        self._rate = 0.0
        self._cpu = (-1, 0.0)
        self._brakes = Brakes()
        self._rate_mark = (self._clock.monotonic(), 0)
        self._latency = Histogram()
        self._transit = Histogram()
        self._marks = [(0, self._latency.copy(), self._transit.copy())] * 2

    # By rows and answers.

    def assigned(self, where: TopicPartition) -> None:
        """The task has the partition now."""
        self.settle()
        if self.meters.setdefault(where, PartitionMetrics()).end is None:
            self._unanswered.add(where)
        self.touched[where] = None

    def released(self, where: TopicPartition) -> None:
        """Forget a partition, also its failures: it may have been deleted while it was FAILED."""
        self.settle()
        for known in (self.meters, self.touched, self.faults, self.failed, self.retry_at_ms, self._behind):
            known.pop(where, None)
        self.fillings.pop(where, None)
        self.paused.discard(where)
        self._unanswered.discard(where)
        self._read_up.discard(where)

    def answered(
        self, where: TopicPartition, end: int, buffer: PartitionBuffer | None = None, *, is_read_up: bool = False
    ) -> None:
        """The source's log of the partition ends there. `is_read_up` says that nothing more of it can be read now, as
        behind an open transaction."""
        self.settle()
        self._unanswered.discard(where)
        if (meter := self.meters.get(where)) is None or end < 0:
            return
        meter.end = end
        self.touched[where] = None
        if is_read_up:
            self._read_up.add(where)
        if buffer is not None and buffer.acknowledged < end:
            self._behind[where] = buffer
            if meter.behind_since_ms is None:
                meter.behind_since_ms = self._clock.time_ns() // 1_000_000

    def unknown(self, where: TopicPartition) -> None:
        """The source does not give the partition now: nobody knows where it ends."""
        self.settle()
        if (meter := self.meters.get(where)) is not None:
            meter.end = None
            self.touched[where] = None

    def arrived(self, buffer: PartitionBuffer, run: Delivery | Announcement) -> None:
        """A run that continues the partition has arrived."""
        if self.faults:
            self.faults.pop(buffer.source, None)
        if self._unanswered:
            self._unanswered.discard(buffer.source)
        told = buffer.acknowledged, run.high_watermark, run.max_timestamp, run.fetched_at_ms, run.records
        target_topic = run.target_topic if isinstance(run, Delivery) else None
        self._noted.append((self._count_arrived, (buffer, target_topic, *told)))
        if len(self._noted) >= _NOTED_MAX:
            self.settle()

    def acknowledged(self, where: TopicPartition, batch: Batch, now_ms: int) -> None:
        """The target has acknowledged a batch of the partition. Called before its memory is given back."""
        data = batch.data
        self.records += batch.records
        self.bytes += len(data)
        self.batches += 1
        told = where, batch.records, len(data), *_times(data, TIMES_AT), batch.queued.fetched_at_ms, now_ms
        self._noted.append((self._count_acknowledged, told))

    def passed(
        self, buffer: PartitionBuffer, arrived: tuple[int, ...], records: int, size: int, first_ms: int, latest_ms: int,
        now_ms: int,
    ) -> None:  # fmt: skip
        """As `arrived` and `acknowledged`, of a run of which both have happened: `arrived` is the offset before it, and
        of the run the high watermark, the latest timestamp, when it was fetched, and its records; of its batch there
        are the records, its bytes, when the first and the latest was produced."""
        where = buffer.source
        if self.faults:
            self.faults.pop(where, None)
        if self._unanswered:
            self._unanswered.discard(where)
        self.records += records
        self.bytes += size
        self.batches += 1
        self._noted.append((self._count_arrived, (buffer, None, *arrived)))
        told = where, records, size, first_ms, latest_ms, arrived[3], now_ms
        self._noted.append((self._count_acknowledged, told))
        if len(self._noted) >= _NOTED_MAX:
            self.settle()

    def moved(self, buffer: PartitionBuffer) -> None:
        """The partition's position may have moved."""
        self._noted.append((self._count_moved, (buffer.source, buffer.acknowledged)))

    def settle(self) -> None:
        """Count what was noted. Noted per batch, counted many at a time: what a caught-up task does for each batch runs
        once in milliseconds, on cold caches, and takes several times as long as here."""
        noted, self._noted = self._noted, []
        for count, told in noted:
            count(*told)

    def _count_arrived(self, buffer: PartitionBuffer, target_topic: str | None, *told: int) -> None:
        where = buffer.source
        meter = self.meters.get(where)
        if meter is None:
            meter = self.meters[where] = PartitionMetrics()
        if target_topic is not None:
            meter.target_topic = target_topic
        meter.arrive(*told)
        self._behind[where] = buffer
        if self._read_up:
            self._read_up.discard(where)
        self.touched[where] = None

    def _count_acknowledged(
        self,
        where: TopicPartition,
        records: int,
        size: int,
        first_ms: int,
        latest_ms: int,
        fetched_ms: int,
        now_ms: int,
    ) -> None:
        if latest_ms >= 0:
            if not 0 <= first_ms <= latest_ms:
                first_ms = latest_ms
            if half := records >> 1:
                self._latency.add(now_ms - first_ms, half)
            self._latency.add(now_ms - latest_ms, records - half)
        if fetched_ms:
            self._transit.add(now_ms - fetched_ms, records)
        if (meter := self.meters.get(where)) is not None:
            meter.acknowledge(records, size, first_ms, latest_ms, now_ms)
            self.touched[where] = None

    def _count_moved(self, where: TopicPartition, acknowledged: int) -> None:
        if (meter := self.meters.get(where)) is not None:
            meter.move(acknowledged)

    def fills(self, where: TopicPartition, filling: Filling | None) -> None:
        """How far a hole of the partition is filled that takes longer; None when that is over."""
        if where in self.meters and filling is not None:
            self.fillings[where] = filling
        elif self.fillings.pop(where, None) is None:
            return
        self.touched[where] = None

    def lost(self, gap: Gap) -> None:
        """A gap is stored."""
        self.gaps += 1
        self.lost_records += gap.lost_records

    # The task's status record.

    def status(self, problem: str, generation: int = 0) -> TaskRecord:
        """The task's record for the status topic."""
        self.settle()
        lag, behind_since_ms, is_movable = self._lag()
        now_ms = self._clock.time_ns() // 1_000_000
        recent_latency, recent_transit = self._recent(now_ms)
        beat = int(self._clock.monotonic() / BEAT_SECONDS)
        if beat != self._cpu[0]:
            self._cpu = (beat, used_seconds(self._plan.ring.pid))
            pauses = {
                OWN_LIMITS: self.limited_ms,
                SOURCE_QUOTA: self.source_throttled_ms,
                TARGET_QUOTA: self.throttled_ms,
            }
            self._brakes.look(pauses, self._clock.monotonic())
        return TaskRecord(
            self._plan.run,
            self._plan.task,
            self._plan.epoch,
            self._plan.producer_epoch,
            beat=beat,
            records=self.records,
            bytes=self.bytes,
            batches=self.batches,
            lag_records=lag,
            behind_since_ms=behind_since_ms,
            stalled_since_ms=self._stall(now_ms, is_movable=is_movable),
            records_per_second=self._pace(self._clock.monotonic()),
            unknown_ends=sum(not (at in self.failed or at in self.faults) for at in self._unanswered),
            partitions=len(self.meters),
            retries=self.retries,
            duplicates=self.duplicates,
            gaps=self.gaps,
            lost_records=self.lost_records,
            refused_gaps=self.refused_gaps,
            throttled_ms=self.throttled_ms,
            source_throttled_ms=self.source_throttled_ms,
            limited_ms=self.limited_ms,
            lease_bytes=self.leased_bytes,
            failed=_named(self.failed),
            retry_at_ms=_named({tp: self.retry_at_ms[tp] for tp in self.failed if tp in self.retry_at_ms}),
            paused=tuple(str(partition) for partition in sorted(self.paused)[:_NAMED_MAX]),
            faults=_named(self.faults),
            problem=problem,
            cpu_seconds=self._cpu[1],
            sizing=self._plan.sizing,
            siblings=self._plan.siblings,
            held_by=self._brakes.held_by,
            latency=self._latency,
            transit=self._transit,
            recent_latency=recent_latency,
            recent_transit=recent_transit,
            generation=generation,
        )

    def _stall(self, now_ms: int, *, is_movable: bool) -> int | None:
        """Since when nothing was mirrored although records wait and no quota, limit or order holds them back, in ms."""
        filled = sum(one.reached or 0 for one in self.fillings.values())
        progress = (self.records, self.throttled_ms, self.source_throttled_ms, self.limited_ms, filled)
        if not is_movable or progress != self._progress:
            self._progress, self._stalled_since_ms = progress, None
        elif self._stalled_since_ms is None:
            self._stalled_since_ms = now_ms
        return self._stalled_since_ms

    def _pace(self, now: float) -> float:
        """Records a second, over two seconds at least."""
        at, records = self._rate_mark
        if now - at >= _RATE_SECONDS:
            self._rate = round((self.records - records) / (now - at), 1)
            self._rate_mark = (now, self.records)
        return self._rate

    def _lag(self) -> tuple[int, int | None, bool]:
        """The records that are not mirrored yet, the time since which the most delayed partition is behind, and whether
        a partition is behind that no failure, fault or order holds."""
        records, since_ms, is_movable = 0, None, False
        for where, box in list(self._behind.items()):
            meter = self.meters.get(where)
            if meter is None or meter.end is None or meter.end <= box.acknowledged:
                del self._behind[where]
                continue
            records += meter.end - box.acknowledged
            is_movable = is_movable or not (self._is_held(where) or (where in self._read_up and box.idle))
            if meter.behind_since_ms is not None and (since_ms is None or meter.behind_since_ms < since_ms):
                since_ms = meter.behind_since_ms
        return records, since_ms, is_movable

    def _is_held(self, where: TopicPartition) -> bool:
        return where in self.failed or where in self.faults or where in self.paused

    def _recent(self, now_ms: int) -> tuple[Histogram, Histogram]:
        """The histograms since the mark before the last one; marks are set every 30 s."""
        if now_ms - self._marks[1][0] >= _RECENT_MS:
            self._marks = [self._marks[1], (now_ms, self._latency.copy(), self._transit.copy())]
        _, latency, transit = self._marks[0]
        return self._latency.since(latency), self._transit.since(transit)


_T = TypeVar("_T")


def _named(told: Mapping[TopicPartition, _T]) -> dict[str, _T]:
    return {str(partition): told[partition] for partition in sorted(told)[:_NAMED_MAX]}


class PartitionMetrics:
    """`end` is the source's high watermark as last fetched, `behind_since_ms` None while all below it is mirrored."""

    __slots__ = (
        "_before", "_latest_ms", "age", "behind_since_ms", "bytes", "bytes_per_second", "end", "latency", "records",
        "records_per_second", "target_topic", "told_at",
    )  # fmt: skip

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self.end: int | None = None
        self.behind_since_ms: int | None = None
        self.target_topic = ""
        self.age = Window()
        self.latency = Window()
        self.told_at = 0.0
        self.records_per_second = 0.0
        self.bytes_per_second = 0.0
        self._before = (0, 0)
        self._latest_ms = -1

    def arrive(self, acknowledged: int, end: int, produced_ms: int, fetched_ms: int, records: int) -> None:
        """A run arrived. If all before it is mirrored, the partition is behind since the run's records were
        produced."""
        self.end = end
        if produced_ms >= 0 and fetched_ms:
            age_ms = fetched_ms - produced_ms
            self.age.add(age_ms, age_ms, records, fetched_ms)
        if self.behind_since_ms is None and acknowledged < end:
            self.behind_since_ms = min(produced_ms, fetched_ms) if produced_ms >= 0 else fetched_ms

    def acknowledge(self, records: int, size: int, first_ms: int, latest_ms: int, now_ms: int) -> None:
        """A batch was acknowledged; with the produce times of its first and its newest record, -1 if it has none."""
        self.records += records
        self.bytes += size
        if latest_ms >= 0:
            self._latest_ms = latest_ms
            self.latency.add(now_ms - latest_ms, now_ms - first_ms, records, now_ms)

    def move(self, acknowledged: int) -> None:
        """All records below `acknowledged` are mirrored."""
        if self.end is None or acknowledged >= self.end:
            self.behind_since_ms = None
        elif self._latest_ms >= 0:
            self.behind_since_ms = self._latest_ms

    def measure(self, now: float) -> bool:
        """Compute the rates since the last call; whether records moved, so that the partition is to be reported
        again."""
        seconds = now - self.told_at
        if self.told_at and seconds > 0:
            records, size = self._before
            self.records_per_second = round((self.records - records) / seconds, 1)
            self.bytes_per_second = round((self.bytes - size) / seconds, 1)
        self._before = (self.records, self.bytes)
        self.told_at = now
        return self.records_per_second > 0
