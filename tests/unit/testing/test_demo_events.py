"""From the data set's files to records: a small year of four flights and two aircraft."""

import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sparkmirror.testing.demo_events import NEW_TOPIC, TOPICS, Event, read_year

FLIGHTS = """\
year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,dest,\
air_time,distance,hour,minute,time_hour
2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z
2013,12,31,830,825,-5,1000,1005,-5,UA,7,N14228,EWR,BOS,40,200,8,25,2013-12-31T13:00:00Z
2013,2,2,600,600,0,700,650,10,EV,5,N18120,LGA,RDU,60,416,6,0,2013-02-02T11:00:00Z
2013,2,3,NA,1630,NA,NA,1815,NA,EV,4308,N18120,LGA,RDU,NA,416,16,30,2013-02-03T21:00:00Z
"""
PLANES = """\
tailnum,year,type,manufacturer,model,engines,seats,speed,engine
N14228,1999,Fixed wing multi engine,BOEING,737-824,2,149,NA,Turbo-fan
N18120,2002,Fixed wing multi engine,EMBRAER,EMB-145XR,2,55,NA,Turbo-fan
N00000,2002,"Balloon, never seen",X,Y,0,2,NA,None
"""
WEATHER = """\
origin,year,month,day,hour,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,pressure,visib,time_hour
EWR,2013,1,1,1,39.02,26.06,59.37,270,10.36,NA,0,1012,10,2013-01-01T06:00:00Z
JFK,2013,2,3,1,NA,26.06,59.37,270,10.36,NA,0,1012,10,2013-02-03T06:00:00Z
"""


@pytest.fixture
def events(tmp_path: Path) -> list[Event]:
    with zipfile.ZipFile(tmp_path / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", FLIGHTS)
    (tmp_path / "planes.csv").write_text(PLANES)
    (tmp_path / "weather.csv").write_text(WEATHER)
    return list(read_year(tmp_path))


def of(events: list[Event], topic: str) -> list[Event]:
    return [event for event in events if event.topic == topic]


def milliseconds(month: int, day: int, hour: int, minute: int) -> int:
    return int(datetime(2013, month, day, hour, minute, tzinfo=UTC).timestamp() * 1000)


def test_the_year_runs_from_january_to_december_though_the_file_does_not(events: list[Event]) -> None:
    assert [event.key for event in of(events, "flights")] == [b"UA1545", b"EV5", b"EV4308", b"UA7"]
    assert [event.timestamp_ms for event in events] == sorted(event.timestamp_ms for event in events)


def test_a_flight_is_a_record_with_its_number_as_key_its_route_as_headers_and_its_own_time(
    events: list[Event],
) -> None:
    first = of(events, "flights")[0]

    assert first.key == b"UA1545"
    assert json.loads(first.value or b"") == {"flight": "UA1545", "aircraft": "N14228", "miles": 1400}
    assert first.headers == (("origin", b"EWR"), ("dest", b"IAH"))
    assert first.timestamp_ms == milliseconds(1, 1, 10, 15)


def test_only_late_flights_are_delays_at_the_time_they_left(events: list[Event]) -> None:
    delays = [(event.key, event.timestamp_ms) for event in of(events, "delays")]

    assert delays == [(b"N14228", milliseconds(1, 1, 10, 17)), (b"N18120", milliseconds(2, 2, 11, 0))]
    assert json.loads(of(events, "delays")[1].value or b"")["minutes_late"] == {"departure": 0, "arrival": 10}


def test_an_aircraft_is_described_when_first_seen_and_buried_when_last_seen_before_december(
    events: list[Event],
) -> None:
    lives = [(event.key, event.value is None, event.timestamp_ms) for event in of(events, "planes")]

    assert lives == [
        (b"N14228", False, milliseconds(1, 1, 10, 15)),
        (b"N18120", False, milliseconds(2, 2, 11, 0)),
        (b"N18120", True, milliseconds(2, 3, 21, 30)),
    ]
    assert json.loads(of(events, "planes")[0].value or b"")["speed"] is None


def test_a_flight_that_never_left_is_a_cancellation_with_a_header_that_has_no_value(events: list[Event]) -> None:
    (cancellation,) = of(events, NEW_TOPIC.name)

    assert cancellation.key == b"EV4308"
    assert cancellation.headers == (("origin", b"LGA"), ("dest", b"RDU"), ("reason", None))


def test_the_weather_is_an_airport_s_hour_by_hour(events: list[Event]) -> None:
    weather = [(event.key, event.timestamp_ms) for event in of(events, "weather")]

    assert weather == [(b"EWR", milliseconds(1, 1, 6, 0)), (b"JFK", milliseconds(2, 3, 6, 0))]
    assert json.loads(of(events, "weather")[1].value or b"")["temp"] is None


def test_every_event_belongs_to_a_topic_that_the_demo_creates(events: list[Event]) -> None:
    assert {event.topic for event in events} == {spec.name for spec in (*TOPICS, NEW_TOPIC)}
