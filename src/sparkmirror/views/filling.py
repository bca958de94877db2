"""Shows how far offsets without a record are filled in partitions whose offsets are kept, in the same words everywhere;
pure. What is not known is "unknown", or None in JSON."""

from collections.abc import Mapping
from typing import Any, Final

from sparkmirror.clock import show_age
from sparkmirror.model import TopicPartition
from sparkmirror.telemetry.filling import Filling
from sparkmirror.telemetry.problems import plural
from sparkmirror.views.table import Part, make_table

_TITLES: Final = ("topic", "partition", "filling", "reached", "wanted", "percent", "offsets/s", "left")
_SHOWN_MAX: Final = 20


def filling_json(filling: Filling | None) -> dict[str, Any] | None:
    """None where nothing is being filled."""
    if filling is None:
        return None
    return {
        "what": _what(filling),
        "first": filling.first,
        "reached": filling.reached,
        "wanted": filling.stop,
        "percent": None if filling.share is None else round(100 * filling.share, 1),
        "offsets_per_second": filling.offsets_per_second,
        "seconds_left": None if filling.seconds_left is None else round(filling.seconds_left, 1),
    }


def count_fillings(count: int) -> str:
    """A clause, "" where there are none."""
    return f"offsets are being filled in {plural(count, 'partition')}" if count else ""


def fillings_table(fillings: Mapping[TopicPartition, Filling], *, whole: bool) -> list[Part]:
    """Without `whole` the first ones alone."""
    shown = sorted(fillings)[: None if whole else _SHOWN_MAX]
    if not shown:
        return []
    more = len(fillings) - len(shown)
    table = make_table(_TITLES, [_row(where, fillings[where]) for where in shown], indent=2)
    return [table, f"  and {more} more"] if more else [table]


def _what(filling: Filling) -> str:
    return "start" if filling.is_start else "hole"


def _row(where: TopicPartition, filling: Filling) -> tuple[object, ...]:
    reached = _known(filling.reached)
    percent = "unknown" if filling.share is None else f"{100 * filling.share:.1f} %"
    left = "unknown" if filling.seconds_left is None else show_age(filling.seconds_left)
    rate = _known(filling.offsets_per_second)
    return (where.topic, where.partition, _what(filling), reached, f"{filling.stop:,}", percent, rate, left)


def _known(number: float | None) -> str:
    return "unknown" if number is None else f"{number:,.0f}"
