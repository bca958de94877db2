"""Where mirroring begins in a partition without a stored position: `auto.offset.reset`, as Java reads it, and
`preserve.offsets.start`; pure.

Read by `config.types`, followed by `planning.first_offsets`.
"""

import re
from typing import Final

from sparkmirror.clock import parse_moment

BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?",
    re.ASCII | re.IGNORECASE,
)
_UNIT_SECONDS: Final = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
_WORDS: Final = ("earliest", "latest", "none")


def parse_start(text: str) -> str:
    """`earliest`, `latest`, `none`, or `by_duration:` with an ISO 8601 duration such as P7D or PT1H30M (KIP-1106).

    Raises ValueError with a phrase that completes "`key` …".
    """
    value = text.strip()
    if value.casefold() in _WORDS:
        return value.casefold()
    if value.casefold().startswith(BY_DURATION) and _seconds(value[len(BY_DURATION) :]) is not None:
        return BY_DURATION + value[len(BY_DURATION) :].upper()
    words = ", ".join(f"`{word}`" for word in _WORDS)
    raise ValueError(f"must be {words} or `by_duration:` and a duration such as P7D, PT1H or PT90S")


def parse_kept_start(text: str) -> str:
    """`earliest`, `latest`, `by_duration:…`, milliseconds since 1970 for a point in time, or "" for none of them.

    Raises ValueError as `parse_start`.
    """
    value = text.strip()
    if not value or value.casefold() in ("earliest", "latest") or value.casefold().startswith(BY_DURATION):
        return parse_start(value) if value else ""
    try:
        return str(parse_moment(value))
    except ValueError:
        raise ValueError(
            "must be `earliest`, `latest`, `by_duration:` and a duration such as P7D, or a point in time such as "
            "2026-11-20T11:00 (UTC)"
        ) from None


def start_ms(start: str, now_ms: int) -> int | None:
    """The time (ms since 1970) of the first record to mirror, where it is by time; None where it is not."""
    if start.isdecimal():
        return int(start)
    if not start.startswith(BY_DURATION):
        return None
    seconds = _seconds(start[len(BY_DURATION) :])
    return None if seconds is None else max(now_ms - int(seconds * 1000), 0)


def _seconds(duration: str) -> float | None:
    found = _DURATION.fullmatch(duration)
    if found is None or not any(found.groupdict().values()):
        return None
    return sum(float(number) * _UNIT_SECONDS[unit] for unit, number in found.groupdict().items() if number)
