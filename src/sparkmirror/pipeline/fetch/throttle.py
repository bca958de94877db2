"""Keeps a task within its share of the flow's rate limits: token buckets, which may go into debt. No I/O.

No fetch is sent while a bucket is in debt; the bytes that it brings are taken from the bucket. A task's share of a
limit is the share of its partitions among all of the flow that fall under the limit. Owned by `pipeline.fetch.reader`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from sparkmirror.control.commands import Pause, Resume
from sparkmirror.control.commands import Throttle as RateOrder
from sparkmirror.pipeline.fetch.partitions import PartitionFetchState
from sparkmirror.policy.rates import WHOLE_FLOW, RateLimit, lay_over, limits_of

_BURST_SECONDS: Final = 0.25
_GRAIN_BYTES_MIN: Final = 4096


class Bucket:
    """The bytes that may be read now; they grow by `rate` a second up to `grain_bytes`, the most that one fetch may
    ask."""

    def __init__(self, now: float) -> None:
        self.rate = 0.0
        self._tokens = 0.0
        self._at = now

    @property
    def grain_bytes(self) -> int:
        return max(int(self.rate * _BURST_SECONDS), _GRAIN_BYTES_MIN)

    def set_rate(self, rate: float, now: float) -> None:
        """A debt stays: its bytes have been read."""
        self._fill(now)
        self.rate = rate

    def spend(self, size: int) -> None:
        self._tokens -= size

    def seconds_until_ready(self, now: float) -> float:
        self._fill(now)
        return max(-self._tokens / self.rate, 0.0)

    def _fill(self, now: float) -> None:
        self._tokens = min(self._tokens + (now - self._at) * self.rate, self.grain_bytes)
        self._at = now


class Throttle:
    """The limits of a flow as one task obeys them: those of its file, as orders have changed them since, also `given`
    before the task began. `topics` has the number of partitions of each topic of the flow."""

    def __init__(
        self, limits: Iterable[RateLimit], topics: Mapping[str, int], given: Iterable[Pause | Resume | RateOrder] = ()
    ) -> None:
        self._configured = tuple(limits)
        self._commanded: dict[str, RateLimit] = {}
        self._topics = dict(topics)
        self._buckets: dict[str, Bucket] = {}
        for one in given:
            if isinstance(one, RateOrder):
                self.order(one.pattern, one.bytes_per_second)

    def order(self, pattern: str, bytes_per_second: int | None) -> None:
        """Change one limit; None goes back to what the file says."""
        self._commanded.pop(pattern, None)
        if bytes_per_second is not None:
            self._commanded[pattern] = RateLimit(pattern, bytes_per_second)

    def note_topics(self, topics: Mapping[str, int]) -> None:
        """Note topics that are new, have grown, or are deleted (0 partitions)."""
        self._topics.update(topics)

    def share_out(self, fetch_states: Iterable[PartitionFetchState], now: float) -> None:
        """Give each partition its buckets: the flow's, and that of the first pattern that its topic matches."""
        limits = lay_over(self._configured, self._commanded.values())
        if not limits and not self._buckets:
            return
        mine = list(fetch_states)
        buckets: dict[str, Bucket] = {}
        for fetch_state in mine:
            fetch_state.buckets = tuple(
                buckets.setdefault(limit.pattern, self._buckets.get(limit.pattern) or Bucket(now))
                for limit in limits_of(fetch_state.partition.topic, limits)
            )
        for limit in limits:
            bucket = buckets.get(limit.pattern)
            if bucket is not None:
                own = sum(1 for fetch_state in mine if bucket in fetch_state.buckets)
                bucket.set_rate(limit.bytes_per_second * own / max(self._count(limit, limits), own), now)
        self._buckets = buckets

    def _count(self, limit: RateLimit, limits: tuple[RateLimit, ...]) -> int:
        return sum(count for topic, count in self._topics.items() if limit in limits_of(topic, limits))

    def seconds_until_ready(self, now: float) -> float:
        """Seconds until the next bucket in debt is out of debt; 0 if none is in debt."""
        waits = [bucket.seconds_until_ready(now) for bucket in self._buckets.values()]
        return min((wait for wait in waits if wait), default=0.0)

    @property
    def is_free(self) -> bool:
        """Whether nothing is limited."""
        return not self._buckets

    def bytes_max(self, otherwise: int) -> int:
        """The most bytes that one response may have."""
        bucket = self._buckets.get(WHOLE_FLOW)
        return otherwise if bucket is None else min(bucket.grain_bytes, otherwise)
