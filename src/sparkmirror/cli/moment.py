"""Points in time as people write them, and as Kafka counts them. Called by `cli.offsets`."""

import argparse
from datetime import UTC, datetime


def parse_moment(text: str) -> int:
    """Milliseconds since 1970 of `2026-11-20T11:00`, with seconds and zone as one likes, or of a plain number of them.

    Without a zone it is UTC, as for `kafka-consumer-groups --to-datetime`. Raises argparse.ArgumentTypeError.
    """
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        hint = "write 2026-11-20T11:00 (UTC), 2026-11-20T11:00:30+01:00, or milliseconds since 1970"
        raise argparse.ArgumentTypeError(f"`{text}` is no point in time: {hint}") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def show_moment(moment_ms: int) -> str:
    """`2026-11-20T11:00:00+00:00`."""
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec="auto" if moment_ms % 1000 else "seconds")
