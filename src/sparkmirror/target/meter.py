"""One source partition's counters, for its status record: what was mirrored, how late, and since when it is behind.

Owned by `target.tally`, told by `target.reports`. Least, greatest and mean are over two windows of 30 s, the older of
which is dropped when a third begins, as MirrorMaker's metrics have them (Kafka's `SampledStat`).
"""

from typing import Final

from sparkmirror.status.records import Spread
from sparkmirror.target.delivery import Delivery

_WINDOW_MS: Final = 30_000


class Window:
    """Times of the last 30 to 60 s, in milliseconds. Negative ones count as none."""

    __slots__ = ("_before", "_era", "_last", "_now")

    def __init__(self) -> None:
        self._era = 0
        self._last = 0
        self._now: tuple[int, int, int, int] | None = None
        self._before: tuple[int, int, int, int] | None = None

    def add(self, least_ms: int, most_ms: int, records: int, now_ms: int) -> None:
        """`records` records took from `least_ms` to `most_ms`, evenly spread."""
        if least_ms < 0:
            least_ms = 0
            if most_ms < 0:
                most_ms = 0
        if now_ms // _WINDOW_MS != self._era:
            self._turn(now_ms)
        self._last = least_ms
        doubled = (least_ms + most_ms) * records
        if self._now is None:
            self._now = (least_ms, most_ms, doubled, records)
        else:
            least, most, total, count = self._now
            self._now = (
                least_ms if least_ms < least else least,
                most_ms if most_ms > most else most,
                total + doubled,
                count + records,
            )

    def _turn(self, now_ms: int) -> None:
        era = now_ms // _WINDOW_MS
        if era != self._era:
            self._before = self._now if era == self._era + 1 else None
            self._now = None
            self._era = era

    def spread(self, now_ms: int) -> Spread:
        self._turn(now_ms)
        found = [one for one in (self._before, self._now) if one is not None]
        count = sum(one[3] for one in found)
        if not count:
            return Spread(self._last)
        mean = sum(one[2] for one in found) / (2 * count)
        return Spread(self._last, min(one[0] for one in found), max(one[1] for one in found), round(mean, 3))


class PartitionMeter:
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
