"""A flow gets another task inside a minute where it falls behind, unless a limit or a quota holds it back; and all
records arrive in order, none twice."""

from collections.abc import Callable, Iterator

import pytest
from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import Mirror, StartMirror, flow_file
from tests.scenarios.quotas import quota
from tests.scenarios.status import board_of, status_of

from sparkmirror.planning.sizing import usable_cores
from sparkmirror.telemetry.brakes import OWN_LIMITS, SOURCE_QUOTA
from sparkmirror.telemetry.records import BEAT_SECONDS
from sparkmirror.testing.kafka import KafkaCluster
from sparkmirror.testing.proxy import LongLink

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(usable_cores() < 2, reason="no second core for a second task"),
]

RECORDS, RECORD_BYTES = 6000, 100
LIMIT = 20_000
"""A backlog of half a minute, most of which counts as behind."""
FAR_RECORDS = 9900
"""So few do not count as a backlog at the start."""
ROUND_TRIP_SECONDS, WINDOW_BYTES = 0.6, 3000
SECONDS_MAX = 90.0
LINES = ("tasks.max = 2", "balance.interval.seconds = 1", "refresh.topics.interval.seconds = 1")
BEATS_HELD = 3
"""Of a task's records: two looks at the load decide, and each of these brings one."""


@pytest.fixture(scope="module")
def narrow() -> Iterator[KafkaCluster]:
    """A source behind a link whose connections are slow."""
    link = LongLink(ROUND_TRIP_SECONDS, window_bytes=WINDOW_BYTES)
    with KafkaCluster(name="narrow", far=link) as cluster:
        yield cluster


def test_a_flow_that_falls_behind_gets_a_second_task_and_says_why(
    narrow: KafkaCluster, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    topic, alias = unique("need"), unique("grows")
    near = {"bootstrap.servers": narrow.bootstrap_servers}
    write_backlog(near, topic, FAR_RECORDS)
    far = {"bootstrap.servers": narrow.bootstrap_servers_far}
    lines = [*LINES, f"{alias}.consumer.max.partition.fetch.bytes = 4096"]
    mirror = start_mirror(flow_file(far, target, alias=alias, topics=topic, lines=lines))
    mirror.wait_until(lambda: count_records(target, f"{alias}.{topic}") > 0, "the first records arrive")
    mirror.wait_until(lambda: "2 of at most 2: behind" in mirror.errors, "it gets a second task", SECONDS_MAX)
    mirror.wait_until(lambda: status_of(target, alias).tasks == 2, "both report", SECONDS_MAX)
    assert_arrives(mirror, near, target, alias, topic)


def test_a_flow_that_its_own_limit_holds_back_keeps_one_task_and_says_why(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    topic, alias = unique("need"), unique("limited")
    write_backlog(source, topic, RECORDS)
    lines = [*LINES, f"rate.limit.bytes.per.second = {LIMIT // 2}"]
    mirror = start_mirror(flow_file(source, target, alias=alias, topics=topic, lines=lines))
    assert_held(mirror, target, alias, OWN_LIMITS)
    assert_arrives(mirror, source, target, alias, topic)
    assert "2 of at most 2" not in mirror.errors


def test_a_flow_that_a_quota_holds_back_keeps_one_task_and_says_why(
    source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    topic, alias = unique("need"), unique("throttled")
    write_backlog(source, topic, RECORDS)
    lines = [*LINES, f"{alias}.consumer.client.id = {alias}", f"{alias}.consumer.max.partition.fetch.bytes = 4096"]
    with quota(source, f"{alias}-reader", "consumer_byte_rate", LIMIT // 2):
        mirror = start_mirror(flow_file(source, target, alias=alias, topics=topic, lines=lines))
        assert_held(mirror, target, alias, SOURCE_QUOTA)
    assert_arrives(mirror, source, target, alias, topic)
    assert "2 of at most 2" not in mirror.errors


def write_backlog(source: Client, topic: str, records: int) -> None:
    make_topics(source, {topic: 4})
    write(source, topic, numbered(0, records, partitions=4, size_bytes=RECORD_BYTES), batch_size=2000)


def assert_arrives(mirror: Mirror, source: Client, target: Client, alias: str, topic: str) -> None:
    """All records come, and the mirror ends well."""
    wanted, remote = count_records(source, topic), f"{alias}.{topic}"
    mirror.wait_until(lambda: count_records(target, remote) >= wanted, "all records", SECONDS_MAX)
    assert mirror.stop().status == 0
    assert_same(read_topic(source, topic), read_topic(target, remote), topic)


def assert_held(mirror: Mirror, target: Client, alias: str, cause: str) -> None:
    """Its task says that this holds it back, in as many records as would have brought a second task, while records
    wait."""
    held: set[int] = set()

    def is_held() -> bool:
        board = board_of(target, alias)
        held.update(task.beat for task in board.tasks.values() if cause in task.held_by and task.lag_records > 0)
        return len(held) >= BEATS_HELD and all(f"held back by {cause}" in said for said in board.sizings)

    mirror.wait_until(is_held, f"{BEATS_HELD} records that say so", SECONDS_MAX + BEATS_HELD * BEAT_SECONDS)
    assert status_of(target, alias).tasks == 1, mirror.errors
