"""A flow gets another task inside a minute where it falls behind, and all records arrive in order, none twice."""

from collections.abc import Callable

import pytest
from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import StartMirror, flow_file
from tests.scenarios.status import status_of

from sparkmirror.planning.sizing import usable_cores

RECORDS, RECORD_BYTES = 6000, 100
LIMIT = 20_000
"""A backlog of half a minute, most of which counts as behind."""
SECONDS_MAX = 90.0


@pytest.mark.long
@pytest.mark.skipif(usable_cores() < 2, reason="no second core for a second task")
def test_a_flow_that_falls_behind_gets_a_second_task_and_says_why(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    topic, alias = unique("need"), unique("grows")
    make_topics(source, {topic: 4})
    write(source, topic, numbered(0, RECORDS, partitions=4, size_bytes=RECORD_BYTES), batch_size=2000)
    lines = ["tasks.max = 2", "balance.interval.seconds = 1", "refresh.topics.interval.seconds = 1"]
    lines.append(f"rate.limit.bytes.per.second = {LIMIT}")
    mirror = start_mirror(flow_file(source, target, alias=alias, topics=topic, lines=lines))
    mirror.wait_until(lambda: count_records(target, f"{alias}.{topic}") > 0, "the first records arrive")
    mirror.wait_until(lambda: "2 of at most 2: behind" in mirror.errors, "it gets a second task", SECONDS_MAX)
    mirror.wait_until(lambda: status_of(target, alias).tasks == 2, "both report", SECONDS_MAX)
    mirror.wait_until(lambda: count_records(target, f"{alias}.{topic}") >= RECORDS, "all records", SECONDS_MAX)
    assert mirror.stop().status == 0
    assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)
