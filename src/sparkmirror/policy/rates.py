"""How fast a flow may read: limits in bytes per second, for all of it and for topics by name. Pure.

Read from the file by `config.types`, changed while running by `control.commands.Throttle`, obeyed by
`pipeline.fetch.throttle`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from sparkmirror.policy.filters import compile_names
from sparkmirror.policy.java_regex import SlowPattern

WHOLE_FLOW = ""
"""The pattern of the limit for all topics together; an expression cannot be empty."""

_RATE = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[kMG]?B?)", re.ASCII)
_UNITS = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class RateLimit:
    """All topics whose whole name matches `pattern` together; 0 is no limit."""

    pattern: str
    bytes_per_second: int

    def applies_to(self, topic: str) -> bool:
        if self.pattern == WHOLE_FLOW:
            return True
        compiled = compile_names([self.pattern])
        try:
            return compiled is not None and compiled.fullmatch(topic) is not None
        except SlowPattern:  # it may have come as an order, which must end no task
            return False


def parse_rate(text: str) -> int:
    """Bytes per second from `500000`, `500kB`, `1.5MB` (units of 1,000). Raises ValueError."""
    match = _RATE.fullmatch(text.strip())
    rate = int(float(match["number"]) * _UNITS[match["unit"].removesuffix("B")]) if match else 0
    if rate < 1:
        raise ValueError(f"`{text.strip()}` is not a rate: write bytes per second, as in `500000`, `500kB` or `10MB`")
    return rate


def lay_over(limits: Iterable[RateLimit], changed: Iterable[RateLimit]) -> tuple[RateLimit, ...]:
    """`limits` with those of the same pattern replaced; new patterns come first, for the first that matches counts."""
    over = {limit.pattern: limit for limit in changed}
    kept = [over.pop(limit.pattern, limit) for limit in limits]
    return (*reversed(over.values()), *kept)


def limits_of(topic: str, limits: Iterable[RateLimit]) -> tuple[RateLimit, ...]:
    """Those of `limits` that hold for a topic: the flow's, and the first by name that it matches; without what an order
    has lifted."""
    every = tuple(limits)
    named = (limit for limit in every if limit.pattern != WHOLE_FLOW and limit.applies_to(topic))
    found = (*(limit for limit in every if limit.pattern == WHOLE_FLOW), *islice(named, 1))
    return tuple(limit for limit in found if limit.bytes_per_second)


def in_force(limits: Iterable[RateLimit], orders: Mapping[str, int | None]) -> tuple[RateLimit, ...]:
    """What holds after orders by pattern; None goes back to `limits`."""
    return lay_over(limits, (RateLimit(pattern, rate) for pattern, rate in orders.items() if rate is not None))
