"""One source partition's counters, for its status record: what was mirrored, how late, and since when it is behind.

Owned by `pipeline.produce.task_metrics`, told by `pipeline.produce.reports`.
"""

from sparkmirror.pipeline.produce.delivery import Delivery
from sparkmirror.telemetry.window import Window


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

    def arrive(self, acknowledged: int, delivery: Delivery) -> None:
        """A run of records that is not mirrored yet; where all before it was, it is behind since that was produced."""
        self.end = delivery.high_watermark
        if delivery.target_topic is not None:
            self.target_topic = delivery.target_topic
        produced_ms, fetched_ms = delivery.max_timestamp, delivery.fetched_at_ms
        if produced_ms >= 0 and fetched_ms:
            age_ms = fetched_ms - produced_ms
            self.age.add(age_ms, age_ms, delivery.records, fetched_ms)
        if self.behind_since_ms is None and acknowledged < self.end:
            self.behind_since_ms = min(produced_ms, fetched_ms) if produced_ms >= 0 else fetched_ms

    def acknowledge(self, records: int, size: int, first_ms: int, latest_ms: int, now_ms: int) -> None:
        """A batch that the target has; produce times of its first and its newest record, -1 where it has none."""
        self.records += records
        self.bytes += size
        if latest_ms >= 0:
            self._latest_ms = latest_ms
            self.latency.add(now_ms - latest_ms, now_ms - first_ms, records, now_ms)

    def move(self, acknowledged: int) -> None:
        """All below `acknowledged` is mirrored."""
        if self.end is None or acknowledged >= self.end:
            self.behind_since_ms = None
        elif self._latest_ms >= 0:
            self.behind_since_ms = self._latest_ms

    def measure(self, now: float) -> bool:
        """Take the rates since the last time; whether they are other than none, so that they are to be told anew."""
        seconds = now - self.told_at
        if self.told_at and seconds > 0:
            records, size = self._before
            self.records_per_second = round((self.records - records) / seconds, 1)
            self.bytes_per_second = round((self.bytes - size) / seconds, 1)
        self._before = (self.records, self.bytes)
        self.told_at = now
        return self.records_per_second > 0
