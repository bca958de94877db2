"""Whether two versions differ by more than the noise, from what each came to in turns. Pure; called by `bench.against`.

The turns A B A B … are pairs of neighbours, so what the machine does slowly falls on both. Each pair gives a relative
difference; the noise is half the width of the 99 % confidence interval of their mean (Student's t), at least 2 %.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean, median, stdev

NOISE_MIN = 0.02
_STUDENT_99 = (63.66, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947)
"""Two-sided, for 1, 2, … degrees of freedom; more have the last."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both versions. `difference` and `noise` are parts of the earlier version's value."""

    subject: str
    before: float
    after: float
    difference: float
    noise: float
    is_more_better: bool

    @property
    def verdict(self) -> str:
        """`worse`, `better`, or "" within the noise."""
        if abs(self.difference) <= self.noise:
            return ""
        return "better" if (self.difference > 0) == self.is_more_better else "worse"


def compare(subject: str, before: Sequence[float], after: Sequence[float], *, is_more_better: bool = False) -> Compared:
    """`before` and `after` by turn, of equal length. One turn alone has no spread: then nothing is beyond the noise."""
    parts = [(new - old) / old if old else 0.0 for old, new in zip(before, after, strict=True)]
    noise = inf if len(parts) < 2 else max(NOISE_MIN, _student(len(parts) - 1) * stdev(parts) / sqrt(len(parts)))
    return Compared(subject, median(before), median(after), fmean(parts), noise, is_more_better)


def _student(degrees: int) -> float:
    return _STUDENT_99[min(degrees, len(_STUDENT_99)) - 1]
