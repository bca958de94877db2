"""What happened at New York's airports in 2013, as records of a few topics. Called by `demo`; reads files, no Kafka.

    flights         each scheduled departure, by flight number, with two headers
    delays          each flight that left or landed late, by aircraft
    weather         each airport's weather, hour by hour
    planes          each aircraft from its first flight on; a tombstone when it has left for good
    cancellations   each flight that never left; the topic that appears while the demo runs

Keys, values, headers and times are the data set's; a header without a value stands for what it does not know.
"""

import csv
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

NOT_KNOWN = "NA"
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
# New York's winter time; nothing leaves between midnight and 5 o'clock, so that summer's other hour does not matter.
UTC_OFFSET_MS = -5 * 60 * MINUTE_MS

Headers = tuple[tuple[str, bytes | None], ...]


class Event(NamedTuple):
    """A record to be; `timestamp_ms` is when it happened."""

    topic: str
    key: bytes
    value: bytes | None
    headers: Headers
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic of the source; `compression` is its producer's."""

    name: str
    partitions: int
    compression: str
    configs: Mapping[str, str] = field(default_factory=dict)


# A year of event time would roll a segment a week, and closed segments of a compacted topic would be compacted.
_ONE_SEGMENT = {"segment.ms": str(10 * 365 * DAY_MS)}

TOPICS = (
    TopicSpec("flights", 4, "lz4", _ONE_SEGMENT),
    TopicSpec("delays", 3, "zstd", _ONE_SEGMENT),
    TopicSpec("weather", 3, "none", _ONE_SEGMENT),
    TopicSpec("planes", 1, "none", {**_ONE_SEGMENT, "cleanup.policy": "compact"}),
)
NEW_TOPIC = TopicSpec("cancellations", 2, "gzip", _ONE_SEGMENT)


class Flight(NamedTuple):
    """The columns of a row of flights.csv that matter. `leaves_for_good`: its aircraft was not seen again that year."""

    number: str
    tailnum: str
    origin: str
    dest: str
    miles: int
    departure_delay_minutes: int | None
    arrival_delay_minutes: int | None
    scheduled_ms: int
    leaves_for_good: bool


def read_year(directory: Path) -> Iterator[Event]:
    """All events of the year, some 550,000, from `demo_data`'s files; days in order, and within a day by time."""
    planes = _read_planes(directory / "planes.csv")
    weather = _read_weather(directory / "weather.csv")
    flights = _read_flights(directory / "flights.csv.zip")
    for day, of_day in groupby(flights, key=lambda flight: _day(flight.scheduled_ms)):
        events = weather.get(day, [])
        for flight in of_day:
            events += _events(flight, planes)
        yield from sorted(events, key=lambda event: event.timestamp_ms)


def _day(timestamp_ms: int) -> int:
    return (timestamp_ms + UTC_OFFSET_MS) // DAY_MS


def _events(flight: Flight, planes: dict[str, bytes]) -> Iterator[Event]:
    """The records that one flight gives rise to; takes its aircraft out of `planes`, which are those not seen yet."""
    number, tailnum, at_ms = flight.number.encode(), flight.tailnum.encode(), flight.scheduled_ms
    route = (("origin", flight.origin.encode()), ("dest", flight.dest.encode()))
    late_minutes = flight.departure_delay_minutes
    scheduled = _as_json({"flight": flight.number, "aircraft": flight.tailnum, "miles": flight.miles})
    yield Event("flights", number, scheduled, route, at_ms)
    if late_minutes is None:
        yield Event("cancellations", number, scheduled, (*route, ("reason", None)), at_ms)
    elif late_minutes > 0 or (flight.arrival_delay_minutes or 0) > 0:
        yield Event("delays", tailnum, _delay(flight), (), at_ms + late_minutes * MINUTE_MS)
    if (plane := planes.pop(flight.tailnum, None)) is not None:
        yield Event("planes", tailnum, plane, (), at_ms)
    if flight.leaves_for_good:
        yield Event("planes", tailnum, None, (("last-flight", number),), at_ms)


def _delay(flight: Flight) -> bytes:
    minutes = {"departure": flight.departure_delay_minutes, "arrival": flight.arrival_delay_minutes}
    return _as_json({"flight": flight.number, "minutes_late": minutes})


def _read_flights(path: Path) -> Iterator[Flight]:
    """The rows day by day; the file has January, then October to December, then the others."""
    months: dict[int, list[str]] = defaultdict(list)
    with zipfile.ZipFile(path) as archive:
        for line in archive.read("flights.csv").decode().splitlines()[1:]:
            months[int(line.split(",", 2)[1])].append(line)
    rows = [line for month in sorted(months) for line in months[month]]
    last_row = {row.split(",", 12)[11]: at for at, row in enumerate(rows)}
    december = len(rows) - len(months[12])
    for at, row in enumerate(rows):
        columns = row.split(",")
        yield _flight(columns, last_row[columns[11]] == at < december)


def _flight(columns: list[str], leaves_for_good: bool) -> Flight:
    # year, month, day, dep_time, sched_dep_time, dep_delay, arr_time, sched_arr_time, arr_delay, carrier, flight,
    # tailnum, origin, dest, air_time, distance, hour, minute, time_hour
    return Flight(
        number=columns[9] + columns[10],
        tailnum=columns[11],
        origin=columns[12],
        dest=columns[13],
        miles=int(columns[15]),
        departure_delay_minutes=None if columns[5] == NOT_KNOWN else int(columns[5]),
        arrival_delay_minutes=None if columns[8] == NOT_KNOWN else int(columns[8]),
        scheduled_ms=_milliseconds(columns[18]) + int(columns[17]) * MINUTE_MS,
        leaves_for_good=leaves_for_good,
    )


def _read_planes(path: Path) -> dict[str, bytes]:
    """Aircraft by registration, as the JSON to send."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {row.pop("tailnum"): _as_json({name: _known(text) for name, text in row.items()}) for row in rows}


def _read_weather(path: Path) -> dict[int, list[Event]]:
    """Observations by day, as `_day` counts."""
    days: dict[int, list[Event]] = defaultdict(list)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            measured = {name: _known(row[name]) for name in ("temp", "humid", "wind_speed", "precip", "visib")}
            event = Event("weather", row["origin"].encode(), _as_json(measured), (), _milliseconds(row["time_hour"]))
            days[_day(event.timestamp_ms)].append(event)
    return days


def _known(text: str) -> str | None:
    return None if text == NOT_KNOWN else text


def _as_json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)
