"""Histograms of durations with log-scaled buckets: small, mergeable, percentiles within 6 %; pure.

`pipeline.produce.task_metrics` counts each acknowledged batch and writes the histograms to the status topic;
`telemetry.board` and `telemetry.metrics` read them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Self

from msgspec import Meta

from sparkmirror.stored_json import Count, convert

_STEPS: Final = 8
_BITS: Final = 4
_LONGEST_MS: Final = (1 << 28) - 1
"""Three days; longer durations count as three days."""
_BUCKETS: Final = (_LONGEST_MS.bit_length() - _BITS) * _STEPS + 2 * _STEPS


class Histogram:
    """Counts records by duration in ms: exact below 16 ms, above it eight buckets for each power of two."""

    __slots__ = ("_counts", "total_ms")

    def __init__(self, counts: Sequence[int] = (), total_ms: int = 0) -> None:
        self._counts = list(counts) or [0] * _BUCKETS
        self.total_ms = total_ms

    def add(self, ms: int, count: int) -> None:
        """Count `count` records that took `ms`. A negative time, which two differing clocks can give, counts as 0."""
        if ms < 0:
            ms = 0
        elif ms > _LONGEST_MS:
            ms = _LONGEST_MS
        shift = ms.bit_length() - _BITS
        self._counts[ms if shift <= 0 else shift * _STEPS + (ms >> shift)] += count
        self.total_ms += ms * count

    @property
    def count(self) -> int:
        return sum(self._counts)

    def copy(self) -> "Histogram":
        return Histogram(self._counts, self.total_ms)

    def plus(self, other: "Histogram") -> "Histogram":
        """The sum of both."""
        counts = [mine + its for mine, its in zip(self._counts, other._counts, strict=True)]
        return Histogram(counts, self.total_ms + other.total_ms)

    def since(self, before: "Histogram") -> "Histogram":
        """The records that were added since `before` was copied from this histogram."""
        counts = [now - then for now, then in zip(self._counts, before._counts, strict=True)]
        return Histogram(counts, self.total_ms - before.total_ms)

    def beyond(self, other: "Histogram") -> "Histogram":
        """What this histogram has counted more than `other`, bucket by bucket; nothing where `other` has more."""
        counts = [max(mine - its, 0) for mine, its in zip(self._counts, other._counts, strict=True)]
        return Histogram(counts, max(self.total_ms - other.total_ms, 0))

    def quantile_ms(self, share: float) -> float | None:
        """The time in ms within which `share` of the records were (0.99: the 99th percentile); None without records."""
        wanted = share * self.count
        seen = 0
        for bucket, count in enumerate(self._counts):
            seen += count
            if count and seen >= wanted:
                low, high = _bounds_ms(bucket)
                return (low + high - 1) / 2
        return None

    def below(self, ms: int) -> int:
        """The number of records that took less than `ms`, which must be a power of two."""
        shift = ms.bit_length() - _BITS
        return sum(self._counts[: ms if shift <= 0 else shift * _STEPS + (ms >> shift)])

    def as_json(self) -> dict[str, object]:
        """The form stored on the status topic: the sum `ms`, and in `n` the counts of non-empty buckets by number."""
        return {"ms": self.total_ms, "n": {str(at): count for at, count in enumerate(self._counts) if count}}

    @classmethod
    def from_json(cls, value: object) -> Self:
        """The histogram of a value that `as_json` made. Raises ProtocolError for any other value."""
        stored = convert(value, _Stored, "A histogram")
        counts = [0] * _BUCKETS
        for at, count in stored.n.items():
            counts[at] = count
        return cls(counts, stored.ms)


@dataclass(frozen=True, slots=True)
class _Stored:
    ms: Count
    n: dict[Annotated[int, Meta(ge=0, lt=_BUCKETS)], Count]


def _bounds_ms(bucket: int) -> tuple[int, int]:
    """The bucket's lower bound (inclusive) and upper bound (exclusive)."""
    if bucket < 2 * _STEPS:
        return bucket, bucket + 1
    shift = bucket // _STEPS - 1
    mantissa = bucket - shift * _STEPS
    return mantissa << shift, (mantissa + 1) << shift
