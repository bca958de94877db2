"""What Spark's listeners get of a flow, from two readings of it."""

import json
from typing import Any

import pytest
from pyspark import SparkConf

from sparkmirror.spark.query_progress import FlowReading, QueryIdentity, has_listeners, render_progress

QUERY = QueryIdentity("11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222", "A->B", 3)
BEFORE = FlowReading(1_000_000, 5_000, 500_000, 100, None)


def progress(now: FlowReading, before: FlowReading = BEFORE) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(render_progress(QUERY, before, now))
    return found


def test_rates_are_of_the_time_between_the_readings() -> None:
    said = progress(FlowReading(1_010_000, 7_000, 900_000, 600, 1_007_000))
    (source,) = said["sources"]
    assert source["numInputRows"] == 2_000
    assert source["processedRowsPerSecond"] == 200.0
    assert source["inputRowsPerSecond"] == 250.0, "500 more are left to mirror"
    assert source["metrics"] == {"lagRecords": "600", "bytesPerSecond": "40000"}
    assert (said["durationMs"], said["batchDuration"]) == ({"lag": 3_000}, 10_000)
    assert (said["name"], said["batchId"], said["timestamp"]) == ("A->B", 3, "1970-01-01T00:16:50.000Z")


def test_a_flow_that_catches_up_takes_no_less_than_nothing_in() -> None:
    (source,) = progress(FlowReading(1_010_000, 5_050, 500_000, 0, None))["sources"]
    assert (source["inputRowsPerSecond"], source["processedRowsPerSecond"]) == (0.0, 5.0)


def test_a_lag_that_is_not_known_is_left_out() -> None:
    said = progress(FlowReading(1_010_000, 7_000, 900_000, None, None))
    (source,) = said["sources"]
    assert "lagRecords" not in source["metrics"] and said["durationMs"] == {}
    assert source["inputRowsPerSecond"] == source["processedRowsPerSecond"]


def test_another_run_that_counts_from_0_has_mirrored_no_negative_number() -> None:
    (source,) = progress(FlowReading(1_010_000, 10, 1_000, 0, None))["sources"]
    assert (source["numInputRows"], source["metrics"]["bytesPerSecond"]) == (0, "0")


@pytest.mark.parametrize(
    ("settings", "has"),
    [
        ({}, False),
        ({"spark.ui.enabled": "false"}, False),
        ({"spark.ui.enabled": "TRUE"}, True),
        ({"spark.eventLog.enabled": "true"}, True),
        ({"spark.sql.streaming.streamingQueryListeners": "acme.Listener"}, True),
        ({"spark.extraListeners": "acme.Listener"}, True),
    ],
)
def test_events_are_for_those_who_listen(settings: dict[str, str], has: bool) -> None:
    conf = SparkConf(loadDefaults=False, _jvm=None)
    for key, value in settings.items():
        conf.set(key, value)
    assert has_listeners(conf) is has
