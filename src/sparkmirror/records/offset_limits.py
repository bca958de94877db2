"""Where a read begins and ends, as the options of Spark's Kafka connector say it. Pure; used by `records.options` and
`records.source_log`.

As there, `startingTimestamp` comes before `startingOffsetsByTimestamp`, and both before `startingOffsets`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from sparkmirror.errors import ConfigError, ProtocolError
from sparkmirror.kafka.answers import EARLIEST, LATEST
from sparkmirror.model import TopicPartition
from sparkmirror.stored_json import decode

_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}
_OFFSETS_HINT: Final = 'Write them as {"topic": {"0": 23, "1": -2}}; -2 is the earliest offset, -1 the latest.'
_TIMES_HINT: Final = 'Write them as {"topic": {"0": 1700000000000}}, in milliseconds since 1970.'


@dataclass(frozen=True, slots=True)
class Everywhere:
    """At EARLIEST or LATEST of every partition."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """At an offset of each partition, which may be EARLIEST or LATEST; `option` names it in messages."""

    option: str
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """At the first record that is as late as `times` says of its partition, in ms, or `everywhere` where that is set.

    A partition without such a record stands at its end if `or_latest`; else that is an error.
    """

    option: str
    times: Mapping[TopicPartition, int]
    everywhere: int | None = None
    or_latest: bool = True


OffsetLimit = Everywhere | AtOffsets | AtTimestamps


def starting_limit(options: Mapping[str, str], *, is_stream: bool) -> OffsetLimit:
    """Of options by their names in small letters. Raises ConfigError."""
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise ConfigError(f"startingOffsetsByTimestampStrategy={strategy} is neither `error` nor `latest`.")
    default = LATEST if is_stream else EARLIEST
    limit = _limit(options, "starting", default, or_latest=strategy == "latest")
    if is_stream:
        return limit
    if limit == Everywhere(LATEST) or (isinstance(limit, AtOffsets) and LATEST in limit.offsets.values()):
        raise ConfigError(
            "A batch read cannot begin at the latest offset: it would have no records.",
            "Let startingOffsets be earliest, or name offsets.",
        )
    return limit


def ending_limit(options: Mapping[str, str]) -> OffsetLimit:
    """Of a batch read. Raises ConfigError."""
    limit = _limit(options, "ending", LATEST, or_latest=True)
    if limit == Everywhere(EARLIEST) or (isinstance(limit, AtOffsets) and EARLIEST in limit.offsets.values()):
        raise ConfigError("A read cannot end at the earliest offset: it would have no records.")
    return limit


def _limit(options: Mapping[str, str], side: str, default: int, *, or_latest: bool) -> OffsetLimit:
    moment, moments, offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    if (text := options.get(moment.lower())) is not None:
        if not text.strip().isdecimal():
            raise ConfigError(f"{moment}={text} is not a number of milliseconds since 1970.")
        return AtTimestamps(moment, {}, int(text), or_latest)
    if (text := options.get(moments.lower())) is not None:
        times = _by_partition(text, moments, _TIMES_HINT)
        _refuse_below(0, times, moments, _TIMES_HINT)
        return AtTimestamps(moments, times, None, or_latest)
    text = options.get(offsets.lower(), "")
    if not text.strip():
        return Everywhere(default)
    if text.strip().lower() in _WORDS:
        return Everywhere(_WORDS[text.strip().lower()])
    if not text.strip().startswith("{"):
        raise ConfigError(f"{offsets}={text} is neither `earliest` nor `latest` nor offsets.", _OFFSETS_HINT)
    found = _by_partition(text, offsets, _OFFSETS_HINT)
    _refuse_below(EARLIEST, found, offsets, _OFFSETS_HINT)
    return AtOffsets(offsets, found)


def _by_partition(text: str, option: str, hint: str) -> dict[TopicPartition, int]:
    numbers = _read(text, dict[str, dict[str, int]], option, hint)
    found = {}
    for topic, of_topic in numbers.items():
        for partition, number in of_topic.items():
            if not partition.isdecimal():
                raise ConfigError(f"{option}: `{partition}` is no number of a partition of {topic}.", hint)
            found[TopicPartition(topic, int(partition))] = number
    return found


def _refuse_below(lowest: int, found: Mapping[TopicPartition, int], option: str, hint: str) -> None:
    for where, number in found.items():
        if number < lowest:
            raise ConfigError(f"{option}: {number}, for {where}, is too low.", hint)


_T = TypeVar("_T")


def _read(text: str, kind: type[_T], option: str, hint: str) -> _T:
    try:
        return decode(text.encode(), kind, option)
    except ProtocolError as problem:
        raise ConfigError(str(problem.args[0]), hint) from None


def assigned_partitions(text: str) -> tuple[TopicPartition, ...]:
    """Of the option `assign`. Raises ConfigError."""
    hint = 'Write them as {"topic": [0, 1]}.'
    named = _read(text, dict[str, list[int]], "assign", hint)
    found = {TopicPartition(topic, number) for topic, numbers in named.items() for number in numbers}
    if not found or min(where.partition for where in found) < 0:
        raise ConfigError(f"assign={text} names no partition.", hint)
    return tuple(sorted(found))
