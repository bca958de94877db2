"""Points in time and ages as people write and read them; pure. Used by the verbs and by what they print."""

from datetime import UTC, datetime


def parse_moment(text: str) -> int:
    """Milliseconds since 1970 of `2026-11-20T11:00`, with seconds and zone as one likes, or of a plain number of them.

    Without a zone it is UTC, as for `kafka-consumer-groups --to-datetime`. Raises ValueError with a sentence.
    """
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        hint = "write 2026-11-20T11:00 (UTC), 2026-11-20T11:00:30+01:00, or milliseconds since 1970"
        raise ValueError(f"`{text}` is no point in time: {hint}") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def show_moment(moment_ms: int) -> str:
    """`2026-11-20T11:00:00+00:00`, with milliseconds where there are any."""
    unit = "milliseconds" if moment_ms % 1000 else "seconds"
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec=unit)


def show_age(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min`, `5 h`, `2 d`."""
    for unit, size, limit in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < limit:
            number = seconds / size
            return f"{number:.1f} {unit}" if unit == "s" and seconds < 10 else f"{number:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"
